//! Waiting requests. Each is answered exactly once, whether its event comes, it is cancelled, its time runs
//! out, or its file, tree, session or connection ends.

use std::time::Duration;

use smb_wire::create::{self, Access, OplockLevel, ShareAccess};
use smb_wire::create_context::{Contexts, Lease, LeaseFlags, LeaseState, LeaseV2, RequestContext};
use smb_wire::fscc::FileInfoClass;
use smb_wire::header::Flags;
use smb_wire::oplock_break::{self, Notification, NotificationFlags, Oplock};
use smb_wire::query_info::InfoType;
use smb_wire::{
    FileId, Header, LeaseKey, NtStatus, SmbCommand, cancel, change_notify, close, lock, logoff, set_info,
    tree_disconnect,
};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::{ReceivedMessage, whole};
use testkit::smb::{Dial, Peer, SHARE, SmbTestServer};

/// Waits for a change of names in a directory. Returns the message id.
fn watch(client: &mut Peer, file_id: FileId) -> u64 {
    client.start(SmbCommand::ChangeNotify, |out| {
        change_notify::Request {
            flags: change_notify::ChangeNotifyFlags::empty(),
            output_buffer_length: 1024,
            file_id,
            completion_filter: change_notify::CompletionFilter::FILE_NAME,
        }
        .write(out);
    })
}

/// Locks the first ten bytes and waits for them. Returns the message id.
fn lock(client: &mut Peer, file_id: FileId) -> u64 {
    let element = lock::LockElement { offset: 0, length: 10, flags: lock::LockFlags::EXCLUSIVE_LOCK };
    client.start(SmbCommand::Lock, |out| {
        lock::Request {
            lock_sequence_number: 0,
            lock_sequence_index: 0,
            file_id,
            locks: smb_wire::WireList::Values(&[element]),
        }
        .write(out);
    })
}

/// The interim response to a request without a final response yet.
fn interim(client: &mut Peer, id: u64) -> ReceivedMessage {
    let answer = client.answer(id).expect("an interim answer");
    assert_eq!(answer.status(), NtStatus::PENDING);
    assert!(answer.header.is_async() && answer.header.async_id() != 0);
    assert!(client.answer(id).is_none(), "a final answer at once");
    answer
}

/// The one final response to a request with an interim response.
fn last(client: &mut Peer, id: u64, interim: &ReceivedMessage) -> ReceivedMessage {
    let answer = client.answer(id).expect("a final answer");
    assert!(answer.header.is_async() && answer.header.async_id() == interim.header.async_id());
    // MS-SMB2 3.3.4.1.2: the interim response has granted the credits.
    assert_eq!(answer.header.credits(), 0);
    assert!(client.answer(id).is_none(), "a second final answer");
    answer
}

/// Cancels a request with an interim response by its async id.
fn cancel_async(client: &mut Peer, id: u64, async_id: u64) {
    let mut header = Header::request(SmbCommand::Cancel, id);
    header.set_session_id(client.session_id);
    header.set_async_id(async_id);
    client.send(whole(&header, |out| cancel::Request.write(out)));
}

/// A file that one client has locked, and another client that waits for the lock.
fn two_at_a_lock(world: &SmbTestServer) -> (Peer, FileId, Peer, FileId, u64, ReceivedMessage) {
    let (mut holder, mut waiter) = (world.client(), world.dial(&Dial::elsewhere()));
    let (held, wanted) = (holder.open("file"), waiter.open("file"));
    let id = lock(&mut holder, held);
    assert_eq!(holder.answer(id).unwrap().status(), NtStatus::SUCCESS);
    let id = lock(&mut waiter, wanted);
    let told = interim(&mut waiter, id);
    (holder, held, waiter, wanted, id, told)
}

#[test]
fn a_lock_comes_when_its_holder_closes() {
    let world = SmbTestServer::in_memory();
    let (mut holder, held, mut waiter, _, id, told) = two_at_a_lock(&world);
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    assert_eq!(last(&mut waiter, id, &told).status(), NtStatus::SUCCESS);
}

