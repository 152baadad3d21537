//! Requests while the opens from before a restart are not all restored.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use crate::kept_opens::keep_opens;
use share::{
    Caching, CallResult, Config, Deny, Detached, Disposition, Identity, LockOwner, LockRule, LossListener,
    Open, OpenRestorer, Options, RangeKind, RangeRequest, Refusal, Restored, Share, UnrestoredOpen,
    UserFailure,
};
use volume::faulty::{FaultPlan, FaultyVolume, PlannedFault, VolumeCall};
use volume::journal::MemoryJournal;
use volume::memory::MemoryVolume;
use volume::security::{Rights, Sid};
use volume::{Failure, Volume};
use wire::Now;

const RWH: Caching = Caching::all();
const SECOND: u64 = 1_000_000_000;

struct IgnoredLosses;

impl LossListener for IgnoredLosses {
    fn on_lost(&self, _token: u64) {}
}

/// Detaches restored opens, as a protocol does.
struct TestTaker {
    share: Arc<Share>,
    /// The seconds since the restart.
    seconds: AtomicU64,
    /// Whether the directory of the users does not answer.
    is_directory_down: AtomicBool,
    taken: Mutex<Vec<Arc<Open>>>,
}

impl OpenRestorer for TestTaker {
    fn user(&self, sid: &Sid) -> Result<Arc<Identity>, UserFailure> {
        if self.is_directory_down.load(Ordering::Relaxed) {
            return Err(UserFailure::Unreachable);
        }
        Some(user(1001)).filter(|user| user.sid == *sid).ok_or(UserFailure::Gone)
    }

    fn take(&self, Restored { open, .. }: Restored) {
        let how =
            Detached { until_ns: at(60).mono_ns, yields: false, keeper: Arc::new(IgnoredLosses), token: 0 };
        self.share.detach_restored(&open, how, at(self.seconds.load(Ordering::Relaxed))).unwrap();
        self.taken.lock().unwrap().push(open);
    }

    fn lose(&self, _client: share::ClientKey, _note: &[u8]) {}
}

/// A share that records its opens.
struct RecordingShare {
    world: TestShare,
    journal: Arc<MemoryJournal>,
}

/// The same share after a restart, when no open is restored yet.
struct RestartedShare {
    world: TestShare,
    plan: Arc<FaultPlan>,
    taker: Arc<TestTaker>,
    unrestored: Vec<UnrestoredOpen>,
    journal: Arc<MemoryJournal>,
}

impl RecordingShare {
    fn new() -> RecordingShare {
        let (world, journal) = (TestShare::new(), Arc::new(MemoryJournal::default()));
        keep_opens(&world.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
        RecordingShare { world, journal }
    }

    fn record(&self, open: &Arc<Open>) {
        self.world.share.record(open, 60 * SECOND, b"note".to_vec()).unwrap();
        self.world.share.commit_records().unwrap();
    }

    fn restart(&self) -> RestartedShare {
        let memory: MemoryVolume = self.world.memory.clone();
        let volume = FaultyVolume::new(Arc::new(memory.clone()));
        let plan = Arc::clone(volume.plan());
        let share = Share::open(Arc::new(volume), Config::default()).unwrap();
        let (records, journal) = (self.journal.records(), Arc::new(MemoryJournal::default()));
        volume::journal::Journal::replace(&*journal, &mut records.iter().cloned()).unwrap();
        let unrestored = share.begin_restoring(journal.clone(), &records, now()).unwrap();
        let taker = Arc::new(TestTaker {
            share: Arc::clone(&share),
            seconds: AtomicU64::new(0),
            is_directory_down: AtomicBool::new(false),
            taken: Mutex::default(),
        });
        share.restore_for(Arc::clone(&taker) as Arc<dyn OpenRestorer>);
        RestartedShare { world: TestShare { share, memory }, plan, taker, unrestored, journal }
    }
}

impl RestartedShare {
    fn restored(&self) -> usize {
        self.taker.taken.lock().unwrap().len()
    }

