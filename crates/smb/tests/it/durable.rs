//! Handles that outlive their session: how they are granted, kept, reconnected and lost (MS-SMB2 3.3.5.9.6,
//! 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12, 3.3.5.15.9, 3.3.7.1).

use std::time::Duration;

use smb_wire::create::{self, CreateAction, CreateOptions, OplockLevel, ShareAccess};
use smb_wire::create_context::{
    Contexts, DurableFlags, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext, ResponseContext,
};
use smb_wire::ioctl::body::NetworkResiliencyRequest;
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::lock::{self, LockElement, LockFlags};
use smb_wire::negotiate::Dialect;
use smb_wire::{FileId, Guid, LeaseKey, NtStatus, SmbCommand, WireList, logoff, tree_disconnect};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::ReceivedMessage;
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};
use volume::Failure;
use volume::faulty::VolumeCall;

const SECOND: Duration = Duration::from_secs(1);
const KEY: LeaseKey = LeaseKey(*b"the client's key");
const CREATE: Guid = Guid(*b"first of creates");
const ALL: LeaseState =
    LeaseState::READ_CACHING.union(LeaseState::WRITE_CACHING).union(LeaseState::HANDLE_CACHING);
const NOT_FOUND: NtStatus = NtStatus::OBJECT_NAME_NOT_FOUND;

type StaticContext = RequestContext<'static>;

fn v2(create_guid: Guid) -> StaticContext {
    RequestContext::DurableHandleRequestV2 { timeout: 0, flags: DurableFlags::empty(), create_guid }
}

fn reconnect_v2(file_id: FileId, create_guid: Guid) -> StaticContext {
    RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags: DurableFlags::empty() }
}

fn lease(key: LeaseKey, state: LeaseState) -> StaticContext {
    RequestContext::Lease(Lease { key, state, flags: LeaseFlags::empty(), v2: None })
}

fn lease_v2(key: LeaseKey, state: LeaseState) -> StaticContext {
    let v2 = Some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch: 0 });
    RequestContext::Lease(Lease { key, state, flags: LeaseFlags::empty(), v2 })
}

/// Opens for all access and shares nothing.
fn create(client: &mut Peer, name: &str, oplock: OplockLevel, asked: &[StaticContext]) -> ReceivedMessage {
    let contexts = Contexts::Requests(asked);
    client.create(&OpenFile { share: ShareAccess::empty(), oplock, contexts, ..OpenFile::named(name) })
}

/// Opens with a batch oplock and a durable context. The durability must be granted.
fn durable(client: &mut Peer, name: &str, asked: StaticContext) -> FileId {
    let answer = create(client, name, OplockLevel::Batch, &[asked]);
    assert!(durable_answer(&answer).is_some());
    answer.file_id()
}

/// The durability in a response.
fn durable_answer(answer: &ReceivedMessage) -> Option<ResponseContext<'_>> {
    let response = create::Response::parse(&answer.message).expect("a CREATE response");
    let mut contexts = response.contexts.responses().map(|context| context.expect("a context"));
    contexts.find(|context| {
        matches!(context, ResponseContext::DurableHandle | ResponseContext::DurableHandleV2 { .. })
    })
}

/// The granted milliseconds of version 2.
fn granted_ms(answer: &ReceivedMessage) -> Option<u32> {
    match durable_answer(answer) {
        Some(ResponseContext::DurableHandleV2 { timeout, .. }) => Some(timeout),
        _ => None,
    }
}

/// Reconnects to an Open by its name.
fn come_back(client: &mut Peer, name: &str, asked: &[StaticContext]) -> ReceivedMessage {
    let is_leased = asked.iter().any(|context| matches!(context, RequestContext::Lease(_)));
    let oplock = if is_leased { OplockLevel::Lease } else { OplockLevel::None };
    create(client, name, oplock, asked)
}

fn v1_back(client: &mut Peer, id: FileId) -> NtStatus {
    come_back(client, "", &[RequestContext::DurableHandleReconnect(id)]).status()
}

