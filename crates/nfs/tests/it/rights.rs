//! The access that permission bits give to clients, as on the host itself.

use nfs_wire::NfsStat;
use nfs_wire::attr::{self, Ace, AceFlags, AceMask, AceType, Attr, AttrNum, Fattr};
use nfs_wire::op::access::AccessBits;
use nfs_wire::op::create::{self, CreateType};
use nfs_wire::op::open::{CreateHow, CreateVerfAttr, OpenHow, ShareAccess};
use nfs_wire::op::{Args, Res, access, open, read, setattr};
use nfs_wire::types::{Identity, StateId, StateOwner};
use nfs_wire::xdr::List;
use testkit::nfs::*;
use volume::security::posix::{PosixEntry, Tag, encode};
use volume::{Name, Volume};

/// A file with a user, a group and a mode, with four bytes in it, and a client.
struct FileWithMode {
    wire: Wire,
    client: Client,
}

impl FileWithMode {
    fn new((uid, gid): (u32, u32), mode: u32) -> FileWithMode {
        let world = NfsTestServer::new();
        let file = world.memory.root().unwrap().create_file(&name(), mode, None).unwrap();
        file.write(0, b"data").unwrap();
        file.set_owner(Some(uid), Some(gid)).unwrap();
        file.set_mode(mode).unwrap();
        let mut wire = world.connect();
        let client = Client::new(&mut wire, b"client", 1);
        FileWithMode { wire, client }
    }

    /// Opens the file as a user whose group is root's.
    fn open(&mut self, uid: u32, share_access: ShareAccess) -> Result<StateId, NfsStat> {
        self.wire.uid = uid;
        let Args::Open(asked) = opening(OpenHow::NoCreate, b"file") else { unreachable!() };
        let owner = uid.to_be_bytes();
        let owner = StateOwner { clientid: 0, owner: Identity(&owner) };
        let open = Args::Open(open::Args { share_access, owner, ..asked });
        let answer = self.client.run(&mut self.wire, &[Args::PutRootFh, lookup(EXPORT), open]);
        match answer.last() {
            Res::Open(opened) => opened.map(|opened| opened.stateid),
            other => panic!("{other:?}"),
        }
    }

    /// Runs an operation on the file as a user.
    fn on(&mut self, uid: u32, operation: Args<'_>) -> ReceivedCompound {
        self.wire.uid = uid;
        let path = [Args::PutRootFh, lookup(EXPORT), lookup(b"file"), operation];
        self.client.run(&mut self.wire, &path)
    }

    fn access(&mut self, uid: u32) -> AccessBits {
        let asked = AccessBits::READ | AccessBits::MODIFY | AccessBits::EXECUTE;
        let answer = self.on(uid, Args::Access(access::Args { access: asked })).ok();
        let Res::Access(Ok(told)) = answer.last() else { panic!("{answer:?}") };
        told.access
    }
}

fn name() -> Name {
    Name::new(b"file").unwrap()
}

#[test]
fn a_mode_that_does_not_let_the_owner_write_binds_nobody_whom_it_lets() {
    let mut it = FileWithMode::new((7, 0), 0o460);
    assert_eq!(it.open(7, ShareAccess::WRITE), Err(NfsStat::Access), "the owner");
    assert!(!it.access(7).contains(AccessBits::MODIFY));
    assert!(it.access(8).contains(AccessBits::MODIFY), "one of its group");
    it.open(8, ShareAccess::BOTH).unwrap();
    let mut it = FileWithMode::new((7, 7), 0o444);
    assert_eq!(it.open(8, ShareAccess::WRITE), Err(NfsStat::Access));
    assert!(it.access(0).contains(AccessBits::MODIFY), "root");
    it.open(0, ShareAccess::BOTH).unwrap();
}

