//! Replays of CREATE, and applications that move to another machine (MS-SMB2 3.3.5.9, 3.3.5.9.10,
//! 3.3.5.9.13).

use smb_wire::create::{self, Access, CreateAction, CreateOptions, Disposition, OplockLevel, ShareAccess};
use smb_wire::create_context::{
    Contexts, DurableFlags, Lease, LeaseFlags, LeaseState, RequestContext, ResponseContext,
};
use smb_wire::header::Flags;
use smb_wire::negotiate::Dialect;
use smb_wire::oplock_break;
use smb_wire::{Guid, LeaseKey, NtStatus, SmbCommand};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::{ReceivedMessage, whole};
use testkit::smb::{Dial, Peer, SmbTestServer};
use volume::Failure;
use volume::faulty::{PlannedFault, VolumeCall};

const CREATE: Guid = Guid(*b"first of creates");
const OTHER_CREATE: Guid = Guid(*b"second of create");
const APPLICATION: Guid = Guid(*b"some application");
const KEY: LeaseKey = LeaseKey(*b"the client's key");

type StaticContext = RequestContext<'static>;

fn v2(create_guid: Guid) -> StaticContext {
    RequestContext::DurableHandleRequestV2 { timeout: 90_000, flags: DurableFlags::empty(), create_guid }
}

fn lease(key: LeaseKey) -> StaticContext {
    let state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    RequestContext::Lease(Lease { key, state, flags: LeaseFlags::empty(), v2: None })
}

/// An exclusive CREATE of a new file, so that a second execution shows.
fn makes<'a>(name: &'a str, oplock: OplockLevel, contexts: &'a [StaticContext]) -> OpenFile<'a> {
    OpenFile {
        share: ShareAccess::empty(),
        disposition: Disposition::Create,
        oplock,
        contexts: Contexts::Requests(contexts),
        ..OpenFile::named(name)
    }
}

/// Sends a CREATE again and returns its message id.
fn send_again(client: &mut Peer, open: &OpenFile<'_>) -> u64 {
    let mut header = client.header(SmbCommand::Create);
    header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
    client.send(whole(&header, |out| open.write(out)))
}

fn again(client: &mut Peer, open: &OpenFile<'_>) -> ReceivedMessage {
    let id = send_again(client, open);
    client.answer(id).expect("an answer to CREATE")
}

/// The fields of a CREATE response, except times.
fn said(answer: &ReceivedMessage) -> (u64, u64, OplockLevel, CreateAction, Option<u32>) {
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    let response = create::Response::parse(&answer.message).expect("a CREATE response");
    let timeout = response.contexts.responses().find_map(|context| match context.expect("a context") {
        ResponseContext::DurableHandleV2 { timeout, .. } => Some(timeout),
        _ => None,
    });
    let id = response.file_id;
    (id.persistent, id.volatile, response.oplock_level, response.create_action, timeout)
}

// MS-SMB2 3.3.5.9
#[test]
fn a_replayed_create_is_answered_from_its_open_with_or_without_durability() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    for (name, oplock, guid, durable) in [
        ("plain", OplockLevel::None, CREATE, None),
        ("batch", OplockLevel::Batch, OTHER_CREATE, Some(90_000)),
    ] {
        let asked = [v2(guid)];
        let open = makes(name, oplock, &asked);
        let first = said(&client.create(&open));
        assert_eq!((first.2, first.3, first.4), (oplock, CreateAction::Created, durable));
        assert_eq!(said(&again(&mut client, &open)), first);
        assert_eq!(said(&again(&mut client, &open)), first);
    }
    assert_eq!(world.server.opens.len(), 2);
    assert!(client.notice().is_none());
}

