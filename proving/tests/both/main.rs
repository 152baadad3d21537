//! One share with an SMB client and an NFS client in this process: the precedence when they collide. Each
//! test corresponds to a row of the chapter about both protocols in SEMANTICS.md.

mod audit;
mod lists;
mod watching;
use nfs_wire::NfsStat;
use nfs_wire::attr::{self, Attr, AttrNum, Bitmap, Fattr};
use nfs_wire::op::lock::{self as nfs_lock, Denied, Locker, OpenToLockOwner};
use nfs_wire::op::names::{RemoveArgs, RenameArgs};
use nfs_wire::op::{Args, Res, bind_conn_to_session, delegation, getattr, open, setattr};
use nfs_wire::types::{Identity, LockType, StateId, StateOwner};
use smb_wire::create::{self, Access, CreateOptions, Disposition, OplockLevel, ShareAccess};
use smb_wire::create_context::{Contexts, Lease, LeaseFlags, LeaseState, RequestContext, ResponseContext};
use smb_wire::fscc::FileInfoClass;
use smb_wire::query_info::InfoType;
use smb_wire::{FileId, LeaseKey, NtStatus, SmbCommand, lock, oplock_break, set_info, utf16};
use testkit::nfs::{Client, EXPORT, Wire, closing, lookup, opening, reading, writing};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer};
use testkit::{nfs as nfs_side, smb as smb_side};

/// Both clients and their servers.
struct Both {
    // Dropped before the server.
    smb: Peer,
    world: smb_side::SmbTestServer,
    wire: Wire,
    nfs: Client,
}

impl Both {
    fn new() -> Both {
        let world = smb_side::SmbTestServer::in_memory();
        let config = nfs::ServerConfig {
            name: b"server".to_vec(),
            handle_key: [7; 32],
            instance: 77,
            lease_time_s: 90,
            slots: 16,
            max_connections: 10,
            connections_per_client: 4,
            reply_memory: nfs::state::reply_memory::ReplyMemory::new(1 << 24),
        };
        let server = nfs::Server::new(config);
        server.set_exports([nfs::Export {
            name: "share".into(),
            id: 1,
            engine: std::sync::Arc::clone(&world.engine),
            read_only: false,
            squash: nfs::Squash::None,
            anonymous: (65_534, 65_534),
            clients: Vec::new(),
            secure: false,
            manage_gids: None,
        }]);
        let now = world.clock.read();
        let nfs_world = nfs_side::NfsTestServer::around(server, std::sync::Arc::clone(&world.engine), now);
        let mut wire = nfs_world.connect();
        let nfs = Client::new(&mut wire, b"client", 2);
        Both { smb: world.client(), world, wire, nfs }
    }

    /// Gives the NFS client a callback channel, so that it gets delegations.
    fn callable(mut self) -> Both {
        let bind = bind_conn_to_session::Args {
            sessid: self.nfs.session,
            dir: bind_conn_to_session::FromClient::BackOrBoth,
            use_conn_in_rdma_mode: false,
        };
        self.wire.call(2, &[Args::BindConnToSession(bind)]).ok();
        self
    }

    /// OPEN over NFS of an existing file.
    fn try_open(&mut self, name: &str, access: open::ShareAccess, deny: open::ShareDeny) -> NfsStat {
        let asked = nfs_open(name, access, deny);
        self.nfs.run(&mut self.wire, &[Args::PutRootFh, lookup(EXPORT), asked]).status()
    }

    /// OPEN over NFS that must succeed. Returns the handle, the open's stateid and the delegation.
    fn open(
        &mut self,
        name: &str,
        access: open::ShareAccess,
        deny: open::ShareDeny,
    ) -> (Vec<u8>, StateId, Option<StateId>) {
        let asked = nfs_open(name, access, deny);
        let done = self.nfs.run(&mut self.wire, &[Args::PutRootFh, lookup(EXPORT), asked, Args::GetFh]).ok();
        let results = done.results();
        let (Res::Open(Ok(opened)), Res::GetFh(Ok(handle))) = (results[3], results[4]) else {
            panic!("{results:?}")
        };
        let given = match opened.delegation {
            open::Delegation::Read(read) => Some(read.stateid),
            open::Delegation::Write(write) => Some(write.stateid),
            _ => None,
        };
        (handle.object.0.to_vec(), opened.stateid, given)
    }