#[test]
fn a_lock_comes_when_its_holder_is_lost() {
    let world = SmbTestServer::in_memory();
    let (holder, _, mut waiter, _, id, told) = two_at_a_lock(&world);
    holder.hang_up();
    assert_eq!(last(&mut waiter, id, &told).status(), NtStatus::SUCCESS);
    assert_eq!(world.server.opens.len(), 1);
}

// MS-SMB2 3.3.5.16
#[test]
fn what_waits_is_taken_back() {
    let world = SmbTestServer::in_memory();
    let (mut holder, held, mut waiter, _, id, told) = two_at_a_lock(&world);
    cancel_async(&mut waiter, id, told.header.async_id());
    assert_eq!(last(&mut waiter, id, &told).status(), NtStatus::CANCELLED);
    // A second CANCEL does nothing, and has no later effect.
    cancel_async(&mut waiter, id, told.header.async_id());
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    assert!(waiter.next().is_none() && !waiter.is_closed);

    let directory = waiter.create(&OpenFile::directory("directory")).file_id();
    let id = watch(&mut waiter, directory);
    let told = interim(&mut waiter, id);
    // By message id: for a client that has not seen the interim response yet.
    let mut header = Header::request(SmbCommand::Cancel, id);
    header.set_session_id(waiter.session_id);
    waiter.send(whole(&header, |out| cancel::Request.write(out)));
    assert_eq!(last(&mut waiter, id, &told).status(), NtStatus::CANCELLED);
    holder.make("directory\\new", b"");
    assert!(waiter.next().is_none() && waiter.is_served());
}

#[test]
fn nobody_takes_back_what_is_not_theirs() {
    let world = SmbTestServer::in_memory();
    let (mut holder, held, mut waiter, _, id, told) = two_at_a_lock(&world);
    let async_id = told.header.async_id();
    // From another connection, with a guessed number, and without the signature that the session requires.
    cancel_async(&mut holder, id, async_id);
    for guess in [0, async_id + 1, u64::MAX] {
        cancel_async(&mut waiter, id, guess);
    }
    let mut header = Header::request(SmbCommand::Cancel, id);
    header.set_session_id(waiter.session_id);
    header.set_async_id(async_id);
    waiter.deliver(whole(&header, |out| cancel::Request.write(out)));
    let mut forged = whole(&header, |out| cancel::Request.write(out));
    waiter.sign(&mut forged);
    forged[48] ^= 1;
    waiter.deliver(forged);
    // A malformed body.
    waiter.send(whole(&header, |out| out.extend_from_slice(&[5, 0, 0, 0])));
    assert!(holder.next().is_none() && waiter.next().is_none());
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    assert_eq!(last(&mut waiter, id, &told).status(), NtStatus::SUCCESS);
}

#[test]
fn what_waits_ends_with_its_file() {
    let world = SmbTestServer::in_memory();
    let (_holder, _, mut waiter, wanted, id, told) = two_at_a_lock(&world);
    let directory = waiter.create(&OpenFile::directory("directory")).file_id();
    let notify = watch(&mut waiter, directory);
    let notify_told = interim(&mut waiter, notify);
    assert_eq!(waiter.close(wanted), NtStatus::SUCCESS);
    assert_eq!(last(&mut waiter, id, &told).status(), NtStatus::RANGE_NOT_LOCKED);
    assert_eq!(waiter.close(directory), NtStatus::SUCCESS);
    assert_eq!(last(&mut waiter, notify, &notify_told).status(), NtStatus::NOTIFY_CLEANUP);
}

