//! Opens that outlive the process: their state after a restart, and after a crash at any record.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::*;
use crate::hooked_journal::{HookedJournal, JournalHooks};
use crate::kept_opens::{UserLookup, keep_opens};
use proptest::prelude::*;
use share::{
    CacheKey, Caching, CallResult, Config, Deny, Detached, Disposition, LockRule, LossListener, Open,
    Options, RangeKind, RangeNote, RangeRequest, Refusal, Restored, Share, Unreadable,
};
use volume::Volume;
use volume::journal::{Journal, JournalPosition, MemoryJournal};
use volume::memory::MemoryVolume;
use wire::Now;

const RH: Caching = Caching::READ.union(Caching::HANDLE);
const RWH: Caching = Caching::all();
pub const SECOND: u64 = 1_000_000_000;

/// A share that records its opens, and its journal.
pub struct RecordedShare {
    pub world: TestShare,
    pub journal: Arc<MemoryJournal>,
}

struct IgnoredLosses;

impl LossListener for IgnoredLosses {
    fn on_lost(&self, _token: u64) {}
}

impl RecordedShare {
    pub fn new() -> RecordedShare {
        let world = TestShare::new();
        let journal = Arc::new(MemoryJournal::default());
        let restored = keep_opens(&world.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
        assert!(restored.is_empty());
        RecordedShare { world, journal }
    }

    /// The process ends at once, when the journal has these records, and another one starts.
    pub fn restart_with(&self, records: &[Vec<u8>]) -> (RecordedShare, Vec<Restored>) {
        let memory: MemoryVolume = self.world.memory.clone();
        let volume: Arc<dyn Volume> = Arc::new(memory.clone());
        let share = Share::open(volume, Config::default()).unwrap();
        let journal = Arc::new(MemoryJournal::default());
        journal.replace(&mut records.iter().cloned()).unwrap();
        let who = |sid: &_| Some(user(1001)).filter(|user| user.sid == *sid);
        let restored = keep_opens(&share, journal.clone(), records, who, Now::default()).unwrap();
        (RecordedShare { world: TestShare { share, memory }, journal }, restored)
    }

    fn restart(&self) -> (RecordedShare, Vec<Restored>) {
        self.restart_with(&self.journal.records())
    }
}

pub(crate) fn record(client: &Client, open: &Arc<Open>) {
    client.share.record(open, 60 * SECOND, b"note".to_vec()).unwrap();
    client.share.commit_records().unwrap();
}

fn range(start: u64) -> RangeRequest {
    RangeRequest { start, len: 10, kind: RangeKind::Exclusive }
}

pub(crate) fn lock(client: &Client, open: &Arc<Open>, start: u64) -> Result<(), Refusal> {
    lock_recorded(client, open, start, &|| None)
}

fn lock_recorded(client: &Client, open: &Arc<Open>, start: u64, note: RangeNote<'_>) -> Result<(), Refusal> {
    let (owner, rule, ranges) = (client.owner(open), LockRule::Exact, [range(start)]);
    done(client.caller(false, now(), |c| client.share.lock_recorded(c, open, owner, rule, &ranges, note)))
}

fn unlock(client: &Client, open: &Arc<Open>, start: u64) -> Result<(), Refusal> {
    client.share.unlock(open, client.owner(open), LockRule::Exact, &[range(start)])
}

fn leave(client: &Client, open: &Arc<Open>) {
    let how = Detached {
        until_ns: now().mono_ns + 60 * SECOND,
        yields: false,
        keeper: Arc::new(IgnoredLosses),
        token: 0,
    };
    client.share.detach_open(open, how, now()).unwrap();
}

#[test]
fn an_open_comes_back_with_deny_ranges_right_and_note_and_goes_on() {
    let before = RecordedShare::new();
    let one = before.world.client(1);
    one.make_directory("d");
    let ask = one.open("d/f").disposition(Disposition::Create).deny(Deny::WRITE);
    let open = ask.keyed(9, RWH).open();
    one.write(&open, 0, "text").unwrap();
    record(&one, &open);
    lock(&one, &open, 0).unwrap();
    lock(&one, &open, 20).unwrap();
    unlock(&one, &open, 0).unwrap();
    one.share.set_record_note(&open, b"first".to_vec());
    lock_recorded(&one, &open, 40, &|| Some(b"other".to_vec())).unwrap();

    let (after, mut restored) = before.restart();
    let Restored { open, keep_ns, note, .. } = restored.pop().unwrap();
    assert!(restored.is_empty() && keep_ns == 60 * SECOND && note == b"other");
    assert_eq!(after.world.share.path_of(&open), path("d/f"));
    assert_eq!(open.caching().unwrap().state, RWH);
    let (one, two) = (after.world.client(1), after.world.client(2));
    leave(&one, &open);
    // A request that comes meanwhile waits for the client that may come back, and gets another number.
    waits(two.open("d/f").access(READ).step());
    one.caller(true, now(), |caller| one.share.reclaim(&open, caller)).unwrap();
    assert_eq!(one.breaks(), [(RWH, RH, true)]);
    one.acknowledge(9, true, RH).unwrap();
    assert_eq!(two.open("d/f").access(WRITE).without_waiting().refusal(), Refusal::SharingConflict);
    let reader = two.open("d/f").access(READ).open();
    assert!(reader.id() > open.id());
    assert_eq!(two.share.held_ranges().iter().map(|held| held.range.start).collect::<Vec<_>>(), [20, 40]);
    assert_eq!(one.read(&open).unwrap(), "text");
    unlock(&one, &open, 20).unwrap();
    one.close(&open);
    assert!(after.restart().1.is_empty());
}

#[test]
fn whatever_a_crash_leaves_the_note_says_of_each_range_what_became_of_it() {
    const EACH: u64 = 12;
    let before = RecordedShare::new();
    let one = before.world.client(1);
    let open = one.open("f").disposition(Disposition::Create).open();
    record(&one, &open);
    // Two threads may write their notes in one record.
    let first = before.journal.records().len();
    // The finished actions, one bit for each, as two threads do them at once through one open.
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (one, open, done) = (&one, &open, &done);
            scope.spawn(move || {
                for turn in 0..EACH {
                    let at = thread * EACH + turn;
                    let does =
                        |bits: u64| Some((done.fetch_xor(bits, Ordering::SeqCst) ^ bits).to_le_bytes());
                    let note = || does(1 << at).map(|bits| bits.to_vec());
                    lock_recorded(one, open, at * 10, &note).unwrap();
                    if turn % 3 == 0 {
                        // The second range is not held, so nothing is noted of it; then of the first.
                        let (owner, rule) = (one.owner(open), LockRule::Exact);
                        let (here, nowhere) = (range(at * 10), range(1_000_000));
                        let gone = one.share.unlock_noting(open, owner, rule, &[nowhere], &note);
                        assert_eq!(gone, Err(Refusal::RangeNotHeld));
                        one.share.unlock_noting(open, owner, rule, &[here], &note).unwrap();
                    }
                }
            });
        }
    });
    let records = before.journal.records();
    for len in first..=records.len() {
        let (after, restored) = before.restart_with(&records[..len]);
        let noted = <[u8; 8]>::try_from(restored[0].note.as_slice()).map_or(0, u64::from_le_bytes);
        let held = after.world.share.held_ranges();
        let held = held.iter().fold(0, |all, held| all | 1 << (held.range.start / 10));
        assert_eq!(noted, held, "after {len} of {} records", records.len());
    }
}

