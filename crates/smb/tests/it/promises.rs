//! A client may rely on each response about a persistent handle or its byte ranges. That also holds for the
//! response to a replay that came while the first request was waiting for the disk (MS-SMB2 3.3.5.9,
//! 3.3.5.14).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smb_wire::create::Disposition;
use smb_wire::create_context::{Contexts, DurableFlags, RequestContext};
use smb_wire::header::Flags as HeaderFlags;
use smb_wire::lock::{self, LockElement, LockFlags};
use smb_wire::{FileId, Guid, NtStatus, SmbCommand, WireList, change_notify, create};
use testkit::smb::client::OpenFile;
use testkit::smb::{Dial, Peer, SmbTestServer};
use volume::Failure;
use volume::journal::{Journal, JournalPosition, MemoryJournal};
use volume::memory::MemoryVolume;

const CONTEXT: RequestContext<'static> = RequestContext::DurableHandleRequestV2 {
    timeout: 0,
    flags: DurableFlags::PERSISTENT,
    create_guid: Guid(*b"first of creates"),
};

/// A journal whose disk fails at times.
#[derive(Default)]
struct Flaky {
    journal: MemoryJournal,
    fails: AtomicBool,
}

impl Journal for Flaky {
    fn append(&self, record: &[u8]) -> volume::Result<JournalPosition> {
        self.journal.append(record)
    }

    fn commit(&self, position: JournalPosition) -> volume::Result<()> {
        if self.fails.load(Ordering::Relaxed) { Err(Failure::NoSpace) } else { self.journal.commit(position) }
    }

    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> volume::Result<()> {
        self.journal.replace(records)
    }

    fn size(&self) -> u64 {
        self.journal.size()
    }
}

/// Two channels of one session. Requests that wait for the disk are held back until they are released.
struct DiskChannels {
    world: SmbTestServer,
    disk: Arc<Flaky>,
    main: Peer,
    second: Peer,
}

fn bench() -> DiskChannels {
    let disk = Arc::new(Flaky::default());
    let world = SmbTestServer::persistent_in(&MemoryVolume::new(1), disk.clone(), &[]);
    let mut main = world.client();
    let mut second = world.bind(&Dial::default(), &main);
    (main.holds_jobs, second.holds_jobs) = (true, true);
    DiskChannels { world, disk, main, second }
}

impl DiskChannels {
    /// Lets one request continue with a working or failing disk. Returns its status.
    fn ends(disk: &Flaky, peer: &mut Peer, id: u64, fails: bool) -> NtStatus {
        disk.fails.store(fails, Ordering::Relaxed);
        peer.run_job(0);
        disk.fails.store(false, Ordering::Relaxed);
        peer.answer(id).expect("an answer").status()
    }

    fn main_ends(&mut self, id: u64, fails: bool) -> NtStatus {
        DiskChannels::ends(&self.disk, &mut self.main, id, fails)
    }

    fn second_ends(&mut self, id: u64, fails: bool) -> NtStatus {
        DiskChannels::ends(&self.disk, &mut self.second, id, fails)
    }

    /// A handle whose CREATE was answered.
    fn open(&mut self) -> FileId {
        let id = create(&mut self.main, false);
        self.main.run_job(0);
        self.main.answer(id).expect("an answer").file_id()
    }
}

fn create(peer: &mut Peer, is_replay: bool) -> u64 {
    let contexts = [CONTEXT];
    let contexts = Contexts::Requests(&contexts);
    let open = OpenFile { disposition: Disposition::Create, contexts, ..OpenFile::named("f") };
    start(peer, SmbCommand::Create, is_replay, |out| open.write(out))
}

fn lock(peer: &mut Peer, file_id: FileId, flags: LockFlags, number: u8, is_replay: bool) -> u64 {
    let elements = [LockElement { offset: 0, length: 5, flags }];
    start(peer, SmbCommand::Lock, is_replay, |out| {
        let (locks, lock_sequence_index) = (WireList::Values(&elements), 1);
        lock::Request { lock_sequence_number: number, lock_sequence_index, file_id, locks }.write(out);
    })
}

fn start(peer: &mut Peer, command: SmbCommand, is_replay: bool, body: impl FnOnce(&mut Vec<u8>)) -> u64 {
    let mut header = peer.header(command);
    if is_replay {
        header.set_flags(header.flags() | HeaderFlags::REPLAY_OPERATION);
    }
    let id = peer.send(testkit::smb::peer::whole(&header, body));
    assert!(
        peer.answer(id).is_none_or(|answer| answer.status() == NtStatus::PENDING),
        "it waits for the disk"
    );
    id
}

const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY);

#[test]
fn a_replayed_create_that_was_answered_keeps_its_handle_though_the_disk_fails_the_first() {
    let mut bench = bench();
    let first = create(&mut bench.main, false);
    let again = create(&mut bench.second, true);
    bench.second.run_job(0);
    let file = bench.second.answer(again).expect("an answer").file_id();
    assert!(bench.main_ends(first, true).is_error());
    assert_eq!(bench.second.write(file, 0, b"text"), NtStatus::SUCCESS);
}

