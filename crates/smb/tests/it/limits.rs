//! A share with limits: requests are delayed until their time has come. Each is answered exactly once and
//! without an error, and others on the same connection are answered meanwhile.

use std::sync::Arc;
use std::time::Duration;

use share::limits::{Alarm, Limits, Provision, ShareLimits, Throughput};
use smb_wire::create::OplockLevel;
use smb_wire::create_context::{Contexts, RequestContext};
use smb_wire::fscc::FileInfoClass;
use smb_wire::{FileId, Header, NtStatus, SmbCommand, cancel, close, create, lock, read, set_info, write};
use testkit::smb::client::OpenFile;
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, SmbTestServer};

/// The test itself advances the time.
struct ManualAlarm;

impl Alarm for ManualAlarm {
    fn set(&self, _at_ns: u64) {}
}

/// A world whose share allows ten reads and writes a second, and as many other operations.
struct Limited {
    world: SmbTestServer,
    limits: Arc<Limits>,
    share: ShareLimits,
}

impl Limited {
    fn new(metadata: u64) -> Limited {
        Limited::over(SmbTestServer::in_memory(), metadata)
    }

    fn over(world: SmbTestServer, metadata: u64) -> Limited {
        let provision = Provision {
            operations: 10,
            burst: 10,
            burst_credits: 0,
            throughput: Throughput::Together(1 << 40),
            metadata,
            file_operations: 1_000_000,
            file_bytes: 1 << 40,
            file_size: 4 << 40,
        };
        let now = world.clock.read();
        let limits = Limits::new(None, Arc::new(ManualAlarm), now);
        let share = limits.set_share(1, provision, Some(0), now);
        Limited { world, limits, share }
    }

    fn begin(&self) {
        self.world.engine.set_limits(Some(self.share.clone()));
    }

    /// Advances the time and resumes the requests that are due.
    fn pass(&self, ms: u64) {
        self.world.clock.advance(Duration::from_millis(ms));
        self.limits.release(self.world.clock.read());
    }

    fn held(&self) -> usize {
        self.share.state(self.world.clock.read()).expect("the share").held
    }
}

fn ask_read(client: &mut Peer, file: FileId) -> u64 {
    client.start(SmbCommand::Read, |out| read::Request::new(file, 0, 4).write(out))
}

fn ask_write(client: &mut Peer, file: FileId, data: &[u8]) -> u64 {
    client.start(SmbCommand::Write, |out| write::Request::new(file, 0, data).write(out))
}

/// The only reply to a throttled request, without an interim response.
fn last(client: &mut Peer, id: u64) -> NtStatus {
    let answer = client.answer(id).expect("an answer");
    assert!(!answer.header.is_async(), "nobody was told STATUS_PENDING");
    assert!(client.answer(id).is_none(), "only one answer");
    answer.status()
}

#[test]
fn a_read_waits_for_its_turn_and_nothing_else_waits_for_it() {
    for dial in [Dial::default(), Dial { seals: true, ..Dial::default() }] {
        let limited = Limited::new(1000);
        let mut client = limited.world.dial(&dial);
        client.make("file", b"data");
        let file = client.open("file");
        limited.begin();
        let asked: Vec<u64> = (0..3).map(|_| ask_read(&mut client, file)).collect();
        assert_eq!(client.answer(asked[0]).expect("the first one passes").data(), b"data");
        assert!(asked.iter().all(|&id| client.answer(id).is_none()));
        assert_eq!(limited.held(), 2);
        assert_eq!(
            client.status(SmbCommand::Echo, |out| smb_wire::echo::Request.write(out)),
            NtStatus::SUCCESS
        );
        let other = client.open("other");
        assert_eq!(client.close(other), NtStatus::SUCCESS);
        limited.pass(100);
        assert_eq!(client.answer(asked[1]).expect("its time has come").data(), b"data");
        assert!(client.answer(asked[2]).is_none());
        limited.pass(100);
        assert_eq!(last(&mut client, asked[2]), NtStatus::SUCCESS);
        assert!(client.next().is_none());
        // Without limits no request waits.
        limited.world.engine.set_limits(None);
        for _ in 0..50 {
            assert_eq!(client.read(file, 0, 4).data(), b"data");
        }
    }
}