    fn restore_all(&self) {
        self.world.share.restore_all().unwrap();
        assert!(!self.world.share.is_restoring());
    }
}

/// So many seconds after the restart.
fn at(seconds: u64) -> Now {
    Now { mono_ns: now().mono_ns + seconds * SECOND, ..now() }
}

fn range(start: u64) -> RangeRequest {
    RangeRequest { start, len: 10, kind: RangeKind::Exclusive }
}

fn lock(client: &Client, open: &Arc<Open>, start: u64) -> CallResult<()> {
    let (owner, ranges) = (client.owner(open), [range(start)]);
    client.caller(false, now(), |c| {
        client.share.lock_recorded(c, open, owner, LockRule::Exact, &ranges, &|| None)
    })
}

#[test]
fn a_request_has_only_the_opens_of_its_own_file_restored() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    for number in 0..1000 {
        let open = one.open(&format!("f{number}")).disposition(Disposition::Create).deny(Deny::WRITE).open();
        before.record(&open);
    }
    let after = before.restart();
    assert_eq!((after.unrestored.len(), after.world.share.restored_count()), (1000, 0));
    assert_eq!(after.world.share.open_count(), 1000, "an open counts before it is restored");
    let two = after.world.client(2);
    let calls = after.plan.metadata_calls();
    two.make("another file");
    let asked = after.plan.metadata_calls() - calls;
    assert!(asked < 20, "{asked} calls of the store for a file that nobody had open");
    assert_eq!(after.restored(), 0);
    waits(two.open("f7").step());
    assert_eq!(after.restored(), 1, "whoever conflicts meets the open, and no other open is looked for");
    after.world.share.restore_open(after.unrestored[9].id).unwrap();
    assert_eq!(after.restored(), 2);
    after.restore_all();
    assert_eq!((after.restored(), after.world.share.open_count()), (1000, 1001));
}

#[test]
fn many_opens_of_one_file_are_found_with_one_look() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    let first = one.make("f");
    before.record(&first);
    for _ in 0..1000 {
        before.record(&one.open("f").open());
    }
    let after = before.restart();
    let calls = after.plan.metadata_calls();
    let two = after.world.client(2);
    two.open("f").open();
    let asked = after.plan.metadata_calls() - calls;
    assert!(asked < 30, "{asked} calls of the store");
    assert_eq!(after.restored(), 1001);
}

#[test]
fn a_directory_with_many_files_moves_only_after_they_are_restored() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    one.make_directory("d");
    one.make_directory("d/below");
    one.make_directory("other");
    (0..40).for_each(|number| before.record(&one.make(&format!("d/below/f{number}"))));
    let after = before.restart();
    let two = after.world.client(2);
    let mut open = two.open("d").options(Options::DIRECTORY).open();
    waits(two.rename(&open, "moved", false));
    let beside = two.open("other").options(Options::DIRECTORY).open();
    done(two.rename(&beside, "elsewhere", false)).unwrap();
    assert_eq!(after.restored(), 0);
    after.restore_all();
    // Now the opens below are in the way, as without a restart.
    assert_eq!(done(two.rename(&open, "moved", false)), Err(Refusal::AccessDenied));
    two.close(&open);
    open = two.open("d/below").options(Options::DIRECTORY).open();
    assert_eq!(done(two.rename(&open, "d/moved", false)), Err(Refusal::AccessDenied));
}

#[test]
fn a_directory_with_many_files_is_removed_only_after_they_are_restored() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    one.make_directory("d");
    (0..40).for_each(|number| before.record(&one.make(&format!("d/f{number}"))));
    let after = before.restart();
    let two = after.world.client(2);
    let open = two.open("d").options(Options::DIRECTORY).open();
    let remove = || two.caller(true, now(), |c| two.share.set_delete(c, &open, true, false, false));
    waits(remove());
    let going = two.open("d").options(Options::DIRECTORY | Options::DELETE_ON_CLOSE).access(ALL);
    waits(going.step());
    after.restore_all();
    assert_eq!(done(remove()), Err(Refusal::NotEmpty));
}