// MS-SMB2 3.3.5.9.10
#[test]
fn a_name_is_not_given_to_two_creates() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let asked = [v2(CREATE)];
    let open = makes("f", OplockLevel::Batch, &asked);
    let first = client.create(&open).file_id();
    let other = makes("g", OplockLevel::Batch, &asked);
    assert_eq!(client.create(&other).status(), NtStatus::DUPLICATE_OBJECTID);
    // Another client's CreateGuid is independent.
    let mut elsewhere = world.dial(&Dial::elsewhere());
    assert_eq!(elsewhere.create(&other).status(), NtStatus::SUCCESS);
    // After the close, the CreateGuid is free.
    assert_eq!(client.close(first), NtStatus::SUCCESS);
    assert_eq!(client.create(&makes("h", OplockLevel::Batch, &asked)).status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.11 to 3.3.5.22
#[test]
fn a_create_whose_open_was_used_is_no_longer_replayed() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let asked = [v2(CREATE)];
    let open = makes("f", OplockLevel::None, &asked);
    let id = client.create(&open).file_id();
    assert_eq!(client.write(id, 0, b"used"), NtStatus::SUCCESS);
    assert_eq!(again(&mut client, &open).status(), NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(client.read(id, 0, 4).data(), b"used");
}

// MS-SMB2 3.3.5.9
#[test]
fn a_replayed_create_finds_its_open_after_its_session_is_gone() {
    let world = SmbTestServer::in_memory();
    let mut first = world.client();
    let asked = [v2(CREATE)];
    let open = makes("f", OplockLevel::Batch, &asked);
    let made = said(&first.create(&open));
    first.hang_up();
    // Neither another user nor another client finds it.
    let mut elsewhere = world.dial(&Dial::elsewhere());
    assert_eq!(again(&mut elsewhere, &open).status(), NtStatus::OBJECT_NAME_COLLISION);
    let mut second = world.client();
    let found = again(&mut second, &open);
    let (id, told) = (found.file_id(), said(&found));
    assert_eq!((told.0, told.2, told.3, told.4), (made.0, made.2, made.3, made.4));
    assert_ne!(told.1, made.1, "a volatile id of the new session");
    assert_eq!(said(&again(&mut second, &open)), told, "once more, as long as it is not used");
    assert_eq!(second.write(id, 0, b"used"), NtStatus::SUCCESS);
    assert_eq!(again(&mut second, &open).status(), NtStatus::OBJECT_NAME_COLLISION);
    assert_eq!(world.server.opens.len(), 1);
}

// MS-SMB2 3.3.5.2.10
// MS-SMB2 3.3.5.22.2
#[test]
fn a_create_whose_lease_was_given_back_is_no_longer_replayed() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let asked = [v2(CREATE), lease(KEY)];
    let open = OpenFile {
        disposition: Disposition::OpenIf,
        share: OpenFile::named("f").share,
        ..makes("f", OplockLevel::Lease, &asked)
    };
    let first = said(&client.create(&open));
    assert_eq!(said(&again(&mut client, &open)).0, first.0);
    // Another client writes, and that breaks the right to read.
    let mut other = world.dial(&Dial::elsewhere());
    let file = other.open("f");
    assert_eq!(other.write(file, 0, b"new"), NtStatus::SUCCESS);
    assert!(client.notice().is_some());
    assert_eq!(said(&again(&mut client, &open)).0, first.0);
    let given = oplock_break::AcknowledgedLease { key: KEY, state: LeaseState::empty() };
    let answer = |out: &mut Vec<u8>| oplock_break::Request::Lease(given).write(out);
    assert_eq!(client.status(SmbCommand::OplockBreak, answer), NtStatus::SUCCESS);
    let next = said(&again(&mut client, &open));
    assert_ne!(next.0, first.0);
    // The break was not sent again. But any acknowledgment shows that the CREATE was answered.
    assert_eq!(client.status(SmbCommand::OplockBreak, answer), NtStatus::UNSUCCESSFUL);
    assert_ne!(said(&again(&mut client, &open)).0, next.0);
}