#[test]
fn what_waits_ends_with_its_tree() {
    let world = SmbTestServer::in_memory();
    let (_holder, _, mut waiter, _, id, told) = two_at_a_lock(&world);
    let directory = waiter.create(&OpenFile::directory("directory")).file_id();
    let notify = watch(&mut waiter, directory);
    let notify_told = interim(&mut waiter, notify);
    let left = waiter.status(SmbCommand::TreeDisconnect, |out| tree_disconnect::Request.write(out));
    assert_eq!(left, NtStatus::SUCCESS);
    assert_eq!(last(&mut waiter, id, &told).status(), NtStatus::RANGE_NOT_LOCKED);
    assert_eq!(last(&mut waiter, notify, &notify_told).status(), NtStatus::NOTIFY_CLEANUP);
    waiter.connect_tree(SHARE);
    assert!(waiter.is_served());
}

#[test]
fn what_waits_ends_with_its_session() {
    for seals in [false, true] {
        let world = SmbTestServer::in_memory();
        let mut holder = world.client();
        let held = holder.open("file");
        lock(&mut holder, held);
        let mut waiter = world.dial(&Dial { seals, ..Dial::elsewhere() });
        let wanted = waiter.open("file");
        let id = lock(&mut waiter, wanted);
        let told = interim(&mut waiter, id);
        let directory = waiter.create(&OpenFile::directory("directory")).file_id();
        let notify = watch(&mut waiter, directory);
        let notify_told = interim(&mut waiter, notify);
        assert_eq!(waiter.status(SmbCommand::Logoff, |out| logoff::Request.write(out)), NtStatus::SUCCESS);
        for (id, told, status) in
            [(id, told, NtStatus::RANGE_NOT_LOCKED), (notify, notify_told, NtStatus::NOTIFY_CLEANUP)]
        {
            let answer = last(&mut waiter, id, &told);
            assert_eq!((answer.status(), answer.is_sealed, answer.is_signed), (status, seals, !seals));
        }
        assert_eq!(world.server.opens.len(), 1);
        assert!(holder.is_served());
    }
}

#[test]
fn a_connection_that_is_lost_while_it_waits_leaves_nothing() {
    let world = SmbTestServer::in_memory();
    let (mut holder, held, mut waiter, _, _, _) = two_at_a_lock(&world);
    let directory = waiter.create(&OpenFile::directory("directory")).file_id();
    watch(&mut waiter, directory);
    let batch = OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("batch") };
    let cached = holder.create(&batch).file_id();
    waiter.start(SmbCommand::Create, |out| OpenFile::named("batch").write(out));
    waiter.hang_up();
    assert_eq!(world.server.opens.len(), 2);
    // The awaited event comes and has no effect.
    assert!(holder.notice().is_some());
    assert_eq!(acknowledge(&mut holder, cached, OplockLevel::None).status(), NtStatus::SUCCESS);
    assert_eq!(holder.close(held), NtStatus::SUCCESS);
    assert_eq!(holder.close(cached), NtStatus::SUCCESS);
    holder.make("directory\\new", b"");
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0));
    assert!(world.dial(&Dial::elsewhere()).is_served());
}

#[test]
fn a_request_behind_a_waiting_one_is_answered_after_it() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.client();
    let cached = holder.create(&OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("file") }).file_id();
    let mut opener = world.dial(&Dial::elsewhere());
    let create = opener.message(SmbCommand::Create, |out| OpenFile::named("file").write(out));
    let close = opener.message(SmbCommand::Close, |out| {
        close::Request { flags: close::CloseFlags::empty(), file_id: FileId::RELATED }.write(out);
    });
    let ids = [&create, &close].map(|message| Header::parse(message).unwrap().message_id());
    let frame = opener.compound(vec![create, close], true);
    opener.deliver(frame);
    // MS-SMB2 3.3.5.2.7 with note 266: a CREATE gets an interim response at any position of its compound.
    let told = interim(&mut opener, ids[0]);
    assert!(opener.next().is_none());
    assert!(holder.notice().is_some());
    assert_eq!(acknowledge(&mut holder, cached, OplockLevel::None).status(), NtStatus::SUCCESS);
    let answers = [last(&mut opener, ids[0], &told), opener.answer(ids[1]).expect("an answer")];
    assert_eq!(answers.each_ref().map(ReceivedMessage::status), [NtStatus::SUCCESS; 2]);
    assert_eq!(answers[0].frame, answers[1].frame);
    assert!(!answers[1].header.is_async());
    assert_eq!(world.server.opens.len(), 1);
}

