//! The attributes of an object as fattr4 (RFC 8881 5). [`set`] reads the attributes that a client sets, and
//! [`acl`] has the access lists. Start with [`write()`].

pub mod acl;
pub mod set;
pub mod time;

use std::sync::LazyLock;

use nfs_wire::NfsStat;
use nfs_wire::attr::{
    Ace, AceFlags, AceMask, AceType, Acl41, AclFlags, AclSupport, Attr, AttrNum, AttrWriter, Bitmap,
    ChangeAttrType,
};
use nfs_wire::op::open::{OpenArguments, ShareAccess, ShareDeny};
use nfs_wire::types::{FileHandle, FileType, FsId, NfsTime, SpecData};
use nfs_wire::xdr::List;
use share::{Info, Item};
use volume::security::Descriptor;
use volume::{NodeKind, Space};

use crate::attributes::time::time;
use crate::config::Export;
use crate::limits::MAX_IO;
use crate::server::Server;
use crate::state::filehandle::Handle;

/// FH4_PERSISTENT (RFC 8881 4.2.3).
const FH4_PERSISTENT: u32 = 0;
/// The size of the largest file in bytes.
const MAX_FILE: u64 = i64::MAX as u64;
/// The number of hard links that the server announces.
const MAX_LINKS: u32 = 32_000;

/// Attributes that can be read in every minor version.
const READABLE: &[AttrNum] = &[
    AttrNum::SupportedAttrs,
    AttrNum::Type,
    AttrNum::FhExpireType,
    AttrNum::Change,
    AttrNum::Size,
    AttrNum::LinkSupport,
    AttrNum::SymlinkSupport,
    AttrNum::NamedAttr,
    AttrNum::Fsid,
    AttrNum::UniqueHandles,
    AttrNum::LeaseTime,
    AttrNum::RdattrError,
    AttrNum::Acl,
    AttrNum::Aclsupport,
    AttrNum::Cansettime,
    AttrNum::CaseInsensitive,
    AttrNum::CasePreserving,
    AttrNum::ChownRestricted,
    AttrNum::Filehandle,
    AttrNum::Fileid,
    AttrNum::FilesAvail,
    AttrNum::FilesFree,
    AttrNum::FilesTotal,
    AttrNum::Homogeneous,
    AttrNum::Maxfilesize,
    AttrNum::Maxlink,
    AttrNum::Maxname,
    AttrNum::Maxread,
    AttrNum::Maxwrite,
    AttrNum::Mode,
    AttrNum::NoTrunc,
    AttrNum::Numlinks,
    AttrNum::Owner,
    AttrNum::OwnerGroup,
    AttrNum::Rawdev,
    AttrNum::SpaceAvail,
    AttrNum::SpaceFree,
    AttrNum::SpaceTotal,
    AttrNum::SpaceUsed,
    AttrNum::TimeAccess,
    AttrNum::TimeCreate,
    AttrNum::TimeDelta,
    AttrNum::TimeMetadata,
    AttrNum::TimeModify,
    AttrNum::MountedOnFileid,
    AttrNum::Dacl,
    AttrNum::SuppattrExclcreat,
];
/// Attributes that only minor version 2 has.
const READABLE_IN_2: &[AttrNum] =
    &[AttrNum::CloneBlksize, AttrNum::ChangeAttrType, AttrNum::XattrSupport, AttrNum::OpenArguments];
/// Attributes that can only be set.
const SETTABLE_ONLY: &[AttrNum] = &[AttrNum::TimeAccessSet, AttrNum::TimeModifySet];
/// Attributes that can be set when an object is created.
const AT_CREATION: &[AttrNum] =
    &[AttrNum::Size, AttrNum::Acl, AttrNum::Mode, AttrNum::Owner, AttrNum::OwnerGroup, AttrNum::Dacl];
/// The same for minor version 2 (RFC 8275). They cannot be set later.
const AT_CREATION_IN_2: &[AttrNum] = &[AttrNum::ModeUmask];
/// Attributes that only the holder of a delegation with the file's times reports, in minor version 2 (RFC
/// 9754).
const DELEGATED_IN_2: &[AttrNum] = &[AttrNum::TimeDelegAccess, AttrNum::TimeDelegModify];