#[test]
fn who_conflicts_with_an_open_that_may_be_reclaimed_waits_and_nobody_else() {
    let before = RecordedShare::new();
    let one = before.world.client(1);
    record(&one, &one.open("f").disposition(Disposition::Create).deny(Deny::WRITE).open());
    record(&one, &one.open("g").disposition(Disposition::Create).deny(Deny::WRITE).open());
    let (after, restored) = before.restart();
    let (one, two) = (after.world.client(1), after.world.client(2));
    for restored in &restored {
        leave(&one, &restored.open);
    }
    two.close(&two.open("f").access(READ).open());
    two.make("other");
    for name in ["f", "g"] {
        waits(two.open(name).access(WRITE).step());
    }
    assert_eq!(two.open("f").access(WRITE).without_waiting().refusal(), Refusal::SharingConflict);
    let [f, g] = [&restored[0].open, &restored[1].open];
    one.caller(true, now(), |caller| one.share.reclaim(f, caller)).unwrap();
    assert_eq!(two.woken(), 1);
    assert_eq!(two.open("f").access(WRITE).refusal(), Refusal::SharingConflict);
    // The other open is not reclaimed in its time. An orderly stop does not end it.
    after.world.share.end_all_detached(now());
    assert_eq!(after.restart().1.len(), 2);
    assert!(!g.is_closed());
    after.world.share.tick(now().plus(std::time::Duration::from_secs(61)));
    assert_eq!(two.woken(), 1);
    two.open("g").access(WRITE).open();
    assert_eq!(after.restart().1.len(), 1);
}