// RFC 8881 6.2.1.3.1
#[test]
fn what_may_only_be_run_is_read_to_run_it_and_is_not_said_to_be_readable() {
    let mut it = FileWithMode::new((7, 7), 0o711);
    assert_eq!(it.access(8), AccessBits::EXECUTE);
    let stateid = it.open(8, ShareAccess::READ).unwrap();
    assert_eq!(it.open(8, ShareAccess::READ).map(|again| again.other), Ok(stateid.other));
    let answer = it.on(8, reading(stateid, 0, 100));
    assert_eq!(answer.last(), Res::Read(Err(NfsStat::OldStateId)));
    let stateid = StateId { seqid: 0, ..stateid };
    let answer = it.on(8, reading(stateid, 0, 100)).ok();
    assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: b"data" })));
    assert_eq!(it.open(8, ShareAccess::BOTH), Err(NfsStat::Access));
    for mode in [0o700, 0o600, 0o710] {
        let mut it = FileWithMode::new((7, 7), mode);
        assert_eq!(it.open(8, ShareAccess::READ), Err(NfsStat::Access), "{mode:o}");
    }
}

/// Linux closes an unreadable open only after its own next open, so both belong to one open-owner for a
/// moment.
// RFC 8881 6.2.1.3.1, 18.16.3, 18.18
#[test]
fn an_owner_that_reads_to_run_may_open_for_writing_too_and_narrow_again() {
    for first in [ShareAccess::READ, ShareAccess::WRITE] {
        let mut it = FileWithMode::new((7, 7), 0o773);
        it.open(8, first).unwrap();
        let stateid = it.open(8, ShareAccess::BOTH - first).unwrap();
        let anew = StateId { seqid: 0, ..stateid };
        let answer = it.on(8, reading(anew, 0, 100)).ok();
        assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: b"data" })));
        it.on(8, writing(anew, 0, b"text")).ok();
        let down = open::DowngradeArgs {
            open_stateid: anew,
            seqid: 0,
            share_access: ShareAccess::READ,
            share_deny: open::ShareDeny::empty(),
        };
        let answer = it.on(8, Args::OpenDowngrade(down)).ok();
        let Res::OpenDowngrade(Ok(down)) = answer.last() else { panic!("{answer:?}") };
        let answer = it.on(8, reading(down.open_stateid, 0, 100)).ok();
        assert_eq!(answer.last(), Res::Read(Ok(read::ResOk { eof: true, data: b"text" })));
        let answer = it.on(8, writing(StateId { seqid: 0, ..stateid }, 0, b"none"));
        assert!(matches!(answer.last(), Res::Write(Err(NfsStat::OpenMode))), "{answer:?}");
    }
}

// RFC 8881 6.2.1.5
#[test]
fn who_says_nothing_of_itself_is_anonymous_and_not_authenticated() {
    let entry =
        |ace_type, who| Ace { ace_type, flag: AceFlags::empty(), access_mask: AceMask::READ_DATA, who };
    let (allowed, denied) = (AceType::Allowed, AceType::Denied);
    let lists: [(&[Ace<'_>], bool, bool); 4] = [
        (&[entry(allowed, b"AUTHENTICATED@")], true, false),
        (&[entry(allowed, b"ANONYMOUS@")], false, true),
        (&[entry(denied, b"ANONYMOUS@"), entry(allowed, b"EVERYONE@")], true, false),
        (&[entry(allowed, b"EVERYONE@")], true, true),
    ];
    for (list, user, nobody) in lists {
        let mut it = FileWithMode::new((7, 7), 0o600);
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(&[Attr::Acl(List::of(list))], &mut room);
        it.on(7, Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes })).ok();
        assert_eq!(it.open(8, ShareAccess::READ).is_ok(), user, "{list:?}");
        it.wire.is_nobody = true;
        assert_eq!(it.open(9, ShareAccess::READ).is_ok(), nobody, "{list:?}");
    }
}