#[test]
fn a_cold_read_that_was_held_asks_only_once() {
    let limited = Limited::over(SmbTestServer::cold(), 1000);
    let mut client = limited.world.client();
    client.make("file", b"data");
    let file = client.open("file");
    limited.begin();
    let asked = [ask_read(&mut client, file), ask_read(&mut client, file)];
    assert_eq!(last(&mut client, asked[0]), NtStatus::SUCCESS);
    limited.pass(100);
    assert_eq!(last(&mut client, asked[1]), NtStatus::SUCCESS);
    let counts = limited.share.state(limited.world.clock.read()).expect("the share").counts;
    assert_eq!(counts.iter().sum::<u64>(), 2);
}

#[test]
fn a_close_waits_for_a_read_that_is_held() {
    for world in [SmbTestServer::in_memory(), SmbTestServer::cold()] {
        let limited = Limited::over(world, 1000);
        let mut client = limited.world.client();
        client.make("file", b"data");
        let file_id = client.open("file");
        limited.begin();
        let [first, held] = [ask_read(&mut client, file_id), ask_read(&mut client, file_id)];
        let flags = close::CloseFlags::empty();
        let close = client.start(SmbCommand::Close, |out| close::Request { flags, file_id }.write(out));
        assert_eq!(last(&mut client, first), NtStatus::SUCCESS);
        assert!(client.answer(held).is_none() && client.answer(close).is_none());
        limited.pass(100);
        assert_eq!(last(&mut client, held), NtStatus::SUCCESS);
        assert_eq!(last(&mut client, close), NtStatus::SUCCESS);
    }
}

#[test]
fn a_write_is_done_at_once_and_its_answer_waits() {
    let limited = Limited::new(1000);
    let mut client = limited.world.client();
    let file = client.open("file");
    limited.begin();
    let first = ask_write(&mut client, file, b"a");
    let second = ask_write(&mut client, file, b"longer");
    assert_eq!(last(&mut client, first), NtStatus::SUCCESS);
    assert!(client.answer(second).is_none());
    let seen = client.create(&OpenFile::named("file"));
    let size = create::Response::parse(&seen.message).expect("a CREATE response").info.end_of_file;
    assert_eq!(size, 6);
    // It was carried out and cannot be cancelled.
    let mut header = Header::request(SmbCommand::Cancel, second);
    header.set_session_id(client.session_id);
    client.send(whole(&header, |out| cancel::Request.write(out)));
    assert!(client.next().is_none());
    limited.pass(100);
    assert_eq!(last(&mut client, second), NtStatus::SUCCESS);
}

#[test]
fn a_compound_goes_on_where_it_was_held() {
    let limited = Limited::new(1000);
    let mut client = limited.world.client();
    client.make("file", b"data");
    let file = client.open("file");
    limited.begin();
    let passes = ask_read(&mut client, file);
    assert_eq!(last(&mut client, passes), NtStatus::SUCCESS);
    let related = FileId { persistent: u64::MAX, volatile: u64::MAX };
    let messages = vec![
        client.message(SmbCommand::Create, |out| OpenFile::named("file").write(out)),
        client.message(SmbCommand::Read, |out| read::Request::new(related, 0, 4).write(out)),
        client.message(SmbCommand::Write, |out| write::Request::new(related, 0, b"DATA").write(out)),
        client.message(SmbCommand::Close, |out| {
            close::Request { flags: close::CloseFlags::empty(), file_id: related }.write(out)
        }),
    ];
    let frame = client.compound(messages, true);
    client.deliver(frame);
    assert!(client.next().is_none(), "one frame is answered with one");
    limited.pass(100);
    assert!(client.next().is_none(), "its WRITE waits, too");
    limited.pass(100);
    let answers: Vec<_> = std::iter::from_fn(|| client.next()).collect();
    assert!(
        answers.iter().all(|answer| answer.status() == NtStatus::SUCCESS && answer.frame == answers[0].frame)
    );
    assert_eq!((answers.len(), answers[1].data()), (4, &b"data"[..]));
    limited.pass(100);
    assert_eq!(client.read(file, 0, 4).data(), b"DATA");
}

#[test]
fn a_held_read_can_be_taken_back_and_gives_its_place_up() {
    let limited = Limited::new(1000);
    let mut client = limited.world.client();
    let file = client.open("file");
    assert_eq!(client.write(file, 0, b"data"), NtStatus::SUCCESS);
    limited.begin();
    let asked = [ask_read(&mut client, file), ask_read(&mut client, file), ask_read(&mut client, file)];
    assert_eq!(last(&mut client, asked[0]), NtStatus::SUCCESS);
    let mut header = Header::request(SmbCommand::Cancel, asked[1]);
    header.set_session_id(client.session_id);
    client.send(whole(&header, |out| cancel::Request.write(out)));
    assert_eq!(last(&mut client, asked[1]), NtStatus::CANCELLED);
    assert_eq!(limited.held(), 1);
    limited.pass(100);
    assert_eq!(last(&mut client, asked[2]), NtStatus::SUCCESS);
    assert!(client.next().is_none());
}