fn lock(client: &mut Peer, file_id: FileId, flags: LockFlags) -> NtStatus {
    let elements = [LockElement { offset: 0, length: 5, flags }];
    client.status(SmbCommand::Lock, |out| {
        let locks = WireList::Values(&elements);
        lock::Request { lock_sequence_number: 0, lock_sequence_index: 0, file_id, locks }.write(out);
    })
}

fn make_resilient(client: &mut Peer, file_id: FileId, timeout: u32) -> NtStatus {
    let mut input = Vec::new();
    NetworkResiliencyRequest { timeout }.write(&mut input);
    control(client, file_id, &input)
}

fn control(client: &mut Peer, file_id: FileId, input: &[u8]) -> NtStatus {
    client.status(SmbCommand::Ioctl, |out| {
        ioctl::Request::fsctl(CtlCode::LmrRequestResiliency, file_id, input, 0).write(out);
    })
}

/// Whether another client can open the file exclusively.
fn is_free(world: &SmbTestServer, name: &str) -> NtStatus {
    create(&mut world.dial(&Dial::elsewhere()), name, OplockLevel::None, &[]).status()
}

// MS-SMB2 3.3.5.9.6
// MS-SMB2 3.3.5.9.10
#[test]
fn only_a_batch_oplock_or_a_lease_with_handle_caching_makes_durable() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    for asked in [RequestContext::DurableHandleRequest, v2(CREATE)] {
        for oplock in [OplockLevel::None, OplockLevel::LevelII, OplockLevel::Exclusive, OplockLevel::Batch] {
            let answer = create(&mut client, "f", oplock, &[asked]);
            assert_eq!(durable_answer(&answer).is_some(), oplock == OplockLevel::Batch);
            assert_eq!(client.close(answer.file_id()), NtStatus::SUCCESS);
        }
        for (state, expected) in [
            (LeaseState::READ_CACHING, false),
            (LeaseState::READ_CACHING | LeaseState::WRITE_CACHING, false),
            (LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING, true),
            (ALL, true),
        ] {
            let answer = create(&mut client, "f", OplockLevel::Lease, &[asked, lease(KEY, state)]);
            assert_eq!(durable_answer(&answer).is_some(), expected, "{state:?}");
            assert_eq!(client.close(answer.file_id()), NtStatus::SUCCESS);
        }
        // A directory is never durable, with any request.
        let contexts = [asked, lease_v2(KEY, ALL)];
        let contexts = Contexts::Requests(&contexts);
        let directory = OpenFile { oplock: OplockLevel::Lease, contexts, ..OpenFile::directory("d") };
        let answer = client.create(&directory);
        assert!(durable_answer(&answer).is_none());
        assert_eq!(client.close(answer.file_id()), NtStatus::SUCCESS);
    }
}

// MS-SMB2 3.3.5.9.10
#[test]
fn the_time_of_a_durable_handle_is_what_was_asked_for_within_bounds() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    for (timeout, expected) in [(0, 60_000), (10_000, 10_000), (300_000, 300_000), (u32::MAX, 300_000)] {
        let flags = DurableFlags::empty();
        let asked = RequestContext::DurableHandleRequestV2 { timeout, flags, create_guid: CREATE };
        let answer = create(&mut client, "f", OplockLevel::Batch, &[asked]);
        assert_eq!(granted_ms(&answer), Some(expected));
        assert_eq!(client.close(answer.file_id()), NtStatus::SUCCESS);
    }
}

// MS-SMB2 3.3.5.9.6
// MS-SMB2 3.3.5.9.10
#[test]
fn a_dialect_before_three_does_not_know_the_second_version() {
    let world = SmbTestServer::in_memory();
    let mut client = world.dial(&Dial::with(Dialect::Smb210));
    assert!(durable_answer(&create(&mut client, "f", OplockLevel::Batch, &[v2(CREATE)])).is_none());
    let answer = create(&mut client, "g", OplockLevel::Batch, &[RequestContext::DurableHandleRequest]);
    assert_eq!(durable_answer(&answer), Some(ResponseContext::DurableHandle));
}

