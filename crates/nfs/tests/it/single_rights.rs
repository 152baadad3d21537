//! The use of each right of an access list: every operation on a file or directory of which a user has one
//! right and no other.
//!
//! The Linux server knows no such lists. It asks the host for r, w and x, and converts a list into those when
//! it is set (RFC 8881 6.2.1.3 allows that). So each row has the letter that Linux asks for (with x, if a
//! name in a directory is used), from its `nfsd_permission` (fs/nfsd/nfs4proc.c, vfs.c of Linux 6.1). If the
//! rights of the row are not those of the letter, the row has the reason.

use nfs_wire::NfsStat;
use nfs_wire::attr::{Ace, AceFlags, AceMask, AceType, Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::op::access::AccessBits;
use nfs_wire::op::create::{self, CreateType};
use nfs_wire::op::lock::{self, Locker, OpenToLockOwner};
use nfs_wire::op::names::{LinkArgs, RemoveArgs, RenameArgs};
use nfs_wire::op::open::{CreateHow, OpenHow, ShareAccess};
use nfs_wire::op::{
    Args, Res, access, allocate, clone, copy, getattr, open, read_plus, readdir, seek, setattr, xattr,
};
use nfs_wire::types::{Identity, LockType, NfsTime, SetTime, StateId, StateOwner, Verifier};
use nfs_wire::xdr::List;
use testkit::nfs::*;
use volume::{Name, Volume};

/// The owner of all files, and the user with one right.
const OWNER: u32 = 7;
const OTHER: u32 = 8;
const ANONYMOUS: StateId = StateId::ANONYMOUS;

/// The objects of the operations, and a client.
struct SingleRight {
    wire: Wire,
    client: Client,
    /// A file, and a directory with the file `inside` and the directory `below`. Both are in a directory that
    /// gives no rights to anybody.
    file: Vec<u8>,
    directory: Vec<u8>,
    /// A directory of the other user, with the file `mine` and the directory `own`.
    own: Vec<u8>,
    mine: Vec<u8>,
}

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

impl SingleRight {
    /// Everybody gets `right` on the file and the directory, and nothing else.
    fn new(right: AceMask) -> SingleRight {
        let world = NfsTestServer::new();
        let root = world.memory.root().unwrap();
        let directory = |parent: &dyn volume::Node, text: &str, uid, mode| {
            let made = parent.create_directory(&name(text), mode, None).unwrap();
            made.set_owner(Some(uid), Some(uid)).unwrap();
            made.set_mode(mode).unwrap();
            made
        };
        let file = |parent: &dyn volume::Node, text: &str, uid| {
            let made = parent.create_file(&name(text), 0o600, None).unwrap();
            made.write(0, &[b'd'; 8192]).unwrap();
            made.set_owner(Some(uid), Some(uid)).unwrap();
        };
        let shut = directory(&*root, "shut", OWNER, 0o700);
        file(&*shut, "file", OWNER);
        let within = directory(&*shut, "directory", OWNER, 0o700);
        file(&*within, "inside", OWNER);
        directory(&*within, "below", OWNER, 0o700);
        let own = directory(&*root, "own", OTHER, 0o700);
        file(&*own, "mine", OTHER);
        directory(&*own, "own", OTHER, 0o700);
        let mut wire = world.connect();
        let client = Client::new(&mut wire, b"client", 2);
        let nothing = Vec::new;
        let mut it = SingleRight {
            wire,
            client,
            file: nothing(),
            directory: nothing(),
            own: nothing(),
            mine: nothing(),
        };
        it.file = it.handle(OWNER, &["shut", "file"]);
        it.directory = it.handle(OWNER, &["shut", "directory"]);
        it.own = it.handle(OTHER, &["own"]);
        it.mine = it.handle(OTHER, &["own", "mine"]);
        for (of, mask) in [
            (it.file.clone(), right),
            (it.directory.clone(), right),
            (it.handle(OWNER, &["shut"]), AceMask::empty()),
        ] {
            let (ace_type, flag) = (AceType::Allowed, AceFlags::empty());
            let list = [Ace { ace_type, flag, access_mask: mask, who: b"EVERYONE@" }];
            assert_eq!(it.set(OWNER, &of, &[Attr::Acl(List::of(&list))]), NfsStat::Ok);
        }
        it
    }

    fn handle(&mut self, uid: u32, path: &[&str]) -> Vec<u8> {
        self.wire.uid = uid;
        let steps = path.iter().map(|text| lookup(text.as_bytes()));
        let all: Vec<Args<'_>> =
            [Args::PutRootFh, lookup(EXPORT)].into_iter().chain(steps).chain([Args::GetFh]).collect();
        let answer = self.client.run(&mut self.wire, &all).ok();
        let Res::GetFh(Ok(found)) = answer.last() else { panic!("{answer:?}") };
        found.object.0.to_vec()
    }

    fn set(&mut self, uid: u32, of: &[u8], attributes: &[Attr<'_>]) -> NfsStat {
        self.wire.uid = uid;
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(attributes, &mut room);
        let set = Args::SetAttr(setattr::Args { stateid: ANONYMOUS, obj_attributes });
        self.client.on(&mut self.wire, of, &[set]).status()
    }

    /// Sets one attribute of the file as the other user.
    fn set_file(&mut self, attribute: Attr<'_>) -> NfsStat {
        let file = self.file.clone();
        self.set(OTHER, &file, &[attribute])
    }

    fn set_directory(&mut self, attribute: Attr<'_>) -> NfsStat {
        let directory = self.directory.clone();
        self.set(OTHER, &directory, &[attribute])
    }

    /// Runs operations on the file as the other user.
    fn on_file(&mut self, operations: &[Args<'_>]) -> NfsStat {
        let file = self.file.clone();
        self.act(&[&[put(&file)], operations].concat())
    }

    fn on_directory(&mut self, operations: &[Args<'_>]) -> NfsStat {
        let directory = self.directory.clone();
        self.act(&[&[put(&directory)], operations].concat())
    }

    fn act(&mut self, operations: &[Args<'_>]) -> NfsStat {
        self.wire.uid = OTHER;
        self.client.run(&mut self.wire, operations).status()
    }

    /// Runs an operation with one filehandle saved and the other current.
    fn between(&mut self, saved: &[u8], current: &[u8], operation: Args<'_>) -> NfsStat {
        self.act(&[put(saved), Args::SaveFh, put(current), operation])
    }

    /// Opens the file.
    fn open(&mut self, share_access: ShareAccess, openhow: OpenHow<'_>) -> Result<StateId, NfsStat> {
        let (claim, owner) = (open::Claim::Fh, StateOwner { clientid: 0, owner: Identity(b"other") });
        let share_deny = open::ShareDeny::empty();
        let open = Args::Open(open::Args { seqid: 0, share_access, share_deny, owner, openhow, claim });
        self.wire.uid = OTHER;
        let file = self.file.clone();
        let answer = self.client.on(&mut self.wire, &file, &[open]);
        match answer.last() {
            Res::Open(opened) => opened.map(|opened| opened.stateid),
            other => panic!("{other:?}"),
        }
    }

    /// Opens the file and locks it.
    fn lock(&mut self, access: ShareAccess, locktype: LockType) -> NfsStat {
        let open_stateid = match self.open(access, OpenHow::NoCreate) {
            Ok(stateid) => stateid,
            Err(why) => return why,
        };
        let lock_owner = StateOwner { clientid: 0, owner: Identity(b"locker") };
        let new = OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
        let locker = Locker::New(new);
        self.on_file(&[Args::Lock(lock::Args { locktype, reclaim: false, offset: 0, length: 1, locker })])
    }

    /// Creates an object in the directory.
    fn make(&mut self, objtype: CreateType<'_>) -> NfsStat {
        let createattrs = Fattr::default();
        self.on_directory(&[Args::Create(create::Args { objtype, objname: b"made", createattrs })])
    }

    fn list(&mut self, numbers: &[AttrNum]) -> NfsStat {
        let attr_request = numbers.iter().fold(Bitmap::EMPTY, |mut sum, number| {
            sum.insert(number.get());
            sum
        });
        let (cookieverf, dircount, maxcount) = (Verifier::default(), 1000, 8000);
        self.on_directory(&[Args::ReadDir(readdir::Args {
            cookie: 0,
            cookieverf,
            dircount,
            maxcount,
            attr_request,
        })])
    }

    /// Runs an operation between the file and a file of the other user, in either direction.
    fn with_mine(&mut self, is_target: bool, operation: Args<'_>) -> NfsStat {
        let (file, mine) = (self.file.clone(), self.mine.clone());
        let (from, to) = if is_target { (mine, file) } else { (file, mine) };
        self.between(&from, &to, operation)
    }

    fn copy(&mut self, is_target: bool) -> NfsStat {
        let (src_stateid, dst_stateid) = (ANONYMOUS, ANONYMOUS);
        let operation = Args::Copy(copy::Args {
            src_stateid,
            dst_stateid,
            src_offset: 0,
            dst_offset: 0,
            count: 4,
            consecutive: true,
            synchronous: true,
            source_server: List::EMPTY,
        });
        self.with_mine(is_target, operation)
    }

    fn clone(&mut self, is_target: bool) -> NfsStat {
        let (src_stateid, dst_stateid) = (ANONYMOUS, ANONYMOUS);
        let operation =
            Args::Clone(clone::Args { src_stateid, dst_stateid, src_offset: 0, dst_offset: 0, count: 4096 });
        self.with_mine(is_target, operation)
    }

    fn rename(&mut self, is_target: bool, oldname: &[u8], newname: &[u8]) -> NfsStat {
        let (directory, own) = (self.directory.clone(), self.own.clone());
        let (from, to) = if is_target { (own, directory) } else { (directory, own) };
        self.between(&from, &to, Args::Rename(RenameArgs { oldname, newname }))
    }
}

/// The letter that the Linux server asks for, or the reason why the row differs.
#[derive(Debug, Clone, Copy)]
enum Linux {
    /// The rights of the row are those of the letter.
    Asks(char),
    Differs(char, &'static str),
}
use Linux::{Asks, Differs};

/// No right at all, and ownership.
const NOTHING: char = '-';
const OWNERS: char = 'o';

struct OperationRow {
    name: &'static str,
    act: fn(&mut SingleRight) -> NfsStat,
    /// One of these rights is enough.
    needs: AceMask,
    /// Whether a name in the directory is used, which needs EXECUTE too.
    searches: bool,
    /// The status without the right.
    refused: NfsStat,
    linux: Linux,
}

const fn row(
    name: &'static str,
    act: fn(&mut SingleRight) -> NfsStat,
    needs: AceMask,
    linux: Linux,
) -> OperationRow {
    OperationRow { name, act, needs, searches: false, refused: NfsStat::Access, linux }
}

/// A row for an operation that only the owner may do.
const fn owners(
    name: &'static str,
    act: fn(&mut SingleRight) -> NfsStat,
    needs: AceMask,
    linux: Linux,
) -> OperationRow {
    OperationRow { name, act, needs, searches: false, refused: NfsStat::Perm, linux }
}

/// A row for an operation that uses a name in the directory.
const fn named(
    name: &'static str,
    act: fn(&mut SingleRight) -> NfsStat,
    needs: AceMask,
    linux: Linux,
) -> OperationRow {
    OperationRow { searches: true, ..row(name, act, needs, linux) }
}

const ALL: AceMask = AceMask::from_bits_retain(0x001f_01ff);
const NONE: AceMask = AceMask::empty();
// RFC 8881 6.2.1.3.1: a file that may be executed can be read to execute it. The Linux server allows that too
// (NFSD_MAY_READ_IF_EXEC).
const READS: AceMask = AceMask::READ_DATA.union(AceMask::EXECUTE);
const WRITES: AceMask = AceMask::WRITE_DATA;
const NAMED: &str =
    "RFC 8276 8.4 leaves it to the server; the right of the list says just this (RFC 8881 6.2.1.3.1)";
const LISTS: &str = "a list of RFC 8881 can give this right to others (6.2.1.3.1)";
const DELETES: &str = "DELETE on the file is enough, too (RFC 8881 6.2.1.3.2)";
const SUBDIRECTORY: &str = "a right of its own for directories: ADD_SUBDIRECTORY (RFC 8881 6.2.1.3.1)";
const TWO: &str = "w is both ADD_FILE and DELETE_CHILD, of which neither is enough (RFC 8881 6.2.1.3.1)";

fn status<T>(done: Result<T, NfsStat>) -> NfsStat {
    done.err().unwrap_or(NfsStat::Ok)
}

fn range() -> allocate::Args {
    allocate::Args { stateid: ANONYMOUS, offset: 0, length: 4096 }
}

fn get(number: AttrNum) -> Args<'static> {
    let mut attr_request = Bitmap::EMPTY;
    attr_request.insert(number.get());
    Args::GetAttr(getattr::Args { attr_request })
}

fn set_xattr(key: &'static [u8]) -> Args<'static> {
    Args::SetXattr(xattr::SetArgs { option: xattr::SetOption::Either, key, value: b"value" })
}

/// An entry that gives everybody everything.
fn everything() -> [Ace<'static>; 1] {
    let (ace_type, flag) = (AceType::Allowed, AceFlags::empty());
    [Ace { ace_type, flag, access_mask: ALL, who: b"EVERYONE@" }]
}

const FILE: &[OperationRow] = &[
    row("OPEN to read", |it| status(it.open(ShareAccess::READ, OpenHow::NoCreate)), READS, Asks('r')),
    row("OPEN to write", |it| status(it.open(ShareAccess::WRITE, OpenHow::NoCreate)), WRITES, Asks('w')),
    row(
        "OPEN to read and write",
        |it| status(it.open(ShareAccess::BOTH, OpenHow::NoCreate)),
        NONE,
        Asks('b'),
    ),
    row("READ", |it| it.on_file(&[reading(ANONYMOUS, 0, 4)]), READS, Asks('r')),
    row(
        "READ_PLUS",
        |it| it.on_file(&[Args::ReadPlus(read_plus::Args { stateid: ANONYMOUS, offset: 0, count: 4 })]),
        READS,
        Asks('r'),
    ),
    row(
        "SEEK",
        |it| {
            let what = seek::ContentType::Data;
            it.on_file(&[Args::Seek(seek::Args { stateid: ANONYMOUS, offset: 0, what })])
        },
        READS,
        Asks('r'),
    ),
    row("WRITE", |it| it.on_file(&[writing(ANONYMOUS, 0, b"text")]), WRITES, Asks('w')),
    row("WRITE behind the end", |it| it.on_file(&[writing(ANONYMOUS, 9000, b"text")]), WRITES, Asks('w')),
    row("ALLOCATE", |it| it.on_file(&[Args::Allocate(range())]), WRITES, Asks('w')),
    row("DEALLOCATE", |it| it.on_file(&[Args::Deallocate(range())]), WRITES, Asks('w')),
    row("COPY from", |it| it.copy(false), READS, Asks('r')),
    row("COPY to", |it| it.copy(true), WRITES, Asks('w')),
    row("CLONE from", |it| it.clone(false), READS, Asks('r')),
    row("CLONE to", |it| it.clone(true), WRITES, Asks('w')),
    row("LOCK, shared", |it| it.lock(ShareAccess::READ, LockType::Read), READS, Asks('r')),
    row("LOCK, exclusive", |it| it.lock(ShareAccess::WRITE, LockType::Write), WRITES, Asks('w')),
    row("GETATTR", |it| it.on_file(&[get(AttrNum::Size)]), ALL, Asks(NOTHING)),
    row("GETATTR of the list", |it| it.on_file(&[get(AttrNum::Acl)]), ALL, Asks(NOTHING)),
    row("SETATTR of the size", |it| it.set_file(Attr::Size(1)), WRITES, Asks('w')),
    owners(
        "SETATTR of the mode",
        |it| it.set_file(Attr::Mode(0o640)),
        AceMask::WRITE_ACL,
        Differs(OWNERS, LISTS),
    ),
    owners(
        "SETATTR of the list",
        |it| it.set_file(Attr::Acl(List::of(&everything()))),
        AceMask::WRITE_ACL,
        Differs(OWNERS, LISTS),
    ),
    owners(
        "SETATTR of the group",
        |it| it.set_file(Attr::OwnerGroup(b"0")),
        AceMask::WRITE_OWNER,
        Differs(OWNERS, LISTS),
    ),
    owners(
        "SETATTR of the owner",
        |it| it.set_file(Attr::Owner(b"8")),
        AceMask::WRITE_OWNER,
        Differs(OWNERS, LISTS),
    ),
    row(
        "SETATTR of a time to now",
        |it| it.set_file(Attr::TimeModifySet(SetTime::Server)),
        WRITES.union(AceMask::WRITE_ATTRIBUTES),
        Differs('w', LISTS),
    ),
    owners(
        "SETATTR of a time",
        |it| it.set_file(Attr::TimeModifySet(SetTime::Client(NfsTime { seconds: 1, nseconds: 0 }))),
        NONE,
        Asks(OWNERS),
    ),
    row(
        "GETXATTR",
        |it| match it.on_file(&[Args::GetXattr(xattr::NameArgs { name: b"none" })]) {
            NfsStat::NoXattr => NfsStat::Ok,
            other => other,
        },
        AceMask::READ_NAMED_ATTRS,
        Differs('r', NAMED),
    ),
    row(
        "LISTXATTRS",
        |it| it.on_file(&[Args::ListXattrs(xattr::ListArgs { cookie: 0, maxcount: 1000 })]),
        AceMask::READ_NAMED_ATTRS,
        Differs('r', NAMED),
    ),
    row("SETXATTR", |it| it.on_file(&[set_xattr(b"key")]), AceMask::WRITE_NAMED_ATTRS, Differs('w', NAMED)),
    row(
        "REMOVEXATTR",
        |it| match it.on_file(&[Args::RemoveXattr(xattr::NameArgs { name: b"none" })]) {
            NfsStat::NoXattr => NfsStat::Ok,
            other => other,
        },
        AceMask::WRITE_NAMED_ATTRS,
        Differs('w', NAMED),
    ),
    row(
        "LINK of it",
        |it| {
            let (file, own) = (it.file.clone(), it.own.clone());
            it.between(&file, &own, Args::Link(LinkArgs { newname: b"linked" }))
        },
        ALL,
        Asks(NOTHING),
    ),
];

const DIRECTORY: &[OperationRow] = &[
    row("LOOKUP", |it| it.on_directory(&[lookup(b"inside")]), AceMask::EXECUTE, Asks('x')),
    row("LOOKUPP", |it| it.on_directory(&[Args::LookupP]), AceMask::EXECUTE, Asks('x')),
    row("READDIR", |it| it.list(&[]), AceMask::READ_DATA, Asks('r')),
    row("READDIR with attributes", |it| it.list(&[AttrNum::Size]), AceMask::READ_DATA, Asks('r')),
    row("GETATTR", |it| it.on_directory(&[get(AttrNum::Size)]), ALL, Asks(NOTHING)),
    named(
        "OPEN that makes a file",
        |it| {
            let how = OpenHow::Create(CreateHow::Guarded(Fattr::default()));
            it.on_directory(&[opening(how, b"made")])
        },
        WRITES,
        Differs('w', TWO),
    ),
    named(
        "CREATE of a directory",
        |it| it.make(CreateType::Dir),
        AceMask::APPEND_DATA,
        Differs('w', SUBDIRECTORY),
    ),
    named("CREATE of a symbolic link", |it| it.make(CreateType::Lnk(b"to")), WRITES, Differs('w', TWO)),
    named("CREATE of a FIFO", |it| it.make(CreateType::Fifo), WRITES, Differs('w', TWO)),
    named(
        "LINK into it",
        |it| {
            let (mine, directory) = (it.mine.clone(), it.directory.clone());
            it.between(&mine, &directory, Args::Link(LinkArgs { newname: b"linked" }))
        },
        WRITES,
        Differs('w', TWO),
    ),
    named(
        "REMOVE of a file",
        |it| it.on_directory(&[Args::Remove(RemoveArgs { target: b"inside" })]),
        AceMask::DELETE_CHILD,
        Differs('w', DELETES),
    ),
    named(
        "REMOVE of a directory",
        |it| it.on_directory(&[Args::Remove(RemoveArgs { target: b"below" })]),
        AceMask::DELETE_CHILD,
        Differs('w', DELETES),
    ),
    named(
        "RENAME of a file out of it",
        |it| it.rename(false, b"inside", b"moved"),
        AceMask::DELETE_CHILD,
        Differs('w', DELETES),
    ),
    named("RENAME of a file into it", |it| it.rename(true, b"mine", b"moved"), WRITES, Differs('w', TWO)),
    named(
        "RENAME of a directory into it",
        |it| it.rename(true, b"own", b"moved"),
        AceMask::APPEND_DATA,
        Differs('w', SUBDIRECTORY),
    ),
    named("RENAME onto a file in it", |it| it.rename(true, b"mine", b"inside"), NONE, Differs('w', TWO)),
    owners(
        "SETATTR of the mode",
        |it| it.set_directory(Attr::Mode(0o750)),
        AceMask::WRITE_ACL,
        Differs(OWNERS, LISTS),
    ),
    row(
        "SETATTR of a time to now",
        |it| it.set_directory(Attr::TimeModifySet(SetTime::Server)),
        WRITES.union(AceMask::WRITE_ATTRIBUTES),
        Differs('w', LISTS),
    ),
    row(
        "SETXATTR",
        |it| it.on_directory(&[set_xattr(b"key")]),
        AceMask::WRITE_NAMED_ATTRS,
        Differs('w', NAMED),
    ),
    row(
        "LISTXATTRS",
        |it| it.on_directory(&[Args::ListXattrs(xattr::ListArgs { cookie: 0, maxcount: 1000 })]),
        AceMask::READ_NAMED_ATTRS,
        Differs('r', NAMED),
    ),
];

/// The rights that a letter of the host gives.
fn of_letter(letter: char, is_directory: bool) -> AceMask {
    match letter {
        'r' if is_directory => AceMask::READ_DATA,
        'r' => READS,
        'w' => WRITES,
        'x' => AceMask::EXECUTE,
        NOTHING => ALL,
        // Both letters, or ownership: no right alone.
        _ => NONE,
    }
}

fn holds(rows: &[OperationRow], is_directory: bool) {
    let mut wrong = Vec::new();
    for OperationRow { name, act, needs, searches, refused, linux } in rows {
        let beside = if *searches { AceMask::EXECUTE } else { NONE };
        if *searches {
            assert_eq!(act(&mut SingleRight::new(*needs)), NfsStat::Access, "{name} without EXECUTE");
        }
        for right in ALL.iter() {
            let expected = if needs.contains(right) { NfsStat::Ok } else { *refused };
            let told = act(&mut SingleRight::new(right | beside));
            if told != expected {
                wrong.push(format!("{name} with {right:?}: {told:?}, not {expected:?}"));
            }
        }
        match linux {
            Asks(letter) => assert_eq!(of_letter(*letter, is_directory), *needs, "{name}"),
            Differs(letter, why) => {
                let w = *letter == 'w';
                assert!(w || *needs != of_letter(*letter, is_directory) && !why.is_empty(), "{name}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// RFC 8881 6.2.1.3
#[test]
fn each_right_to_a_file_is_good_for_what_it_says_and_nothing_else() {
    holds(FILE, false);
}

#[test]
fn each_right_to_a_directory_is_good_for_what_it_says_and_nothing_else() {
    holds(DIRECTORY, true);
}

// RFC 8881 18.1, RFC 8276 8.5
#[test]
fn access_tells_each_right_by_its_own_bit() {
    let on_file = [
        (AceMask::READ_DATA, AccessBits::READ),
        (AceMask::WRITE_DATA, AccessBits::MODIFY),
        (AceMask::APPEND_DATA, AccessBits::EXTEND),
        (AceMask::EXECUTE, AccessBits::EXECUTE),
        (AceMask::READ_NAMED_ATTRS, AccessBits::XAREAD | AccessBits::XALIST),
        (AceMask::WRITE_NAMED_ATTRS, AccessBits::XAWRITE),
    ];
    let mut on_directory = on_file;
    on_directory[3].1 = AccessBits::LOOKUP;
    let deletes = (AceMask::DELETE_CHILD, AccessBits::DELETE);
    for right in ALL.iter() {
        let mut it = SingleRight::new(right);
        let mut told = |of: &[u8]| {
            it.wire.uid = OTHER;
            let asked = Args::Access(access::Args { access: AccessBits::from_bits_retain(0x1ff) });
            let answer = it.client.on(&mut it.wire, of, &[asked]).ok();
            let Res::Access(Ok(told)) = answer.last() else { panic!("{answer:?}") };
            told.access
        };
        let expected = |table: &[(AceMask, AccessBits)]| {
            let found = table.iter().filter(|(mask, _)| *mask == right);
            found.fold(AccessBits::empty(), |sum, (_, bits)| sum | *bits)
        };
        let (file, directory) = (it.file.clone(), it.directory.clone());
        assert_eq!(told(&file), expected(&on_file), "{right:?}");
        assert_eq!(told(&directory), expected(&[&on_directory[..], &[deletes]].concat()), "{right:?}");
    }
}