    fn on(&mut self, handle: &[u8], operation: Args<'_>) -> NfsStat {
        self.nfs.on(&mut self.wire, handle, &[operation]).status()
    }

    fn in_root(&mut self, operations: &[Args<'_>]) -> NfsStat {
        let all = [&[Args::PutRootFh, lookup(EXPORT)][..], operations].concat();
        self.nfs.run(&mut self.wire, &all).status()
    }

    fn remove(&mut self, name: &str) -> NfsStat {
        self.in_root(&[Args::Remove(RemoveArgs { target: name.as_bytes() })])
    }

    fn rename(&mut self, old: &str, new: &str) -> NfsStat {
        let (oldname, newname) = (old.as_bytes(), new.as_bytes());
        self.in_root(&[Args::SaveFh, Args::Rename(RenameArgs { oldname, newname })])
    }

    /// Reads attributes over NFS, and passes them to `look`.
    fn attributes<T>(&mut self, name: &str, wanted: &[AttrNum], look: impl FnOnce(&[Attr<'_>]) -> T) -> T {
        let numbers: Vec<_> = wanted.iter().map(|one| one.get()).collect();
        let attr_request = Bitmap::of(&numbers);
        let ask = Args::GetAttr(getattr::Args { attr_request });
        let all = [Args::PutRootFh, lookup(EXPORT), lookup(name.as_bytes()), ask];
        let done = self.nfs.run(&mut self.wire, &all).ok();
        let Res::GetAttr(Ok(got)) = done.last() else { panic!("{done:?}") };
        let all: Vec<_> = got.obj_attributes.iter().map(|one| one.expect("an attribute")).collect();
        look(&all)
    }

    fn change(&mut self, name: &str) -> u64 {
        self.attributes(name, &[AttrNum::Change], |all| match all {
            [Attr::Change(number)] => *number,
            other => panic!("{other:?}"),
        })
    }

    fn set(&mut self, name: &str, attributes: &[Attr<'_>]) -> NfsStat {
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(attributes, &mut room);
        let set = Args::SetAttr(setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes });
        self.in_root(&[lookup(name.as_bytes()), set])
    }

    fn smb_open(
        &mut self,
        name: &str,
        access: Access,
        share: ShareAccess,
    ) -> smb_side::peer::ReceivedMessage {
        self.smb.create(&OpenFile { access, share, disposition: Disposition::Open, ..OpenFile::named(name) })
    }
}

fn nfs_open(name: &str, share_access: open::ShareAccess, share_deny: open::ShareDeny) -> Args<'_> {
    let Args::Open(asked) = opening(open::OpenHow::NoCreate, name.as_bytes()) else { unreachable!() };
    Args::Open(open::Args { share_access, share_deny, ..asked })
}

const READ: open::ShareAccess = open::ShareAccess::READ;
const WRITE: open::ShareAccess = open::ShareAccess::WRITE;
const BOTH: open::ShareAccess = open::ShareAccess::BOTH;
const NONE: open::ShareDeny = open::ShareDeny::empty();

fn shares(what: &[ShareAccess]) -> ShareAccess {
    what.iter().fold(ShareAccess::empty(), |all, one| all | *one)
}

fn set_information(client: &mut Peer, id: FileId, class: FileInfoClass, buffer: &[u8]) -> NtStatus {
    client.status(SmbCommand::SetInfo, |out| {
        let (info_type, additional_information) = (InfoType::File, 0);
        set_info::Request {
            info_type,
            file_info_class: class.0,
            additional_information,
            file_id: id,
            buffer,
        }
        .write(out);
    })
}

fn smb_lock(client: &mut Peer, file_id: FileId, offset: u64, length: u64, exclusive: bool) -> NtStatus {
    let kind = if exclusive { lock::LockFlags::EXCLUSIVE_LOCK } else { lock::LockFlags::SHARED_LOCK };
    let element = lock::LockElement { offset, length, flags: kind | lock::LockFlags::FAIL_IMMEDIATELY };
    client.status(SmbCommand::Lock, |out| {
        lock::Request {
            lock_sequence_number: 0,
            lock_sequence_index: 0,
            file_id,
            locks: smb_wire::WireList::Values(&[element]),
        }
        .write(out);
    })
}

fn nfs_lock(open_stateid: StateId, kind: LockType, offset: u64, length: u64) -> Args<'static> {
    let lock_owner = StateOwner { clientid: 0, owner: Identity(b"locker") };
    let new = OpenToLockOwner { open_seqid: 0, open_stateid, lock_seqid: 0, lock_owner };
    Args::Lock(nfs_lock::Args { locktype: kind, reclaim: false, offset, length, locker: Locker::New(new) })
}

#[test]
fn what_an_smb_client_denies_is_denied_to_nfs_opens_and_to_io_without_one() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let (handle, stateid, _) = both.open("file", READ, NONE);
    assert_eq!(both.on(&handle, closing(stateid)), NfsStat::Ok);
    let held = both.smb_open("file", Access::READ_DATA, ShareAccess::READ).file_id();
    assert_eq!(both.try_open("file", WRITE, NONE), NfsStat::ShareDenied);
    assert_eq!(both.on(&handle, writing(StateId::ANONYMOUS, 0, b"x")), NfsStat::Locked);
    assert_eq!(both.on(&handle, reading(StateId::ANONYMOUS, 0, 4)), NfsStat::Ok);
    // A client that has the file open with all access conflicts with an OPEN that denies.
    assert_eq!(both.try_open("file", READ, open::ShareDeny::READ), NfsStat::ShareDenied);
    assert_eq!(both.smb.close(held), NtStatus::SUCCESS);
    assert_eq!(both.try_open("file", WRITE, NONE), NfsStat::Ok);
}

