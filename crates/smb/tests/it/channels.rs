//! A session over several channels: changes on one channel show on the others, the loss of one does not
//! affect them, and the session ends on all of them.

use smb_wire::create::{Access, OplockLevel};
use smb_wire::create_context::{Contexts, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext};
use smb_wire::negotiate::Dialect;
use smb_wire::oplock_break::{self, Notification, Oplock};
use smb_wire::{
    FileId, Guid, Header, LeaseKey, NtStatus, SmbCommand, cancel, change_notify, lock, logoff,
    tree_disconnect,
};
use testkit::smb::bind::Binding;
use testkit::smb::client::OpenFile;
use testkit::smb::peer::{ReceivedMessage, whole};
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

/// A session over two channels.
fn pair(world: &SmbTestServer, dial: &Dial) -> (Peer, Peer) {
    let main = world.dial(dial);
    let second = world.bind(dial, &main);
    (main, second)
}

fn lock_message(file_id: FileId, flags: lock::LockFlags) -> impl FnOnce(&mut Vec<u8>) {
    let element = lock::LockElement { offset: 0, length: 10, flags };
    move |out| {
        let locks = smb_wire::WireList::Values(std::slice::from_ref(&element));
        lock::Request { lock_sequence_number: 0, lock_sequence_index: 0, file_id, locks }.write(out);
    }
}

fn lock_now(client: &mut Peer, file_id: FileId) -> NtStatus {
    let flags = lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY;
    client.status(SmbCommand::Lock, lock_message(file_id, flags))
}

fn unlock(client: &mut Peer, file_id: FileId) -> NtStatus {
    client.status(SmbCommand::Lock, lock_message(file_id, lock::LockFlags::UNLOCK))
}

/// Sends a LOCK that has to wait.
fn lock_later(client: &mut Peer, file_id: FileId) -> (u64, ReceivedMessage) {
    let id = client.start(SmbCommand::Lock, lock_message(file_id, lock::LockFlags::EXCLUSIVE_LOCK));
    told_to_wait(client, id)
}

fn watch(client: &mut Peer, file_id: FileId) -> (u64, ReceivedMessage) {
    let id = client.start(SmbCommand::ChangeNotify, |out| {
        change_notify::Request {
            flags: change_notify::ChangeNotifyFlags::empty(),
            output_buffer_length: 1024,
            file_id,
            completion_filter: change_notify::CompletionFilter::FILE_NAME,
        }
        .write(out);
    });
    told_to_wait(client, id)
}

fn told_to_wait(client: &mut Peer, id: u64) -> (u64, ReceivedMessage) {
    let interim = client.answer(id).expect("an interim answer");
    assert_eq!(interim.status(), NtStatus::PENDING);
    (id, interim)
}

fn log_off(client: &mut Peer) {
    assert_eq!(client.status(SmbCommand::Logoff, |out| logoff::Request.write(out)), NtStatus::SUCCESS);
}

#[test]
fn ranges_are_the_opens_whatever_channel_locks_them() {
    let world = SmbTestServer::in_memory();
    let (mut main, mut second) = pair(&world, &Dial::default());
    let mut other = world.dial(&Dial::elsewhere());
    let (file, theirs) = (main.open("file"), other.open("file"));
    for (locking, unlocking) in [(0, 0), (1, 1), (0, 1), (1, 0)] {
        let channels = [&mut main, &mut second];
        assert_eq!(lock_now(channels[locking], file), NtStatus::SUCCESS);
        assert_eq!(lock_now(&mut other, theirs), NtStatus::LOCK_NOT_GRANTED);
        assert_eq!(unlock(channels[unlocking], file), NtStatus::SUCCESS);
        assert_eq!(unlock(channels[locking], file), NtStatus::RANGE_NOT_LOCKED);
        assert_eq!(lock_now(&mut other, theirs), NtStatus::SUCCESS);
        assert_eq!(unlock(&mut other, theirs), NtStatus::SUCCESS);
    }
}

