//! Handles that outlive the server: how they are granted, which of them exist after a restart, and who may
//! reconnect to them (MS-SMB2 3.3.5.7, 3.3.5.9, 3.3.5.9.10, 3.3.5.9.12, 3.3.7.1).

use std::time::Duration;

use smb_wire::create::{self, Access, CreateAction, CreateOptions, OplockLevel, ShareAccess};
use smb_wire::create_context::{
    Contexts, DurableFlags, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext, ResponseContext,
};
use smb_wire::header::Flags as HeaderFlags;
use smb_wire::lock::{self, LockElement, LockFlags};
use smb_wire::negotiate::Dialect;
use smb_wire::tree_connect::{self, ShareCapabilities};
use smb_wire::{FileId, Guid, LeaseKey, NtStatus, SmbCommand, WireList};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::ReceivedMessage;
use testkit::smb::{Dial, Peer, SmbTestServer, Store};
use volume::Failure;
use volume::faulty::{PlannedFault, VolumeCall};

const SECOND: Duration = Duration::from_secs(1);
const KEY: LeaseKey = LeaseKey(*b"the client's key");
const CREATE: Guid = Guid(*b"first of creates");
const ALL: LeaseState =
    LeaseState::READ_CACHING.union(LeaseState::WRITE_CACHING).union(LeaseState::HANDLE_CACHING);
const NOT_FOUND: NtStatus = NtStatus::OBJECT_NAME_NOT_FOUND;
const PERSISTENT: DurableFlags = DurableFlags::PERSISTENT;

type StaticContext = RequestContext<'static>;

fn persistent(create_guid: Guid) -> StaticContext {
    RequestContext::DurableHandleRequestV2 { timeout: 0, flags: PERSISTENT, create_guid }
}

fn back(file_id: FileId, flags: DurableFlags) -> StaticContext {
    RequestContext::DurableHandleReconnectV2 { file_id, create_guid: CREATE, flags }
}

fn lease(state: LeaseState) -> StaticContext {
    let v2 = Some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch: 0 });
    RequestContext::Lease(Lease { key: KEY, state, flags: LeaseFlags::empty(), v2 })
}

fn create(client: &mut Peer, name: &str, oplock: OplockLevel, asked: &[StaticContext]) -> ReceivedMessage {
    let contexts = Contexts::Requests(asked);
    client.create(&OpenFile { share: ShareAccess::empty(), oplock, contexts, ..OpenFile::named(name) })
}

/// Sends a CREATE again, as a replay.
fn replay(client: &mut Peer, open: &OpenFile<'_>) -> ReceivedMessage {
    let mut header = client.header(SmbCommand::Create);
    header.set_flags(header.flags() | HeaderFlags::REPLAY_OPERATION);
    let id = client.send(testkit::smb::peer::whole(&header, |out| open.write(out)));
    client.answer(id).expect("an answer to CREATE")
}

/// The granted milliseconds, and whether the handle outlives the server.
fn granted(answer: &ReceivedMessage) -> Option<(u32, bool)> {
    let response = create::Response::parse(&answer.message).expect("a CREATE response");
    response.contexts.responses().find_map(|context| match context.expect("a context") {
        ResponseContext::DurableHandleV2 { timeout, flags } => Some((timeout, flags == PERSISTENT)),
        _ => None,
    })
}

fn held(answer: &ReceivedMessage) -> Option<LeaseState> {
    let response = create::Response::parse(&answer.message).expect("a CREATE response");
    response.contexts.responses().find_map(|context| match context.expect("a context") {
        ResponseContext::Lease(lease) => Some(lease.state),
        _ => None,
    })
}

fn lock(client: &mut Peer, file_id: FileId, offset: u64, flags: LockFlags, sequence: u8) -> NtStatus {
    let elements = [LockElement { offset, length: 5, flags }];
    client.status(SmbCommand::Lock, |out| {
        let locks = WireList::Values(&elements);
        let (lock_sequence_number, lock_sequence_index) = (sequence, 1);
        lock::Request { lock_sequence_number, lock_sequence_index, file_id, locks }.write(out);
    })
}