#[test]
fn what_an_nfs_client_denies_is_a_sharing_violation_until_it_denies_less() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let everything = shares(&[ShareAccess::READ, ShareAccess::WRITE, ShareAccess::DELETE]);
    let (handle, first, _) = both.open("file", READ, NONE);
    let (_, stateid, _) = both.open("file", READ, open::ShareDeny::WRITE);
    assert_eq!(first.other, stateid.other, "one open of one owner");
    let denied = both.smb_open("file", Access::WRITE_DATA, everything).status();
    assert_eq!(denied, NtStatus::SHARING_VIOLATION);
    let id = both.smb_open("file", Access::READ_DATA, everything).file_id();
    both.smb.close(id);
    let narrow =
        open::DowngradeArgs { open_stateid: stateid, seqid: 0, share_access: READ, share_deny: NONE };
    assert_eq!(both.on(&handle, Args::OpenDowngrade(narrow)), NfsStat::Ok);
    assert_eq!(both.smb_open("file", Access::WRITE_DATA, everything).status(), NtStatus::SUCCESS);
}

#[test]
fn ranges_locked_over_smb_keep_nfs_from_locking_reading_and_writing() {
    let mut both = Both::new();
    both.smb.make("file", b"0123456789");
    let id = both.smb.open("file");
    let (handle, stateid, _) = both.open("file", BOTH, NONE);
    assert_eq!(smb_lock(&mut both.smb, id, 2, 4, true), NtStatus::SUCCESS);
    assert_eq!(both.on(&handle, reading(stateid, 0, 4)), NfsStat::Locked);
    assert_eq!(both.on(&handle, writing(stateid, 5, b"x")), NfsStat::Locked);
    assert_eq!(both.on(&handle, reading(StateId::ANONYMOUS, 0, 10)), NfsStat::Locked);
    assert_eq!(both.on(&handle, reading(stateid, 6, 4)), NfsStat::Ok);
    let done = both.nfs.on(&mut both.wire, &handle, &[nfs_lock(stateid, LockType::Read, 0, 100)]);
    let Res::Lock(nfs_lock::Res::Denied(Denied { offset, length, locktype, .. })) = done.last() else {
        panic!("{done:?}")
    };
    assert_eq!((offset, length, locktype), (2, 4, LockType::Write));
    assert_eq!(both.smb.close(id), NtStatus::SUCCESS);
    assert_eq!(both.on(&handle, nfs_lock(stateid, LockType::Write, 0, 100)), NfsStat::Ok);
}