/// Every way to create a file with a mode, in a directory that passes every right down to everybody.
// RFC 8881 6.4.3
#[test]
fn a_mode_is_applied_to_what_is_inherited_whichever_way_a_file_is_made() {
    let world = NfsTestServer::new();
    let directory = world.memory.root().unwrap().create_directory(&name(), 0o777, None).unwrap();
    directory.set_owner(Some(7), Some(7)).unwrap();
    let mut wire = world.connect();
    let mut it = FileWithMode { client: Client::new(&mut wire, b"client", 2), wire };
    let flag = AceFlags::FILE_INHERIT | AceFlags::DIRECTORY_INHERIT;
    let access_mask = AceMask::from_bits_retain(0x1f_01ff);
    let entry = Ace { ace_type: AceType::Allowed, flag, access_mask, who: b"EVERYONE@" };
    let mut room = Vec::new();
    let obj_attributes = Fattr::of(&[Attr::Acl(List::of(&[entry]))], &mut room);
    it.on(7, Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes })).ok();
    let mut room = Vec::new();
    let private = Fattr::of(&[Attr::Mode(0o600)], &mut room);
    let mut room = Vec::new();
    let with_mask = attr::ModeUmask { mode: 0o600, umask: 0o022 };
    let masked = Fattr::of(&[Attr::ModeUmask(with_mask)], &mut room);
    let ways = [
        CreateHow::Unchecked(private),
        CreateHow::Guarded(private),
        CreateHow::Exclusive41(CreateVerfAttr { verf: [1; 8], attrs: private }),
        CreateHow::Guarded(masked),
        CreateHow::Exclusive41(CreateVerfAttr { verf: [2; 8], attrs: masked }),
    ];
    for (n, way) in ways.into_iter().enumerate() {
        let made = format!("f{n}");
        let mut at = |uid, operation: Args<'_>| {
            it.wire.uid = uid;
            it.client.run(&mut it.wire, &[Args::PutRootFh, lookup(EXPORT), lookup(b"file"), operation])
        };
        at(7, opening(OpenHow::Create(way), made.as_bytes())).ok();
        let asked = AccessBits::READ | AccessBits::MODIFY | AccessBits::EXTEND;
        let mut access = |uid| {
            it.wire.uid = uid;
            let path = [Args::PutRootFh, lookup(EXPORT), lookup(b"file"), lookup(made.as_bytes())];
            let path = [&path[..], &[Args::Access(access::Args { access: asked })]].concat();
            let answer = it.client.run(&mut it.wire, &path).ok();
            let Res::Access(Ok(told)) = answer.last() else { panic!("{answer:?}") };
            told.access
        };
        assert_eq!((access(7), access(8)), (asked, AccessBits::empty()), "{made}");
        let stat = directory.stat_name(&Name::new(made.as_bytes()).unwrap()).unwrap();
        assert_eq!(stat.mode, 0o600, "{made}");
    }
    let with_mask = attr::ModeUmask { mode: 0o700, umask: 0o022 };
    for (made, mode) in [("d0", Attr::Mode(0o700)), ("d1", Attr::ModeUmask(with_mask))] {
        let mut room = Vec::new();
        let createattrs = Fattr::of(&[mode], &mut room);
        let make =
            Args::Create(create::Args { objtype: CreateType::Dir, objname: made.as_bytes(), createattrs });
        it.on(7, make).ok();
        it.wire.uid = 8;
        let asked = AccessBits::READ | AccessBits::MODIFY | AccessBits::LOOKUP;
        let access = Args::Access(access::Args { access: asked });
        let path = [Args::PutRootFh, lookup(EXPORT), lookup(b"file"), lookup(made.as_bytes()), access];
        let answer = it.client.run(&mut it.wire, &path).ok();
        let Res::Access(Ok(told)) = answer.last() else { panic!("{answer:?}") };
        assert_eq!(told.access, AccessBits::empty(), "{made}");
        let stat = directory.stat_name(&Name::new(made.as_bytes()).unwrap()).unwrap();
        assert_eq!(stat.mode, 0o700, "{made}");
    }
}