#[test]
fn the_few_files_of_a_directory_are_restored_by_whoever_moves_or_removes_it() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    for name in ["d", "e", "f"] {
        one.make_directory(name);
        before.record(&one.make(&format!("{name}/f")));
    }
    let after = before.restart();
    let two = after.world.client(2);
    let [moved, removed] = ["d", "e"].map(|at| two.open(at).options(Options::DIRECTORY).open());
    assert_eq!(done(two.rename(&moved, "moved", false)), Err(Refusal::AccessDenied));
    assert_eq!(two.set_delete(&removed, true), Err(Refusal::NotEmpty));
    assert_eq!(after.restored(), 2);
    two.open("f").options(Options::DIRECTORY | Options::DELETE_ON_CLOSE).access(ALL).open();
    assert_eq!(after.restored(), 3);
}

#[test]
fn the_key_of_a_right_that_is_not_restored_is_refused_for_another_file() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    one.make_with("g", "");
    before.record(&one.open("f").disposition(Disposition::Create).keyed(9, RWH).open());
    let after = before.restart();
    let one = after.world.client(1);
    assert_eq!(one.open("g").keyed(9, RWH).refusal(), Refusal::Invalid);
    one.open("h").disposition(Disposition::Create).keyed(10, RWH).open();
}

#[test]
fn a_client_that_was_back_before_its_open_was_restored_has_its_time_to_ask_for_it() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    before.record(&one.make("f"));
    let after = before.restart();
    after.world.share.client_returned(one.key, &one.identity.sid, at(1));
    after.world.share.tick(at(12));
    // The store stood still until now.
    after.taker.seconds.store(12, Ordering::Relaxed);
    after.restore_all();
    for seconds in [12, 21] {
        after.world.share.tick(at(seconds));
        assert_eq!(after.world.share.open_count(), 1, "{seconds} s after the restart");
    }
    after.world.share.tick(at(23));
    assert_eq!(after.world.share.open_count(), 0, "its client did not ask for it for more than 10 s");
}

#[test]
fn the_opens_of_a_user_whose_directory_does_not_answer_are_kept_for_the_claim() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    before.record(&one.make("f"));
    let after = before.restart();
    after.taker.is_directory_down.store(true, Ordering::Relaxed);
    after.restore_all();
    let open = Arc::clone(&after.taker.taken.lock().unwrap()[0]);
    assert_eq!((open.identity().sid, open.identity().limit), (one.identity.sid, Rights::empty()));
    let back = after.world.client(1);
    back.caller(true, at(1), |caller| back.share.reclaim(&open, caller)).unwrap();
    assert_eq!(open.identity().uid, back.identity.uid);
}

#[test]
fn a_right_is_recorded_until_the_last_open_of_its_key_is_closed() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    let first = one.open("f").disposition(Disposition::Create).keyed(9, RWH).open();
    let [second, other] = [9, 10].map(|key| one.open(if key == 9 { "f" } else { "g" }).keyed(key, RWH));
    one.make_with("g", "");
    let (second, other) = (second.open(), other.open());
    [&first, &second, &other].into_iter().for_each(|open| before.record(open));
    one.close(&first);
    one.close(&other);
    before.world.share.write_noted();
    let after = before.restart();
    after.restore_all();
    let taken = after.taker.taken.lock().unwrap();
    let rights: Vec<_> = taken.iter().map(|open| open.caching().map(|grant| grant.state)).collect();
    assert_eq!(rights, [Some(RWH)]);
}

#[test]
fn a_file_that_is_gone_drops_its_open_when_it_is_looked_for_and_for_good() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    let gone = one.open("gone").disposition(Disposition::Create).deny(Deny::WRITE).open();
    before.record(&gone);
    let root = before.world.memory.root().unwrap();
    root.remove(&name("gone"), false, None).unwrap();
    let after = before.restart();
    let two = after.world.client(2);
    two.make("gone");
    after.restore_all();
    assert_eq!((after.restored(), after.world.share.open_count()), (0, 1));
    after.world.share.write_noted();
    let again = RecordingShare { world: after.world, journal: after.journal }.restart();
    assert_eq!(again.unrestored.len(), 0);
}