#[test]
fn what_others_were_told_is_not_forgotten() {
    let before = RecordedShare::new();
    let (one, two) = (before.world.client(1), before.world.client(2));
    let open = one.open("f").disposition(Disposition::Create).keyed(9, RWH).open();
    record(&one, &open);
    waits(two.open("f").keyed(8, RH).step());
    // The break is not acknowledged: the right is still there.
    let (_, restored) = before.restart();
    assert_eq!(restored[0].open.caching().unwrap().state, RWH);
    one.acknowledge(9, true, RH).unwrap();
    let other = two.open("f").keyed(8, RH).open();
    record(&two, &other);
    let (_, restored) = before.restart();
    let states: Vec<_> = restored.iter().map(|r| r.open.caching().unwrap().state).collect();
    assert_eq!(states, [RH, RH]);
    // No request waits until the right to read is released.
    two.write(&other, 0, "x").unwrap();
    assert_eq!(before.restart().1[0].open.caching().unwrap().state, Caching::empty());
}

#[test]
fn a_moved_file_is_found_and_a_replaced_one_is_not() {
    let before = RecordedShare::new();
    let one = before.world.client(1);
    let open = one.make("a");
    record(&one, &open);
    let other = one.make("x");
    record(&one, &other);
    let at = before.journal.records().len();
    done(one.rename(&open, "b", false)).unwrap();
    let records = before.journal.records();
    // Before the move is written both paths are recorded.
    for upto in at + 1..=records.len() {
        let (after, restored) = before.restart_with(&records[..upto]);
        assert_eq!(after.world.share.path_of(&restored[0].open), path("b"), "{upto}");
    }
    let root = before.world.memory.root().unwrap();
    root.remove(&name("x"), false, None).unwrap();
    assert_eq!(before.restart().1.len(), 1);
    root.create_file(&name("x"), 0o666, None).unwrap();
    let (after, restored) = before.restart();
    assert_eq!(restored.len(), 1);
    // It is dropped for good.
    assert_eq!(after.restart().1.len(), 1);
}

#[test]
fn a_move_that_fails_leaves_the_old_place() {
    let before = RecordedShare::new();
    let one = before.world.client(1);
    let open = one.make("a");
    record(&one, &open);
    one.make_directory("full");
    one.make("full/x");
    assert!(done(one.rename(&open, "full", true)).is_err());
    let (after, restored) = before.restart();
    assert_eq!(after.world.share.path_of(&restored[0].open), path("a"));
}