fn set_of(numbers: &[AttrNum]) -> Bitmap {
    let mut set = Bitmap::EMPTY;
    numbers.iter().for_each(|number| set.insert(number.get()));
    set
}

/// The lists above as sets, which every GETATTR needs.
static ALL_READABLE: LazyLock<Bitmap> = LazyLock::new(|| set_of(READABLE));
static ALL_READABLE_IN_2: LazyLock<Bitmap> = LazyLock::new(|| ALL_READABLE.or(&set_of(READABLE_IN_2)));
static ALL_SETTABLE_ONLY: LazyLock<Bitmap> = LazyLock::new(|| set_of(SETTABLE_ONLY));
static ALL_WRITE_ONLY: LazyLock<Bitmap> =
    LazyLock::new(|| ALL_SETTABLE_ONLY.or(&set_of(AT_CREATION_IN_2)).or(&set_of(DELEGATED_IN_2)));

fn all_readable(minor: u32) -> &'static Bitmap {
    if minor >= 2 { &ALL_READABLE_IN_2 } else { &ALL_READABLE }
}

/// The attributes that are supported.
#[must_use]
pub fn supported(minor: u32) -> Bitmap {
    let all = all_readable(minor);
    if minor >= 2 { all.or(&ALL_WRITE_ONLY) } else { all.or(&ALL_SETTABLE_ONLY) }
}

/// The readable attributes among those that were asked for.
#[must_use]
pub fn readable(wanted: &Bitmap, minor: u32) -> Bitmap {
    wanted.and(all_readable(minor))
}

/// Whether a request asks for attributes that can only be set.
// RFC 8881 18.7.3
#[must_use]
pub fn names_write_only(wanted: &Bitmap, minor: u32) -> bool {
    let all = if minor >= 2 { &ALL_WRITE_ONLY } else { &ALL_SETTABLE_ONLY };
    !wanted.and(all).is_empty()
}

/// The object whose attributes are written.
pub struct Subject<'a> {
    /// The server.
    pub server: &'a Server,
    /// The minor version.
    pub minor: u32,
    /// The filehandle, if it was asked for.
    pub handle: Option<&'a Handle>,
    /// The object itself.
    pub source: AttributeSource<'a>,
}

/// An object in an export, or the pseudo root.
#[expect(clippy::large_enum_variant, reason = "one at a time, on the stack")]
pub enum AttributeSource<'a> {
    /// An object in an export.
    Object {
        /// The export.
        export: &'a Export,
        /// Its information from the engine.
        info: Info,
        /// The space of its file system, if it was asked for.
        space: Option<Space>,
        /// Its descriptor, if the access list was asked for.
        descriptor: Option<Descriptor>,
        /// For the root of a file system the fileid of the directory that it covers, otherwise its own.
        mounted_on: u64,
    },
    /// The pseudo root.
    PseudoRoot,
}

/// The fileid of an export's entry in the pseudo root.
#[must_use]
pub fn pseudo_fileid(export: &Export) -> u64 {
    0xffff_0000_0000_0000 | u64::from(export.id)
}

/// Whether some of the attributes change when data is written.
#[must_use]
pub fn changes_with_data(wanted: &Bitmap) -> bool {
    [AttrNum::Size, AttrNum::Change, AttrNum::TimeModify].iter().any(|one| wanted.has(one.get()))
}

/// Whether the holder of a delegation with the file's times knows some of the attributes better.
#[must_use]
pub fn may_be_delegated(wanted: &Bitmap) -> bool {
    let times = [AttrNum::TimeAccess, AttrNum::TimeMetadata];
    changes_with_data(wanted) || times.iter().any(|one| wanted.has(one.get()))
}