// MS-SMB2 3.3.5.9.6
// MS-SMB2 3.3.5.9.7
// MS-SMB2 3.3.5.9.10
// MS-SMB2 3.3.5.9.12
#[test]
fn durable_contexts_that_may_not_stand_together_are_refused() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = durable(&mut client, "f", v2(CREATE));
    client.hang_up();
    let mut old = world.dial(&Dial::with(Dialect::Smb210));
    let mut client = world.client();
    let (one, back) = (RequestContext::DurableHandleRequest, RequestContext::DurableHandleReconnect(id));
    let (two, back_two) = (v2(CREATE), reconnect_v2(id, CREATE));
    for wrong in [[one, two], [one, back_two], [back, two], [back, back_two], [two, back_two]] {
        for client in [&mut client, &mut old] {
            let refused = create(client, "f", OplockLevel::Batch, &wrong).status();
            assert_eq!(refused, NtStatus::INVALID_PARAMETER);
        }
    }
    // The refusals had no effect on it.
    assert_eq!(come_back(&mut client, "f", &[back_two]).status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.9.7
// MS-SMB2 3.3.7.1
#[test]
fn a_lost_connection_leaves_a_durable_handle_with_its_locks_and_its_oplock() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let old = durable(&mut client, "f", RequestContext::DurableHandleRequest);
    assert_eq!(client.write(old, 0, b"words"), NtStatus::SUCCESS);
    let exclusive = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    assert_eq!(lock(&mut client, old, exclusive), NtStatus::SUCCESS);
    client.hang_up();
    // Another ClientGuid may do it: version 1 identifies clients by their user.
    let mut client = world.dial(&Dial::elsewhere());
    assert_eq!(client.read(old, 0, 5).status(), NtStatus::FILE_CLOSED);
    let answer = come_back(&mut client, "anything", &[RequestContext::DurableHandleReconnect(old)]);
    let response = create::Response::parse(&answer.message).unwrap();
    assert_eq!(response.oplock_level, OplockLevel::Batch);
    assert_eq!((response.create_action, response.info.end_of_file), (CreateAction::Opened, 5));
    assert_eq!(durable_answer(&answer), None);
    let new = answer.file_id();
    assert_eq!(new.persistent, old.persistent);
    assert_ne!(new.volatile, old.volatile);
    assert_eq!(client.read(old, 0, 5).status(), NtStatus::FILE_CLOSED);
    assert_eq!(client.read(new, 0, 5).data(), b"words");
    assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(lock(&mut client, new, LockFlags::UNLOCK), NtStatus::RANGE_NOT_LOCKED);
    // The oplock belongs to the Open, and so does the notice.
    let mut other = world.client();
    let asked = OpenFile::named("f");
    other.start(SmbCommand::Create, |out| asked.write(out));
    let notice = client.notice().expect("a break");
    match smb_wire::oplock_break::Notification::parse(&notice.message).unwrap() {
        smb_wire::oplock_break::Notification::Oplock(broken) => assert_eq!(broken.file_id, new),
        other => panic!("{other:?}"),
    }
    assert_eq!(client.close(new), NtStatus::SUCCESS);
    assert_eq!(v1_back(&mut client, new), NOT_FOUND);
}