#[test]
fn marks_streams_and_options_come_back() {
    let before = RecordedShare::new();
    let one = before.world.client(1);
    let marked = one.make("marked");
    record(&one, &marked);
    one.set_delete(&marked, true).unwrap();
    let on_close =
        one.open("temporary").disposition(Disposition::Create).options(Options::DELETE_ON_CLOSE).open();
    record(&one, &on_close);
    one.make("f");
    let stream = one.open("f").stream("s").disposition(Disposition::Create).open();
    one.write(&stream, 0, "inside").unwrap();
    record(&one, &stream);
    let (after, restored) = before.restart();
    let one = after.world.client(1);
    assert_eq!(one.open("marked").refusal(), Refusal::DeletePending);
    assert_eq!(one.read(&restored[2].open).unwrap(), "inside");
    for restored in &restored {
        one.close(&restored.open);
    }
    assert_eq!(one.names_in(""), ["f"]);
    assert!(after.restart().1.is_empty());
}

#[test]
fn what_is_of_a_stranger_of_another_version_or_unknown_is_refused() {
    let before = RecordedShare::new();
    let stranger = before.world.client_of(1, user(1001));
    let open = stranger.make("f");
    record(&stranger, &open);
    let records = before.journal.records();
    let try_with = |records: &[Vec<u8>], who: UserLookup| {
        let share = Share::open(Arc::new(before.world.memory.clone()), Config::default()).unwrap();
        let journal = Arc::new(MemoryJournal::default());
        journal.replace(&mut records.iter().cloned()).unwrap();
        let restored = keep_opens(&share, journal.clone(), records, who, Now::default());
        restored.map(|restored| (restored.len(), journal.records()))
    };
    let (restored, left) = try_with(&records, |_| None).unwrap();
    assert_eq!((restored, left.len()), (0, records.len() + 1), "that it is gone is added");
    assert_eq!(before.restart_with(&left).1.len(), 0);
    let nobody = |_: &_| None;
    let with = |at: usize, bytes: &[u8]| {
        let mut records = records.clone();
        records.resize(records.len().max(at + 1), Vec::new());
        records[at] = bytes.to_vec();
        try_with(&records, nobody).unwrap_err()
    };
    assert!(matches!(with(0, &[0, 9, 0, 0, 0]), Unreadable::Version(9)));
    assert!(matches!(with(2, &[200]), Unreadable::Kind(2, 200)));
    assert!(matches!(with(2, &[9, 1]), Unreadable::Broken(2)));
    assert!(matches!(with(2, &[]), Unreadable::Broken(2)));
}

#[test]
fn a_right_on_a_file_that_is_found_without_its_name_ends_by_itself() {
    let before = RecordedShare::new();
    let one = before.world.client_of(1, user(4711));
    let open = one.open("f").disposition(Disposition::Create).keyed(9, RWH).open();
    let address = one.share.item_of(&open).address().unwrap();
    one.share.enlist(&open, &address, b"note".to_vec()).unwrap();
    one.share.write_changes();
    let root = before.world.memory.root().unwrap();
    let ended_after = |seconds: u64| {
        let (after, restored) = before.restart();
        let open = &restored[0].open;
        let one = after.world.client_of(1, user(4711));
        leave(&one, open);
        one.caller(true, now(), |caller| one.share.reclaim(open, caller)).unwrap();
        let later = Now { mono_ns: seconds * 1_000_000_000, ..now() };
        one.share.maintain(later);
        one.ears.notices.lock().unwrap().len()
    };
    assert_eq!(ended_after(100), 0, "its name is known");
    root.rename(&name("f"), root.as_ref(), &name("g"), false, None).unwrap();
    assert_eq!([ended_after(59), ended_after(61)], [0, 1]);
}