/// The supported arguments of OPEN. OPEN_XOR_DELEGATION, an open or a delegation instead of both, is not
/// offered.
// RFC 9754 3.1
fn open_arguments() -> OpenArguments {
    let access = ShareAccess::BOTH.bits();
    let numbers = |highest: u32| Bitmap::of(&(0..=highest).collect::<Vec<_>>());
    OpenArguments {
        share_access: Bitmap::of(&[ShareAccess::READ.bits(), ShareAccess::WRITE.bits(), access]),
        share_deny: numbers(ShareDeny::BOTH.bits()),
        share_access_want: Bitmap::of(&[WANT_ANY_DELEG, WANT_NO_DELEG, WANT_CANCEL, WANT_DELEG_TIMESTAMPS]),
        // CLAIM_DELEGATE_PREV and CLAIM_DELEG_PREV_FH are for a client that has restarted. It has no state
        // here.
        open_claim: Bitmap::of(&[0, 1, 2, 4, 5]),
        create_mode: numbers(3),
    }
}

/// OPEN_ARGS_SHARE_ACCESS_WANT_*: the second byte of `share_access`, or the number of a bit.
const WANT_ANY_DELEG: u32 = 3;
const WANT_NO_DELEG: u32 = 4;
const WANT_CANCEL: u32 = 5;
const WANT_DELEG_TIMESTAMPS: u32 = 20;

/// Whether the space of the file system is needed.
#[must_use]
pub fn wants_space(wanted: &Bitmap) -> bool {
    let of_space = [
        AttrNum::FilesAvail,
        AttrNum::FilesFree,
        AttrNum::FilesTotal,
        AttrNum::SpaceAvail,
        AttrNum::SpaceFree,
        AttrNum::SpaceTotal,
    ];
    of_space.iter().any(|one| wanted.has(one.get()))
}

/// Whether the access list is needed.
fn wants_list(wanted: &Bitmap) -> bool {
    wanted.has(AttrNum::Acl.get()) || wanted.has(AttrNum::Dacl.get())
}

/// Gathers the attributes of an item.
///
/// # Errors
/// The status of the engine's error.
pub fn of_item<'a>(export: &'a Export, item: &Item, wanted: &Bitmap) -> Result<AttributeSource<'a>, NfsStat> {
    let info = export.engine.item_info(item);
    let is_below = info.as_ref().is_ok_and(|info| info.file_system != 0);
    let covered = if is_below && wanted.has(AttrNum::MountedOnFileid.get()) {
        export.engine.covered_number(item).map_err(|why| crate::status::of(&why))?
    } else {
        None
    };
    from_info(export, info, || Ok(item.clone()), covered, wanted)
}

/// The same with information that the engine has given already. `item` is called if more is needed. `covered`
/// is the inode number by which the directory lists the object, if that may differ from its own.
///
/// # Errors
/// The status of the engine's error, here or before.
pub fn from_info<'a>(
    export: &'a Export,
    info: Result<Info, share::Refusal>,
    item: impl Fn() -> Result<Item, share::Refusal>,
    covered: Option<u64>,
    wanted: &Bitmap,
) -> Result<AttributeSource<'a>, NfsStat> {
    let told = |why: share::Refusal| crate::status::of(&why);
    let info = info.map_err(told)?;
    let space = match info.file_system {
        _ if !wants_space(wanted) => None,
        0 => Some(export.engine.space().map_err(told)?),
        _ => Some(item().and_then(|item| export.engine.space_at(&item)).map_err(told)?),
    };
    let is_root = info.kind == NodeKind::Directory && info.id == export.engine.root_item().id();
    let mounted_on = match covered {
        _ if is_root => pseudo_fileid(export),
        Some(covered) if info.file_system != 0 => covered,
        _ => info.id.inode,
    };
    let descriptor = || Ok(export.engine.item_descriptor(&item()?)?.0);
    let descriptor = if wants_list(wanted) { Some(descriptor().map_err(told)?) } else { None };
    Ok(AttributeSource::Object { export, info, space, descriptor, mounted_on })
}

/// Whether a directory entry alone holds all the attributes that were asked for.
#[must_use]
pub fn is_in_directory(wanted: &Bitmap, kind: Option<NodeKind>) -> bool {
    wanted.iter().all(|number| match AttrNum::new(number) {
        AttrNum::RdattrError | AttrNum::MountedOnFileid => true,
        AttrNum::Type => kind.is_some(),
        _ => false,
    })
}