/// Unlocks several ranges.
fn unlock_all(client: &mut Peer, file_id: FileId, offsets: &[u64], sequence: u8) -> NtStatus {
    let element = |&offset| LockElement { offset, length: 5, flags: LockFlags::UNLOCK };
    let elements: Vec<LockElement> = offsets.iter().map(element).collect();
    client.status(SmbCommand::Lock, |out| {
        let locks = WireList::Values(&elements);
        let (lock_sequence_number, lock_sequence_index) = (sequence, 1);
        lock::Request { lock_sequence_number, lock_sequence_index, file_id, locks }.write(out);
    })
}

const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY);

// MS-SMB2 3.3.5.4
// MS-SMB2 3.3.5.7
// MS-SMB2 3.3.5.9.10
#[test]
fn a_share_that_is_continuously_available_says_so_and_grants_whatever_is_cached() {
    let world = Store::new().serve();
    let mut client = world.client();
    let tree = client.try_tree(testkit::smb::SHARE);
    let tree = tree_connect::Response::parse(&tree.message).unwrap();
    assert!(tree.capabilities.contains(ShareCapabilities::CONTINUOUS_AVAILABILITY));
    for (at, oplock) in [OplockLevel::None, OplockLevel::LevelII, OplockLevel::Batch].into_iter().enumerate()
    {
        let guid = Guid([at as u8 + 1; 16]);
        let answer = create(&mut client, "f", oplock, &[persistent(guid)]);
        assert_eq!(granted(&answer), Some((60_000, true)), "{oplock:?}");
        assert_eq!(client.close(answer.file_id()), NtStatus::SUCCESS);
    }
    // Only a request is granted, and a directory never.
    let plain = RequestContext::DurableHandleRequestV2 {
        timeout: 0,
        flags: DurableFlags::empty(),
        create_guid: CREATE,
    };
    let answer = create(&mut client, "f", OplockLevel::Batch, &[plain]);
    assert_eq!(granted(&answer), Some((60_000, false)));
    let contexts = [persistent(Guid([9; 16]))];
    let directory = OpenFile { contexts: Contexts::Requests(&contexts), ..OpenFile::directory("d") };
    assert_eq!(granted(&client.create(&directory)), None);
    // An older dialect does not have it.
    let old = Dial::with(Dialect::Smb210);
    let mut client = world.dial(&old);
    let tree = client.try_tree(testkit::smb::SHARE);
    assert!(tree_connect::Response::parse(&tree.message).unwrap().capabilities.is_empty());
    // A client without the capability gets a durable handle only.
    let mut client = world.dial(&Dial { knows_persistent: false, ..Dial::elsewhere() });
    let answer = create(&mut client, "g", OplockLevel::Batch, &[persistent(CREATE)]);
    assert_eq!(granted(&answer), Some((60_000, false)));
}

#[test]
fn any_other_share_grants_a_durable_handle_at_most() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let tree = client.try_tree(testkit::smb::SHARE);
    assert!(tree_connect::Response::parse(&tree.message).unwrap().capabilities.is_empty());
    let answer = create(&mut client, "f", OplockLevel::Batch, &[persistent(CREATE)]);
    assert_eq!(granted(&answer), Some((60_000, false)));
    let answer = create(&mut client, "g", OplockLevel::None, &[persistent(Guid([7; 16]))]);
    assert_eq!(granted(&answer), None);
}