#[test]
fn opens_are_held_by_the_limit_for_metadata_alone() {
    let limited = Limited::new(10);
    let mut client = limited.world.client();
    let file = client.open("file");
    limited.begin();
    let asked: Vec<u64> =
        (0..2).map(|_| client.start(SmbCommand::Create, |out| OpenFile::named("new").write(out))).collect();
    assert_eq!(last(&mut client, asked[0]), NtStatus::SUCCESS);
    assert!(client.answer(asked[1]).is_none());
    assert_eq!(client.read(file, 0, 4).status(), NtStatus::END_OF_FILE);
    limited.pass(100);
    assert_eq!(last(&mut client, asked[1]), NtStatus::SUCCESS);
    // A request that ends a session, or breaks nothing, is never throttled.
    assert_eq!(
        client.status(SmbCommand::TreeDisconnect, |out| smb_wire::tree_disconnect::Request.write(out)),
        NtStatus::SUCCESS
    );
}

/// Locks the first byte with a sequence number.
fn ask_lock(client: &mut Peer, file: FileId) -> u64 {
    let flags = lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY;
    let elements = [lock::LockElement { offset: 0, length: 1, flags }];
    client.start(SmbCommand::Lock, |out| {
        let locks = smb_wire::WireList::Values(&elements);
        lock::Request { lock_sequence_number: 5, lock_sequence_index: 1, file_id: file, locks }.write(out);
    })
}

// MS-SMB2 3.3.5.14
#[test]
fn a_lock_that_is_sent_again_and_held_is_not_taken_again() {
    let limited = Limited::new(10);
    let mut client = limited.world.client();
    let file = client.open("file");
    limited.begin();
    let asked = [ask_lock(&mut client, file), ask_lock(&mut client, file), ask_lock(&mut client, file)];
    assert_eq!(last(&mut client, asked[0]), NtStatus::SUCCESS);
    assert!(client.answer(asked[1]).is_none());
    limited.pass(100);
    assert_eq!(last(&mut client, asked[1]), NtStatus::SUCCESS);
    // A throttled request did not wait for a range: it gets the same status as any other whose tree is gone.
    assert!(client.answer(asked[2]).is_none());
    let left = client.status(SmbCommand::TreeDisconnect, |out| smb_wire::tree_disconnect::Request.write(out));
    assert_eq!(left, NtStatus::SUCCESS);
    limited.pass(100);
    assert_eq!(last(&mut client, asked[2]), NtStatus::NETWORK_NAME_DELETED);
}

#[test]
fn as_many_are_held_as_a_client_has_credits_for_and_none_is_refused() {
    let limited = Limited::new(1000);
    let mut client = limited.world.client();
    client.make("file", b"data");
    let file = client.open("file");
    limited.begin();
    let mut asked: Vec<u64> = Vec::new();
    for n in 0..1500 {
        asked.push(ask_read(&mut client, file));
        if n % 16 == 0 {
            // Its replies bring more credits.
            assert_eq!(
                client.status(SmbCommand::Echo, |out| smb_wire::echo::Request.write(out)),
                NtStatus::SUCCESS
            );
        }
    }
    assert!(limited.held() > 1400);
    for _ in 0..1600 {
        limited.pass(100);
        client.turn();
    }
    assert_eq!(limited.held(), 0);
    for id in asked {
        assert_eq!(last(&mut client, id), NtStatus::SUCCESS);
    }
}

#[test]
fn who_is_gone_is_not_waited_for() {
    let limited = Limited::new(1000);
    let mut client = limited.world.client();
    let mut other = limited.world.dial(&Dial::elsewhere());
    let (file, own) = (client.open("file"), other.open("file"));
    assert_eq!(client.write(file, 0, b"data"), NtStatus::SUCCESS);
    limited.begin();
    for _ in 0..20 {
        ask_read(&mut client, file);
        ask_write(&mut client, file, b"x");
    }
    let waits = ask_read(&mut other, own);
    client.hang_up();
    assert_eq!(limited.held(), 1);
    // The share owes the written bytes, but not those of the cancelled reads.
    limited.pass(1500);
    assert!(other.answer(waits).is_none(), "a lost connection is no way around the limits");
    limited.pass(1000);
    assert_eq!(last(&mut other, waits), NtStatus::SUCCESS);
    // The end of a session answers the requests that it still owes.
    let waits = [ask_read(&mut other, own), ask_write(&mut other, own, b"y"), ask_read(&mut other, own)];
    assert_eq!(
        other.status(SmbCommand::Logoff, |out| smb_wire::logoff::Request.write(out)),
        NtStatus::SUCCESS
    );
    limited.pass(100);
    limited.pass(100);
    limited.pass(100);
    assert!(waits.iter().all(|&id| other.answer(id).is_some()));
    assert_eq!(limited.held(), 0);
}