/// Writes the announced attributes that a directory entry holds.
pub fn write_in_directory(writer: &mut AttrWriter<'_>, inode: u64, kind: Option<NodeKind>) {
    let wanted = writer.wanted();
    for number in wanted.iter() {
        match (AttrNum::new(number), kind) {
            (AttrNum::RdattrError, _) => writer.put(&Attr::RdattrError(NfsStat::Ok)),
            (AttrNum::MountedOnFileid, _) => writer.put(&Attr::MountedOnFileid(inode)),
            (AttrNum::Type, Some(kind)) => writer.put(&Attr::Type(file_type(kind))),
            _ => {}
        }
    }
}

/// Writes the announced attributes.
pub fn write(writer: &mut AttrWriter<'_>, subject: &Subject<'_>) {
    let wanted = writer.wanted();
    for number in wanted.iter() {
        one(AttrNum::new(number), subject, |attribute| writer.put(&attribute));
    }
}

/// Writes the attribute with this number.
fn one(number: AttrNum, subject: &Subject<'_>, mut put: impl FnMut(Attr<'_>)) {
    let server = subject.server.config();
    match number {
        AttrNum::SupportedAttrs => put(Attr::SupportedAttrs(supported(subject.minor))),
        AttrNum::FhExpireType => put(Attr::FhExpireType(FH4_PERSISTENT)),
        AttrNum::LinkSupport => put(Attr::LinkSupport(true)),
        AttrNum::SymlinkSupport => put(Attr::SymlinkSupport(true)),
        AttrNum::NamedAttr => put(Attr::NamedAttr(false)),
        AttrNum::UniqueHandles => put(Attr::UniqueHandles(true)),
        AttrNum::LeaseTime => put(Attr::LeaseTime(server.lease_time_s)),
        AttrNum::RdattrError => put(Attr::RdattrError(NfsStat::Ok)),
        AttrNum::Aclsupport => put(Attr::Aclsupport((AclSupport::ALLOW | AclSupport::DENY).bits())),
        AttrNum::Cansettime => put(Attr::Cansettime(true)),
        // Names are compared exactly for NFS, even if the share folds case for others.
        AttrNum::CaseInsensitive => put(Attr::CaseInsensitive(false)),
        AttrNum::CasePreserving => put(Attr::CasePreserving(true)),
        AttrNum::ChownRestricted => put(Attr::ChownRestricted(true)),
        AttrNum::Homogeneous => put(Attr::Homogeneous(true)),
        AttrNum::Maxfilesize => put(Attr::Maxfilesize(match &subject.source {
            AttributeSource::Object { export, .. } => export.engine.largest_file().unwrap_or(MAX_FILE),
            _ => MAX_FILE,
        })),
        AttrNum::Maxlink => put(Attr::Maxlink(MAX_LINKS)),
        AttrNum::Maxname => put(Attr::Maxname(255)),
        AttrNum::Maxread => put(Attr::Maxread(u64::from(MAX_IO))),
        AttrNum::Maxwrite => put(Attr::Maxwrite(u64::from(MAX_IO))),
        AttrNum::NoTrunc => put(Attr::NoTrunc(true)),
        AttrNum::TimeDelta => put(Attr::TimeDelta(NfsTime { seconds: 0, nseconds: 1 })),
        AttrNum::SuppattrExclcreat => {
            let all = set_of(AT_CREATION);
            let more = if subject.minor >= 2 { set_of(AT_CREATION_IN_2) } else { Bitmap::EMPTY };
            put(Attr::SuppattrExclcreat(all.or(&more)));
        }
        AttrNum::CloneBlksize => put(Attr::CloneBlksize(4096)),
        AttrNum::OpenArguments => put(Attr::OpenArguments(open_arguments())),
        AttrNum::ChangeAttrType => put(Attr::ChangeAttrType(ChangeAttrType::MonotonicIncr)),
        AttrNum::Filehandle => {
            if let Some(handle) = subject.handle {
                put(Attr::Filehandle(FileHandle(handle.bytes())));
            }
        }
        _ => match &subject.source {
            AttributeSource::Object { export, descriptor: Some(descriptor), .. }
                if matches!(number, AttrNum::Acl | AttrNum::Dacl) =>
            {
                list_of(number, export, descriptor, put);
            }
            AttributeSource::Object { export, info, space, mounted_on, .. } => {
                one_of(number, export, info, space.as_ref(), *mounted_on, put);
            }
            AttributeSource::PseudoRoot => one_of_root(number, subject.server, put),
        },
    }
}