/// The calls of the host that open a file again after a restart.
const OPENING: [VolumeCall; 3] = [VolumeCall::Lookup, VolumeCall::Stat, VolumeCall::OpenAgain];

#[test]
fn opens_of_a_file_that_the_host_fails_to_open_are_all_restored_later() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    let first = one.open("f").disposition(Disposition::Create).deny(Deny::WRITE).open();
    before.record(&first);
    // Each is looked for by itself: it has another name, or it is a stream.
    one.call(|c| one.share.link(c, &first, &path("g"), false)).unwrap();
    before.record(&one.open("g").access(READ).open());
    before.record(&one.open("f").stream("s").disposition(Disposition::Create).open());
    let mut met = 0;
    for call in OPENING.into_iter().chain([VolumeCall::Streams]) {
        for n in 1.. {
            let after = before.restart();
            let id = after.unrestored[1].id;
            after.plan.add(call, n, PlannedFault::Fail(Failure::Io));
            let result = after.world.share.restore_open(id);
            if after.plan.met().is_empty() {
                assert_eq!((result, after.restored()), (Ok(()), 3));
                break;
            }
            met += 1;
            assert_eq!((result, after.restored()), (Err(Refusal::Io), 0), "{call:?} {n}");
            assert_eq!(after.world.share.open_count(), 3);
            let records = after.journal.records().len();
            after.world.share.write_noted();
            assert_eq!(after.journal.records().len(), records, "nothing is said to be closed");
            // The next one tries again. Whoever conflicts meets the open then.
            waits(after.world.client(2).open("f").access(WRITE).step());
            assert_eq!(after.restored(), 3, "{call:?} {n}");
        }
    }
    assert!(met >= 6, "{met} calls failed");
}

#[test]
fn what_might_conflict_is_refused_as_long_as_the_host_fails() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    ["few", "many", "other"].into_iter().for_each(|name| one.make_directory(name));
    one.make_with("g", "");
    before.record(&one.make("few/f"));
    (0..40).for_each(|number| before.record(&one.make(&format!("many/f{number}"))));
    before.record(&one.open("f").disposition(Disposition::Create).keyed(9, RWH).open());
    let after = before.restart();
    let (one, two) = (after.world.client(1), after.world.client(2));
    let directories = ["few", "many"].map(|name| two.open(name).options(Options::DIRECTORY).open());
    let g = two.open("g").open();
    after.plan.always(VolumeCall::OpenAgain, Some(Failure::Io));
    // The background has tried each file.
    while after.world.share.restore_next() {}
    assert_eq!(after.world.share.restore_all(), Err(Refusal::Io));
    assert_eq!((after.restored(), after.world.share.open_count()), (0, 42 + 3));
    assert_eq!(two.open("f").refusal(), Refusal::Io);
    assert_eq!(one.open("g").keyed(9, RWH).refusal(), Refusal::Io, "its key may be that of another file");
    let ask = |node| two.caller(false, now(), |c| two.share.recall_for_attributes(c, node, None));
    let f = after.world.memory.root().unwrap().lookup(&name("f"), volume::OpenHow::Attributes).unwrap().id();
    assert_eq!(done(ask(f)), Err(Refusal::Io));
    let range = RangeRequest { start: 0, len: 1, kind: RangeKind::Exclusive };
    let owner = LockOwner { client: two.key, owner: 1 };
    assert_eq!(two.share.conflicting_range(f, owner, LockRule::Merging, &range), Err(Refusal::Io));
    for (open, directory) in directories.iter().zip(["few", "many"]) {
        assert_eq!(done(two.rename(open, "moved", false)), Err(Refusal::Io), "{directory}");
        assert_eq!(two.set_delete(open, true), Err(Refusal::Io), "{directory}");
        let going = two.open(directory).options(Options::DIRECTORY | Options::DELETE_ON_CLOSE).access(ALL);
        assert_eq!(going.refusal(), Refusal::Io, "{directory}");
    }
    assert_eq!(done(two.rename(&g, "f", true)), Err(Refusal::Io));
    // Nothing else is refused.
    two.make("other/new");
    after.plan.always(VolumeCall::OpenAgain, None);
    after.restore_all();
    assert_eq!(after.restored(), 42);
    waits(two.open("f").step());
}

