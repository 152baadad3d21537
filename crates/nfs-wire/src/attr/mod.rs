//! Attributes: fattr4 as a bitmap and a sequence of typed values (RFC 8881 5, RFC 7862 12, RFC 8276 8.2, RFC
//! 9754).
//!
//! - [`Bitmap`] is a set of attributes, and [`AttrNum`] names their numbers.
//! - [`Fattr`] is fattr4 as it is in a message. [`Fattr::iter`] returns one [`Attr`] after the other.
//! - [`AttrWriter`] writes fattr4 in place: first the set of attributes, then the values in ascending order.

mod acl;
mod bitmap;
mod fs;
mod write;

pub use acl::*;
pub use bitmap::{Bitmap, WORDS};
pub use fs::*;
pub use write::AttrWriter;

use crate::Malformed;
use crate::op::open::OpenArguments;
use crate::status::NfsStat;
use crate::types::{FileHandle, FileType, FsId, LayoutType, NfsTime, SetTime, SpecData};
use crate::xdr::{Decode, Encode, List, put_opaque};
use wire::Cursor;

macro_rules! attributes {
    ($($(#[doc = $doc:literal])* $variant:ident($ty:ty) = $number:literal, $rfc:literal;)*) => {
        wire::wire_enum! {
            /// The numbers of attributes.
            pub enum AttrNum: u32 {
                $(#[doc = concat!("Attribute ", $rfc, ".")] $variant = $number,)*
            }
        }

        /// One attribute with its value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Attr<'a> {
            $(
                #[doc = concat!("Attribute ", $rfc, ", number ", stringify!($number), ".")]
                $(#[doc = $doc])*
                $variant($ty),
            )*
        }

        impl<'a> Attr<'a> {
            /// The number of the attribute.
            #[must_use]
            pub const fn number(&self) -> AttrNum {
                match self {
                    $(Attr::$variant(_) => AttrNum::$variant,)*
                }
            }

            /// Reads the value of attribute `number`. None if there is no such attribute.
            fn decode(number: u32, r: &mut Cursor<'a>) -> Option<Result<Self, Malformed>> {
                match number {
                    $($number => Some(
                        <$ty>::decode(r).map(Attr::$variant).map_err(|e| e.within("fattr4", $rfc)),
                    ),)*
                    _ => None,
                }
            }
        }

        impl Encode for Attr<'_> {
            /// Appends the value alone.
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    $(Attr::$variant(value) => value.encode(out),)*
                }
            }
        }
    };
}

