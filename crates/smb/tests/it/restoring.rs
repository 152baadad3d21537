//! Clients of a server that has not restored all handles from before its restart.

use smb_wire::create::{OplockLevel, ShareAccess};
use smb_wire::create_context::{Contexts, DurableFlags, RequestContext};
use smb_wire::lock::{self, LockElement, LockFlags};
use smb_wire::{FileId, Guid, NtStatus, SmbCommand, WireList};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::ReceivedMessage;
use testkit::smb::{Dial, Peer, Store};
use volume::Failure;
use volume::faulty::VolumeCall;

const HANDLES: u64 = 10_000;
/// The most calls of the store about names and attributes for a server's start, a log-on and a first CREATE.
/// A store that is far away takes 1.8 ms for each.
const MOST_CALLS: u64 = 30;

fn guid(number: u64) -> Guid {
    Guid((u128::from(number) + 1).to_le_bytes())
}

/// Asks for a persistent handle.
fn persistent(number: u64) -> RequestContext<'static> {
    RequestContext::DurableHandleRequestV2 {
        timeout: 0,
        flags: DurableFlags::PERSISTENT,
        create_guid: guid(number),
    }
}

fn create(client: &mut Peer, name: &str, asked: &[RequestContext<'static>]) -> ReceivedMessage {
    let contexts = Contexts::Requests(asked);
    let share = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
    client.create(&OpenFile { share, oplock: OplockLevel::None, contexts, ..OpenFile::named(name) })
}

fn lock(client: &mut Peer, file_id: FileId) -> NtStatus {
    let flags = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
    let elements = [LockElement { offset: 0, length: 5, flags }];
    client.status(SmbCommand::Lock, |out| {
        let locks = WireList::Values(&elements);
        lock::Request { lock_sequence_number: 0, lock_sequence_index: 0, file_id, locks }.write(out);
    })
}

// MS-SMB2 3.3.7.1
#[test]
fn ten_thousand_handles_do_not_delay_the_first_answer() {
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let mut ids = Vec::new();
    for number in 0..HANDLES {
        let asked = persistent(number);
        let id = create(&mut client, &format!("f{number}"), &[asked]).file_id();
        if number % 10 == 0 {
            assert_eq!(lock(&mut client, id), NtStatus::SUCCESS);
        }
        ids.push(id);
    }
    let (world, plan) = store.serve_faulty();
    let mut other = world.dial(&Dial::elsewhere());
    let made = create(&mut other, "new", &[]);
    assert_eq!(made.status(), NtStatus::SUCCESS);
    let calls = plan.metadata_calls();
    assert!(calls <= MOST_CALLS, "the first answer took {calls} calls of the store");
    // The first request for a file finds its handle. So does the first that names the handle.
    assert_eq!(create(&mut other, "f10", &[]).status(), NtStatus::FILE_NOT_AVAILABLE);
    let mut client = world.client();
    for number in [20, 21] {
        let before = plan.metadata_calls();
        let (file_id, create_guid) = (ids[number as usize], guid(number));
        let flags = DurableFlags::PERSISTENT;
        let asked = RequestContext::DurableHandleReconnectV2 { file_id, create_guid, flags };
        let back = create(&mut client, &format!("f{number}"), &[asked]);
        assert_eq!(back.status(), NtStatus::SUCCESS);
        let calls = plan.metadata_calls() - before;
        assert!(calls <= MOST_CALLS, "a reconnect took {calls} calls of the store");
        let beside = create(&mut other, &format!("f{number}"), &[]).file_id();
        let is_locked = lock(&mut other, beside) == NtStatus::LOCK_NOT_GRANTED;
        assert_eq!(is_locked, number == 20);
    }
    assert_eq!(world.engine.restored_count(), 1 + 3 + 2, "nothing else was restored");
    assert_eq!(world.engine.open_count() as u64, 1 + HANDLES + 2, "the others count all the same");
    world.engine.restore_all().unwrap();
    assert_eq!(world.engine.open_count() as u64, 1 + HANDLES + 2);
    assert_eq!(create(&mut other, "f9999", &[]).status(), NtStatus::FILE_NOT_AVAILABLE);
}

// MS-SMB2 3.3.5.9.10
#[test]
fn a_replay_and_a_second_create_with_its_guid_find_a_handle_that_is_not_restored() {
    let mut store = Store::new();
    let world = store.serve();
    create(&mut world.client(), "f", &[persistent(1)]);
    let world = store.serve();
    let mut client = world.client();
    let again = create(&mut client, "another", &[persistent(1)]);
    assert_eq!(again.status(), NtStatus::DUPLICATE_OBJECTID, "its client has an open with this CreateGuid");
    assert_eq!(create(&mut client, "another", &[persistent(2)]).status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.9.10, 3.3.5.9.12
#[test]
fn a_handle_whose_file_the_disk_fails_to_open_waits_for_its_client() {
    const APPLICATION: Guid = Guid([9; 16]);
    let mut store = Store::new();
    let world = store.serve();
    let mut client = world.client();
    let file_id =
        create(&mut client, "f", &[persistent(1), RequestContext::AppInstanceId(APPLICATION)]).file_id();
    assert_eq!(lock(&mut client, file_id), NtStatus::SUCCESS);
    let (world, plan) = store.serve_faulty();
    let (mut client, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let back = |client: &mut Peer| {
        let flags = DurableFlags::PERSISTENT;
        let asked = RequestContext::DurableHandleReconnectV2 { file_id, create_guid: guid(1), flags };
        create(client, "f", &[asked]).status()
    };
    plan.always(VolumeCall::OpenAgain, Some(Failure::Io));
    for _ in 0..3 {
        assert_eq!(back(&mut client), NtStatus::FILE_NOT_AVAILABLE);
        let again = create(&mut client, "f", &[persistent(1)]);
        assert_eq!(again.status(), NtStatus::FILE_NOT_AVAILABLE, "nobody knows what it made");
        assert_eq!(create(&mut other, "f", &[]).status(), NtStatus::IO_DEVICE_ERROR);
        let takes_over = [persistent(7), RequestContext::AppInstanceId(APPLICATION)];
        assert_eq!(create(&mut other, "g", &takes_over).status(), NtStatus::IO_DEVICE_ERROR);
    }
    assert_eq!(create(&mut other, "another", &[]).status(), NtStatus::SUCCESS);
    plan.always(VolumeCall::OpenAgain, None);
    assert_eq!(back(&mut client), NtStatus::SUCCESS);
    let beside = create(&mut other, "f", &[]).file_id();
    assert_eq!(lock(&mut other, beside), NtStatus::LOCK_NOT_GRANTED);
}