#[test]
fn an_enlisted_open_is_found_wherever_its_file_is_and_is_anybodys_who_claims_it() {
    let before = RecordedShare::new();
    let one = before.world.client_of(1, user(4711));
    let first = one.make("first");
    record(&one, &first);
    one.close(&first);
    let open = one.open("f").disposition(Disposition::Create).deny(Deny::WRITE).keyed(9, RWH).open();
    let address = one.share.item_of(&open).address().unwrap();
    one.share.enlist(&open, &address, b"note".to_vec()).unwrap();
    let records = before.journal.records();
    // Actions of others are no reason to write it, unless they go on because of it.
    let other = one.open("other").disposition(Disposition::Create).open();
    one.close(&other);
    assert_eq!(before.journal.records().len(), records.len());
    one.share.write_changes();
    assert_eq!(before.journal.records().len(), records.len() + 1, "all in one");
    lock(&one, &open, 0).unwrap();
    lock(&one, &open, 20).unwrap();
    // A release is written before its client hears of it, and not twice.
    let appended = before.journal.records().len();
    unlock(&one, &open, 0).unwrap();
    assert_eq!(before.journal.records().len(), appended + 1);
    one.share.write_noted();
    assert_eq!(before.journal.records().len(), appended + 1);
    // It is moved by the host while the server is down; its user is unknown.
    let root = before.world.memory.root().unwrap();
    root.rename(&name("f"), root.as_ref(), &name("g"), false, None).unwrap();

    let (after, restored) = before.restart();
    let [Restored { open, note, address: found, .. }] = &restored[..] else { panic!("{restored:?}") };
    assert_eq!((note, found), (&b"note".to_vec(), &address));
    assert_eq!(open.caching().unwrap().state, RWH);
    let (one, two) = (after.world.client_of(1, user(4711)), after.world.client_of(2, user(4711)));
    leave(&one, open);
    waits(two.open("g").access(WRITE).step());
    one.caller(true, now(), |caller| one.share.reclaim(open, caller)).unwrap();
    assert_eq!(unlock(&one, open, 20), Ok(()));
    assert_eq!(unlock(&one, open, 0), Err(Refusal::RangeNotHeld));
    one.close(open);
    assert_eq!(after.restart().1.len(), 1, "that it is closed can be written later");
    one.share.write_noted();
    assert!(after.restart().1.is_empty());
}

#[test]
fn directories_and_shares_that_record_nothing_refuse() {
    let plain = TestShare::new();
    let one = plain.client(1);
    let open = one.make("f");
    assert_eq!(plain.share.record(&open, SECOND, Vec::new()), Err(Refusal::NotSupported));
    assert!(!plain.share.keeps_opens() && !open.is_persistent());
    plain.share.commit_records().unwrap();
    let recorded = RecordedShare::new();
    let one = recorded.world.client(1);
    let root = one.open("").access(READ).open();
    assert_eq!(recorded.world.share.record(&root, SECOND, Vec::new()), Err(Refusal::Invalid));
}

/// A journal that counts how often it was rewritten.
#[derive(Default)]
pub struct CountingJournal {
    pub journal: MemoryJournal,
    pub replaced: AtomicU64,
}

impl Journal for CountingJournal {
    fn append(&self, record: &[u8]) -> volume::Result<JournalPosition> {
        self.journal.append(record)
    }
    fn commit(&self, position: JournalPosition) -> volume::Result<()> {
        self.journal.commit(position)
    }
    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> volume::Result<()> {
        self.replaced.fetch_add(1, Ordering::SeqCst);
        self.journal.replace(records)
    }
    fn size(&self) -> u64 {
        self.journal.size()
    }
}