#[test]
fn losing_one_channel_hurts_nothing_else() {
    for loses_first in [false, true] {
        let world = SmbTestServer::on_disk();
        let (main, second) = pair(&world, &Dial::default());
        let (mut lost, mut kept) = if loses_first { (main, second) } else { (second, main) };
        let mut other = world.dial(&Dial::elsewhere());
        let (file, theirs) = (lost.open("file"), other.open("file"));
        assert_eq!(lost.write(file, 0, b"written over the lost channel"), NtStatus::SUCCESS);
        assert_eq!(lock_now(&mut lost, file), NtStatus::SUCCESS);
        let directory = kept.create(&OpenFile::directory("directory")).file_id();
        // Requests that wait on each channel when one is lost.
        watch(&mut lost, directory);
        let (id, _) = watch(&mut kept, directory);
        lost.hang_up();
        assert_eq!(world.server.session(kept.session_id).unwrap().channel_count(), 1);
        assert_eq!(kept.read(file, 8, 4).data(), b"over");
        assert_eq!(lock_now(&mut other, theirs), NtStatus::LOCK_NOT_GRANTED);
        kept.make("directory\\new", b"");
        assert_eq!(kept.answer(id).unwrap().status(), NtStatus::SUCCESS);
        // The place is free again.
        let mut third = world.bind(&Dial::default(), &kept);
        assert_eq!(third.read(file, 8, 4).data(), b"over");
        // All ends with the last channel.
        kept.hang_up();
        assert!(third.is_served());
        third.hang_up();
        assert_eq!(world.server.sessions().len(), 1);
        assert_eq!(lock_now(&mut other, theirs), NtStatus::SUCCESS);
    }
}

// MS-SMB2 3.3.5.6
#[test]
fn a_logoff_on_one_channel_ends_the_session_on_all() {
    for seals in [false, true] {
        for from_second in [false, true] {
            let world = SmbTestServer::in_memory();
            let dial = Dial { seals, ..Dial::default() };
            let (mut main, mut second) = pair(&world, &dial);
            let file = main.open("file");
            let directory = main.create(&OpenFile::directory("directory")).file_id();
            let (one, two) = if from_second { (&mut second, &mut main) } else { (&mut main, &mut second) };
            let (id, _) = watch(two, directory);
            log_off(one);
            assert!(world.server.sessions().is_empty() && world.server.opens.is_empty());
            // The waiting request is answered in its own form: a sealed request gets no plain reply.
            let answer = two.answer(id).expect("an answer to what waited");
            assert_eq!(answer.status(), NtStatus::NOTIFY_CLEANUP);
            assert_eq!((answer.is_sealed, answer.is_signed), (seals, !seals));
            if seals {
                // The keys that would open it are gone.
                two.start(SmbCommand::Echo, |out| smb_wire::echo::Request.write(out));
                assert!(two.is_closed);
                continue;
            }
            // The client can tell that this comes from the server.
            let answer = two.read(file, 0, 1);
            assert_eq!((answer.status(), answer.is_signed), (NtStatus::USER_SESSION_DELETED, true));
            assert_eq!(one.read(file, 0, 1).status(), NtStatus::USER_SESSION_DELETED);
            two.keys.clear();
            let preauth = [0; 64];
            assert_eq!(
                two.set_up_session(&Dial { password: "guess".into(), ..dial }, preauth),
                NtStatus::LOGON_FAILURE
            );
        }
    }
}

#[test]
fn work_that_ends_after_its_session_is_answered_under_its_keys() {
    let world = SmbTestServer::on_disk();
    let dial = Dial { seals: true, ..Dial::default() };
    let (mut main, mut second) = pair(&world, &dial);
    main.make("file", b"content");
    let file = second.open("file");
    second.holds_jobs = true;
    let id = second
        .start(SmbCommand::Flush, |out| smb_wire::flush::Request { reserved1: 0, file_id: file }.write(out));
    assert!(second.answer(id).is_none_or(|answer| answer.status() == NtStatus::PENDING));
    log_off(&mut main);
    second.turn();
    second.run_jobs();
    assert!(second.answer(id).expect("an answer to what was under way").is_sealed);
}

#[test]
fn a_tree_that_is_left_on_one_channel_is_left_on_all() {
    let world = SmbTestServer::in_memory();
    let (mut main, mut second) = pair(&world, &Dial::default());
    let file = main.open("file");
    let left = second.status(SmbCommand::TreeDisconnect, |out| tree_disconnect::Request.write(out));
    assert_eq!(left, NtStatus::SUCCESS);
    assert_eq!(main.read(file, 0, 1).status(), NtStatus::NETWORK_NAME_DELETED);
    second.connect_tree(SHARE);
    main.tree_id = second.tree_id;
    assert!(main.is_served() && second.is_served());
}