/// Sends a request to truncate a file.
fn ask_truncation(client: &mut Peer, file_id: FileId) -> u64 {
    client.start(SmbCommand::SetInfo, |out| {
        set_info::Request::of_file(FileInfoClass::END_OF_FILE, file_id, &[0; 8]).write(out);
    })
}

// MS-SMB2 3.3.5.5.3
#[test]
fn what_is_held_when_its_session_ends_is_not_done_behind_what_comes_next() {
    let limited = Limited::new(10);
    let mut old = limited.world.client();
    let asked = [RequestContext::DurableHandleRequest];
    let (oplock, contexts) = (OplockLevel::Batch, Contexts::Requests(&asked));
    let file = old.create(&OpenFile { oplock, contexts, ..OpenFile::named("file") }).file_id();
    limited.begin();
    let passes = ask_truncation(&mut old, file);
    assert_eq!(last(&mut old, passes), NtStatus::SUCCESS);
    let held = ask_truncation(&mut old, file);
    assert!(old.answer(held).is_none());
    // Its place is kept, though others are not limited any more.
    limited.world.engine.set_limits(None);
    let mut new = limited.world.dial(&Dial { previous_session_id: old.session_id, ..Dial::default() });
    let back = [RequestContext::DurableHandleReconnect(file)];
    let contexts = Contexts::Requests(&back);
    let file = new.create(&OpenFile { contexts, ..OpenFile::named("file") }).file_id();
    assert_eq!(new.write(file, 0, b"newer"), NtStatus::SUCCESS);
    limited.pass(1000);
    assert_eq!(old.answer(held).expect("an answer").status(), NtStatus::USER_SESSION_DELETED);
    assert_eq!(new.read(file, 0, 100).data(), b"newer");
}

#[test]
fn the_bytes_of_a_large_read_that_is_refused_are_given_back() {
    const LARGE: u32 = 512 << 10;
    let limited = Limited::new(1000);
    // Signed data is always copied.
    let mut client = limited.world.dial(&Dial { requires_signing: false, ..Dial::default() });
    // FILE_WRITE_DATA only (MS-SMB2 2.2.13.1.1).
    let access = smb_wire::create::Access::from_bits_retain(2);
    let file = client.create(&OpenFile { access, ..OpenFile::named("file") }).file_id();
    limited.begin();
    let now = limited.world.clock.read();
    let provision = limited.share.state(now).expect("the share").provision;
    let slow = Provision {
        operations: 1_000_000,
        burst: 1_000_000,
        throughput: Throughput::Together(1 << 20),
        ..provision
    };
    limited.limits.set_share(1, slow, None, now);
    limited.pass(1000);
    for _ in 0..4 {
        assert_eq!(client.read(file, 0, LARGE).status(), NtStatus::ACCESS_DENIED);
    }
    assert_eq!(limited.held(), 0);
}

// MS-FSA 2.1.5.4, 2.1.5.15.1, 2.1.5.15.5
#[test]
fn no_file_grows_beyond_the_largest() {
    const LARGEST: u64 = 4 << 40;
    let world = SmbTestServer::with_largest(LARGEST);
    let mut client = world.client();
    client.make("file", b"data");
    let file = client.open("file");
    assert_eq!(client.write(file, LARGEST - 3, b"end"), NtStatus::SUCCESS);
    assert_eq!(client.write(file, LARGEST - 3, b"ends"), NtStatus::INVALID_PARAMETER);
    for class in [FileInfoClass::END_OF_FILE, FileInfoClass::ALLOCATION] {
        let mut set = |size: u64| {
            client.status(SmbCommand::SetInfo, |out| {
                set_info::Request::of_file(class, file, &size.to_le_bytes()).write(out);
            })
        };
        let statuses = [LARGEST + 1, LARGEST].map(&mut set);
        assert_eq!(statuses, [NtStatus::INVALID_PARAMETER, NtStatus::SUCCESS], "{class:?}");
    }
    assert_eq!(client.write(file, LARGEST - 4, b"last"), NtStatus::SUCCESS);
}
