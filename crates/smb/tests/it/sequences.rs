//! Late and repeated requests: which of them have an effect, by the ChannelSequence of an Open and the
//! sequence numbers of its locks.

use smb_wire::fscc::FileInfoClass;
use smb_wire::header::Flags;
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::lock::{self, LockElement};
use smb_wire::negotiate::Dialect;
use smb_wire::query_info::{self, InfoType};
use smb_wire::{FileId, NtStatus, SmbCommand, cancel, echo, read, set_info, write};
use testkit::smb::peer::whole;
use testkit::smb::{Dial, Peer, SmbTestServer};

/// A request with its position in the order of the client's channels.
#[derive(Clone, Copy)]
struct SequencedRequest {
    sequence: u16,
    is_replay: bool,
}

const fn first(sequence: u16) -> SequencedRequest {
    SequencedRequest { sequence, is_replay: false }
}

const fn again(sequence: u16) -> SequencedRequest {
    SequencedRequest { sequence, is_replay: true }
}

impl SequencedRequest {
    fn start(self, peer: &mut Peer, command: SmbCommand, body: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let mut header = peer.header(command);
        header.set_channel_sequence(self.sequence);
        if self.is_replay {
            header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
        }
        peer.send(whole(&header, body))
    }

    fn status(self, peer: &mut Peer, command: SmbCommand, body: impl FnOnce(&mut Vec<u8>)) -> NtStatus {
        let id = self.start(peer, command, body);
        peer.answer(id).expect("an answer").status()
    }

    fn write(self, peer: &mut Peer, file: FileId, data: &[u8]) -> NtStatus {
        self.status(peer, SmbCommand::Write, |out| write::Request::new(file, 0, data).write(out))
    }

    fn truncate(self, peer: &mut Peer, file: FileId) -> NtStatus {
        self.status(peer, SmbCommand::SetInfo, |out| {
            set_info::Request::of_file(FileInfoClass::END_OF_FILE, file, &[0; 8]).write(out);
        })
    }

    fn punch(self, peer: &mut Peer, file: FileId) -> NtStatus {
        let hole: Vec<u8> = [0_u64, 8].iter().flat_map(|at| at.to_le_bytes()).collect();
        self.status(peer, SmbCommand::Ioctl, |out| {
            ioctl::Request::fsctl(CtlCode::SetZeroData, file, &hole, 0).write(out)
        })
    }

    fn read(self, peer: &mut Peer, file: FileId) -> Vec<u8> {
        let id = self.start(peer, SmbCommand::Read, |out| read::Request::new(file, 0, 100).write(out));
        peer.answer(id).expect("an answer").data().to_vec()
    }

    fn lock(self, peer: &mut Peer, file: FileId, flags: lock::LockFlags) -> u64 {
        self.start(peer, SmbCommand::Lock, |out| locking(file, 0, 0, flags).write(out))
    }
}

/// A LOCK of the first ten bytes.
fn locking(file: FileId, index: u32, number: u8, flags: lock::LockFlags) -> lock::Request<'static> {
    const WAIT: [LockElement; 1] =
        [LockElement { offset: 0, length: 10, flags: lock::LockFlags::EXCLUSIVE_LOCK }];
    const NOW: [LockElement; 1] = [LockElement {
        flags: lock::LockFlags::EXCLUSIVE_LOCK.union(lock::LockFlags::FAIL_IMMEDIATELY),
        ..WAIT[0]
    }];
    const OFF: [LockElement; 1] = [LockElement { flags: lock::LockFlags::UNLOCK, ..WAIT[0] }];
    let locks = [&WAIT, &NOW, &OFF].into_iter().find(|elements| elements[0].flags == flags);
    lock::Request {
        lock_sequence_number: number,
        lock_sequence_index: index,
        file_id: file,
        locks: smb_wire::WireList::Values(locks.expect("one of these")),
    }
}