#[test]
fn a_create_that_comes_after_its_replay_does_nothing() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let asked = [v2(CREATE)];
    let open = makes("once", OplockLevel::None, &asked);
    // The first copy is still on its way on a lost channel.
    let replayed = again(&mut client, &open);
    let made = said(&replayed);
    assert_eq!(made.3, CreateAction::Created);
    assert_eq!(client.create(&open).status(), NtStatus::DUPLICATE_OBJECTID);
    // It is refused even after its Open has ended.
    client.close(replayed.file_id());
    let deletes = OpenFile {
        options: CreateOptions::DELETE_ON_CLOSE,
        access: Access::DELETE,
        ..OpenFile::named("once")
    };
    let deleted = client.create(&deletes);
    client.close(deleted.file_id());
    assert_eq!(client.create(&open).status(), NtStatus::DUPLICATE_OBJECTID);
    let looked = client.create(&OpenFile { disposition: Disposition::Open, ..OpenFile::named("once") });
    assert_eq!(looked.status(), NtStatus::OBJECT_NAME_NOT_FOUND);
    // Another client's CreateGuids are independent.
    let mut other = world.dial(&Dial::elsewhere());
    assert_eq!(other.create(&open).status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.2.10
#[test]
fn a_new_session_counts_its_sequences_from_its_own_beginning() {
    let world = SmbTestServer::in_memory();
    let asked = [v2(CREATE)];
    let open = OpenFile { disposition: Disposition::OpenIf, ..makes("once", OplockLevel::None, &asked) };
    let replay = |client: &mut Peer, sequence| {
        let mut header = client.header(SmbCommand::Create);
        header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
        header.set_channel_sequence(sequence);
        let id = client.send(whole(&header, |out| open.write(out)));
        client.answer(id).expect("an answer to CREATE")
    };
    let mut lost = world.client();
    let made = replay(&mut lost, 5).file_id();
    lost.close(made);
    assert_eq!(replay(&mut lost, 4).status(), NtStatus::DUPLICATE_OBJECTID);
    lost.hang_up();
    let mut next = world.client();
    assert_eq!(replay(&mut next, 0).status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.9
#[test]
fn a_replay_that_differs_has_its_own_status_and_changes_nothing() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let asked = [v2(CREATE), lease(KEY)];
    let open = makes("f", OplockLevel::Lease, &asked);
    let first = said(&client.create(&open));
    // A different lease, in either direction.
    let other_key = [v2(CREATE), lease(LeaseKey(*b"another of its's"))];
    let differs = makes("f", OplockLevel::Lease, &other_key);
    assert_eq!(again(&mut client, &differs).status(), NtStatus::ACCESS_DENIED);
    let none = [v2(CREATE)];
    assert_eq!(again(&mut client, &makes("f", OplockLevel::Batch, &none)).status(), NtStatus::ACCESS_DENIED);
    // A different user, and a different session.
    let mut bert = world.dial(&Dial { user: "bert".into(), ..Dial::default() });
    assert_eq!(again(&mut bert, &open).status(), NtStatus::ACCESS_DENIED);
    assert_eq!(again(&mut world.client(), &open).status(), NtStatus::DUPLICATE_OBJECTID);
    // Other differences do not count: the response is that of the first CREATE.
    let elsewhere = OpenFile { share: ShareAccess::READ, ..makes("g", OplockLevel::Lease, &asked) };
    assert_eq!(said(&again(&mut client, &elsewhere)), first);
    assert_eq!(said(&again(&mut client, &open)), first);
    assert_eq!(world.server.opens.len(), 1);
    let missing = OpenFile { disposition: Disposition::Open, ..OpenFile::named("g") };
    assert_eq!(client.create(&missing).status(), NtStatus::OBJECT_NAME_NOT_FOUND);
}

// MS-SMB2 3.3.5.9.10
#[test]
fn a_replay_that_asks_for_less_is_answered_so_and_takes_nothing_away() {
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let asked = [v2(CREATE)];
    let batch = makes("f", OplockLevel::Batch, &asked);
    let first = said(&client.create(&batch));
    let less = said(&again(&mut client, &makes("f", OplockLevel::None, &asked)));
    assert_eq!((less.0, less.2, less.4), (first.0, OplockLevel::None, None));
    assert_eq!(said(&again(&mut client, &batch)), first);
    // The response has no more than the actual level either.
    let asked = [v2(OTHER_CREATE)];
    let none = makes("g", OplockLevel::None, &asked);
    let first = said(&client.create(&none));
    assert_eq!(said(&again(&mut client, &makes("g", OplockLevel::Batch, &asked))), first);
}

// MS-SMB2 3.3.5.9.10
#[test]
fn a_create_under_way_has_its_name_until_it_is_done_or_taken_back() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.dial(&Dial::elsewhere());
    let held = holder.create(&OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("f") }).file_id();
    let mut client = world.client();
    let asked = [v2(CREATE)];
    let open = OpenFile { contexts: Contexts::Requests(&asked), ..OpenFile::named("f") };
    let waits = client.start(SmbCommand::Create, |out| open.write(out));
    assert_eq!(client.answer(waits).unwrap().status(), NtStatus::PENDING);
    assert_eq!(again(&mut client, &open).status(), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(client.create(&open).status(), NtStatus::DUPLICATE_OBJECTID);
    // It is cancelled, and the next CREATE with the same key starts anew.
    let mut header = client.header(SmbCommand::Cancel);
    header.set_message_id(waits);
    client.deliver(signed(&client, whole(&header, |out| smb_wire::cancel::Request.write(out))));
    assert_eq!(client.answer(waits).unwrap().status(), NtStatus::CANCELLED);
    let waits = send_again(&mut client, &open);
    assert_eq!(client.answer(waits).unwrap().status(), NtStatus::PENDING);
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    let first = said(&client.answer(waits).unwrap());
    assert_eq!(said(&again(&mut client, &open)), first);
}

#[test]
fn the_name_of_a_create_that_ends_early_is_not_the_next_ones_in_its_compound() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.dial(&Dial::elsewhere());
    let held = holder.create(&OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("f") }).file_id();
    let mut client = world.client();
    let mut second = world.bind(&Dial::default(), &client);
    let left = client.tree_id;
    client.connect_tree(testkit::smb::SHARE);
    let kept = client.tree_id;
    let (first, taken) = ([v2(CREATE)], [v2(Guid(*b"another of these"))]);
    assert_eq!(client.create(&makes("made", OplockLevel::None, &taken)).status(), NtStatus::SUCCESS);
    client.tree_id = left;
    let waits = OpenFile { contexts: Contexts::Requests(&first), ..OpenFile::named("f") };
    let waits = client.message(SmbCommand::Create, |out| waits.write(out));
    client.tree_id = kept;
    let behind = makes("new", OplockLevel::None, &taken);
    let behind = client.message(SmbCommand::Create, |out| behind.write(out));
    let frame = client.compound(vec![waits, behind], false);
    client.deliver(frame);
    assert_eq!(client.next().map(|answer| answer.status()), Some(NtStatus::PENDING), "the first one waits");
    assert!(client.next().is_none());
    second.tree_id = left;
    let leaves = |out: &mut Vec<u8>| smb_wire::tree_disconnect::Request.write(out);
    assert_eq!(second.status(SmbCommand::TreeDisconnect, leaves), NtStatus::SUCCESS);
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    let statuses: Vec<NtStatus> =
        std::iter::from_fn(|| client.next()).map(|answer| answer.status()).collect();
    assert_eq!(statuses, [NtStatus::NETWORK_NAME_DELETED, NtStatus::DUPLICATE_OBJECTID]);
}