#[test]
fn ranges_locked_over_nfs_keep_smb_from_locking_reading_and_writing_and_nfs_from_locking_alone() {
    let mut both = Both::new();
    both.smb.make("file", b"0123456789");
    let id = both.smb.open("file");
    let (handle, stateid, _) = both.open("file", BOTH, NONE);
    assert_eq!(both.on(&handle, nfs_lock(stateid, LockType::Write, 2, 4)), NfsStat::Ok);
    assert_eq!(both.smb.read(id, 0, 4).status(), NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(both.smb.write(id, 5, b"x"), NtStatus::FILE_LOCK_CONFLICT);
    assert_eq!(both.smb.read(id, 6, 4).status(), NtStatus::SUCCESS);
    assert_eq!(smb_lock(&mut both.smb, id, 0, 3, false), NtStatus::LOCK_NOT_GRANTED);
    // Among NFS clients locks are advisory: a client without a lock can read and write.
    assert_eq!(both.on(&handle, writing(StateId::ANONYMOUS, 3, b"x")), NfsStat::Ok);
    // When a part of a lock is released, that part is free.
    let held = both.nfs.on(&mut both.wire, &handle, &[nfs_lock(stateid, LockType::Write, 8, 1)]).ok();
    let Res::Lock(nfs_lock::Res::Ok(taken)) = held.last() else { panic!("{held:?}") };
    let part = nfs_lock::UnlockArgs {
        locktype: LockType::Write,
        seqid: 0,
        lock_stateid: taken.lock_stateid,
        offset: 3,
        length: 1,
    };
    assert_eq!(both.on(&handle, Args::LockU(part)), NfsStat::Ok);
    assert_eq!(smb_lock(&mut both.smb, id, 3, 1, true), NtStatus::SUCCESS);
    assert_eq!(smb_lock(&mut both.smb, id, 4, 1, true), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(both.on(&handle, closing(stateid)), NfsStat::Ok);
    assert_eq!(smb_lock(&mut both.smb, id, 4, 1, true), NtStatus::SUCCESS);
}

#[test]
fn an_nfs_open_waits_until_an_smb_client_has_written_back_what_it_kept() {
    let mut both = Both::new();
    both.smb.make("file", b"old");
    let kept = OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("file") };
    let id = both.smb.create(&kept).file_id();
    assert_eq!(both.try_open("file", READ, NONE), NfsStat::Delay);
    let notice = both.smb.notice().expect("a notice");
    assert_eq!(notice.header.command(), SmbCommand::OplockBreak);
    assert_eq!(both.try_open("file", READ, NONE), NfsStat::Delay, "asked once is enough");
    assert!(both.smb.notice().is_none());
    assert_eq!(both.smb.write(id, 0, b"new"), NtStatus::SUCCESS);
    let answered = both.smb.status(SmbCommand::OplockBreak, |out| {
        let level = oplock_break::Oplock { file_id: id, oplock_level: OplockLevel::LevelII };
        oplock_break::Request::Oplock(level).write(out);
    });
    assert_eq!(answered, NtStatus::SUCCESS);
    let (handle, stateid, _) = both.open("file", READ, NONE);
    let read = both.nfs.on(&mut both.wire, &handle, &[reading(stateid, 0, 9)]).ok();
    let Res::Read(Ok(got)) = read.last() else { panic!("{read:?}") };
    assert_eq!(got.data, b"new");
    // Its remaining right to cache for reading ends with the first change.
    let (handle, writer, _) = both.open("file", WRITE, NONE);
    assert_eq!(both.on(&handle, writing(writer, 0, b"two")), NfsStat::Ok);
    assert!(both.smb.notice().is_some());
}

/// Opens a file over SMB with a lease, and returns the granted state.
fn leased(client: &mut Peer, name: &str) -> Option<LeaseState> {
    let state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    let lease = Lease { key: LeaseKey([7; 16]), state, flags: LeaseFlags::empty(), v2: None };
    let asked = [RequestContext::Lease(lease)];
    let contexts = Contexts::Requests(&asked);
    let answer = client.create(&OpenFile { oplock: OplockLevel::Lease, contexts, ..OpenFile::named(name) });
    let response = create::Response::parse(&answer.message).expect("a response");
    response.contexts.responses().find_map(|context| match context.expect("a context") {
        ResponseContext::Lease(lease) => Some(lease.state),
        _ => None,
    })
}

// Over another channel the notice could come before the reply that granted the lease, and Linux's client
// would keep the state in that reply.
#[test]
fn a_lease_is_taken_back_over_the_channel_on_which_it_was_granted() {
    let mut both = Both::new();
    both.smb.make("file", b"old");
    let mut second = both.world.bind(&Dial::default(), &both.smb);
    assert!(leased(&mut second, "file").is_some());
    let (handle, writer, _) = both.open("file", WRITE, NONE);
    assert_eq!(both.on(&handle, writing(writer, 0, b"new")), NfsStat::Ok);
    assert!(second.notice().is_some() && both.smb.notice().is_none());
}

// Linux's client may process the reply that granted a lease after the notice that took it away at the same
// moment.
#[test]
fn a_file_that_both_sides_change_in_turn_has_no_lease_for_a_while() {
    let mut both = Both::new();
    both.smb.make("file", b"old");
    assert_eq!(leased(&mut both.smb, "file"), Some(LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING));
    let (handle, writer, _) = both.open("file", WRITE, NONE);
    assert_eq!(both.on(&handle, writing(writer, 0, b"new")), NfsStat::Ok);
    assert!(both.smb.notice().is_some());
    let ack = oplock_break::AcknowledgedLease { key: LeaseKey([7; 16]), state: LeaseState::empty() };
    let answered =
        both.smb.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Lease(ack).write(out));
    assert_eq!(answered, NtStatus::SUCCESS);
    assert_eq!(leased(&mut both.smb, "file"), Some(LeaseState::empty()));
    both.world.advance(std::time::Duration::from_millis(1_001));
    assert_eq!(leased(&mut both.smb, "file"), Some(LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING));
}

