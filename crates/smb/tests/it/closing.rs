//! A CLOSE runs after the earlier requests of its client on the Open, whether they were answered or not
//! (MS-SMB2 3.3.5.10).

use std::time::Duration;

use smb_wire::create::ShareAccess;
use smb_wire::{FileId, NtStatus, SmbCommand, close, flush, read, write};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SmbTestServer};
use volume::faulty::{PlannedFault, VolumeCall};

const CONTENT: &[u8] = b"what the file holds";

/// A client with a file. Its work on the blocking pool is held back.
fn with_a_file(world: &SmbTestServer) -> (Peer, FileId) {
    let mut client = world.client();
    let file = client.open("file");
    assert_eq!(client.write(file, 0, CONTENT), NtStatus::SUCCESS);
    client.holds_jobs = true;
    (client, file)
}

fn start_read(client: &mut Peer, file: FileId) -> u64 {
    client.start(SmbCommand::Read, |out| read::Request::new(file, 0, 100).write(out))
}

fn start_close(client: &mut Peer, file_id: FileId) -> u64 {
    let flags = close::CloseFlags::empty();
    client.start(SmbCommand::Close, |out| close::Request { flags, file_id }.write(out))
}

#[test]
fn a_read_that_came_before_it_has_its_data() {
    let world = SmbTestServer::cold();
    let (mut client, file) = with_a_file(&world);
    let (first, second) = (start_read(&mut client, file), start_read(&mut client, file));
    let close = start_close(&mut client, file);
    client.run_job(0);
    assert_eq!(client.answer(first).expect("it is done").data(), CONTENT);
    // Clients take any reply to a CLOSE for the last one, so there is no interim response.
    assert!(client.answer(close).is_none());
    client.run_jobs();
    assert_eq!(client.answer(second).expect("it is done").data(), CONTENT);
    assert_eq!(client.answer(close).expect("nothing is left to wait for").status(), NtStatus::SUCCESS);
    assert_eq!(client.close(file), NtStatus::FILE_CLOSED);
}

#[test]
fn a_flush_that_came_before_it_is_done() {
    let world = SmbTestServer::in_memory();
    let (mut client, file_id) = with_a_file(&world);
    let flush = client.start(SmbCommand::Flush, |out| flush::Request { reserved1: 0, file_id }.write(out));
    let close = start_close(&mut client, file_id);
    assert!(client.answer(close).is_none());
    client.run_jobs();
    assert_eq!(client.answer(flush).expect("it is done").status(), NtStatus::SUCCESS);
    assert_eq!(client.answer(close).expect("nothing is left to wait for").status(), NtStatus::SUCCESS);
}

#[test]
fn a_change_on_another_channel_is_over_before() {
    let (world, plan) = SmbTestServer::faulty();
    let mut first = world.client();
    let mut second = world.bind(&Dial::default(), &first);
    let file = first.open("file");
    let late = first.message(SmbCommand::Write, |out| write::Request::new(file, 0, CONTENT).write(out));
    let late = first.compound(vec![late], false);
    std::thread::scope(|scope| {
        plan.add(VolumeCall::Write, 1, PlannedFault::Hold);
        let stuck = scope.spawn(first.delivery(late));
        let is_held = plan.wait_held(1, Duration::from_secs(60));
        let close = is_held.then(|| start_close(&mut second, file));
        let told = close.and_then(|close| second.answer(close));
        plan.release();
        stuck.join().expect("the server does not panic");
        assert!(told.is_none(), "it was not answered while the write was under way");
        let close = close.expect("the write has begun");
        assert_eq!(second.answer(close).expect("nothing is left to wait for").status(), NtStatus::SUCCESS);
    });
}

#[test]
fn it_does_not_wait_for_ever() {
    let world = SmbTestServer::cold();
    let (mut client, file) = with_a_file(&world);
    let read = start_read(&mut client, file);
    let close = start_close(&mut client, file);
    world.advance(Duration::from_secs(9));
    assert!(client.answer(close).is_none());
    world.advance(Duration::from_secs(1));
    assert_eq!(client.answer(close).expect("it waits no longer").status(), NtStatus::SUCCESS);
    client.run_jobs();
    assert_eq!(client.answer(read).expect("an answer").status(), NtStatus::FILE_CLOSED);
}

// MS-SMB2 3.3.4.17
#[test]
fn an_administrator_closes_an_open_and_its_client_learns_so_with_its_next_request() {
    let world = SmbTestServer::in_memory();
    let (mut client, mut other) = (world.client(), world.client());
    let file = client.open("file");
    let alone = OpenFile { share: ShareAccess::empty(), ..OpenFile::named("file") };
    assert_eq!(other.create(&alone).status(), NtStatus::SHARING_VIOLATION);
    assert!(!world.server.close_by_administrator(FileId { persistent: 0, ..file }, world.clock.time()));
    assert!(world.server.close_by_administrator(file, world.clock.time()));
    assert!(!world.server.close_by_administrator(file, world.clock.time()), "it is closed");
    assert_eq!(other.create(&alone).status(), NtStatus::SUCCESS);
    assert_eq!(client.write(file, 0, b"late"), NtStatus::FILE_CLOSED);
    assert_eq!(client.close(file), NtStatus::FILE_CLOSED);
    assert!(client.is_served());
}