fn signed(client: &Peer, mut message: Vec<u8>) -> Vec<u8> {
    client.sign(&mut message);
    message
}

// MS-SMB2 3.3.7.1
#[test]
fn a_create_under_way_goes_with_its_connection() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.dial(&Dial::elsewhere());
    let held = holder.create(&OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("f") }).file_id();
    let mut client = world.client();
    let asked = [v2(CREATE)];
    let open = OpenFile { contexts: Contexts::Requests(&asked), ..OpenFile::named("f") };
    let waits = client.start(SmbCommand::Create, |out| open.write(out));
    assert_eq!(client.answer(waits).unwrap().status(), NtStatus::PENDING);
    client.hang_up();
    let mut client = world.client();
    let waits = send_again(&mut client, &open);
    assert_eq!(client.answer(waits).unwrap().status(), NtStatus::PENDING);
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    assert_eq!(client.answer(waits).unwrap().status(), NtStatus::SUCCESS);
    assert_eq!(world.server.opens.len(), 1);
}

// MS-SMB2 3.3.5.9.13
#[test]
fn the_next_instance_of_an_application_takes_the_place_of_the_one_before() {
    let world = SmbTestServer::in_memory();
    let mut old = world.client();
    let asked = [v2(CREATE), RequestContext::AppInstanceId(APPLICATION)];
    let open = OpenFile { disposition: Disposition::OpenIf, ..makes("f", OplockLevel::Batch, &asked) };
    let id = old.create(&open).file_id();
    // The same client's CREATE is not another instance.
    let other = [v2(OTHER_CREATE), RequestContext::AppInstanceId(APPLICATION)];
    let same = OpenFile { contexts: Contexts::Requests(&other), oplock: OplockLevel::None, ..open };
    old.start(SmbCommand::Create, |out| same.write(out));
    assert!(old.notice().is_some());
    assert_eq!(old.read(id, 0, 1).status(), NtStatus::END_OF_FILE);
    // An instance of another file is not either.
    let mut new = world.dial(&Dial::elsewhere());
    assert_eq!(new.create(&OpenFile { name: "g", ..open }).status(), NtStatus::SUCCESS);
    assert_eq!(old.read(id, 0, 1).status(), NtStatus::END_OF_FILE);
    let own = [v2(OTHER_CREATE), RequestContext::AppInstanceId(APPLICATION)];
    let takes = OpenFile { contexts: Contexts::Requests(&own), ..open };
    assert_eq!(said(&new.create(&takes)).2, OplockLevel::Batch);
    assert_eq!(old.read(id, 0, 1).status(), NtStatus::FILE_CLOSED);
    assert!(old.notice().is_none());
}