#[test]
fn requests_that_wait_have_a_bound() {
    let world = SmbTestServer::in_memory();
    let mut bystander = world.client();
    let mut client = world.client();
    let directory = client.create(&OpenFile::directory("directory")).file_id();
    let mut refused = 0;
    for _ in 0..600 {
        let id = watch(&mut client, directory);
        match client.answer(id).expect("an answer").status() {
            NtStatus::PENDING => {}
            status => {
                assert_eq!(status, NtStatus::INSUFFICIENT_RESOURCES);
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 600 - 511);
    assert!(client.is_served() && bystander.is_served());
}

/// A CREATE that waits, followed by a full frame: the kept bytes are bounded.
#[test]
fn what_is_kept_of_waiting_frames_has_a_bound() {
    let world = SmbTestServer::in_memory();
    let (mut holder, file, mut opener, ..) = a_break_under_way(&world);
    let mut kept = Vec::new();
    for _ in 0..20 {
        let create = opener.message(SmbCommand::Create, |out| OpenFile::named("file").write(out));
        let id = Header::parse(&create).unwrap().message_id();
        // The request has one credit, which is found only when it runs.
        let data = vec![0; 8 * 1024 * 1024];
        let write = opener.message(SmbCommand::Write, |out| {
            smb_wire::write::Request::new(FileId::RELATED, 0, &data).write(out);
        });
        let frame = opener.compound(vec![create, write], true);
        opener.deliver(frame);
        match opener.answer(id).expect("an answer").status() {
            NtStatus::PENDING => kept.push(id),
            status => assert_eq!(status, NtStatus::INSUFFICIENT_RESOURCES),
        }
    }
    assert_eq!(kept.len(), 8);
    assert_eq!(acknowledge(&mut holder, file, OplockLevel::None).status(), NtStatus::SUCCESS);
    for id in kept {
        assert_eq!(opener.answer(id).expect("an answer").status(), NtStatus::SUCCESS);
        let written = opener.answer(id + 1).expect("an answer").status();
        assert_eq!(written, NtStatus::INVALID_PARAMETER);
    }
}

#[test]
fn work_that_has_begun_is_answered_though_its_connection_asks_to_end_it() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let file = client.open("file");
    client.holds_jobs = true;
    let id = client.start(SmbCommand::Flush, |out| {
        smb_wire::flush::Request { reserved1: 0, file_id: file }.write(out);
    });
    assert!(client.answer(id).is_none());
    let mut header = Header::request(SmbCommand::Cancel, id);
    header.set_session_id(client.session_id);
    client.send(whole(&header, |out| cancel::Request.write(out)));
    assert!(client.answer(id).is_none());
    client.run_jobs();
    assert_eq!(client.answer(id).unwrap().status(), NtStatus::SUCCESS);
    assert!(client.next().is_none());
    // If the connection ends first, the result of the work is dropped.
    client.holds_jobs = true;
    client.start(SmbCommand::Flush, |out| {
        smb_wire::flush::Request { reserved1: 0, file_id: file }.write(out);
    });
    client.hang_up();
    assert_eq!((world.server.opens.len(), world.engine.open_count()), (0, 0));
}

// Oplocks and leases --------------------------------------------------------------------------------

/// Acknowledges the break of an oplock.
fn acknowledge(client: &mut Peer, file_id: FileId, oplock_level: OplockLevel) -> ReceivedMessage {
    let given = oplock_break::Request::Oplock(Oplock { oplock_level, file_id });
    client.call(SmbCommand::OplockBreak, |out| given.write(out))
}

/// A client with a batch oplock, a second client whose CREATE waits for it, and the notice to the first.
fn a_break_under_way(world: &SmbTestServer) -> (Peer, FileId, Peer, u64, ReceivedMessage) {
    let mut holder = world.client();
    let answer = holder.create(&OpenFile { oplock: OplockLevel::Batch, ..OpenFile::named("file") });
    let granted = create::Response::parse(&answer.message).unwrap().oplock_level;
    assert_eq!(granted, OplockLevel::Batch);
    let file = answer.file_id();
    let mut opener = world.dial(&Dial::elsewhere());
    let id = opener.start(SmbCommand::Create, |out| OpenFile::named("file").write(out));
    let told = interim(&mut opener, id);
    let notice = holder.notice().expect("a notice");
    assert_eq!((notice.header.command(), notice.status()), (SmbCommand::OplockBreak, NtStatus::SUCCESS));
    assert_eq!((notice.header.session_id(), notice.header.tree_id()), (0, 0));
    assert!(!notice.is_signed);
    let level = Oplock { oplock_level: OplockLevel::LevelII, file_id: file };
    assert_eq!(Notification::parse(&notice.message).unwrap(), Notification::Oplock(level));
    (holder, file, opener, id, told)
}

#[test]
fn an_open_waits_until_an_oplock_is_given_back() {
    let world = SmbTestServer::in_memory();
    let (mut holder, file, mut opener, id, told) = a_break_under_way(&world);
    let answer = acknowledge(&mut holder, file, OplockLevel::LevelII);
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    assert_eq!(last(&mut opener, id, &told).status(), NtStatus::SUCCESS);
    // A second acknowledgment is not valid.
    let again = acknowledge(&mut holder, file, OplockLevel::LevelII).status();
    assert_eq!(again, NtStatus::INVALID_DEVICE_STATE);
    assert!(holder.notice().is_none());
}

#[test]
fn an_open_goes_on_when_the_oplock_is_closed_or_its_client_lost() {
    let world = SmbTestServer::in_memory();
    let (mut holder, file, mut opener, id, told) = a_break_under_way(&world);
    assert_eq!(holder.close(file), NtStatus::SUCCESS);
    assert_eq!(last(&mut opener, id, &told).status(), NtStatus::SUCCESS);
    drop((holder, opener));
    let (holder, _, mut opener, id, told) = a_break_under_way(&world);
    holder.hang_up();
    assert_eq!(last(&mut opener, id, &told).status(), NtStatus::SUCCESS);
}

#[test]
fn an_open_goes_on_when_an_oplock_is_not_given_back_in_time() {
    let world = SmbTestServer::in_memory();
    let (mut holder, file, mut opener, id, told) = a_break_under_way(&world);
    world.advance(Duration::from_secs(30));
    assert!(opener.answer(id).is_none());
    world.advance(Duration::from_secs(10));
    assert_eq!(last(&mut opener, id, &told).status(), NtStatus::SUCCESS);
    // It is too late.
    assert_ne!(acknowledge(&mut holder, file, OplockLevel::LevelII).status(), NtStatus::SUCCESS);
    assert!(holder.is_served());
}

#[test]
fn an_open_that_waits_for_an_oplock_is_taken_back() {
    let world = SmbTestServer::in_memory();
    let (mut holder, file, mut opener, id, told) = a_break_under_way(&world);
    cancel_async(&mut opener, id, told.header.async_id());
    assert_eq!(last(&mut opener, id, &told).status(), NtStatus::CANCELLED);
    assert_eq!(acknowledge(&mut holder, file, OplockLevel::LevelII).status(), NtStatus::SUCCESS);
    assert!(opener.next().is_none());
    assert_eq!(world.server.opens.len(), 1);
}

#[test]
fn nobody_gives_back_what_they_do_not_hold() {
    let world = SmbTestServer::in_memory();
    let (mut holder, file, mut opener, id, _) = a_break_under_way(&world);
    // The opener's own connection, and an invalid id.
    assert_eq!(acknowledge(&mut opener, file, OplockLevel::None).status(), NtStatus::FILE_CLOSED);
    assert_eq!(acknowledge(&mut holder, FileId::RELATED, OplockLevel::None).status(), NtStatus::FILE_CLOSED);
    let lease = oplock_break::AcknowledgedLease { key: LeaseKey([9; 16]), state: LeaseState::empty() };
    let status = holder.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Lease(lease).write(out));
    assert_eq!(status, NtStatus::OBJECT_NAME_NOT_FOUND);
    assert!(opener.answer(id).is_none(), "the open still waits");
}