// MS-SMB2 3.3.5.9.12
// MS-SMB2 3.3.5.14
#[test]
fn a_handle_goes_on_after_a_restart_with_its_lease_its_locks_and_their_sequence() {
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let answer = create(&mut client, "f", OplockLevel::Lease, &[persistent(CREATE), lease(ALL)]);
    let id = answer.file_id();
    assert_eq!(client.write(id, 0, b"before"), NtStatus::SUCCESS);
    assert_eq!(lock(&mut client, id, 0, EXCLUSIVE, 3), NtStatus::SUCCESS);
    let world = store.serve();
    let mut client = world.client();
    let asked = [back(id, PERSISTENT), lease(ALL)];
    let answer = create(&mut client, "f", OplockLevel::Lease, &asked);
    assert_eq!((answer.status(), held(&answer)), (NtStatus::SUCCESS, Some(ALL)));
    assert_eq!(answer.file_id().persistent, id.persistent);
    let id = answer.file_id();
    assert_eq!(client.read(id, 0, 100).data(), b"before");
    assert_eq!(client.write(id, 6, b" and after"), NtStatus::SUCCESS);
    // The LOCK whose response was lost is known. The range is locked once.
    assert_eq!(lock(&mut client, id, 0, EXCLUSIVE, 3), NtStatus::SUCCESS);
    assert_eq!(lock(&mut client, id, 0, EXCLUSIVE, 4), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(lock(&mut client, id, 0, LockFlags::UNLOCK, 5), NtStatus::SUCCESS);
    assert_eq!(lock(&mut client, id, 0, LockFlags::UNLOCK, 6), NtStatus::RANGE_NOT_LOCKED);
    // A new handle never gets the number of a kept one.
    let other = client.open("other");
    assert!(other.persistent > id.persistent);
    assert_eq!(client.close(id), NtStatus::SUCCESS);
    let world = store.serve();
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0));
}

// MS-SMB2 3.3.5.14
#[test]
fn a_lock_that_failed_is_not_taken_for_done_after_a_restart() {
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let id = create(&mut client, "f", OplockLevel::Batch, &[persistent(CREATE)]).file_id();
    assert_eq!(lock(&mut client, id, 0, EXCLUSIVE, 1), NtStatus::SUCCESS);
    // The second range is not locked. The first has been released.
    assert_eq!(unlock_all(&mut client, id, &[0, 50], 2), NtStatus::RANGE_NOT_LOCKED);
    let world = store.serve();
    let mut client = world.client();
    let id = create(&mut client, "f", OplockLevel::None, &[back(id, PERSISTENT)]).file_id();
    assert!(world.engine.held_ranges().is_empty());
    assert_eq!(unlock_all(&mut client, id, &[0, 50], 2), NtStatus::RANGE_NOT_LOCKED);
}

// MS-SMB2 3.3.5.9.12
#[test]
fn only_its_user_with_its_create_and_its_flag_takes_it_up_and_only_for_its_time() {
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let id = create(&mut client, "f", OplockLevel::Batch, &[persistent(CREATE)]).file_id();
    let world = store.serve();
    let mut bert = world.dial(&Dial { user: "bert".into(), ..Dial::default() });
    let status =
        |client: &mut Peer, asked: StaticContext| create(client, "f", OplockLevel::None, &[asked]).status();
    assert_eq!(status(&mut bert, back(id, PERSISTENT)), NtStatus::ACCESS_DENIED);
    let mut client = world.client();
    assert_eq!(status(&mut client, back(id, DurableFlags::empty())), NOT_FOUND);
    let guid = Guid([7; 16]);
    let other =
        RequestContext::DurableHandleReconnectV2 { file_id: id, create_guid: guid, flags: PERSISTENT };
    assert_eq!(status(&mut client, other), NOT_FOUND);
    // Nobody else gets it meanwhile, since it does not end for a conflicting open.
    let mut second = world.dial(&Dial::elsewhere());
    let mine = second.start(SmbCommand::Create, |out| {
        OpenFile { share: ShareAccess::empty(), ..OpenFile::named("f") }.write(out);
    });
    assert_eq!(second.answer(mine).map(|answer| answer.status()), Some(NtStatus::PENDING));
    // The id of an Open is not needed if its CREATE is known.
    let unknown = FileId { persistent: 5, volatile: 6 };
    assert_eq!(status(&mut client, back(unknown, PERSISTENT)), NtStatus::SUCCESS);
    client.hang_up();
    let world = store.serve();
    world.advance(59 * SECOND);
    assert_eq!(world.server.opens.len(), 1);
    world.advance(2 * SECOND);
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0));
    assert_eq!(status(&mut world.client(), back(id, PERSISTENT)), NOT_FOUND);
    let world = store.serve();
    assert_eq!(world.engine.open_count(), 0);
}