#[test]
fn a_round_tries_each_file_once() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    (0..20).for_each(|number| before.record(&one.make(&format!("f{number}"))));
    let after = before.restart();
    after.plan.always(VolumeCall::OpenAgain, Some(Failure::Io));
    for round in 1..4 {
        while after.world.share.restore_next() {}
        assert_eq!(after.plan.count(VolumeCall::OpenAgain), round * 20);
        after.world.share.restore_again();
    }
    after.plan.always(VolumeCall::OpenAgain, None);
    while after.world.share.restore_next() {}
    assert_eq!(after.restored(), 20);
}

#[test]
fn only_a_final_answer_of_the_host_ends_an_open() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    before.record(&one.make("by name"));
    let open = one.make("by address");
    let address = one.share.item_of(&open).address().unwrap();
    one.share.enlist(&open, &address, b"note".to_vec()).unwrap();
    one.share.write_changes();
    let finals = [Failure::NotFound, Failure::NotADirectory, Failure::Denied, Failure::ReadOnly];
    let passing = [Failure::Io, Failure::Exhausted, Failure::Busy, Failure::HostKeeps, Failure::NoSpace];
    for failure in finals.into_iter().chain(passing) {
        let after = before.restart();
        after.plan.always(VolumeCall::Lookup, Some(failure));
        let all = after.world.share.restore_all();
        let is_final = finals.contains(&failure);
        assert_eq!(all.is_ok(), is_final, "{failure:?}: {all:?}");
        assert_eq!(after.world.share.open_count(), if is_final { 0 } else { 2 }, "{failure:?}");
    }
    // A file system that is lost knows neither the address nor its root.
    for (is_lost, left) in [(false, 1), (true, 2)] {
        let after = before.restart();
        after.plan.always(VolumeCall::Lookup, Some(Failure::Stale));
        after.plan.always(VolumeCall::Stat, is_lost.then_some(Failure::Stale));
        assert_eq!(after.world.share.restore_all(), Err(Refusal::Io));
        assert_eq!(after.world.share.open_count(), left, "is the file system lost: {is_lost}");
    }
}

#[test]
fn who_waits_for_another_that_the_host_fails_is_told_so() {
    let before = RecordingShare::new();
    before.record(&before.world.client(1).make("f"));
    let after = before.restart();
    let id = after.unrestored[0].id;
    after.plan.add(VolumeCall::Lookup, 1, PlannedFault::Hold);
    after.plan.always(VolumeCall::Lookup, Some(Failure::Io));
    let (began, has_begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| after.world.share.restore_open(id));
        assert!(after.plan.wait_held(1, Duration::from_secs(20)));
        let others: Vec<_> = (0..4)
            .map(|_| {
                let (began, share) = (began.clone(), &after.world.share);
                scope.spawn(move || {
                    began.send(()).unwrap();
                    share.restore_open(id)
                })
            })
            .collect();
        others.iter().for_each(|_| has_begun.recv().unwrap());
        after.plan.release();
        assert_eq!(first.join().unwrap(), Err(Refusal::Io));
        others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), Err(Refusal::Io)));
    });
    assert_eq!(after.world.share.open_count(), 1);
    after.plan.always(VolumeCall::Lookup, None);
    after.restore_all();
    assert_eq!(after.restored(), 1);
}