#[test]
fn an_smb_open_for_writing_waits_until_a_delegation_is_given_back() {
    let mut both = Both::new().callable();
    both.smb.make("file", b"text");
    let wanting = READ | open::ShareAccess::WANT_READ_DELEG;
    let (handle, _, given) = both.open("file", wanting, NONE);
    let given = given.expect("a delegation");
    let everything = shares(&[ShareAccess::READ, ShareAccess::WRITE, ShareAccess::DELETE]);
    // A reader does not conflict.
    let reader = both.smb_open("file", Access::READ_DATA, everything).file_id();
    assert!(both.wire.called().is_empty());
    let asked = OpenFile { access: Access::WRITE_DATA, share: everything, ..OpenFile::named("file") };
    let id = both.smb.start(SmbCommand::Create, |out| asked.write(out));
    assert_eq!(both.smb.answer(id).map(|told| told.status()), Some(NtStatus::PENDING));
    assert_eq!(both.wire.called().len(), 1, "it is recalled");
    assert!(both.smb.answer(id).is_none());
    let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: given });
    assert_eq!(both.on(&handle, back), NfsStat::Ok);
    let opened = both.smb.answer(id).expect("an answer");
    assert_eq!(opened.status(), NtStatus::SUCCESS);
    // With a writer present, no delegation is granted.
    let (_, _, given) = both.open("file", wanting, NONE);
    assert_eq!(given, None);
    both.smb.close(reader);
}