// MS-SMB2 3.3.5.9, note 301
#[test]
fn a_file_whose_owner_is_away_is_told_so_at_once() {
    let everything = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    let read_and_handle = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    let statuses = |oplock, asked: &[StaticContext], share| {
        let world = Store::new().serve();
        let mut owner = world.client();
        let contexts = Contexts::Requests(asked);
        let kept = OpenFile { share, oplock, contexts, ..OpenFile::named("f") };
        assert_eq!(granted(&owner.create(&kept)), Some((60_000, true)));
        owner.hang_up();
        let again =
            OpenFile { share: everything, disposition: create::Disposition::Open, ..OpenFile::named("f") };
        let old = Dial { guid: Guid([3; 16]), ..Dial::with(Dialect::Smb210) };
        [Dial::default(), Dial::elsewhere(), old].map(|dial| {
            let mut peer = world.dial(&dial);
            let id = peer.start(SmbCommand::Create, |out| again.write(out));
            peer.answer(id).map(|answer| answer.status())
        })
    };
    // The owner's client may read attributes.
    let world = Store::new().serve();
    let mut owner = world.client();
    assert_eq!(create(&mut owner, "f", OplockLevel::None, &[persistent(CREATE)]).status(), NtStatus::SUCCESS);
    owner.hang_up();
    let looks = [Dial::default(), Dial::elsewhere()].map(|dial| {
        let open = OpenFile { access: Access::READ_ATTRIBUTES, share: everything, ..OpenFile::named("f") };
        world.dial(&dial).create(&open).status()
    });
    assert_eq!(looks, [NtStatus::SUCCESS, NtStatus::FILE_NOT_AVAILABLE]);
    let (away, pending) = (Some(NtStatus::FILE_NOT_AVAILABLE), Some(NtStatus::PENDING));
    let (plain, success) = ([persistent(CREATE)], Some(NtStatus::SUCCESS));
    let none = OplockLevel::None;
    assert_eq!(statuses(none, &plain, everything), [away, away, success], "sharing agrees");
    assert_eq!(statuses(none, &plain, ShareAccess::empty()), [away, away, pending], "sharing does not");
    let leased = [persistent(CREATE), lease(read_and_handle)];
    assert_eq!(statuses(OplockLevel::Lease, &leased, everything), [away, away, success], "RH");
    // A break of another client's right to cache writes is sent, as if the owner were connected.
    let leased = [persistent(CREATE), lease(ALL)];
    assert_eq!(statuses(OplockLevel::Lease, &leased, everything), [away, pending, pending], "RWH");
    assert_eq!(statuses(OplockLevel::Batch, &plain, everything), [away, pending, pending], "batch");
}

// MS-SMB2 3.3.5.9
#[test]
fn a_create_that_is_sent_again_after_a_restart_gets_what_it_made() {
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let asked = [persistent(CREATE), lease(ALL)];
    let first = create(&mut client, "f", OplockLevel::Lease, &asked).file_id();
    let world = store.serve();
    let mut client = world.client();
    let again = |client: &mut Peer, share: ShareAccess| {
        let (oplock, contexts) = (OplockLevel::Lease, Contexts::Requests(&asked));
        replay(client, &OpenFile { share, oplock, contexts, ..OpenFile::named("f") })
    };
    assert_eq!(again(&mut client, ShareAccess::READ).status(), NtStatus::CONTEXT_MISMATCH);
    let mut bert = world.dial(&Dial { user: "bert".into(), ..Dial::default() });
    assert_eq!(again(&mut bert, ShareAccess::empty()).status(), NtStatus::ACCESS_DENIED);
    let answer = again(&mut client, ShareAccess::empty());
    let response = create::Response::parse(&answer.message).unwrap();
    assert_eq!(response.create_action, CreateAction::Created);
    assert_eq!((granted(&answer), held(&answer)), (Some((60_000, true)), Some(ALL)));
    assert_eq!(answer.file_id().persistent, first.persistent);
    assert_eq!(client.write(answer.file_id(), 0, b"text"), NtStatus::SUCCESS);
    // It is in use now.
    assert_eq!(again(&mut world.client(), ShareAccess::empty()).status(), NtStatus::FILE_NOT_AVAILABLE);
}