// MS-SMB2 3.3.5.16
#[test]
fn a_request_is_taken_back_on_its_own_connection_only() {
    let world = SmbTestServer::in_memory();
    let (mut main, mut second) = pair(&world, &Dial::default());
    let mut other = world.dial(&Dial::elsewhere());
    let (file, theirs) = (main.open("file"), other.open("file"));
    assert_eq!(lock_now(&mut other, theirs), NtStatus::SUCCESS);
    let (id, interim) = lock_later(&mut main, file);
    for peer in [&mut second, &mut main] {
        assert!(peer.next().is_none());
        let mut header = Header::request(SmbCommand::Cancel, id);
        header.set_session_id(peer.session_id);
        header.set_async_id(interim.header.async_id());
        peer.send(whole(&header, |out| cancel::Request.write(out)));
    }
    assert_eq!(main.answer(id).expect("the answer to what was taken back").status(), NtStatus::CANCELLED);
    assert!(second.next().is_none() && second.is_served());
}

/// A client that holds a batch oplock over two channels, and another client that breaks it.
fn broken(world: &SmbTestServer, main: &mut Peer, other: &mut Peer, name: &str) -> (FileId, u64) {
    let batch = OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named(name) };
    let file = main.create(&batch).file_id();
    let wants = OpenFile { access: Access::FILE_GENERIC_READ, ..OpenFile::named(name) };
    let id = other.start(SmbCommand::Create, |out| wants.write(out));
    let (id, _) = told_to_wait(other, id);
    assert_eq!(world.server.sessions().len(), 2);
    (file, id)
}

fn keep_level_two(client: &mut Peer, file_id: FileId) -> NtStatus {
    let kept = Oplock { oplock_level: OplockLevel::LevelII, file_id };
    client.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Oplock(kept).write(out))
}

// MS-SMB2 3.3.4.6
#[test]
fn a_break_is_told_on_the_main_channel_and_answered_on_any() {
    let world = SmbTestServer::in_memory();
    let (mut main, mut second) = pair(&world, &Dial::default());
    let mut other = world.dial(&Dial::elsewhere());
    let (file, waiting) = broken(&world, &mut second, &mut other, "file");
    assert_eq!(main.next_is_urgent(), Some(true));
    let notice = main.notice().expect("a notice on the first channel");
    assert!(second.notice().is_none());
    let told = Notification::parse(&notice.message).expect("a notice");
    assert_eq!(told, Notification::Oplock(Oplock { oplock_level: OplockLevel::LevelII, file_id: file }));
    assert_eq!(keep_level_two(&mut second, file), NtStatus::SUCCESS);
    assert_eq!(other.answer(waiting).unwrap().status(), NtStatus::SUCCESS);
    // After the first channel ends, the notice goes to the second one.
    main.hang_up();
    let (file, waiting) = broken(&world, &mut second, &mut other, "another");
    assert!(second.notice().is_some());
    assert_eq!(keep_level_two(&mut second, file), NtStatus::SUCCESS);
    assert_eq!(other.answer(waiting).unwrap().status(), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.4.7
#[test]
fn a_lease_is_broken_over_a_channel_that_came_with_another_guid() {
    let world = SmbTestServer::in_memory();
    let main = world.client();
    let mut second = world.bind(&Dial { guid: Guid(*b"some other guid."), ..Dial::default() }, &main);
    let mut other = world.dial(&Dial::elsewhere());
    let (key, state) = (LeaseKey([7; 16]), LeaseState::READ_CACHING | LeaseState::WRITE_CACHING);
    let v2 = Some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch: 1 });
    let asked = [RequestContext::Lease(Lease { key, state, flags: LeaseFlags::empty(), v2 })];
    let leased = OpenFile {
        oplock: OplockLevel::Lease,
        contexts: Contexts::Requests(&asked),
        ..OpenFile::named("file")
    };
    let file = second.create(&leased).file_id();
    main.hang_up();
    let id = other.start(SmbCommand::Create, |out| OpenFile::named("file").write(out));
    let (id, _) = told_to_wait(&mut other, id);
    let notice = second.notice().expect("a notice");
    let told = Notification::parse(&notice.message).expect("a notice");
    assert!(matches!(told, Notification::Lease { key: named, .. } if named == key));
    assert_eq!(second.close(file), NtStatus::SUCCESS);
    assert_eq!(other.answer(id).unwrap().status(), NtStatus::SUCCESS);
    second.connect_tree(SHARE);
    assert!(second.is_served());
}

// MS-SMB2 3.3.5.5.2
#[test]
fn a_session_is_renewed_on_any_channel_and_keeps_its_keys() {
    for dialect in [Dialect::Smb300, Dialect::Smb311] {
        let world = SmbTestServer::in_memory();
        let dial = Dial::with(dialect);
        let (mut main, mut second) = pair(&world, &dial);
        let file = main.open("file");
        assert_eq!(Binding::renewing(&dial, &second).finish(&mut second), NtStatus::SUCCESS);
        assert_eq!(Binding::renewing(&dial, &main).finish(&mut main), NtStatus::SUCCESS);
        assert_eq!(main.write(file, 0, b"still here"), NtStatus::SUCCESS);
        assert_eq!(second.read(file, 0, 5).data(), b"still");
        assert_eq!(world.server.session(main.session_id).unwrap().channel_count(), 2);
    }
}

