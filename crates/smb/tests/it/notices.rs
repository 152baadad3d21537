//! Break notices: the connection on which a client gets one, and the fate of one that does not arrive.

use std::time::Duration;

use smb_wire::create::{self, OplockLevel};
use smb_wire::create_context::{Contexts, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext};
use smb_wire::flush;
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::oplock_break::{self, Notification};
use smb_wire::{FileId, LeaseKey, NtStatus, SmbCommand};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, SmbTestServer};

/// Longer than a client's host may take before a notice goes to another connection.
const LATE: Duration = Duration::from_millis(2_100);
/// Together with [`LATE`], longer than it may take before the connection is closed.
const SILENT: Duration = Duration::from_millis(8_000);

/// Opens a file with a lease with all rights.
fn lease(client: &mut Peer, name: &str, key: LeaseKey) {
    let all = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
    let asked = [RequestContext::Lease(Lease { key, state: all, flags: LeaseFlags::empty(), v2: None })];
    let contexts = Contexts::Requests(&asked);
    let answer = client.create(&OpenFile { oplock: OplockLevel::Lease, contexts, ..OpenFile::named(name) });
    assert_eq!(create::Response::parse(&answer.message).unwrap().oplock_level, OplockLevel::Lease);
}

/// Opens a file on which another client has a lease. Returns the message id.
fn disturb(opener: &mut Peer, name: &str) -> u64 {
    opener.start(SmbCommand::Create, |out| OpenFile::named(name).write(out))
}

/// Whether the open has succeeded.
fn is_open(opener: &mut Peer, id: u64) -> bool {
    loop {
        match opener.answer(id).map(|answer| answer.status()) {
            Some(NtStatus::SUCCESS) => return true,
            Some(NtStatus::PENDING) => {}
            Some(status) => panic!("{status}"),
            None => return false,
        }
    }
}

/// The lease whose break the client gets.
fn told(client: &mut Peer) -> Option<LeaseKey> {
    let notice = client.notice()?;
    let Notification::Lease { key, .. } = Notification::parse(&notice.message).unwrap() else {
        panic!("not a lease's break")
    };
    assert!(client.notice().is_none(), "one notice");
    Some(key)
}

/// Acknowledges a break.
fn give_back(client: &mut Peer, key: LeaseKey) -> NtStatus {
    let state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    let lease = oplock_break::AcknowledgedLease { key, state };
    client.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Lease(lease).write(out))
}

const KEY: LeaseKey = LeaseKey([7; 16]);
const OTHER: LeaseKey = LeaseKey([8; 16]);

/// Two connections of one client that holds a lease through the second one, and a client that conflicts with
/// it.
fn two_ways(world: &SmbTestServer) -> (Peer, Peer, Peer, u64) {
    let (first, mut second) = (world.client(), world.client());
    lease(&mut second, "file", KEY);
    let mut opener = world.dial(&Dial::elsewhere());
    let id = disturb(&mut opener, "file");
    assert!(!is_open(&mut opener, id));
    (first, second, opener, id)
}

// MS-SMB2 3.3.4.7
#[test]
fn a_notice_takes_the_first_connection_and_no_other_while_that_works() {
    let world = SmbTestServer::in_memory();
    let (mut first, mut second, mut opener, id) = two_ways(&world);
    assert_eq!(told(&mut first), Some(KEY));
    world.advance(LATE);
    first.answer_receipts(true);
    world.advance(SILENT);
    first.answer_receipts(true);
    assert!(told(&mut first).is_none() && told(&mut second).is_none() && !first.is_closed);
    // The acknowledgment may come on any connection.
    assert_eq!(give_back(&mut second, KEY), NtStatus::SUCCESS);
    assert!(is_open(&mut opener, id));
}