#[test]
fn a_create_whose_handle_cannot_be_recorded_gets_what_it_made_all_the_same() {
    let mut store = Store::new();
    let (world, plan) = store.serve_faulty();
    let mut client = world.client();
    client.make("f", b"text");
    // The record of the file begins with this call.
    plan.add(VolumeCall::Stat, 1, PlannedFault::Fail(Failure::Io));
    let asked = [persistent(CREATE)];
    let first = create(&mut client, "f", OplockLevel::Batch, &asked);
    assert_eq!(granted(&first), Some((60_000, false)));
    client.hang_up();
    let (share, contexts) = (ShareAccess::empty(), Contexts::Requests(&asked));
    let open = OpenFile { share, oplock: OplockLevel::Batch, contexts, ..OpenFile::named("f") };
    let again = replay(&mut world.client(), &open);
    assert_eq!(granted(&again), Some((60_000, false)));
    assert_eq!(again.file_id().persistent, first.file_id().persistent);
}

// MS-SMB2 3.3.5.9
#[test]
fn a_create_whose_handle_was_used_is_not_carried_out_once_more() {
    let world = Store::new().serve();
    let mut client = world.client();
    let mut second = world.bind(&Dial::default(), &client);
    let contexts = [persistent(CREATE)];
    let contexts = Contexts::Requests(&contexts);
    let open = OpenFile { disposition: create::Disposition::OverwriteIf, contexts, ..OpenFile::named("f") };
    let first = client.create(&open).file_id();
    // An unused Open answers its own session and no other.
    assert_eq!(replay(&mut second, &open).file_id(), first);
    assert_eq!(replay(&mut world.client(), &open).status(), NtStatus::DUPLICATE_OBJECTID);
    // It is not known to another client either.
    let mut elsewhere = world.dial(&Dial::elsewhere());
    assert_eq!(replay(&mut elsewhere, &open).status(), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(client.write(first, 0, b"text"), NtStatus::SUCCESS);
    for peer in [&mut client, &mut second, &mut world.client(), &mut elsewhere] {
        assert_eq!(replay(peer, &open).status(), NtStatus::FILE_NOT_AVAILABLE);
    }
    assert_eq!(second.read(first, 0, 100).data(), b"text");
    assert_eq!(world.server.opens.len(), 1);
}

// MS-SMB2 3.3.5.9.12
#[test]
fn two_handles_of_one_create_guid_are_both_taken_up() {
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let contexts = [persistent(CREATE)];
    let open = OpenFile { contexts: Contexts::Requests(&contexts), ..OpenFile::named("f") };
    // After the first one is used, the CreateGuid is free for another.
    let first = client.create(&open).file_id();
    assert_eq!(client.write(first, 0, b"text"), NtStatus::SUCCESS);
    let second = client.create(&open).file_id();
    assert_ne!(first.persistent, second.persistent);
    let world = store.serve();
    let mut client = world.client();
    let contexts = [back(FileId { persistent: 5, volatile: 6 }, PERSISTENT)];
    let open = OpenFile { contexts: Contexts::Requests(&contexts), ..OpenFile::named("f") };
    let mut taken = [(); 2].map(|()| client.create(&open).file_id().persistent);
    taken.sort_unstable();
    assert_eq!(taken, [first.persistent, second.persistent]);
    assert_eq!(client.create(&open).status(), NOT_FOUND);
}

#[test]
fn a_file_that_goes_with_its_handle_goes_when_nobody_comes_back() {
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let contexts = [persistent(CREATE)];
    let options = CreateOptions::DELETE_ON_CLOSE;
    let contexts = Contexts::Requests(&contexts);
    let answer = client.create(&OpenFile { options, contexts, ..OpenFile::named("f") });
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    client.hang_up();
    let world = store.serve();
    world.advance(61 * SECOND);
    let mut client = world.client();
    let open = OpenFile { disposition: create::Disposition::Open, ..OpenFile::named("f") };
    assert_eq!(client.create(&open).status(), NOT_FOUND);
}