/// `touch f; chown 1000:0 f; chmod 600 f; setfacl -m u:1001:rwx f` on the host.
#[test]
fn the_hosts_list_lets_whom_it_names_and_its_mask_lets_nobody() {
    let world = NfsTestServer::new();
    let host = world.memory.root().unwrap().create_file(&name(), 0o600, None).unwrap();
    // The group of all users here is root's.
    host.set_owner(Some(1000), Some(0)).unwrap();
    let entry = |tag, bits, id| PosixEntry { tag, bits, id };
    let list = encode(&[
        entry(Tag::Owner, 6, u32::MAX),
        entry(Tag::User, 7, 1001),
        entry(Tag::OwnersGroup, 0, u32::MAX),
        entry(Tag::Mask, 7, u32::MAX),
        entry(Tag::Others, 0, u32::MAX),
    ]);
    host.set_note(volume::Note::AccessList, Some(&list)).unwrap();
    let mut wire = world.connect();
    let mut it = FileWithMode { client: Client::new(&mut wire, b"client", 1), wire };
    let all = AccessBits::READ | AccessBits::MODIFY | AccessBits::EXECUTE;
    assert_eq!(it.access(1001), all);
    assert_eq!(it.access(1000), AccessBits::READ | AccessBits::MODIFY);
    assert_eq!(it.access(1002), AccessBits::empty());
    assert_eq!(it.open(1002, ShareAccess::READ), Err(NfsStat::Access));
}

/// The owner, group and mode of a file on the host.
fn owners(world: &NfsTestServer, text: &[u8]) -> (u32, u32, u32) {
    let root = world.memory.root().unwrap();
    let found = root.lookup(&Name::new(text).unwrap(), volume::OpenHow::Attributes).unwrap();
    let stat = found.stat().unwrap();
    (stat.uid, stat.gid, stat.mode)
}

#[test]
fn what_root_makes_belongs_to_the_group_that_it_comes_with() {
    let world = NfsTestServer::new();
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    wire.gid = 1234;
    let how = OpenHow::Create(open::CreateHow::Unchecked(Fattr::default()));
    client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), opening(how, b"f")]).ok();
    let mut make = |name: &[u8], objtype| {
        let createattrs = Fattr::default();
        let made = Args::Create(create::Args { objtype, objname: name, createattrs });
        client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), made]).ok();
    };
    make(b"d", CreateType::Dir);
    make(b"l", CreateType::Lnk(b"f"));
    make(b"p", CreateType::Fifo);
    for text in [b"f", b"d", b"l", b"p"] {
        let (uid, gid, _) = owners(&world, text);
        assert_eq!((uid, gid), (0, 1234), "{}", text[0] as char);
    }
}

// symlink(7)
#[test]
fn the_mode_of_a_symbolic_link_is_set_without_effect() {
    let world = NfsTestServer::new();
    world.memory.root().unwrap().create_link(&Name::new(b"l").unwrap(), b"f", None).unwrap();
    let before = owners(&world, b"l");
    let mut wire = world.connect();
    let mut client = Client::new(&mut wire, b"client", 1);
    let mut room = Vec::new();
    let obj_attributes = Fattr::of(&[Attr::Mode(0o600)], &mut room);
    let set = Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes });
    let answer = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), lookup(b"l"), set]).ok();
    let Res::SetAttr(told) = answer.last() else { panic!("{answer:?}") };
    assert!(told.attrsset.iter().any(|number| number == AttrNum::Mode.get()));
    assert_eq!(owners(&world, b"l"), before);
    // A user who may not change it still gets the error.
    wire.uid = 7;
    let set = Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes });
    let answer = client.run(&mut wire, &[Args::PutRootFh, lookup(EXPORT), lookup(b"l"), set]);
    assert_eq!(answer.status(), NfsStat::Perm);
}