#[test]
fn a_notice_is_sent_before_the_answer_to_what_caused_it_and_nothing_else_is() {
    let world = SmbTestServer::in_memory();
    let (mut holder, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let file = other.open("file");
    let asked = [lease_of(KEY)];
    let contexts = Contexts::Requests(&asked);
    holder.create(&OpenFile { oplock: OplockLevel::Lease, contexts, ..OpenFile::named("file") });
    assert_eq!(other.write(file, 0, b"content"), NtStatus::SUCCESS);
    assert_eq!(told(&mut holder), Some(KEY));
    assert_eq!((holder.told_ahead(), other.told_ahead()), (1, 0));
}

// MS-SMB2 3.3.4.7
#[test]
fn a_notice_that_does_not_arrive_goes_to_the_next_connection_once() {
    let world = SmbTestServer::in_memory();
    let (mut first, mut second, mut opener, id) = two_ways(&world);
    assert_eq!(told(&mut first), Some(KEY));
    assert!(told(&mut second).is_none());
    world.advance(LATE);
    first.answer_receipts(false);
    assert_eq!(told(&mut second), Some(KEY));
    // A connection that may be deaf comes last from now on, and is closed if nothing arrives for longer.
    let next = lease_and_disturb(&world, &mut second, &mut opener);
    assert!(told(&mut first).is_none());
    assert_eq!(told(&mut second), Some(OTHER));
    world.advance(SILENT);
    first.answer_receipts(false);
    assert!(first.is_closed);
    second.answer_receipts(true);
    assert!(told(&mut second).is_none() && !second.is_closed);
    assert_eq!(give_back(&mut second, KEY), NtStatus::SUCCESS);
    assert_eq!(give_back(&mut second, OTHER), NtStatus::SUCCESS);
    assert!(is_open(&mut opener, id) && is_open(&mut opener, next));
}

/// The same again with another file. Returns the message id of the open.
fn lease_and_disturb(world: &SmbTestServer, holder: &mut Peer, opener: &mut Peer) -> u64 {
    lease(holder, "another", OTHER);
    let id = disturb(opener, "another");
    assert!(!is_open(opener, id));
    assert_eq!(world.engine.open_count(), 2);
    id
}

#[test]
fn a_connection_that_is_heard_of_again_comes_first_again() {
    let world = SmbTestServer::in_memory();
    let (mut first, mut second, mut opener, _) = two_ways(&world);
    assert_eq!(told(&mut first), Some(KEY));
    world.advance(LATE);
    first.answer_receipts(false);
    assert_eq!(told(&mut second), Some(KEY));
    assert!(first.is_served());
    lease_and_disturb(&world, &mut second, &mut opener);
    assert_eq!(told(&mut first), Some(OTHER));
    assert!(told(&mut second).is_none());
}

#[test]
fn a_notice_is_not_lost_with_its_connection() {
    for is_sent in [true, false] {
        let world = SmbTestServer::in_memory();
        let (mut first, mut second, mut opener, id) = two_ways(&world);
        if is_sent {
            assert_eq!(told(&mut first), Some(KEY));
        }
        first.hang_up();
        assert_eq!(told(&mut second), Some(KEY));
        assert_eq!(give_back(&mut second, KEY), NtStatus::SUCCESS);
        assert!(is_open(&mut opener, id));
    }
}

// A reset drops bytes that the client's host has acknowledged and the client has not read.
#[test]
fn a_notice_that_has_arrived_goes_on_when_its_connection_ends_soon() {
    for is_soon in [true, false] {
        let world = SmbTestServer::in_memory();
        let (mut first, mut second, mut opener, id) = two_ways(&world);
        assert_eq!(told(&mut first), Some(KEY));
        world.advance(LATE);
        first.answer_receipts(true);
        if !is_soon {
            world.advance(SILENT);
            first.answer_receipts(true);
        }
        assert!(told(&mut second).is_none());
        first.hang_up();
        assert_eq!(told(&mut second), is_soon.then_some(KEY));
        assert_eq!(give_back(&mut second, KEY), NtStatus::SUCCESS);
        assert!(is_open(&mut opener, id));
    }
}

#[test]
fn an_answered_notice_is_not_sent_again() {
    let world = SmbTestServer::in_memory();
    let (mut first, mut second, mut opener, id) = two_ways(&world);
    assert_eq!(told(&mut first), Some(KEY));
    assert_eq!(give_back(&mut first, KEY), NtStatus::SUCCESS);
    assert!(is_open(&mut opener, id));
    // The response to the acknowledgment is still on its way.
    world.advance(LATE);
    first.answer_receipts(false);
    first.hang_up();
    assert!(told(&mut second).is_none());
}

#[test]
fn the_only_connection_is_given_up_when_its_host_stays_silent() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.client();
    lease(&mut holder, "file", KEY);
    let mut opener = world.dial(&Dial::elsewhere());
    let id = disturb(&mut opener, "file");
    assert_eq!(told(&mut holder), Some(KEY));
    world.advance(LATE);
    holder.answer_receipts(false);
    // The bytes may still arrive.
    assert!(!is_open(&mut opener, id) && !holder.is_closed && told(&mut holder).is_none());
    world.advance(SILENT);
    holder.answer_receipts(false);
    assert!(holder.is_closed && !is_open(&mut opener, id));
    holder.hang_up();
    assert!(is_open(&mut opener, id));
    assert_eq!(world.server.opens.len(), 1);
}