#[test]
fn a_replayed_create_is_not_answered_with_a_handle_that_the_disk_failed() {
    let mut bench = bench();
    let first = create(&mut bench.main, false);
    let again = create(&mut bench.second, true);
    let late = create(&mut bench.second, true);
    assert!(bench.main_ends(first, true).is_error());
    assert_eq!(bench.second_ends(again, false), NtStatus::FILE_NOT_AVAILABLE);
    assert!(bench.second_ends(late, true).is_error());
    assert_eq!((bench.world.server.opens.len(), bench.world.engine.open_count()), (0, 0));
    // The file exists, like that of any CREATE with a lost response.
    bench.main.holds_jobs = false;
    let looked = bench.main.create(&OpenFile { disposition: Disposition::Open, ..OpenFile::named("f") });
    assert_eq!(create::Response::parse(&looked.message).map(|found| found.info.end_of_file), Ok(0));
}

#[test]
fn a_replayed_lock_that_was_answered_keeps_its_range_though_the_disk_fails_the_first() {
    let mut bench = bench();
    let file = bench.open();
    let first = lock(&mut bench.main, file, EXCLUSIVE, 1, false);
    let again = lock(&mut bench.second, file, EXCLUSIVE, 1, true);
    assert_eq!(bench.second_ends(again, false), NtStatus::SUCCESS);
    assert!(bench.main_ends(first, true).is_error());
    assert_eq!(bench.world.engine.held_ranges().len(), 1);
}

#[test]
fn a_lock_that_the_disk_failed_is_done_anew_and_not_taken_for_done() {
    let mut bench = bench();
    let file = bench.open();
    let first = lock(&mut bench.main, file, EXCLUSIVE, 1, false);
    let again = lock(&mut bench.second, file, EXCLUSIVE, 1, true);
    assert!(bench.main_ends(first, true).is_error());
    assert!(bench.world.engine.held_ranges().is_empty());
    assert_eq!(bench.second_ends(again, false), NtStatus::FILE_NOT_AVAILABLE);
    let once_more = lock(&mut bench.second, file, EXCLUSIVE, 1, true);
    assert_eq!(bench.second_ends(once_more, false), NtStatus::SUCCESS);
    assert_eq!(bench.world.engine.held_ranges().len(), 1);
    // A released range stays released in any state of the disk. The replay still waits for the disk.
    let gone = lock(&mut bench.main, file, LockFlags::UNLOCK, 2, false);
    assert!(bench.main_ends(gone, true).is_error());
    let again = lock(&mut bench.second, file, LockFlags::UNLOCK, 2, true);
    assert_eq!(bench.second_ends(again, false), NtStatus::SUCCESS);
    assert!(bench.world.engine.held_ranges().is_empty());
}

#[test]
fn what_has_taken_effect_is_answered_whatever_else_waits_on_its_connection() {
    let mut bench = bench();
    let directory = bench.main.create(&OpenFile::directory("d")).file_id();
    let watch = |main: &mut Peer| {
        main.start(SmbCommand::ChangeNotify, |out| {
            change_notify::Request {
                flags: change_notify::ChangeNotifyFlags::empty(),
                output_buffer_length: 1024,
                file_id: directory,
                completion_filter: change_notify::CompletionFilter::FILE_NAME,
            }
            .write(out);
        })
    };
    let is_full = (0..2000).any(|_| {
        let id = watch(&mut bench.main);
        bench.main.answer(id).expect("an answer").status() == NtStatus::INSUFFICIENT_RESOURCES
    });
    assert!(is_full, "so much may not wait");
    let file = bench.open();
    let taken = lock(&mut bench.main, file, EXCLUSIVE, 1, false);
    assert_eq!(bench.main_ends(taken, false), NtStatus::SUCCESS);
    assert_eq!(bench.world.engine.held_ranges().len(), 1);
}

#[test]
fn a_lock_that_comes_after_its_replay_was_failed_by_the_disk_takes_nothing() {
    let mut bench = bench();
    let file = bench.open();
    let elements = [LockElement { offset: 0, length: 5, flags: EXCLUSIVE }];
    let send = |peer: &mut Peer, sequence| {
        let mut header = peer.header(SmbCommand::Lock);
        header.set_channel_sequence(sequence);
        peer.send(testkit::smb::peer::whole(&header, |out| {
            let (locks, lock_sequence_index, lock_sequence_number) = (WireList::Values(&elements), 1, 1);
            lock::Request { lock_sequence_number, lock_sequence_index, file_id: file, locks }.write(out);
        }))
    };
    let replay = send(&mut bench.second, 1);
    assert!(bench.second_ends(replay, true).is_error());
    let late = send(&mut bench.main, 0);
    assert_eq!(bench.main.answer(late).expect("an answer").status(), NtStatus::FILE_NOT_AVAILABLE);
}