#[test]
fn an_answer_that_keeps_more_than_was_left_loses_everything() {
    for (level, status) in [
        (OplockLevel::Exclusive, NtStatus::SUCCESS),
        (OplockLevel::Batch, NtStatus::INVALID_OPLOCK_PROTOCOL),
        (OplockLevel::Lease, NtStatus::INVALID_PARAMETER),
        (OplockLevel::Unknown(0x77), NtStatus::INVALID_OPLOCK_PROTOCOL),
    ] {
        let world = SmbTestServer::in_memory();
        let (mut holder, file, mut opener, id, told) = a_break_under_way(&world);
        let answer = acknowledge(&mut holder, file, level);
        assert_eq!(answer.status(), status, "{level:?}");
        if status == NtStatus::SUCCESS {
            let left = Oplock { oplock_level: OplockLevel::None, file_id: file };
            let answer = oplock_break::Response::parse(&answer.message).unwrap();
            assert_eq!(answer, oplock_break::Response::Oplock(left));
        }
        assert_eq!(last(&mut opener, id, &told).status(), NtStatus::SUCCESS);
        let again = acknowledge(&mut holder, file, OplockLevel::None).status();
        assert_eq!(again, NtStatus::INVALID_OPLOCK_PROTOCOL);
    }
}

#[test]
fn a_lease_is_broken_by_another_client_and_given_back() {
    let world = SmbTestServer::in_memory();
    let mut holder = world.client();
    let key = LeaseKey([7; 16]);
    let all = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
    let v2 = Some(LeaseV2 { parent_key: LeaseKey([0; 16]), epoch: 1 });
    let asked = [RequestContext::Lease(Lease { key, state: all, flags: LeaseFlags::empty(), v2 })];
    let open = OpenFile {
        oplock: OplockLevel::Lease,
        contexts: Contexts::Requests(&asked),
        ..OpenFile::named("file")
    };
    let answer = holder.create(&open);
    let response = create::Response::parse(&answer.message).unwrap();
    assert_eq!(response.oplock_level, OplockLevel::Lease);

    let mut opener = world.dial(&Dial::elsewhere());
    let id = opener.start(SmbCommand::Create, |out| OpenFile::named("file").write(out));
    let told = interim(&mut opener, id);
    let notice = holder.notice().expect("a notice");
    let Notification::Lease { key: named, flags, current_state, new_state, .. } =
        Notification::parse(&notice.message).unwrap()
    else {
        panic!("a notice of another kind")
    };
    assert_eq!((named, flags, current_state), (key, NotificationFlags::ACK_REQUIRED, all));
    assert_eq!(new_state, LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING);
    // More than the remaining rights is refused.
    let give = |holder: &mut Peer, state| {
        let lease = oplock_break::AcknowledgedLease { key, state };
        holder.status(SmbCommand::OplockBreak, |out| oplock_break::Request::Lease(lease).write(out))
    };
    assert_eq!(give(&mut holder, all), NtStatus::REQUEST_NOT_ACCEPTED);
    assert!(opener.answer(id).is_none());
    assert_eq!(give(&mut holder, new_state), NtStatus::SUCCESS);
    assert_eq!(last(&mut opener, id, &told).status(), NtStatus::SUCCESS);
    assert_eq!(give(&mut holder, new_state), NtStatus::UNSUCCESSFUL);
}