#[test]
fn a_notice_that_arrived_late_leaves_its_connection_alone() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.client();
    lease(&mut holder, "file", KEY);
    let mut opener = world.dial(&Dial::elsewhere());
    let id = disturb(&mut opener, "file");
    world.advance(LATE);
    holder.answer_receipts(false);
    world.advance(SILENT);
    holder.answer_receipts(true);
    assert_eq!(told(&mut holder), Some(KEY));
    assert_eq!(give_back(&mut holder, KEY), NtStatus::SUCCESS);
    assert!(is_open(&mut opener, id) && !holder.is_closed && holder.is_served());
}

#[test]
fn a_stranger_with_the_clients_guid_hears_of_nothing() {
    let world = SmbTestServer::in_memory();
    let mut stranger = world.peer();
    stranger.negotiate(&Dial::default());
    let (mut first, _second, _opener, _) = two_ways(&world);
    assert!(stranger.next().is_none());
    assert_eq!(told(&mut first), Some(KEY));
    // It does not either if every other path fails.
    world.advance(LATE);
    first.answer_receipts(false);
    first.hang_up();
    assert!(stranger.next().is_none());
}

/// The oplock whose break the client gets.
fn told_oplock(client: &mut Peer) -> Option<FileId> {
    let notice = client.notice()?;
    let Notification::Oplock(oplock) = Notification::parse(&notice.message).unwrap() else {
        panic!("not an oplock's break")
    };
    Some(oplock.file_id)
}

// MS-SMB2 3.3.4.6
#[test]
fn an_oplocks_notice_takes_one_channel_of_its_session_after_the_other() {
    for dial in [Dial::default(), Dial { seals: true, ..Dial::default() }] {
        let world = SmbTestServer::in_memory();
        // Another session of the same client, which is not affected.
        let mut apart = world.dial(&dial);
        let first = world.dial(&dial);
        let mut channels = vec![world.bind(&dial, &first), world.bind(&dial, &first)];
        let batch = OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("file") };
        let file = channels[1].create(&batch).file_id();
        channels.insert(0, first);
        let mut opener = world.dial(&Dial::elsewhere());
        let id = disturb(&mut opener, "file");
        for channel in &mut channels {
            assert!(!is_open(&mut opener, id));
            assert_eq!(told_oplock(channel), Some(file));
            world.advance(LATE);
            channel.answer_receipts(false);
        }
        assert!(channels.iter_mut().all(|channel| told_oplock(channel).is_none() && !channel.is_closed));
        assert!(told_oplock(&mut apart).is_none());
        // All stay silent and are closed one after the other. The last one ends the session and the Open.
        for mut channel in channels {
            world.advance(SILENT);
            assert!(!is_open(&mut opener, id));
            channel.answer_receipts(false);
            assert!(channel.is_closed);
            channel.hang_up();
        }
        assert!(is_open(&mut opener, id));
    }
}

#[test]
fn only_a_server_under_test_lets_a_client_silence_its_connection() {
    let silence = |client: &mut Peer| {
        let mut header = client.header(SmbCommand::Ioctl);
        header.set_session_id(0);
        header.set_tree_id(0);
        let code = CtlCode::new(0x8384_8003);
        let message = whole(&header, |out| ioctl::Request::fsctl(code, FileId::RELATED, &[], 0).write(out));
        client.deliver(message);
        client.answer(header.message_id()).expect("an answer").status()
    };
    let world = SmbTestServer::in_memory();
    let (mut first, second, _opener, _) = two_ways(&world);
    assert_eq!(silence(&mut first), NtStatus::USER_SESSION_DELETED);
    drop(second);

    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.smbtorture_controls = true);
    let (mut first, mut second, _opener, _) = two_ways(&world);
    assert_eq!(silence(&mut first), NtStatus::SUCCESS);
    assert_eq!(told(&mut first), Some(KEY));
    world.advance(LATE);
    first.answer_receipts(true);
    assert_eq!(told(&mut second), Some(KEY));
}

/// Requests a lease that does not name the directory's.
fn lease_of(key: LeaseKey) -> RequestContext<'static> {
    let state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    let v2 = Some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch: 1 });
    RequestContext::Lease(Lease { key, state, flags: LeaseFlags::empty(), v2 })
}

/// Opens a directory with a lease on its listing.
fn lease_directory(client: &mut Peer) {
    let asked = [lease_of(KEY)];
    let contexts = Contexts::Requests(&asked);
    let asked = OpenFile { oplock: OplockLevel::Lease, contexts, ..OpenFile::directory("directory") };
    let answer = client.create(&asked);
    assert_eq!(create::Response::parse(&answer.message).unwrap().oplock_level, OplockLevel::Lease);
}

/// The commands of the received messages, in order.
fn order(client: &mut Peer) -> Vec<SmbCommand> {
    std::iter::from_fn(|| client.next()).map(|answer| answer.header.command()).collect()
}