/// Checks that every change of a file is refused, and that reads are not.
fn is_held_off(peer: &mut Peer, file: FileId, sent: SequencedRequest, content: &[u8]) {
    let refused = NtStatus::FILE_NOT_AVAILABLE;
    assert_eq!(sent.write(peer, file, b"changed!"), refused);
    assert_eq!(sent.truncate(peer, file), refused);
    assert_eq!(sent.punch(peer, file), refused);
    assert_eq!(sent.read(peer, file), content);
    let looked = sent.status(peer, SmbCommand::QueryInfo, |out| {
        query_info::Request {
            info_type: InfoType::File,
            file_info_class: FileInfoClass::STANDARD.0,
            output_buffer_length: 24,
            additional_information: 0,
            flags: query_info::QueryInfoFlags::empty(),
            file_id: file,
            input_buffer: &[],
        }
        .write(out);
    });
    assert_eq!(looked, NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.2.10
#[test]
fn what_comes_late_changes_nothing() {
    for dial in [Dial::default(), Dial::with(Dialect::Smb300), Dial { seals: true, ..Dial::default() }] {
        let world = SmbTestServer::in_memory();
        let mut client = world.dial(&dial);
        let file = client.open("file");
        // From the sequence of the CREATE on, half of the numbers are ahead and half behind.
        let mut now = 0_u16;
        for (step, content) in
            [(0, b"round 00"), (1, b"round 01"), (0x7fff, b"round 02"), (0x7fff, b"round 03")]
        {
            now = now.wrapping_add(step);
            for sent in [first(now), again(now)] {
                assert_eq!(sent.write(&mut client, file, content), NtStatus::SUCCESS);
            }
            for behind in [1, 2, 0x4000, 0x8000] {
                for sent in [first(now.wrapping_sub(behind)), again(now.wrapping_sub(behind))] {
                    is_held_off(&mut client, file, sent, content);
                }
            }
        }
        // Another Open has its own order, which starts with its CREATE.
        let other = client.open("another");
        assert_eq!(first(1).write(&mut client, other, b"x"), NtStatus::SUCCESS);
        assert_eq!(first(now).truncate(&mut client, file), NtStatus::SUCCESS);
    }
}

// MS-SMB2 3.3.5.2.10
#[test]
fn a_dialect_without_channels_has_no_such_order() {
    let world = SmbTestServer::in_memory();
    let mut client = world.dial(&Dial::with(Dialect::Smb210));
    let file = client.open("file");
    for sequence in [5, 0, 0x9000, 1] {
        assert_eq!(first(sequence).write(&mut client, file, b"written"), NtStatus::SUCCESS);
    }
}

// MS-SMB2 3.3.5.2.10
#[test]
fn nothing_is_done_again_while_earlier_requests_are_under_way() {
    let world = SmbTestServer::in_memory();
    let (mut client, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let (file, theirs) = (client.open("file"), other.open("file"));
    assert_eq!(first(0).write(&mut client, file, b"original"), NtStatus::SUCCESS);
    let now = lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY;
    let held = first(0).lock(&mut other, theirs, now);
    assert_eq!(other.answer(held).unwrap().status(), NtStatus::SUCCESS);

    // A waiting request with sequence 0. Then the client loses a channel.
    let waits = first(0).lock(&mut client, file, lock::LockFlags::EXCLUSIVE_LOCK);
    let told = client.answer(waits).expect("an interim answer");
    assert_eq!(told.status(), NtStatus::PENDING);
    assert_eq!(again(1).write(&mut client, file, b"replayed"), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(again(1).truncate(&mut client, file), NtStatus::FILE_NOT_AVAILABLE);
    // With the next sequence since then. The refused requests must not have confused the counts.
    assert_eq!(again(2).punch(&mut client, file), NtStatus::FILE_NOT_AVAILABLE);
    // A new request goes on, but the lock of the other client is a conflict.
    assert_eq!(first(2).write(&mut client, file, b"replayed"), NtStatus::FILE_LOCK_CONFLICT);
    let unlock = first(0).lock(&mut other, theirs, lock::LockFlags::UNLOCK);
    assert_eq!(other.answer(unlock).unwrap().status(), NtStatus::SUCCESS);

    // It is answered, so the repeated request is carried out.
    assert_eq!(client.answer(waits).expect("the lock").status(), NtStatus::SUCCESS);
    assert_eq!(again(2).write(&mut client, file, b"replayed"), NtStatus::SUCCESS);
    assert_eq!(again(3).truncate(&mut client, file), NtStatus::SUCCESS);
}

#[test]
fn a_request_that_is_taken_back_or_lost_counts_no_more() {
    let world = SmbTestServer::in_memory();
    let (mut client, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let (file, theirs) = (client.open("file"), other.open("file"));
    let held = first(0).lock(&mut other, theirs, lock::LockFlags::EXCLUSIVE_LOCK);
    assert_eq!(other.answer(held).unwrap().status(), NtStatus::SUCCESS);
    let waits = first(0).lock(&mut client, file, lock::LockFlags::EXCLUSIVE_LOCK);
    let told = client.answer(waits).expect("an interim answer");
    assert_eq!(again(1).truncate(&mut client, file), NtStatus::FILE_NOT_AVAILABLE);
    let mut header = client.header(SmbCommand::Cancel);
    header.set_async_id(told.header.async_id());
    client.send(whole(&header, |out| cancel::Request.write(out)));
    assert_eq!(client.answer(waits).expect("taken back").status(), NtStatus::CANCELLED);
    assert_eq!(again(1).truncate(&mut client, file), NtStatus::SUCCESS);
}

#[test]
fn work_counts_until_it_is_done() {
    let world = SmbTestServer::on_disk();
    let mut client = world.client();
    let file = client.open("file");
    client.holds_jobs = true;
    let flush = first(0).start(&mut client, SmbCommand::Flush, |out| {
        smb_wire::flush::Request { reserved1: 0, file_id: file }.write(out);
    });
    assert!(client.answer(flush).is_none());
    assert_eq!(again(1).write(&mut client, file, b"replayed"), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(first(1).write(&mut client, file, b"new"), NtStatus::SUCCESS);
    client.run_jobs();
    assert_eq!(client.answer(flush).expect("flushed").status(), NtStatus::SUCCESS);
    assert_eq!(again(1).write(&mut client, file, b"replayed"), NtStatus::SUCCESS);
}

// MS-SMB2 3.3.5.2.10
#[test]
fn work_of_a_lost_channel_counts_until_it_is_done() {
    let world = SmbTestServer::on_disk();
    let dial = Dial::default();
    let mut first_channel = world.client();
    let mut second_channel = world.bind(&dial, &first_channel);
    let file = first_channel.open("file");
    assert_eq!(first(0).write(&mut first_channel, file, b"original"), NtStatus::SUCCESS);
    first_channel.holds_jobs = true;
    first(0).start(&mut first_channel, SmbCommand::Flush, |out| {
        smb_wire::flush::Request { reserved1: 0, file_id: file }.write(out);
    });
    let work = first_channel.take_jobs();
    first_channel.hang_up();
    assert_eq!(again(1).write(&mut second_channel, file, b"replayed"), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(again(1).read(&mut second_channel, file), b"original");
    work();
    assert_eq!(again(1).write(&mut second_channel, file, b"replayed"), NtStatus::SUCCESS);
    // A request of the lost channel that arrives only now changes nothing.
    is_held_off(&mut second_channel, file, first(0), b"replayed");
}

#[test]
fn work_counts_no_more_when_it_is_done_though_its_channel_takes_nothing() {
    let world = SmbTestServer::on_disk();
    let mut stuck = world.client();
    let mut next = world.bind(&Dial::default(), &stuck);
    let file = stuck.open("file");
    stuck.holds_jobs = true;
    first(0).start(&mut stuck, SmbCommand::Flush, |out| {
        smb_wire::flush::Request { reserved1: 0, file_id: file }.write(out);
    });
    assert_eq!(again(1).write(&mut next, file, b"replayed"), NtStatus::FILE_NOT_AVAILABLE);
    let unheard = stuck.run_jobs_unheard();
    assert_eq!(again(1).write(&mut next, file, b"replayed"), NtStatus::SUCCESS);
    assert_eq!(unheard.len(), 1);
}

// MS-SMB2 3.3.5.2.10
#[test]
fn a_request_that_waited_on_a_lost_channel_counts_no_more() {
    let world = SmbTestServer::in_memory();
    let dial = Dial::default();
    let (mut first_channel, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let mut second_channel = world.bind(&dial, &first_channel);
    let (file, theirs) = (first_channel.open("file"), other.open("file"));
    let held = first(0).lock(&mut other, theirs, lock::LockFlags::EXCLUSIVE_LOCK);
    assert_eq!(other.answer(held).unwrap().status(), NtStatus::SUCCESS);
    first(0).lock(&mut first_channel, file, lock::LockFlags::EXCLUSIVE_LOCK);
    assert_eq!(again(1).truncate(&mut second_channel, file), NtStatus::FILE_NOT_AVAILABLE);
    first_channel.hang_up();
    assert_eq!(again(1).truncate(&mut second_channel, file), NtStatus::SUCCESS);
}

// Locks ---------------------------------------------------------------------------------------------

/// Locks the first ten bytes without a wait, or unlocks them.
fn locked(client: &mut Peer, file: FileId, (index, number): (u32, u8), lock: bool) -> NtStatus {
    let now = lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY;
    let flags = if lock { now } else { lock::LockFlags::UNLOCK };
    client.status(SmbCommand::Lock, |out| locking(file, index, number, flags).write(out))
}

// MS-SMB2 3.3.5.14
#[test]
fn a_lock_that_is_sent_again_is_not_taken_again() {
    let world = SmbTestServer::in_memory();
    let (mut client, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let (file, theirs) = (client.open("file"), other.open("file"));
    let (done, refused) = (NtStatus::SUCCESS, NtStatus::LOCK_NOT_GRANTED);
    for index in [1, 64] {
        assert_eq!(locked(&mut client, file, (index, 3), true), done);
        assert_eq!(locked(&mut client, file, (index, 3), true), done, "the same once more");
        assert_eq!(locked(&mut other, theirs, (index, 3), true), refused);
        // Another number with the same index, and the same number with another index, are new requests.
        assert_eq!(locked(&mut client, file, (index, 4), true), refused);
        assert_eq!(locked(&mut client, file, (index % 64 + 1, 3), true), refused);
        // The other number has cleared the place.
        assert_eq!(locked(&mut client, file, (index, 3), true), refused);
        assert_eq!(locked(&mut client, file, (index, 5), false), done);
        assert_eq!(locked(&mut client, file, (index, 5), false), done, "unlocked already");
        assert_eq!(locked(&mut client, file, (index, 6), false), NtStatus::RANGE_NOT_LOCKED);
        assert_eq!(locked(&mut other, theirs, (0, 0), true), done);
        assert_eq!(locked(&mut other, theirs, (0, 0), false), done);
    }
}

// MS-SMB2 3.3.5.14
#[test]
fn a_lock_whose_answer_was_lost_is_known_on_the_next_channel() {
    let world = SmbTestServer::in_memory();
    let mut lost = world.client();
    let mut next = world.bind(&Dial::default(), &lost);
    let file = lost.open("file");
    assert_eq!(locked(&mut lost, file, (7, 9), true), NtStatus::SUCCESS);
    lost.hang_up();
    assert_eq!(locked(&mut next, file, (7, 9), true), NtStatus::SUCCESS);
    assert_eq!(locked(&mut next, file, (7, 10), false), NtStatus::SUCCESS);
    assert_eq!(locked(&mut next, file, (7, 11), false), NtStatus::RANGE_NOT_LOCKED, "it was held once");
}

// MS-SMB2 3.3.5.14
#[test]
fn a_lock_outside_the_places_or_the_dialects_is_taken_each_time() {
    let places = [(0, 3), (65, 3), (0x0fff_ffff, 3)];
    let world = SmbTestServer::in_memory();
    let mut client = world.client();
    let file = client.open("file");
    for range in places {
        assert_eq!(locked(&mut client, file, range, true), NtStatus::SUCCESS);
        assert_eq!(locked(&mut client, file, range, true), NtStatus::LOCK_NOT_GRANTED);
        assert_eq!(locked(&mut client, file, range, false), NtStatus::SUCCESS);
    }
    let alone = Dial { announces_multichannel: false, ..Dial::elsewhere() };
    for dial in [Dial::with(Dialect::Smb202), Dial::with(Dialect::Smb210), alone] {
        let mut client = world.dial(&dial);
        let file = client.open("file");
        assert_eq!(locked(&mut client, file, (1, 3), true), NtStatus::SUCCESS);
        assert_eq!(locked(&mut client, file, (1, 3), true), NtStatus::LOCK_NOT_GRANTED, "{dial:?}");
    }
}

/// Locks the first ten bytes and waits for them.
fn wait_for(client: &mut Peer, file: FileId, (index, number): (u32, u8)) -> u64 {
    let asked = |out: &mut Vec<u8>| locking(file, index, number, lock::LockFlags::EXCLUSIVE_LOCK).write(out);
    let id = client.start(SmbCommand::Lock, asked);
    assert_eq!(client.answer(id).expect("an interim answer").status(), NtStatus::PENDING);
    id
}

// MS-SMB2 3.3.5.14
#[test]
fn a_lock_that_is_sent_again_while_it_waits_is_granted_with_it() {
    let world = SmbTestServer::in_memory();
    let (mut silent, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let mut next = world.bind(&Dial::default(), &silent);
    let (file, theirs) = (silent.open("file"), other.open("file"));
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS);
    let first = wait_for(&mut silent, file, (7, 9));
    let replay = wait_for(&mut next, file, (7, 9));
    // Another request for the same range is independent, and keeps waiting.
    let unlike = wait_for(&mut next, file, (8, 9));
    assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
    assert!(next.answer(replay).is_none(), "the first one's turn comes first");
    assert_eq!(silent.next_is_urgent(), Some(true));
    assert_eq!(silent.answer(first).expect("an answer").status(), NtStatus::SUCCESS);
    assert_eq!(next.answer(replay).expect("an answer").status(), NtStatus::SUCCESS);
    assert!(next.answer(unlike).is_none());
    assert_eq!(locked(&mut next, file, (7, 10), false), NtStatus::SUCCESS);
    assert_eq!(next.answer(unlike).expect("an answer").status(), NtStatus::SUCCESS);
    assert_eq!(locked(&mut next, file, (7, 11), false), NtStatus::SUCCESS);
    assert_eq!(
        locked(&mut next, file, (7, 12), false),
        NtStatus::RANGE_NOT_LOCKED,
        "it was held twice in all"
    );
}

#[test]
fn a_range_goes_to_the_next_when_who_was_woken_for_it_is_gone() {
    for is_taken_back in [false, true] {
        let world = SmbTestServer::in_memory();
        let (mut lost, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
        let mut next = world.bind(&Dial::default(), &lost);
        let (file, theirs) = (lost.open("file"), other.open("file"));
        assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS);
        let first = wait_for(&mut lost, file, (7, 9));
        let replay = wait_for(&mut next, file, (7, 9));
        assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
        if is_taken_back {
            let mut header = smb_wire::Header::request(SmbCommand::Cancel, first);
            header.set_session_id(lost.session_id);
            lost.send(whole(&header, |out| cancel::Request.write(out)));
            assert_eq!(lost.answer(first).expect("an answer").status(), NtStatus::CANCELLED);
        } else {
            lost.hang_up();
        }
        assert_eq!(next.answer(replay).expect("an answer").status(), NtStatus::SUCCESS);
    }
}

/// Locks the first ten bytes without a wait, with the order of `sent` and this number.
fn asked(client: &mut Peer, file: FileId, sent: SequencedRequest, (index, number): (u32, u8)) -> NtStatus {
    let now = lock::LockFlags::EXCLUSIVE_LOCK | lock::LockFlags::FAIL_IMMEDIATELY;
    sent.status(client, SmbCommand::Lock, |out| locking(file, index, number, now).write(out))
}

#[test]
fn a_lock_that_comes_after_its_replay_was_refused_takes_nothing() {
    let world = SmbTestServer::in_memory();
    let (mut lost, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let mut next = world.bind(&Dial::default(), &lost);
    let (file, theirs) = (lost.open("file"), other.open("file"));
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS);
    // The request on the first channel is still on its way when it is repeated on the second.
    assert_eq!(asked(&mut next, file, first(1), (7, 9)), NtStatus::LOCK_NOT_GRANTED);
    assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
    assert_eq!(asked(&mut lost, file, first(0), (7, 9)), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS, "nobody has it");
    assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
    // A request with another number, on a channel that is not lost, is not late.
    assert_eq!(asked(&mut lost, file, first(0), (8, 9)), NtStatus::SUCCESS);
    assert_eq!(locked(&mut next, file, (9, 9), false), NtStatus::SUCCESS);
    // The same number is not late either when it comes again later.
    assert_eq!(asked(&mut next, file, first(1), (7, 9)), NtStatus::SUCCESS);
}

#[test]
fn what_is_done_under_the_number_of_a_refused_lock_keeps_its_first_copy_from_taking_anything() {
    let world = SmbTestServer::in_memory();
    let (mut lost, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let mut next = world.bind(&Dial::default(), &lost);
    let (file, theirs) = (lost.open("file"), other.open("file"));
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS);
    assert_eq!(asked(&mut next, file, first(0), (7, 9)), NtStatus::LOCK_NOT_GRANTED);
    // An empty range does not conflict with any lock.
    let nothing = |flags| [LockElement { offset: 0, length: 0, flags }];
    let change = |next: &mut Peer, index, number, flags| {
        let elements = nothing(flags);
        next.status(SmbCommand::Lock, |out| {
            lock::Request {
                lock_sequence_number: number,
                lock_sequence_index: index,
                file_id: file,
                locks: smb_wire::WireList::Values(&elements),
            }
            .write(out);
        })
    };
    let shared = lock::LockFlags::SHARED_LOCK | lock::LockFlags::FAIL_IMMEDIATELY;
    assert_eq!(change(&mut next, 7, 9, shared), NtStatus::SUCCESS);
    assert_eq!(change(&mut next, 8, 9, lock::LockFlags::UNLOCK), NtStatus::SUCCESS);
    assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
    assert_eq!(
        asked(&mut lost, file, first(0), (7, 9)),
        NtStatus::SUCCESS,
        "as the answer of one that was done"
    );
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS, "nobody has it");
}

#[test]
fn a_lock_that_waits_takes_nothing_once_its_replay_was_taken_back() {
    let world = SmbTestServer::in_memory();
    let (mut silent, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let mut next = world.bind(&Dial::default(), &silent);
    let mut third = world.dial(&Dial::elsewhere());
    let (file, theirs) = (silent.open("file"), other.open("file"));
    let last = third.open("file");
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS);
    let waiting = wait_for(&mut silent, file, (7, 9));
    let asked = |out: &mut Vec<u8>| locking(file, 7, 9, lock::LockFlags::EXCLUSIVE_LOCK).write(out);
    let replay = first(1).start(&mut next, SmbCommand::Lock, asked);
    let told = next.answer(replay).expect("an interim answer");
    let behind = wait_for(&mut third, last, (1, 0));
    let mut header = next.header(SmbCommand::Cancel);
    header.set_async_id(told.header.async_id());
    next.send(whole(&header, |out| cancel::Request.write(out)));
    assert_eq!(next.answer(replay).expect("taken back").status(), NtStatus::CANCELLED);
    assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
    assert_eq!(silent.answer(waiting).expect("an answer").status(), NtStatus::FILE_NOT_AVAILABLE);
    // The next waiter gets its turn.
    assert_eq!(third.answer(behind).expect("an answer").status(), NtStatus::SUCCESS);
}

#[test]
fn a_replay_whose_first_copy_was_done_is_not_taken_back() {
    let world = SmbTestServer::in_memory();
    let (mut silent, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let mut next = world.bind(&Dial::default(), &silent);
    let (file, theirs) = (silent.open("file"), other.open("file"));
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS);
    let waiting = wait_for(&mut silent, file, (7, 9));
    let asked = |out: &mut Vec<u8>| locking(file, 7, 9, lock::LockFlags::EXCLUSIVE_LOCK).write(out);
    let replay = first(1).start(&mut next, SmbCommand::Lock, asked);
    let told = next.answer(replay).expect("an interim answer");
    assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
    assert_eq!(silent.answer(waiting).expect("an answer").status(), NtStatus::SUCCESS);
    let mut header = next.header(SmbCommand::Cancel);
    header.set_async_id(told.header.async_id());
    next.send(whole(&header, |out| cancel::Request.write(out)));
    assert_eq!(next.answer(replay).expect("an answer").status(), NtStatus::SUCCESS);
    assert_eq!(locked(&mut next, file, (8, 9), false), NtStatus::SUCCESS, "it has it");
}

#[test]
fn a_lock_takes_nothing_once_its_replay_was_not_allowed_to_wait() {
    let world = SmbTestServer::in_memory();
    let (mut lost, mut other) = (world.client(), world.dial(&Dial::elsewhere()));
    let mut next = world.bind(&Dial::default(), &lost);
    let (file, theirs) = (lost.open("file"), other.open("file"));
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS);
    // MS-SMB2 3.3.4.2: another request follows it in its compound.
    let mut header = next.header(SmbCommand::Lock);
    header.set_channel_sequence(1);
    let replay = whole(&header, |out| locking(file, 7, 9, lock::LockFlags::EXCLUSIVE_LOCK).write(out));
    let behind = next.message(SmbCommand::Echo, |out| echo::Request.write(out));
    let frame = next.compound(vec![replay, behind], false);
    next.deliver(frame);
    let refused = next.answer(header.message_id()).expect("an answer").status();
    assert_eq!(refused, NtStatus::INTERNAL_ERROR);
    assert_eq!(locked(&mut other, theirs, (0, 0), false), NtStatus::SUCCESS);
    assert_eq!(asked(&mut lost, file, first(0), (7, 9)), NtStatus::FILE_NOT_AVAILABLE);
    assert_eq!(locked(&mut other, theirs, (0, 0), true), NtStatus::SUCCESS, "nobody has it");
}