/// A server starts with hundreds of shares at once, and each journal that is rewritten waits for the disk
/// twice.
#[test]
fn a_start_writes_no_journal_anew_that_is_good_as_it_is() {
    let start = |memory: &MemoryVolume, records: &[Vec<u8>]| {
        let share = Share::open(Arc::new(memory.clone()), Config::default()).unwrap();
        let journal = Arc::new(CountingJournal::default());
        journal.journal.replace(&mut records.iter().cloned()).unwrap();
        let who = |sid: &_| Some(user(1001)).filter(|user| user.sid == *sid);
        let restored = keep_opens(&share, journal.clone(), records, who, Now::default()).unwrap();
        (TestShare { share, memory: memory.clone() }, journal, restored)
    };
    let replaced = |journal: &CountingJournal| journal.replaced.load(Ordering::SeqCst);
    let (first, journal, _) = start(&TestShare::new().memory, &[]);
    assert_eq!((replaced(&journal), journal.journal.records().len()), (0, 0));
    let one = first.client_of(1, user(1001));
    let open = one.make("f");
    record(&one, &open);
    assert_eq!(replaced(&journal), 1, "with the first change");
    let records = journal.journal.records();
    let (second, journal, restored) = start(&first.memory, &records);
    assert_eq!((restored.len(), replaced(&journal), journal.journal.records()), (1, 0, records));
    // New records are added behind the old ones.
    let one = second.client_of(1, user(1001));
    leave(&one, &restored[0].open);
    record(&one, &one.make("g"));
    assert_eq!(replaced(&journal), 0);
    let (third, _, restored) = start(&second.memory, &journal.journal.records());
    let mut paths: Vec<_> = restored.iter().map(|restored| third.share.path_of(&restored.open)).collect();
    paths.sort();
    assert_eq!(paths, [path("f"), path("g")]);
    // A record of another version says so. New records must not follow it.
    let mut earlier = journal.journal.records();
    earlier[0] = vec![0, 1, 0, 0, 0];
    let (_, journal, restored) = start(&second.memory, &earlier);
    assert_eq!((restored.len(), replaced(&journal)), (2, 1));
}

/// Waits once in the middle of a record, for another thread that also wants to write changes.
#[derive(Default)]
struct SlowRecord {
    is_slow: AtomicBool,
    share: OnceLock<Weak<Share>>,
    /// The other thread, and whether it went on while the record was being written.
    other: Mutex<Option<JoinHandle<()>>>,
    went_on: AtomicBool,
}

impl JournalHooks for SlowRecord {
    fn before_append(&self) {
        if self.is_slow.swap(false, Ordering::SeqCst) {
            let share = self.share.get().and_then(Weak::upgrade).expect("a share");
            let (done, is_done) = channel();
            let other = std::thread::spawn(move || {
                share.write_changes();
                let _ = done.send(());
            });
            *self.other.lock().unwrap() = Some(other);
            let went_on = is_done.recv_timeout(Duration::from_millis(200)).is_ok();
            self.went_on.store(went_on, Ordering::SeqCst);
        }
    }
}