// Linux's client lists a directory from its cache until it gets the break, also after its own changes.
#[test]
fn what_a_client_breaks_of_its_own_is_told_where_it_asked_and_before_the_answer() {
    for dial in [Dial::default(), Dial { seals: true, ..Dial::default() }] {
        let world = SmbTestServer::in_memory();
        let mut first = world.dial(&dial);
        let mut second = world.bind(&dial, &first);
        lease_directory(&mut first);
        disturb(&mut second, "directory\\file");
        assert_eq!(order(&mut second), [SmbCommand::OplockBreak, SmbCommand::Create]);
        assert!(told(&mut first).is_none());
        assert_eq!(give_up(&mut second), NtStatus::SUCCESS);
        // The written data shows with the flush, which runs on the pool.
        let file = second.open("directory\\file");
        lease_directory(&mut first);
        assert_eq!(second.write(file, 0, b"content"), NtStatus::SUCCESS);
        assert!(second.notice().is_none());
        second.start(SmbCommand::Flush, |out| flush::Request { reserved1: 0, file_id: file }.write(out));
        assert_eq!(order(&mut second), [SmbCommand::OplockBreak, SmbCommand::Flush]);
        assert!(told(&mut first).is_none());
    }
}

// The engine gets the origin of a request, so the thread that runs it does not matter.
#[test]
fn where_a_client_is_told_of_its_own_breaks_hangs_on_no_thread() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut first = world.dial(&dial);
    let mut second = world.bind(&dial, &first);
    lease_directory(&mut first);
    let message = second.message(SmbCommand::Create, |out| OpenFile::named("directory\\file").write(out));
    let frame = second.compound(vec![message], false);
    std::thread::scope(|threads| {
        threads.spawn(second.delivery(frame));
    });
    let (notice, answer) = (second.next().expect("a notice"), second.next().expect("an answer"));
    assert_eq!(notice.header.command(), SmbCommand::OplockBreak);
    assert!(told(&mut first).is_none());
    assert_eq!(give_up(&mut second), NtStatus::SUCCESS);
    let file = answer.file_id();
    lease_directory(&mut first);
    assert_eq!(second.write(file, 0, b"content"), NtStatus::SUCCESS);
    second.holds_jobs = true;
    second.start(SmbCommand::Flush, |out| flush::Request { reserved1: 0, file_id: file }.write(out));
    assert!(second.next().is_none());
    // Meanwhile this thread answers for the other connection.
    assert!(first.is_served());
    second.run_jobs_elsewhere();
    assert_eq!(order(&mut second), [SmbCommand::OplockBreak, SmbCommand::Flush]);
    assert!(told(&mut first).is_none());
}

// Linux changes names through opens without a lease. smbtorture's
// smb2.dirlease.{rename,hardlink,unlink_different_*} uses opens with one, and begins to watch for the break
// when it has the response.
#[test]
fn over_its_only_connection_a_client_is_told_behind_the_answer_if_its_open_has_a_lease() {
    let world = SmbTestServer::in_memory();
    let mut only = world.dial(&Dial::default());
    lease_directory(&mut only);
    disturb(&mut only, "directory\\file");
    assert_eq!(order(&mut only), [SmbCommand::OplockBreak, SmbCommand::Create]);
    assert_eq!(give_up(&mut only), NtStatus::SUCCESS);
    lease_directory(&mut only);
    let asked = [lease_of(LeaseKey([9; 16]))];
    let contexts = Contexts::Requests(&asked);
    let named = OpenFile { oplock: OplockLevel::Lease, contexts, ..OpenFile::named("directory\\other") };
    only.start(SmbCommand::Create, |out| named.write(out));
    assert_eq!(order(&mut only), [SmbCommand::Create, SmbCommand::OplockBreak]);
    assert_eq!(give_up(&mut only), NtStatus::SUCCESS);
}

/// Acknowledges the break of a directory's lease.
fn give_up(client: &mut Peer) -> NtStatus {
    let lease = oplock_break::AcknowledgedLease { key: KEY, state: LeaseState::empty() };
    client.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Lease(lease).write(out))
}

#[test]
fn what_does_not_arrive_where_it_was_asked_for_goes_to_the_first_connection() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let mut first = world.dial(&dial);
    let mut second = world.bind(&dial, &first);
    lease_directory(&mut first);
    second.make("directory\\file", b"");
    assert_eq!(told(&mut second), Some(KEY));
    world.advance(LATE);
    second.answer_receipts(false);
    assert_eq!(told(&mut first), Some(KEY));
    assert_eq!(give_up(&mut first), NtStatus::SUCCESS);
}