#[test]
fn attributes_set_over_smb_wait_until_a_delegation_is_given_back_and_a_lease_stays() {
    let mut both = Both::new().callable();
    both.smb.make("file", b"text");
    let wanting = READ | open::ShareAccess::WANT_READ_DELEG;
    let everything = shares(&[ShareAccess::READ, ShareAccess::WRITE, ShareAccess::DELETE]);
    let id = both.smb_open("file", Access::WRITE_ATTRIBUTES | Access::WRITE_EA, everything).file_id();
    // FILE_BASIC_INFORMATION with the hidden bit, and one FILE_FULL_EA_INFORMATION.
    let mut hidden = [0; 40];
    hidden[32] = 2;
    let attribute = b"\0\0\0\0\0\x01\x01\0a\0b";
    for (class, buffer) in [(FileInfoClass::BASIC, &hidden[..]), (FileInfoClass::FULL_EA, &attribute[..])] {
        let (handle, opened, given) = both.open("file", wanting, NONE);
        let given = given.expect("a delegation");
        let (info_type, additional_information) = (InfoType::File, 0);
        let ask = set_info::Request {
            info_type,
            file_info_class: class.0,
            file_id: id,
            additional_information,
            buffer,
        };
        let asked = both.smb.start(SmbCommand::SetInfo, |out| ask.write(out));
        // MS-SMB2 3.3.4.2 with note 240: there is no interim response either.
        assert!(both.smb.answer(asked).is_none());
        assert_eq!(both.wire.called().len(), 1, "it is recalled");
        let back = Args::DelegReturn(delegation::ReturnArgs { deleg_stateid: given });
        assert_eq!(both.on(&handle, back), NfsStat::Ok);
        assert_eq!(both.smb.answer(asked).expect("an answer").status(), NtStatus::SUCCESS);
        assert_eq!(both.on(&handle, closing(opened)), NfsStat::Ok);
        // For a while this file gets no new delegation.
        let quiet = std::time::Duration::from_secs(3);
        both.world.clock.advance(quiet);
        both.wire.now = both.wire.now.plus(quiet);
    }
    both.smb.close(id);
    // A read lease does not conflict with NFS: Windows requests cached attributes again.
    leased(&mut both.smb, "file").expect("a lease");
    assert_eq!(both.set("file", &[Attr::Mode(0o600)]), NfsStat::Ok);
}

// RFC 8881 8.4.2.3
#[test]
fn what_an_nfs_client_has_whose_lease_is_over_is_in_no_smb_clients_way() {
    let everything = shares(&[ShareAccess::READ, ShareAccess::WRITE, ShareAccess::DELETE]);
    let read_and_write = Access::READ_DATA | Access::WRITE_DATA;
    // An operation of an SMB client, and its status in time.
    type Ask = fn(&mut Both, FileId) -> NtStatus;
    let opens: Ask = |both, _| both.smb_open("denied", Access::WRITE_DATA, ShareAccess::WRITE).status();
    let locks: Ask = |both, id| smb_lock(&mut both.smb, id, 0, 4, true);
    let writes: Ask = |both, id| both.smb.write(id, 0, b"new");
    let replaces: Ask = |both, _| {
        let to_move = both.smb_open("moved", Access::DELETE, ShareAccess::READ).file_id();
        let mut buffer = vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0];
        buffer.extend(utf16::encode("locked"));
        let status = set_information(&mut both.smb, to_move, FileInfoClass::RENAME, &buffer);
        both.smb.close(to_move);
        status
    };
    let cases = [
        (opens, NtStatus::SHARING_VIOLATION),
        (locks, NtStatus::LOCK_NOT_GRANTED),
        (writes, NtStatus::FILE_LOCK_CONFLICT),
        (replaces, NtStatus::ACCESS_DENIED),
    ];
    for (ask, in_time) in cases {
        let mut both = Both::new();
        for name in ["denied", "locked", "moved"] {
            both.smb.make(name, b"text");
        }
        let id = both.smb_open("locked", read_and_write, everything).file_id();
        both.open("denied", READ, open::ShareDeny::WRITE);
        let (handle, opened, _) = both.open("locked", open::ShareAccess::BOTH, NONE);
        assert_eq!(both.on(&handle, nfs_lock(opened, LockType::Write, 0, 100)), NfsStat::Ok);
        both.world.clock.advance(std::time::Duration::from_secs(89));
        assert_eq!(ask(&mut both, id), in_time);
        both.world.clock.advance(std::time::Duration::from_secs(2));
        if in_time == NtStatus::ACCESS_DENIED {
            both.smb.close(id);
        }
        assert_eq!(ask(&mut both, id), NtStatus::SUCCESS, "instead of {in_time:?}");
    }
    // A delegation is revoked at once, and a name is removed with the last remaining open.
    let mut both = Both::new().callable();
    both.smb.make("file", b"text");
    let (.., given) = both.open("file", READ | open::ShareAccess::WANT_READ_DELEG, NONE);
    given.expect("a delegation");
    both.world.clock.advance(std::time::Duration::from_secs(91));
    assert_eq!(both.smb_open("file", Access::WRITE_DATA, everything).status(), NtStatus::SUCCESS);
}