fn list_of(number: AttrNum, export: &Export, descriptor: &Descriptor, mut put: impl FnMut(Attr<'_>)) {
    let shown = acl::shown(descriptor, export.engine.config().accounts.as_ref());
    let aces: Vec<_> = shown.iter().map(acl::AceView::ace).collect();
    match number {
        AttrNum::Acl => put(Attr::Acl(List::of(&aces))),
        _ => put(Attr::Dacl(Acl41 { flag: acl::flags(descriptor), aces: List::of(&aces) })),
    }
}

fn one_of(
    number: AttrNum,
    export: &Export,
    info: &Info,
    space: Option<&Space>,
    mounted_on: u64,
    mut put: impl FnMut(Attr<'_>),
) {
    let room = |of: fn(&Space) -> u64| space.map_or(0, of);
    match number {
        AttrNum::Type => put(Attr::Type(file_type(info.kind))),
        AttrNum::Change => put(Attr::Change(info.version)),
        AttrNum::Size => put(Attr::Size(info.size)),
        AttrNum::Fsid => put(Attr::Fsid(FsId { major: u64::from(export.id), minor: info.file_system })),
        AttrNum::Fileid => put(Attr::Fileid(info.id.inode)),
        AttrNum::FilesAvail => put(Attr::FilesAvail(room(|space| space.files_free))),
        AttrNum::FilesFree => put(Attr::FilesFree(room(|space| space.files_free))),
        AttrNum::FilesTotal => put(Attr::FilesTotal(room(|space| space.files))),
        AttrNum::MountedOnFileid => put(Attr::MountedOnFileid(mounted_on)),
        AttrNum::Mode => put(Attr::Mode(info.mode)),
        AttrNum::Numlinks => put(Attr::Numlinks(info.links)),
        AttrNum::Owner => with_number(info.uid, |text| put(Attr::Owner(text))),
        AttrNum::OwnerGroup => with_number(info.gid, |text| put(Attr::OwnerGroup(text))),
        AttrNum::Rawdev => {
            let (major, minor) = ((info.rdev >> 32) as u32, info.rdev as u32);
            put(Attr::Rawdev(SpecData { specdata1: major, specdata2: minor }));
        }
        AttrNum::SpaceAvail => put(Attr::SpaceAvail(room(|space| space.available))),
        AttrNum::SpaceFree => put(Attr::SpaceFree(room(|space| space.free))),
        AttrNum::SpaceTotal => put(Attr::SpaceTotal(room(|space| space.total))),
        AttrNum::SpaceUsed => put(Attr::SpaceUsed(info.allocated)),
        AttrNum::XattrSupport => {
            put(Attr::XattrSupport(export.engine.volume().properties().extended_attributes));
        }
        AttrNum::TimeAccess => put(Attr::TimeAccess(time(info.accessed))),
        AttrNum::TimeCreate => put(Attr::TimeCreate(time(info.created))),
        AttrNum::TimeMetadata => put(Attr::TimeMetadata(time(info.changed))),
        AttrNum::TimeModify => put(Attr::TimeModify(time(info.modified))),
        _ => {}
    }
}

fn one_of_root(number: AttrNum, server: &Server, mut put: impl FnMut(Attr<'_>)) {
    let exports = server.exports();
    // The version of the export list serves as its time.
    let then = NfsTime { seconds: i64::try_from(exports.version).unwrap_or(0), nseconds: 0 };
    match number {
        AttrNum::Type => put(Attr::Type(FileType::Dir)),
        // RFC 8881 5.8.1.4: the value only grows. Each instance of the server has a higher number than those
        // before (`ServerConfig::instance`).
        AttrNum::Change => put(Attr::Change(server.config().instance.wrapping_add(exports.version))),
        AttrNum::Size => put(Attr::Size(4096)),
        AttrNum::SpaceUsed => put(Attr::SpaceUsed(0)),
        AttrNum::Fsid => put(Attr::Fsid(FsId { major: 0, minor: 0 })),
        AttrNum::Fileid => put(Attr::Fileid(1)),
        AttrNum::MountedOnFileid => put(Attr::MountedOnFileid(1)),
        AttrNum::Mode => put(Attr::Mode(0o555)),
        AttrNum::Numlinks => {
            put(Attr::Numlinks(u32::try_from(exports.list().len() + 2).unwrap_or(u32::MAX)));
        }
        AttrNum::Owner => put(Attr::Owner(b"0")),
        AttrNum::OwnerGroup => put(Attr::OwnerGroup(b"0")),
        AttrNum::Acl | AttrNum::Dacl => {
            let aces = [Ace {
                ace_type: AceType::Allowed,
                flag: AceFlags::empty(),
                access_mask: AceMask::READ_DATA
                    | AceMask::EXECUTE
                    | AceMask::READ_ATTRIBUTES
                    | AceMask::READ_ACL,
                who: b"EVERYONE@",
            }];
            match number {
                AttrNum::Acl => put(Attr::Acl(List::of(&aces))),
                _ => put(Attr::Dacl(Acl41 { flag: AclFlags::PROTECTED, aces: List::of(&aces) })),
            }
        }
        AttrNum::Rawdev => put(Attr::Rawdev(SpecData::default())),
        AttrNum::FilesAvail => put(Attr::FilesAvail(0)),
        AttrNum::FilesFree => put(Attr::FilesFree(0)),
        AttrNum::FilesTotal => put(Attr::FilesTotal(0)),
        AttrNum::XattrSupport => put(Attr::XattrSupport(false)),
        AttrNum::SpaceAvail => put(Attr::SpaceAvail(0)),
        AttrNum::SpaceFree => put(Attr::SpaceFree(0)),
        AttrNum::SpaceTotal => put(Attr::SpaceTotal(0)),
        AttrNum::TimeAccess => put(Attr::TimeAccess(then)),
        AttrNum::TimeCreate => put(Attr::TimeCreate(then)),
        AttrNum::TimeMetadata => put(Attr::TimeMetadata(then)),
        AttrNum::TimeModify => put(Attr::TimeModify(then)),
        _ => {}
    }
}

fn with_number(number: u32, put: impl FnOnce(&[u8])) {
    let mut text = [0; 10];
    let mut at = text.len();
    let mut left = number;
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    put(&text[at..]);
}

fn file_type(kind: NodeKind) -> FileType {
    match kind {
        NodeKind::File => FileType::Reg,
        NodeKind::Directory => FileType::Dir,
        NodeKind::Link => FileType::Lnk,
        NodeKind::Pipe => FileType::Fifo,
        NodeKind::Socket => FileType::Sock,
        NodeKind::CharDevice => FileType::Chr,
        NodeKind::BlockDevice => FileType::Blk,
    }
}

#[cfg(test)]
mod tests {
    use share::engine::NoAccounts;

    use super::*;

    #[test]
    fn numbers_are_written_and_read_as_decimal_digits() {
        for given in [0, 7, 10, 65_534, u32::MAX] {
            with_number(given, |text| {
                assert_eq!(text, given.to_string().as_bytes());
                assert_eq!(acl::user(text, &NoAccounts), Ok(given));
            });
        }
        for wrong in [&b""[..], b"alice", b"007", b"+5", b"4294967296", b"1@example.org"] {
            assert_eq!(acl::user(wrong, &NoAccounts), Err(NfsStat::BadOwner));
        }
        assert_eq!(acl::user(b"\xff", &NoAccounts), Err(NfsStat::Inval));
    }
}