#[test]
fn opens_that_are_given_up_end_for_good() {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    ["f", "g"].into_iter().for_each(|name| before.record(&one.make(name)));
    let after = before.restart();
    after.plan.always(VolumeCall::Lookup, Some(Failure::Io));
    assert_eq!(after.world.share.restore_all(), Err(Refusal::Io));
    after.plan.always(VolumeCall::Lookup, None);
    assert_eq!(after.world.share.give_up_unrestored(), 2);
    assert!(!after.world.share.is_restoring());
    let two = after.world.client(2);
    two.open("f").open();
    assert_eq!((after.restored(), after.world.share.open_count()), (0, 1));
    let again = RecordingShare { world: after.world, journal: after.journal }.restart();
    assert_eq!(again.unrestored.len(), 0);
}

#[test]
fn a_host_that_fails_now_and_then_costs_no_open() {
    for seed in 0..12 {
        let (before, kept_ids) = many_kept();
        let ranges = before.world.share.held_ranges().len();
        let after = before.restart();
        let (calls, plan) = (AtomicU64::new(seed), Arc::downgrade(&after.plan));
        after.plan.slow_down(move || {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            if call.is_multiple_of(3)
                && call < 600
                && let Some(plan) = plan.upgrade()
            {
                let call = OPENING[(call / 3 % 3) as usize];
                plan.add(call, 1, PlannedFault::Fail(Failure::Io));
            }
            std::thread::yield_now();
        });
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let after = &after;
                scope.spawn(move || {
                    let mut dice = RandomNumbers(seed * 31 + thread);
                    for _ in 0..200 {
                        let id = after.unrestored[dice.below(FILES) as usize].id;
                        match after.world.share.restore_open(id) {
                            Ok(()) | Err(Refusal::Io) => {}
                            Err(why) => panic!("{why}"),
                        }
                        if !after.world.share.restore_next() {
                            after.world.share.restore_again();
                        }
                    }
                });
            }
        });
        after.plan.forget();
        after.restore_all();
        assert_eq!(live(&after.world.share), (kept_ids.clone(), ranges), "seed {seed}");
    }
}

/// A generator of numbers for a seed.
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

const FILES: u64 = 48;
const DIRECTORIES: u64 = 4;

/// The state that keeps others away from a file, or the fate of the file while the server was down.
#[derive(Clone, Copy, PartialEq)]
enum KeptState {
    /// The open denies writing.
    Denied,
    /// The first ten bytes are locked.
    Locked,
    /// The name is marked for deletion.
    Going,
    /// The host has removed the file.
    Gone,
}

fn kept(number: u64) -> KeptState {
    [
        KeptState::Denied,
        KeptState::Locked,
        KeptState::Going,
        KeptState::Locked,
        KeptState::Denied,
        KeptState::Gone,
    ][number as usize % 6]
}

fn path_of(number: u64) -> String {
    format!("d{}/f{number}", number % DIRECTORIES)
}

/// The share, and the ids of the opens whose files are not gone.
fn many_kept() -> (RecordingShare, Vec<u64>) {
    let before = RecordingShare::new();
    let one = before.world.client(1);
    (0..DIRECTORIES).for_each(|number| one.make_directory(&format!("d{number}")));
    let (root, mut ids) = (before.world.memory.root().unwrap(), Vec::new());
    for number in 0..FILES {
        let ask = one.open(&path_of(number)).disposition(Disposition::Create);
        let open = match kept(number) {
            KeptState::Denied | KeptState::Gone => ask.deny(Deny::WRITE).open(),
            KeptState::Locked | KeptState::Going => ask.open(),
        };
        before.record(&open);
        if kept(number) != KeptState::Gone {
            ids.push(open.id());
        }
        match kept(number) {
            KeptState::Locked => done(lock(&one, &open, 0)).unwrap(),
            KeptState::Going => one.set_delete(&open, true).unwrap(),
            KeptState::Gone => {
                let above =
                    root.lookup(&name(&format!("d{}", number % DIRECTORIES)), volume::OpenHow::Attributes);
                above.unwrap().remove(&name(&format!("f{number}")), false, None).unwrap();
            }
            KeptState::Denied => {}
        }
    }
    (before, ids)
}