#[test]
fn a_session_that_is_not_renewed_ends_on_all_channels() {
    for wrong in [
        Dial { password: "guess".into(), ..Dial::default() },
        Dial { user: "bert".into(), ..Dial::default() },
    ] {
        let world = SmbTestServer::in_memory();
        let (mut main, mut second) = pair(&world, &Dial::default());
        let file = main.open("file");
        let status = Binding::renewing(&wrong, &second).finish(&mut second);
        let is_bert = wrong.user == "bert";
        assert_eq!(status, if is_bert { NtStatus::ACCESS_DENIED } else { NtStatus::LOGON_FAILURE });
        assert_eq!(main.read(file, 0, 1).status(), NtStatus::USER_SESSION_DELETED);
        assert_eq!(second.read(file, 0, 1).status(), NtStatus::USER_SESSION_DELETED);
        assert!(world.server.sessions().is_empty() && world.server.opens.is_empty());
    }
}

// MS-SMB2 3.3.5.5.3
#[test]
fn a_session_that_replaces_another_ends_it_on_all_channels() {
    let world = SmbTestServer::in_memory();
    let (mut main, mut second) = pair(&world, &Dial::default());
    let file = main.open("file");
    let again = Dial { previous_session_id: main.session_id, ..Dial::default() };
    let mut newer = world.dial(&again);
    for old in [&mut main, &mut second] {
        assert_eq!(old.read(file, 0, 1).status(), NtStatus::USER_SESSION_DELETED);
    }
    assert!(newer.is_served());
    assert_eq!(world.server.sessions().len(), 1);
}

#[test]
fn a_connection_carries_channels_of_several_sessions() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let (mut main, mut second) = pair(&world, &dial);
    // Another user's session, bound to the second connection.
    let mine = second.session_id;
    let begun = world.dial(&Dial { user: "bert".into(), ..Dial::elsewhere() });
    let mut binding = Binding::new(&Dial { user: "bert".into(), ..dial }, &begun, second.preauth);
    assert_eq!(binding.finish(&mut second), NtStatus::SUCCESS);
    second.tree_id = begun.tree_id;
    assert!(second.is_served());
    begun.hang_up();
    assert!(second.is_served());
    log_off(&mut second);
    (second.session_id, second.tree_id) = (mine, main.tree_id);
    assert!(second.is_served() && main.is_served());
}

// MS-SMB2 3.3.4.15
#[test]
fn a_share_that_is_taken_away_takes_its_trees_and_opens_along_and_leaves_the_sessions() {
    let world = SmbTestServer::in_memory();
    let (mut main, mut second) = pair(&world, &Dial::default());
    let mut other = world.dial(&Dial::elsewhere());
    let (file, theirs) = (main.open("file"), other.open("file"));
    assert_eq!(lock_now(&mut main, file), NtStatus::SUCCESS);
    let directory = main.create(&OpenFile::directory("directory")).file_id();
    let (waiting, _) = watch(&mut main, directory);
    assert_eq!(world.server.trees_of_share("FILES"), 2);
    let shares = world.server.shares();
    world.server.set_shares([]);
    let now = world.clock.read();
    assert_eq!(world.server.disconnect_share("no such", now), 0);
    assert_eq!(world.server.disconnect_share(SHARE, now), 2);
    assert_eq!((world.server.trees_of_share(SHARE), world.engine.open_count()), (0, 0));
    assert_eq!(main.answer(waiting).expect("an answer").status(), NtStatus::NOTIFY_CLEANUP);
    for client in [&mut main, &mut second] {
        assert_eq!(client.write(file, 0, b"late"), NtStatus::NETWORK_NAME_DELETED);
        assert_eq!(client.try_tree(SHARE).status(), NtStatus::BAD_NETWORK_NAME);
    }
    assert_eq!(other.read(theirs, 0, 1).status(), NtStatus::NETWORK_NAME_DELETED);
    // Sessions and their channels stay.
    assert_eq!(world.server.sessions().len(), 2);
    assert_eq!(world.server.session(main.session_id).expect("a session").channel_count(), 2);
    world.server.set_shares(shares.iter().map(|share| smb::ShareConfig::clone(share)));
    main.connect_tree(SHARE);
    assert!(main.is_served());
}