/// A notice is sealed if its session must be sealed.
#[test]
fn a_notice_keeps_to_the_seal() {
    let world = SmbTestServer::in_memory();
    world.configure_server(|config| config.encryption = smb::Encryption::Required);
    let seals = Dial { seals: true, ..Dial::default() };
    let mut holder = world.dial(&seals);
    let file =
        holder.create(&OpenFile { oplock: OplockLevel::Exclusive, ..OpenFile::named("file") }).file_id();
    let mut opener = world.dial(&Dial { guid: Dial::elsewhere().guid, ..seals });
    let read_only = OpenFile {
        access: Access::READ_DATA,
        share: ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE,
        ..OpenFile::named("file")
    };
    let id = opener.start(SmbCommand::Create, |out| read_only.write(out));
    let told = interim(&mut opener, id);
    assert!(told.is_sealed);
    let notice = holder.notice().expect("a notice");
    assert!(notice.is_sealed && !notice.header.flags().contains(Flags::SIGNED));
    assert_eq!(acknowledge(&mut holder, file, OplockLevel::None).status(), NtStatus::SUCCESS);
    assert!(last(&mut opener, id, &told).is_sealed);
}

/// Marks a file for deletion while another client only keeps it open. The response waits for that client.
fn a_mark_that_waits(world: &SmbTestServer) -> (Peer, FileId, Peer, u64) {
    let mut holder = world.client();
    let state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    let lease = Lease { key: LeaseKey([7; 16]), state, flags: LeaseFlags::empty(), v2: None };
    let contexts = [RequestContext::Lease(lease)];
    let keeps = OpenFile {
        oplock: OplockLevel::Lease,
        contexts: Contexts::Requests(&contexts),
        ..OpenFile::named("file")
    };
    let kept = holder.create(&keeps).file_id();
    let mut deleter = world.dial(&Dial::elsewhere());
    let file = deleter.create(&OpenFile { access: Access::DELETE, ..OpenFile::named("file") }).file_id();
    let id = deleter.start(SmbCommand::SetInfo, |out| {
        set_info::Request {
            info_type: InfoType::File,
            file_info_class: FileInfoClass::DISPOSITION.0,
            additional_information: 0,
            file_id: file,
            buffer: &[1],
        }
        .write(out);
    });
    assert!(holder.notice().is_some());
    (holder, kept, deleter, id)
}