// MS-SMB2 3.3.5.9.13
#[test]
fn an_older_instance_does_not_take_the_place_of_a_newer_one() {
    let world = SmbTestServer::in_memory();
    let asked = |version: Option<(u64, u64)>| {
        let version = version.map(|(high, low)| RequestContext::AppInstanceVersion { high, low });
        let mut asked = vec![RequestContext::AppInstanceId(APPLICATION)];
        asked.extend(version);
        asked
    };
    let open = |client: &mut Peer, version| {
        let asked = asked(version);
        let open = OpenFile { disposition: Disposition::OpenIf, ..makes("f", OplockLevel::None, &asked) };
        client.create(&open).status()
    };
    let (mut one, mut two) = (world.client(), world.dial(&Dial::elsewhere()));
    assert_eq!(open(&mut one, Some((5, 5))), NtStatus::SUCCESS);
    for older in [Some((4, 9)), Some((5, 4)), Some((5, 5)), None] {
        assert_eq!(open(&mut two, older), NtStatus::FILE_FORCED_CLOSED);
    }
    assert_eq!(world.server.opens.len(), 1);
    assert_eq!(open(&mut two, Some((5, 6))), NtStatus::SUCCESS);
    assert_eq!(open(&mut one, Some((6, 0))), NtStatus::SUCCESS);
    assert_eq!(world.server.opens.len(), 1);
    // A dialect without versions cannot say which one is newer, and a dialect without instances replaces
    // none.
    let mut three = world.dial(&Dial::with(Dialect::Smb302));
    assert_eq!(open(&mut three, Some((7, 0))), NtStatus::FILE_FORCED_CLOSED);
    let mut four = world.dial(&Dial::with(Dialect::Smb210));
    assert_eq!(open(&mut four, Some((7, 0))), NtStatus::SHARING_VIOLATION);
}

// MS-SMB2 3.3.5.9.13
#[test]
fn a_detached_open_of_an_earlier_instance_is_closed_too() {
    let world = SmbTestServer::in_memory();
    let mut old = world.client();
    let asked = [v2(CREATE), RequestContext::AppInstanceId(APPLICATION), lease(KEY)];
    let open = OpenFile { disposition: Disposition::OpenIf, ..makes("f", OplockLevel::Lease, &asked) };
    assert_eq!(old.create(&open).status(), NtStatus::SUCCESS);
    old.hang_up();
    let mut new = world.dial(&Dial::elsewhere());
    assert_eq!(new.create(&open).status(), NtStatus::SUCCESS);
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (1, 1));
}