// MS-SMB2 3.3.5.9.7
#[test]
fn a_handle_that_is_in_use_is_not_taken_up_and_neither_is_another_users() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = durable(&mut client, "f", RequestContext::DurableHandleRequest);
    assert_eq!(v1_back(&mut client, id), NOT_FOUND);
    assert_eq!(v1_back(&mut world.client(), id), NOT_FOUND);
    client.hang_up();
    let mut bert = world.dial(&Dial { user: "bert".into(), ..Dial::default() });
    assert_eq!(v1_back(&mut bert, id), NtStatus::ACCESS_DENIED);
    let unknown = FileId { persistent: id.persistent + 1000, ..id };
    assert_eq!(v1_back(&mut world.client(), unknown), NOT_FOUND);
    assert_eq!(v1_back(&mut world.client(), id), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.9.7
#[test]
fn a_handle_under_a_lease_comes_back_to_its_client_its_lease_and_its_name() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let asked = [RequestContext::DurableHandleRequest, lease(KEY, ALL)];
    let id = create(&mut client, "f", OplockLevel::Lease, &asked).file_id();
    client.hang_up();
    let mut client = world.client();
    let back = RequestContext::DurableHandleReconnect(id);
    let other_key = lease(LeaseKey(*b"another clients'"), ALL);
    assert_eq!(come_back(&mut client, "f", &[back]).status(), NOT_FOUND);
    assert_eq!(come_back(&mut client, "f", &[back, other_key]).status(), NOT_FOUND);
    assert_eq!(come_back(&mut client, "f", &[back, lease_v2(KEY, ALL)]).status(), NOT_FOUND);
    let right = [back, lease(KEY, LeaseState::empty())];
    assert_eq!(come_back(&mut client, "g", &right).status(), NtStatus::INVALID_PARAMETER);
    let elsewhere = come_back(&mut world.dial(&Dial::elsewhere()), "f", &right);
    assert_eq!(elsewhere.status(), NOT_FOUND);
    let answer = come_back(&mut client, "F", &right);
    let response = create::Response::parse(&answer.message).unwrap();
    assert_eq!(response.oplock_level, OplockLevel::Lease);
    let held = response.contexts.responses().find_map(|context| match context.unwrap() {
        ResponseContext::Lease(lease) => Some((lease.key, lease.state)),
        _ => None,
    });
    assert_eq!(held, Some((KEY, ALL)));
    // An Open without a lease does not match a request with one.
    let plain = durable(&mut client, "h", RequestContext::DurableHandleRequest);
    client.hang_up();
    let wrong = [RequestContext::DurableHandleReconnect(plain), lease(KEY, ALL)];
    assert_eq!(come_back(&mut world.client(), "h", &wrong).status(), NOT_FOUND);
}

// MS-SMB2 3.3.5.9.12
#[test]
fn the_second_version_asks_for_the_create_that_made_the_handle() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = durable(&mut client, "f", v2(CREATE));
    client.hang_up();
    let mut client = world.client();
    let wrong = reconnect_v2(id, Guid(*b"another create's"));
    assert_eq!(come_back(&mut client, "f", &[wrong]).status(), NOT_FOUND);
    let flags = DurableFlags::PERSISTENT;
    let more = RequestContext::DurableHandleReconnectV2 { file_id: id, create_guid: CREATE, flags };
    assert_eq!(come_back(&mut client, "f", &[more]).status(), NtStatus::INVALID_PARAMETER);
    let answer = come_back(&mut client, "f", &[reconnect_v2(id, CREATE)]);
    assert_eq!((answer.status(), granted_ms(&answer)), (NtStatus::SUCCESS, None));
    assert_eq!(answer.file_id().persistent, id.persistent);
}

// MS-SMB2 3.3.6.2
#[test]
fn a_durable_handle_is_kept_for_its_time_and_then_closed() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let (short, flags) = (10_000, DurableFlags::empty());
    let asked = RequestContext::DurableHandleRequestV2 { timeout: short, flags, create_guid: CREATE };
    let first = durable(&mut client, "f", asked);
    let second = durable(&mut client, "g", RequestContext::DurableHandleRequest);
    client.hang_up();
    world.advance(9 * SECOND);
    let mut client = world.client();
    let answer = come_back(&mut client, "f", &[reconnect_v2(first, CREATE)]);
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    // A reconnected Open has no time limit. It gets a new one when it is detached again.
    world.advance(60 * SECOND);
    let first = answer.file_id();
    assert_eq!(client.write(first, 0, b"alive"), NtStatus::SUCCESS);
    client.hang_up();
    world.advance(9 * SECOND);
    assert_eq!(world.server.opens.len(), 2);
    world.advance(2 * SECOND);
    let mut client = world.client();
    assert_eq!(come_back(&mut client, "f", &[reconnect_v2(first, CREATE)]).status(), NOT_FOUND);
    assert_eq!(world.server.opens.len(), 1);
    world.advance(60 * SECOND);
    assert_eq!(v1_back(&mut client, second), NOT_FOUND);
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0));
}