#[test]
fn a_name_removed_over_nfs_goes_at_once_and_whoever_has_the_file_open_over_smb_keeps_it() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let id = both.smb.open("file");
    assert_eq!(both.remove("file"), NfsStat::Ok);
    assert_eq!(both.smb.read(id, 0, 4).data(), b"text");
    let all = shares(&[ShareAccess::READ, ShareAccess::WRITE, ShareAccess::DELETE]);
    assert_eq!(both.smb_open("file", Access::READ_DATA, all).status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    both.smb.make("file", b"another");
    assert_eq!(both.smb.read(id, 0, 4).data(), b"text");
    both.smb.close(id);
    // Unless that client denied deletion.
    let id = both.smb_open("file", Access::READ_DATA, shares(&[ShareAccess::READ, ShareAccess::WRITE]));
    assert_eq!(both.remove("file"), NfsStat::FileOpen);
    let id = id.file_id();
    both.smb.close(id);
    assert_eq!(both.remove("file"), NfsStat::Ok);
}

#[test]
fn a_name_removed_over_smb_goes_with_the_last_open_also_when_that_is_an_nfs_clients() {
    let mut both = Both::new();
    both.smb.make("file", b"text");
    let (handle, stateid, _) = both.open("file", READ, NONE);
    let doomed = OpenFile { options: CreateOptions::DELETE_ON_CLOSE, ..OpenFile::named("file") };
    let id = both.smb.create(&doomed).file_id();
    assert_eq!(both.smb.close(id), NtStatus::SUCCESS);
    assert_eq!(both.smb.create(&OpenFile::named("file")).status(), NtStatus::DELETE_PENDING);
    assert_eq!(both.try_open("file", WRITE, NONE), NfsStat::FileOpen);
    assert_eq!(both.on(&handle, reading(stateid, 0, 4)), NfsStat::Ok);
    assert_eq!(both.on(&handle, closing(stateid)), NfsStat::Ok);
    assert_eq!(both.try_open("file", READ, NONE), NfsStat::NoEnt);
}

#[test]
fn a_rename_on_either_side_moves_what_is_open_on_the_other() {
    let mut both = Both::new();
    both.smb.make("one", b"1");
    both.smb.make("two", b"2");
    let id = both.smb.open("one");
    assert_eq!(both.rename("one", "uno"), NfsStat::Ok);
    assert_eq!(both.smb.write(id, 0, b"i"), NtStatus::SUCCESS);
    // Over NFS, a rename replaces an existing name. A client that has that file open keeps it without a name.
    let held = both.smb.open("two");
    assert_eq!(both.rename("uno", "two"), NfsStat::Ok);
    assert_eq!(both.smb.read(held, 0, 1).data(), b"2");
    both.smb.close(held);
    let (handle, stateid, _) = both.open("two", READ, NONE);
    let name = utf16::encode("three");
    let mut buffer = vec![0; 16];
    buffer.extend((name.len() as u32).to_le_bytes());
    buffer.extend(&name);
    assert_eq!(set_information(&mut both.smb, id, FileInfoClass::RENAME, &buffer), NtStatus::SUCCESS);
    let read = both.nfs.on(&mut both.wire, &handle, &[reading(stateid, 0, 9)]).ok();
    let Res::Read(Ok(got)) = read.last() else { panic!("{read:?}") };
    assert_eq!(got.data, b"i");
    assert_eq!(both.try_open("three", READ, NONE), NfsStat::Ok);
    // Over SMB, a file that an NFS client has open is not replaced.
    both.smb.make("four", b"4");
    let id = both.smb.open("four");
    buffer[0] = 1;
    assert_eq!(set_information(&mut both.smb, id, FileInfoClass::RENAME, &buffer), NtStatus::ACCESS_DENIED);
}