// MS-SMB2 3.3.5.9
#[test]
fn a_create_whose_channel_is_lost_is_replayed_on_another() {
    let world = SmbTestServer::in_memory();
    let mut main = world.client();
    let mut second = world.bind(&Dial::default(), &main);
    let asked = [v2(CREATE), lease(KEY)];
    let open = makes("f", OplockLevel::Lease, &asked);
    // The same as with a response that was lost with the channel.
    let first = said(&main.create(&open));
    main.hang_up();
    assert_eq!(said(&again(&mut second, &open)), first);
    // Different contents are refused, and change nothing.
    let other_key = [v2(CREATE), lease(LeaseKey(*b"another of its's"))];
    let differs = makes("f", OplockLevel::Lease, &other_key);
    assert_eq!(again(&mut second, &differs).status(), NtStatus::ACCESS_DENIED);
    assert_eq!(said(&again(&mut second, &open)), first);
    assert_eq!(world.server.opens.len(), 1);
    let id = smb_wire::FileId { persistent: first.0, volatile: first.1 };
    assert_eq!(second.write(id, 0, b"goes on"), NtStatus::SUCCESS);
    assert_eq!(second.close(id), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.7.1
#[test]
fn a_create_under_way_on_a_lost_channel_keeps_its_name_while_it_would_wait() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.dial(&Dial::elsewhere());
    let held = holder.create(&OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("f") }).file_id();
    let mut main = world.client();
    let mut second = world.bind(&Dial::default(), &main);
    let asked = [v2(CREATE)];
    let open = OpenFile { contexts: Contexts::Requests(&asked), ..OpenFile::named("f") };
    let waits = main.start(SmbCommand::Create, |out| open.write(out));
    assert_eq!(main.answer(waits).unwrap().status(), NtStatus::PENDING);
    main.hang_up();
    assert_eq!(again(&mut second, &open).status(), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    let first = said(&again(&mut second, &open));
    assert_eq!(said(&again(&mut second, &open)), first);
    assert_eq!(world.server.opens.len(), 1);
}

// With the status of a failing disk the client would give up an Open that exists.
#[test]
fn a_create_that_is_replayed_while_the_disk_fails_is_to_be_tried_again() {
    let (world, plan) = SmbTestServer::faulty();
    let mut client = world.client();
    let asked = [v2(CREATE)];
    let open = makes("f", OplockLevel::Batch, &asked);
    let first = said(&client.create(&open));
    plan.always(VolumeCall::Stat, Some(Failure::Io));
    assert_eq!(again(&mut client, &open).status(), NtStatus::FILE_NOT_AVAILABLE);
    plan.always(VolumeCall::Stat, None);
    assert_eq!(said(&again(&mut client, &open)), first);
}

#[test]
fn a_create_that_fails_at_any_call_leaves_nothing_open() {
    for call in
        [VolumeCall::Create, VolumeCall::Stat, VolumeCall::Note, VolumeCall::Lookup, VolumeCall::OpenAgain]
    {
        let (mut failed, mut nth) = (0, 1);
        loop {
            let (world, plan) = SmbTestServer::faulty();
            let mut client = world.client();
            plan.add(call, nth, PlannedFault::Fail(Failure::Io));
            let status = client.create(&makes("f", OplockLevel::Batch, &[])).status();
            if plan.met().is_empty() {
                assert_eq!(status, NtStatus::SUCCESS);
                break;
            }
            if status != NtStatus::SUCCESS {
                failed += 1;
                assert_eq!((status, world.engine.open_count()), (NtStatus::IO_DEVICE_ERROR, 0));
                let alone = OpenFile { share: ShareAccess::empty(), ..OpenFile::named("f") };
                assert_eq!(client.create(&alone).status(), NtStatus::SUCCESS, "{call:?} {nth}");
            }
            nth += 1;
        }
        assert!(
            failed > 0 || !matches!(call, VolumeCall::Create | VolumeCall::Stat),
            "{call:?} fails a CREATE"
        );
    }
}