// MS-SMB2 3.3.4.6
// MS-SMB2 3.3.4.7
#[test]
fn a_durable_handle_gives_way_to_who_conflicts_and_is_gone() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let batch = durable(&mut client, "f", RequestContext::DurableHandleRequest);
    let asked = [RequestContext::DurableHandleRequest, lease(KEY, ALL)];
    let leased = create(&mut client, "g", OplockLevel::Lease, &asked).file_id();
    client.hang_up();
    // This happens at once: there is not even an interim response.
    assert_eq!(is_free(&world, "f"), NtStatus::SUCCESS);
    assert_eq!(is_free(&world, "g"), NtStatus::SUCCESS);
    let mut client = world.client();
    assert_eq!(v1_back(&mut client, batch), NOT_FOUND);
    let back = [RequestContext::DurableHandleReconnect(leased), lease(KEY, ALL)];
    assert_eq!(come_back(&mut client, "g", &back).status(), NOT_FOUND);
    assert_eq!(world.server.opens.len(), 0);
}

// MS-SMB2 3.3.7.1
#[test]
fn a_handle_whose_oplock_is_being_broken_goes_with_its_connection() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = durable(&mut client, "f", RequestContext::DurableHandleRequest);
    let mut other = world.dial(&Dial::elsewhere());
    let asked = OpenFile::named("f");
    let waits = other.start(SmbCommand::Create, |out| asked.write(out));
    assert_eq!(other.answer(waits).unwrap().status(), NtStatus::PENDING);
    client.hang_up();
    assert_eq!(other.answer(waits).unwrap().status(), NtStatus::SUCCESS);
    assert_eq!(v1_back(&mut world.client(), id), NOT_FOUND);
}

// MS-SMB2 3.3.5.6
// MS-SMB2 3.3.5.8
// MS-SMB2 3.3.5.5.3
#[test]
fn logging_off_and_a_new_session_keep_handles_and_a_tree_disconnect_does_not() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = durable(&mut client, "f", RequestContext::DurableHandleRequest);
    assert_eq!(client.status(SmbCommand::Logoff, |out| logoff::Request.write(out)), NtStatus::SUCCESS);
    let mut client = world.client();
    let answer = come_back(&mut client, "f", &[RequestContext::DurableHandleReconnect(id)]);
    let id = answer.file_id();
    // The client names the session that the new one replaces, while that still has its connection.
    let previous_session_id = client.session_id;
    let mut again = world.dial(&Dial { previous_session_id, ..Dial::default() });
    let answer = come_back(&mut again, "f", &[RequestContext::DurableHandleReconnect(id)]);
    let id = answer.file_id();
    assert_eq!(make_resilient(&mut again, id, 1000), NtStatus::SUCCESS);
    assert_eq!(
        again.status(SmbCommand::TreeDisconnect, |out| tree_disconnect::Request.write(out)),
        NtStatus::SUCCESS
    );
    again.connect_tree(SHARE);
    assert_eq!(v1_back(&mut again, id), NOT_FOUND);
    assert_eq!(is_free(&world, "f"), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.7.1
#[test]
fn a_file_that_goes_with_its_handle_goes_when_that_is_over_and_not_before() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let asked = [RequestContext::DurableHandleRequest];
    let contexts = Contexts::Requests(&asked);
    let options = CreateOptions::DELETE_ON_CLOSE;
    let open = OpenFile { oplock: OplockLevel::Batch, options, contexts, ..OpenFile::named("f") };
    let id = client.create(&open).file_id();
    client.hang_up();
    let there = || world.root().join("f").exists();
    assert!(there());
    let mut client = world.client();
    let id = come_back(&mut client, "f", &[RequestContext::DurableHandleReconnect(id)]).file_id();
    client.hang_up();
    world.advance(119 * SECOND);
    assert!(there());
    world.advance(2 * SECOND);
    assert!(!there());
    assert_eq!(v1_back(&mut world.client(), id), NOT_FOUND);
}