/// A client does something with a file that may be restored at this moment. Returns what must not happen.
fn disturb(client: &Client, number: u64, what: u64) -> Result<(), String> {
    let path = path_of(number);
    let told = |result: &CallResult<_>| matches!(result, CallResult::Done(_));
    match (kept(number), what % 3) {
        (_, 0) => {
            let open = client.open(&format!("d{}", number % DIRECTORIES)).access(ALL).open();
            let moved = client.rename(&open, &format!("moved{number}"), false);
            client.close(&open);
            if told(&moved) { Err(format!("the directory of {path} was moved")) } else { Ok(()) }
        }
        (KeptState::Denied, _) => {
            let wrote = client.open(&path).access(WRITE).step();
            if let CallResult::Done(opened) = &wrote {
                client.close(&opened.open);
                return Err(format!("{path} was opened to write"));
            }
            Ok(())
        }
        (KeptState::Locked, _) => {
            let Ok(opened) = done_or_waits(client.open(&path).access(WRITE).step()) else { return Ok(()) };
            let Some(opened) = opened else { return Ok(()) };
            let locked = told(&lock(client, &opened, 5));
            client.close(&opened);
            if locked { Err(format!("bytes of {path} were locked twice")) } else { Ok(()) }
        }
        (KeptState::Going, _) => match client.open(&path).access(READ).step() {
            CallResult::Refused(Refusal::DeletePending) | CallResult::Wait(_) => Ok(()),
            other => Err(format!("{path} is to be deleted, and: {other:?}")),
        },
        (KeptState::Gone, _) => match client.open(&path).access(WRITE).step() {
            CallResult::Refused(Refusal::NotFound) => Ok(()),
            other => Err(format!("{path} is gone, and: {other:?}")),
        },
    }
}

/// The open, or none for a request that has to wait.
fn done_or_waits(step: CallResult<share::OpenResult>) -> Result<Option<Arc<Open>>, Refusal> {
    match step {
        CallResult::Done(opened) => Ok(Some(opened.open)),
        CallResult::Wait(_) => Ok(None),
        CallResult::Refused(why) => Err(why),
    }
}

/// The ids of the opens that are there, and the number of ranges.
fn live(share: &Share) -> (Vec<u64>, usize) {
    (share.opens().iter().map(|open| open.id).collect(), share.held_ranges().len())
}

#[test]
fn requests_that_race_with_the_restoring_never_get_what_an_open_keeps() {
    for seed in 0..12 {
        let (before, kept_ids) = many_kept();
        let ranges = before.world.share.held_ranges().len();
        let after = before.restart();
        // Threads change places at each call of the store.
        let calls = AtomicU64::new(seed);
        after.plan.slow_down(move || {
            if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
                std::thread::yield_now();
            }
        });
        let (is_over, wrong) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| while after.world.share.restore_next() {});
            }
            for client in 2..5_u64 {
                let (after, wrong, is_over) = (&after, &wrong, &is_over);
                scope.spawn(move || {
                    let mut dice = RandomNumbers(seed * 31 + client);
                    let two = after.world.client(u128::from(client));
                    while after.world.share.is_restoring() && !is_over.load(Ordering::Relaxed) {
                        let (number, what) = (dice.below(FILES), dice.below(7));
                        if let Err(why) = disturb(&two, number, what) {
                            wrong.lock().unwrap().push(why);
                            is_over.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        after.restore_all();
        assert_eq!(live(&after.world.share), (kept_ids.clone(), ranges), "seed {seed}");
        // Each is still kept when all is done, and the record says the same.
        let two = after.world.client(9);
        for number in 0..FILES {
            (0..3).for_each(|what| disturb(&two, number, what).unwrap());
        }
        after.world.share.write_noted();
        let again = RecordingShare { world: after.world, journal: after.journal }.restart();
        let ids: Vec<_> = again.unrestored.iter().map(|open| open.id).collect();
        assert_eq!(ids, kept_ids, "seed {seed}");
    }
}