#[test]
fn changes_over_smb_move_the_change_attribute_and_names_are_told_apart_by_case_over_nfs_alone() {
    let mut both = Both::new();
    both.smb.make("File", b"text");
    let before = both.change("File");
    let id = both.smb.open("file");
    assert_eq!(both.smb.write(id, 0, b"t"), NtStatus::SUCCESS);
    let written = both.change("File");
    assert!(written > before);
    assert_eq!(both.smb.write(id, 0, b"t"), NtStatus::SUCCESS);
    assert!(both.change("File") > written, "also within one tick of the clock");
    assert_eq!(both.try_open("file", READ, NONE), NfsStat::NoEnt);
    let how = open::OpenHow::Create(open::CreateHow::Guarded(Fattr::default()));
    assert_eq!(both.in_root(&[opening(how, b"file")]), NfsStat::Ok);
    // Over SMB, each is reached by its own spelling.
    assert_eq!(both.smb.write(id, 0, b"T"), NtStatus::SUCCESS);
    let other = both.smb.open("file");
    assert!(both.smb.read(other, 0, 4).status() == NtStatus::END_OF_FILE, "the new one is empty");
    let first = both.smb.open("File");
    assert_eq!(both.smb.read(first, 0, 4).data(), b"Text");
}

#[test]
fn a_name_that_windows_cannot_say_is_shown_and_reached_in_another_spelling() {
    let mut both = Both::new();
    let how = open::OpenHow::Create(open::CreateHow::Guarded(Fattr::default()));
    assert_eq!(both.in_root(&[opening(how, b"a:b?")]), NfsStat::Ok);
    let mapped = "a\u{f03a}b\u{f03f}";
    let all = shares(&[ShareAccess::READ, ShareAccess::WRITE, ShareAccess::DELETE]);
    let found = [mapped, "a\u{f022}b\u{f025}"]
        .into_iter()
        .filter(|name| both.smb_open(name, Access::READ_DATA, all).status() == NtStatus::SUCCESS)
        .count();
    assert_eq!(found, 1, "one of the ways in which such names are spelt");
}

// RFC 8275 4.2
#[test]
fn the_makers_mask_counts_where_no_list_is_handed_down() {
    let mut both = Both::new();
    let masked = [Attr::ModeUmask(attr::ModeUmask { mode: 0o666, umask: 0o027 })];
    let make = |both: &mut Both, name: &[u8], within: Option<&[u8]>| {
        let mut room = Vec::new();
        let how = open::OpenHow::Create(open::CreateHow::Guarded(Fattr::of(&masked, &mut room)));
        let way: Vec<_> = within.into_iter().map(lookup).chain([opening(how, name)]).collect();
        both.in_root(&way)
    };
    assert_eq!(make(&mut both, b"plain", None), NfsStat::Ok);
    let mode = |both: &mut Both, name: &str| {
        both.attributes(name, &[AttrNum::Mode], |told| match told {
            [Attr::Mode(mode)] => *mode,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(mode(&mut both, "plain"), 0o640);
    assert_eq!(both.set("plain", &masked), NfsStat::Inval);
    let asked = Args::GetAttr(getattr::Args { attr_request: Bitmap::of(&[AttrNum::ModeUmask.get()]) });
    assert_eq!(both.in_root(&[asked]), NfsStat::Inval);
}

#[test]
fn two_smb_machines_and_an_nfs_client_have_one_truth() {
    let mut both = Both::new();
    both.smb.make("file", b"0123456789");
    let mut third = both.world.dial(&Dial::elsewhere());
    let (mine, theirs) = (both.smb.open("file"), third.open("file"));
    let (handle, stateid, _) = both.open("file", BOTH, NONE);
    assert_eq!(smb_lock(&mut both.smb, mine, 0, 2, false), NtStatus::SUCCESS);
    assert_eq!(both.on(&handle, nfs_lock(stateid, LockType::Read, 0, 2)), NfsStat::Ok);
    assert_eq!(smb_lock(&mut third, theirs, 0, 2, false), NtStatus::SUCCESS);
    assert_eq!(smb_lock(&mut third, theirs, 1, 2, true), NtStatus::LOCK_NOT_GRANTED);
    for end in [mine, theirs] {
        let client = if end == mine { &mut both.smb } else { &mut third };
        assert_eq!(client.close(end), NtStatus::SUCCESS);
    }
    let again = third.open("file");
    assert_eq!(
        smb_lock(&mut third, again, 1, 2, true),
        NtStatus::LOCK_NOT_GRANTED,
        "the NFS client's is left"
    );
    assert_eq!(third.write(again, 5, b"x"), NtStatus::SUCCESS);
}