// MS-SMB2 3.3.5.15.9
// MS-SMB2 3.3.6.4
#[test]
fn a_resilient_handle_makes_others_wait_for_its_time() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let id = create(&mut client, "f", OplockLevel::Batch, &[]).file_id();
    assert_eq!(control(&mut client, id, &[0; 7]), NtStatus::INVALID_PARAMETER);
    assert_eq!(make_resilient(&mut client, id, 300_001), NtStatus::INVALID_PARAMETER);
    assert_eq!(make_resilient(&mut client, id, 50_000), NtStatus::SUCCESS);
    client.hang_up();
    let mut other = world.dial(&Dial::elsewhere());
    let asked = OpenFile::named("f");
    let waits = other.start(SmbCommand::Create, |out| asked.write(out));
    assert_eq!(other.answer(waits).unwrap().status(), NtStatus::PENDING);
    world.advance(49 * SECOND);
    assert!(other.answer(waits).is_none());
    world.advance(2 * SECOND);
    assert_eq!(other.answer(waits).unwrap().status(), NtStatus::SUCCESS);
    assert_eq!(v1_back(&mut world.client(), id), NOT_FOUND);
}

// MS-SMB2 3.3.5.15.9
// MS-SMB2 3.3.5.9.7
#[test]
fn a_resilient_handle_comes_back_without_any_oplock_and_hears_of_breaks_then() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let plain = create(&mut client, "plain", OplockLevel::None, &[]).file_id();
    let batch = create(&mut client, "batch", OplockLevel::Batch, &[]).file_id();
    for id in [plain, batch] {
        assert_eq!(make_resilient(&mut client, id, 0), NtStatus::SUCCESS);
    }
    client.hang_up();
    assert_eq!(is_free(&world, "plain"), NtStatus::SHARING_VIOLATION);
    let mut other = world.dial(&Dial::elsewhere());
    let waits = other.start(SmbCommand::Create, |out| OpenFile::named("batch").write(out));
    assert_eq!(other.answer(waits).unwrap().status(), NtStatus::PENDING);
    world.advance(60 * SECOND);
    let mut client = world.client();
    assert_eq!(v1_back(&mut client, plain), NtStatus::SUCCESS);
    let answer = come_back(&mut client, "", &[RequestContext::DurableHandleReconnect(batch)]);
    assert!(client.notice().is_some());
    assert_eq!(client.close(answer.file_id()), NtStatus::SUCCESS);
    assert_eq!(other.answer(waits).unwrap().status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.15.9
#[test]
fn the_oldest_dialect_knows_no_resilient_handles() {
    let world = SmbTestServer::in_memory();
    let mut client = world.dial(&Dial::with(Dialect::Smb202));
    let id = client.open("f");
    assert_eq!(make_resilient(&mut client, id, 1000), NtStatus::INVALID_DEVICE_REQUEST);
    client.hang_up();
    assert_eq!(is_free(&world, "f"), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.7.1
#[test]
fn more_handles_than_a_share_keeps_are_closed() {
    let world = SmbTestServer::in_memory();
    world.engine.configure(share::Config {
        max_detached: 1,
        enforce: false,
        name: SHARE.into(),
        ..share::Config::default()
    });
    let mut client = world.client();
    let ids = ["f", "g"].map(|name| durable(&mut client, name, RequestContext::DurableHandleRequest));
    client.hang_up();
    assert_eq!(world.server.opens.len(), 1);
    let mut client = world.client();
    let back = ids.map(|id| v1_back(&mut client, id));
    assert_eq!(back.iter().filter(|&&status| status == NtStatus::SUCCESS).count(), 1);
}

#[test]
fn who_comes_back_while_the_disk_fails_can_come_back_again() {
    let (world, plan) = SmbTestServer::faulty();
    let mut client = world.client();
    let id = durable(&mut client, "f", v2(CREATE));
    client.hang_up();
    let (mut client, back) = (world.client(), [reconnect_v2(id, CREATE)]);
    plan.always(VolumeCall::Stat, Some(Failure::Io));
    assert_eq!(come_back(&mut client, "f", &back).status(), NtStatus::IO_DEVICE_ERROR);
    plan.always(VolumeCall::Stat, None);
    assert_eq!(come_back(&mut client, "f", &back).file_id().persistent, id.persistent);
}