#[test]
fn nobody_goes_on_while_another_thread_still_writes_what_was_noted() {
    let world = TestShare::new();
    let journal = Arc::new(HookedJournal::<SlowRecord>::default());
    keep_opens(&world.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
    journal.hooks.share.set(Arc::downgrade(&world.share)).unwrap();
    let one = world.client(1);
    let open = one.make("f");
    record(&one, &open);
    // One of two notes that both threads want to have written.
    world.share.set_record_note(&open, b"changed".to_vec());
    journal.hooks.is_slow.store(true, Ordering::SeqCst);
    world.share.write_changes();
    let other = journal.hooks.other.lock().unwrap().take().expect("the journal was slow");
    other.join().unwrap();
    assert!(!journal.hooks.went_on.load(Ordering::SeqCst));
}

#[test]
fn the_journal_does_not_grow_without_end() {
    let before = RecordedShare::new();
    let one = before.world.client(1);
    let open = one.make("f");
    record(&one, &open);
    lock(&one, &open, 500).unwrap();
    for _ in 0..20_000 {
        lock(&one, &open, 0).unwrap();
        unlock(&one, &open, 0).unwrap();
        one.share.commit_records().unwrap();
    }
    assert!(before.journal.size() < 300 * 1024, "{}", before.journal.size());
    let (after, restored) = before.restart();
    assert_eq!((restored.len(), after.world.share.held_ranges().len()), (1, 1));
}

// What a crash leaves --------------------------------------------------------------------------------

/// The state of an open that a client may rely on: its id, right with its epoch, ranges and note.
type RestoredState = (u64, Option<(Caching, Option<u16>)>, Vec<u64>, Vec<u8>);
/// The state of all recorded opens.
type RestoredStates = Vec<RestoredState>;

fn ranges_of(share: &Share, open: &Open) -> Vec<u64> {
    let path = share.path_of(open);
    let held = share.held_ranges();
    let of_open = held.iter().filter(|held| held.path == path && held.owner.owner == u128::from(open.id()));
    let mut starts: Vec<u64> = of_open.map(|held| held.range.start).collect();
    starts.sort_unstable();
    starts
}

fn seen(share: &Share, open: &Open, note: Vec<u8>) -> RestoredState {
    // A holder of nothing under no key has the same as a client that never asked.
    let right = open.caching().map(|grant| {
        // Others wait only until a right to write is released.
        let told = grant.breaking.filter(|_| !grant.state.contains(Caching::WRITE));
        (told.unwrap_or(grant.state), grant.epoch)
    });
    let right = right.filter(|right| !right.0.is_empty());
    (open.id(), right, ranges_of(share, open), note)
}

#[derive(Debug, Clone)]
enum PersistenceAction {
    Open { client: u128, file: u8, key: Option<(u128, bool)>, lasts: bool },
    Lock { open: prop::sample::Index, start: u64 },
    Unlock { open: prop::sample::Index, start: u64 },
    Write { open: prop::sample::Index },
    Note { open: prop::sample::Index, note: u8 },
    Answer { open: prop::sample::Index, keep: u8 },
    Close { open: prop::sample::Index },
}

fn act() -> impl Strategy<Value = PersistenceAction> {
    let open = any::<prop::sample::Index>;
    prop_oneof![
        3 => (1..3u128, 0..3u8, prop::option::of((1..4u128, any::<bool>())), any::<bool>())
            .prop_map(|(client, file, key, lasts)| PersistenceAction::Open { client, file, key, lasts }),
        3 => (open(), 0..4u64).prop_map(|(open, start)| PersistenceAction::Lock { open, start: start * 10 }),
        2 => (open(), 0..4u64)
            .prop_map(|(open, start)| PersistenceAction::Unlock { open, start: start * 10 }),
        1 => open().prop_map(|open| PersistenceAction::Write { open }),
        1 => (open(), any::<u8>()).prop_map(|(open, note)| PersistenceAction::Note { open, note }),
        2 => (open(), 0..8u8).prop_map(|(open, keep)| PersistenceAction::Answer { open, keep }),
        1 => open().prop_map(|open| PersistenceAction::Close { open }),
    ]
}

/// The opens of a history, each with its client and its note.
#[derive(Default)]
struct History {
    opens: Vec<(u128, Arc<Open>, Vec<u8>)>,
    made: u128,
}

impl History {
    fn truth(&self, share: &Share) -> RestoredStates {
        let lasting = self.opens.iter().filter(|(_, open, _)| open.is_persistent());
        let mut truth: RestoredStates =
            lasting.map(|(_, open, note)| seen(share, open, note.clone())).collect();
        truth.sort_by_key(|seen| seen.0);
        truth
    }

    fn play(&mut self, clients: &[Client; 2], act: &PersistenceAction) {
        let of = |client: u128| &clients[client as usize - 1];
        if let PersistenceAction::Open { client, file, key, lasts } = act {
            self.made += 1;
            let ask = of(*client).open(&format!("f{file}")).disposition(Disposition::OpenOrCreate);
            let ask = match key {
                Some((key, true)) => ask.keyed(*key, RWH),
                // A right of one open has a key of its own.
                Some((_, false)) => ask.single(1000 + self.made, RWH),
                None => ask,
            };
            if let CallResult::Done(opened) = ask.step() {
                if *lasts {
                    of(*client).share.record(&opened.open, SECOND, vec![0]).unwrap();
                    of(*client).share.commit_records().unwrap();
                }
                self.opens.push((*client, opened.open, vec![0]));
            }
            return;
        }
        if self.opens.is_empty() {
            return;
        }
        match act {
            PersistenceAction::Open { .. } => {}
            PersistenceAction::Lock { open, start } => {
                let (client, open, _) = open.get(&self.opens);
                let (owner, ranges) = (of(*client).owner(open), [range(*start)]);
                let of = of(*client);
                let _ = of.caller(false, now(), |c| of.share.lock(c, open, owner, LockRule::Exact, &ranges));
            }
            PersistenceAction::Unlock { open, start } => {
                let (client, open, _) = open.get(&self.opens);
                let _ = unlock(of(*client), open, *start);
            }
            PersistenceAction::Write { open } => {
                let (client, open, _) = open.get(&self.opens);
                let (owner, at) = (of(*client).owner(open), share::WriteAt::Offset(100));
                let of = of(*client);
                let _ = of.caller(false, now(), |c| of.share.write(c, open, owner, at, b"x", false));
            }
            PersistenceAction::Note { open, note } => {
                let at = open.index(self.opens.len());
                let (client, open, known) = &mut self.opens[at];
                if open.is_persistent() {
                    *known = vec![*note];
                    of(*client).share.set_record_note(open, known.clone());
                }
            }
            PersistenceAction::Answer { open, keep } => {
                let (client, open, _) = open.get(&self.opens);
                let keys = (1..4u128).map(|key| (key, true));
                let all = keys.chain((1001..=1000 + self.made).map(|key| (key, false)));
                let keep = Caching::from_bits_truncate(*keep);
                if open.caching().is_some_and(|grant| grant.breaking.is_some()) {
                    for (key, keyed) in all {
                        let _ =
                            of(*client).share.acknowledge(of(*client).key, CacheKey(key), keyed, keep, now());
                    }
                }
            }
            PersistenceAction::Close { open } => {
                let at = open.index(self.opens.len());
                let (client, open, _) = self.opens.swap_remove(at);
                of(client).close(&open);
            }
        }
        clients[0].share.commit_records().unwrap();
    }
}

/// Whether each restored open is as it was in one of two states.
fn is_between(found: &RestoredStates, old: &RestoredStates, new: &RestoredStates) -> bool {
    let of = |truth: &RestoredStates, id: u64| truth.iter().find(|seen| seen.0 == id).cloned();
    let ids = found.iter().chain(old).chain(new).map(|seen| seen.0);
    ids.into_iter().all(|id| match (of(found, id), of(old, id), of(new, id)) {
        (None, old, new) => old.is_none() || new.is_none(),
        (Some(_), None, None) => false,
        (Some(found), old, new) => {
            let both: Vec<_> = old.into_iter().chain(new).collect();
            both.iter().any(|seen| seen.1 == found.1)
                && both.iter().any(|seen| seen.2 == found.2)
                && both.iter().any(|seen| seen.3 == found.3)
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Each record has the old state or the new one. After a crash the journal has a state that was true at
    /// some moment, and that is at least as new as the last reply.
    #[test]
    fn a_crash_at_any_record_leaves_the_old_or_the_new_truth(acts in prop::collection::vec(act(), 1..40)) {
        let before = RecordedShare::new();
        let clients = [before.world.client(1), before.world.client(2)];
        let mut history = History::default();
        // The state when the journal had this many records.
        let mut truths = vec![(before.journal.records().len(), history.truth(&before.world.share))];
        for act in &acts {
            history.play(&clients, act);
            truths.push((before.journal.records().len(), history.truth(&before.world.share)));
        }
        let records = before.journal.records();
        for upto in 1..=records.len() {
            let (after, restored) = before.restart_with(&records[..upto]);
            let mut found: RestoredStates =
                restored.iter().map(|r| seen(&after.world.share, &r.open, r.note.clone())).collect();
            found.sort_by_key(|seen| seen.0);
            let old = truths.iter().rposition(|(len, _)| *len <= upto).unwrap();
            // An action may take several steps, each of which is reported to a client.
            let new = &truths[truths.len().min(old + 2) - 1].1;
            prop_assert!(
                is_between(&found, &truths[old].1, if truths[old].0 == upto { &truths[old].1 } else { new }),
                "{upto} of {} records: {found:?}, not {:?} or {new:?}", records.len(), truths[old].1
            );
        }
    }
}