attributes! {
    /// The attributes that the object has.
    SupportedAttrs(Bitmap) = 0, "supported_attrs";
    Type(FileType) = 1, "type";
    FhExpireType(u32) = 2, "fh_expire_type";
    /// Changes with every change of data or metadata.
    Change(u64) = 3, "change";
    /// Bytes of the data.
    Size(u64) = 4, "size";
    LinkSupport(bool) = 5, "link_support";
    SymlinkSupport(bool) = 6, "symlink_support";
    NamedAttr(bool) = 7, "named_attr";
    Fsid(FsId) = 8, "fsid";
    UniqueHandles(bool) = 9, "unique_handles";
    /// Seconds of a lease.
    LeaseTime(u32) = 10, "lease_time";
    /// The reason why READDIR could not get the other attributes.
    RdattrError(NfsStat) = 11, "rdattr_error";
    Acl(List<'a, Ace<'a>>) = 12, "acl";
    Aclsupport(u32) = 13, "aclsupport";
    Archive(bool) = 14, "archive";
    Cansettime(bool) = 15, "cansettime";
    CaseInsensitive(bool) = 16, "case_insensitive";
    CasePreserving(bool) = 17, "case_preserving";
    ChownRestricted(bool) = 18, "chown_restricted";
    Filehandle(FileHandle<'a>) = 19, "filehandle";
    /// Number of the file in its file system.
    Fileid(u64) = 20, "fileid";
    FilesAvail(u64) = 21, "files_avail";
    FilesFree(u64) = 22, "files_free";
    FilesTotal(u64) = 23, "files_total";
    FsLocations(FsLocations<'a>) = 24, "fs_locations";
    Hidden(bool) = 25, "hidden";
    Homogeneous(bool) = 26, "homogeneous";
    Maxfilesize(u64) = 27, "maxfilesize";
    Maxlink(u32) = 28, "maxlink";
    Maxname(u32) = 29, "maxname";
    Maxread(u64) = 30, "maxread";
    Maxwrite(u64) = 31, "maxwrite";
    Mimetype(&'a [u8]) = 32, "mimetype";
    /// Permission bits.
    Mode(u32) = 33, "mode";
    NoTrunc(bool) = 34, "no_trunc";
    Numlinks(u32) = 35, "numlinks";
    /// User, as `name@domain` or a number in decimal.
    Owner(&'a [u8]) = 36, "owner";
    /// Group, as `name@domain` or a number in decimal.
    OwnerGroup(&'a [u8]) = 37, "owner_group";
    QuotaAvailHard(u64) = 38, "quota_avail_hard";
    QuotaAvailSoft(u64) = 39, "quota_avail_soft";
    QuotaUsed(u64) = 40, "quota_used";
    Rawdev(SpecData) = 41, "rawdev";
    SpaceAvail(u64) = 42, "space_avail";
    SpaceFree(u64) = 43, "space_free";
    SpaceTotal(u64) = 44, "space_total";
    /// Bytes of storage that the object uses.
    SpaceUsed(u64) = 45, "space_used";
    System(bool) = 46, "system";
    TimeAccess(NfsTime) = 47, "time_access";
    TimeAccessSet(SetTime) = 48, "time_access_set";
    TimeBackup(NfsTime) = 49, "time_backup";
    TimeCreate(NfsTime) = 50, "time_create";
    /// Granularity of times.
    TimeDelta(NfsTime) = 51, "time_delta";
    TimeMetadata(NfsTime) = 52, "time_metadata";
    TimeModify(NfsTime) = 53, "time_modify";
    TimeModifySet(SetTime) = 54, "time_modify_set";
    /// `fileid` of the directory below a mounted root.
    MountedOnFileid(u64) = 55, "mounted_on_fileid";
    DirNotifDelay(NfsTime) = 56, "dir_notif_delay";
    DirentNotifDelay(NfsTime) = 57, "dirent_notif_delay";
    Dacl(Acl41<'a>) = 58, "dacl";
    Sacl(Acl41<'a>) = 59, "sacl";
    ChangePolicy(FsId) = 60, "change_policy";
    FsStatus(FsStatus<'a>) = 61, "fs_status";
    FsLayoutTypes(List<'a, LayoutType>) = 62, "fs_layout_types";
    LayoutHint(LayoutHint<'a>) = 63, "layout_hint";
    LayoutTypes(List<'a, LayoutType>) = 64, "layout_types";
    LayoutBlksize(u32) = 65, "layout_blksize";
    LayoutAlignment(u32) = 66, "layout_alignment";
    FsLocationsInfo(FsLocationsInfo<'a>) = 67, "fs_locations_info";
    Mdsthreshold(List<'a, ThresholdItem<'a>>) = 68, "mdsthreshold";
    RetentionGet(RetentionGet) = 69, "retention_get";
    RetentionSet(RetentionSet) = 70, "retention_set";
    RetentevtGet(RetentionGet) = 71, "retentevt_get";
    RetentevtSet(RetentionSet) = 72, "retentevt_set";
    RetentionHold(u64) = 73, "retention_hold";
    ModeSetMasked(ModeMasked) = 74, "mode_set_masked";
    /// The attributes that EXCLUSIVE4_1 may set.
    SuppattrExclcreat(Bitmap) = 75, "suppattr_exclcreat";
    FsCharsetCap(u32) = 76, "fs_charset_cap";
    CloneBlksize(u32) = 77, "clone_blksize";
    SpaceFreed(u64) = 78, "space_freed";
    ChangeAttrType(ChangeAttrType) = 79, "change_attr_type";
    SecLabel(SecLabel<'a>) = 80, "sec_label";
    /// The permission bits of a new object, and the creator's mask (RFC 8275).
    ModeUmask(ModeUmask) = 81, "mode_umask";
    /// Whether extended attributes are supported (RFC 8276).
    XattrSupport(bool) = 82, "xattr_support";
    /// Whether the data is not immediately available (RFC 9754).
    Offline(bool) = 83, "offline";
    /// `time_access`, as kept by the holder of a write delegation (RFC 9754).
    TimeDelegAccess(NfsTime) = 84, "time_deleg_access";
    /// `time_modify`, as kept by the holder of a write delegation (RFC 9754).
    TimeDelegModify(NfsTime) = 85, "time_deleg_modify";
    /// The arguments of OPEN that the server supports (RFC 9754).
    OpenArguments(OpenArguments) = 86, "open_arguments";
}

/// fattr4: a set of attributes, and their values one after the other, not yet parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fattr<'a> {
    /// The attributes that have values.
    pub mask: Bitmap,
    /// The values in ascending order of the attributes' numbers.
    pub values: &'a [u8],
}

/// The reason why the attributes of a message could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttrError {
    /// A number without a meaning here, or one too high for [`Bitmap`]: NFS4ERR_ATTRNOTSUPP. The rest cannot
    /// be read, since the length of the value is unknown.
    #[error("attribute {0} is not known")]
    Unknown(u32),
    /// An invalid value, or bytes after the last one: NFS4ERR_BADXDR.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl<'a> Fattr<'a> {
    /// The attributes in ascending order of their numbers. An error ends the iteration.
    #[must_use]
    pub fn iter(&self) -> Attrs<'a> {
        Attrs { left: self.mask, values: Cursor::new(self.values), over: false }
    }

    /// Writes `attributes`, in ascending order of their numbers, into `room` and returns them as fattr4. For
    /// senders of attributes.
    pub fn of(attributes: &[Attr<'_>], room: &'a mut Vec<u8>) -> Fattr<'a> {
        room.clear();
        let mut mask = Bitmap::EMPTY;
        for attribute in attributes {
            mask.insert(attribute.number().get());
            attribute.encode(room);
        }
        Fattr { mask, values: room }
    }
}

impl Encode for Fattr<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.mask.encode(out);
        put_opaque(self.values, out);
    }
}

impl<'d> Decode<'d> for Fattr<'d> {
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        Ok(Fattr { mask: Bitmap::decode(r)?, values: <&[u8]>::decode(r)? })
    }
}

/// The iterator over the attributes of a [`Fattr`].
#[derive(Debug, Clone)]
pub struct Attrs<'a> {
    left: Bitmap,
    values: Cursor<'a>,
    over: bool,
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Result<Attr<'a>, AttrError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let Some(number) = self.left.iter().next() else {
            self.over = true;
            return if self.left.beyond() {
                Some(Err(AttrError::Unknown(WORDS as u32 * 32)))
            } else if self.values.remaining() != 0 {
                Some(Err(Malformed::new("fattr4", "attr_vals").into()))
            } else {
                None
            };
        };
        self.left.remove(number);
        let found = match Attr::decode(number, &mut self.values) {
            Some(Ok(attribute)) => Ok(attribute),
            Some(Err(e)) => Err(e.into()),
            None => Err(AttrError::Unknown(number)),
        };
        self.over = found.is_err();
        Some(found)
    }
}