// MS-SMB2 3.3.4.2 with note 240
#[test]
fn a_set_info_waits_without_a_word_until_it_has_waited_long() {
    let world = SmbTestServer::in_memory();
    let (mut holder, kept, mut deleter, id) = a_mark_that_waits(&world);
    assert!(deleter.next().is_none(), "told to wait");
    assert_eq!(holder.close(kept), NtStatus::SUCCESS);
    let answer = deleter.answer(id).expect("an answer");
    assert_eq!(answer.status(), NtStatus::SUCCESS);
    assert!(!answer.header.is_async() && answer.header.credits() > 0);
    assert_eq!(deleter.deadline(), None, "nothing is left to be told of");

    let world = SmbTestServer::in_memory();
    let (mut holder, kept, mut deleter, id) = a_mark_that_waits(&world);
    let due = deleter.deadline().expect("a time at which it is told");
    world.clock.advance(Duration::from_nanos(due - deleter.now().mono_ns - 1_000_000));
    deleter.pass_deadline();
    assert!(deleter.next().is_none(), "too early");
    world.clock.advance(Duration::from_millis(1));
    deleter.pass_deadline();
    let told = interim(&mut deleter, id);
    assert_eq!(deleter.deadline(), None);
    assert_eq!(holder.close(kept), NtStatus::SUCCESS);
    assert_eq!(last(&mut deleter, id, &told).status(), NtStatus::SUCCESS);
}
