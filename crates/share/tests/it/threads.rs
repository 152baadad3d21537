//! Many threads at once on a directory of the host: no thread hangs, and no state is left over, not even of
//! detached opens.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::common::*;
use share::{
    BreakListener, BreakNotice, CacheKey, Caching, CachingRequest, CallResult, Caller, ClientKey, Config,
    Deny, Detached, Disposition, LossListener, Open, OpenRequest, OpenResult, Options, Share, Waiter, Wake,
};
use volume::security::Rights;
use volume_posix::PosixVolume;

/// Acknowledges most breaks in the very call that reports them.
struct Obliging(Weak<Share>);

impl BreakListener for Obliging {
    fn on_break(&self, notice: &BreakNotice) -> bool {
        let answers = notice.answer && !notice.key.0.is_multiple_of(4);
        if let Some(share) = self.0.upgrade().filter(|_| answers) {
            // Another thread's close may have been quicker.
            let _answered = share.acknowledge(notice.client, notice.key, notice.keyed, notice.to, now());
        }
        true
    }
}

impl Wake for Obliging {
    fn wake(&self, _token: u64) {
        std::thread::yield_now();
    }
}

impl LossListener for Obliging {
    fn on_lost(&self, _token: u64) {
        std::thread::yield_now();
    }
}

/// A small generator, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A request for one of a few names, some of which differ only in case.
fn open_any(share: &Share, caller: &Caller<'_>, dice: &mut Dice, key: u64) -> CallResult<OpenResult> {
    let at = path(["a/one", "A/ONE", "b/one", "a/two", "b/Three", "b/three"][dice.roll(6) as usize]);
    let disposition = [Disposition::OpenOrCreate, Disposition::Open, Disposition::OverwriteOrCreate];
    let request = OpenRequest {
        path: &at,
        stream: None,
        access: Rights::ALL,
        deny: if dice.roll(8) == 0 { Deny::WRITE } else { Deny::empty() },
        disposition: disposition[dice.roll(3) as usize],
        options: if dice.roll(16) == 0 { Options::DELETE_ON_CLOSE } else { Options::empty() },
        attributes: share::Attributes::empty(),
        mode: None,
        descriptor: None,
        extended: &[],
        allocation: 0,
        caching: Some(CachingRequest {
            key: CacheKey(u128::from(key)),
            want: Caching::all(),
            keyed: dice.roll(2) == 0,
            parent: None,
            epoch: Some(0),
            whole: false,
            via: 0,
        }),
        step_of: None,
    };
    share.create(caller, &request)
}

/// Renames, truncates or marks an open file.
fn change_any(share: &Share, caller: &Caller<'_>, dice: &mut Dice, open: &Arc<Open>) -> CallResult<()> {
    let to = path(["a/two", "b/Three", "b/new"][dice.roll(3) as usize]);
    match dice.roll(12) {
        0..3 => share.rename(caller, open, &to, None, true, false),
        3..6 => share.set_size(caller, open, dice.roll(1000)),
        6 => share.set_delete(caller, open, true, false, false),
        _ => CallResult::Done(()),
    }
}

/// Closes an open, or detaches it and perhaps comes back to close it.
fn part(share: &Share, caller: &Caller<'_>, keeper: &Arc<Obliging>, dice: &mut Dice, open: &Arc<Open>) {
    if dice.roll(3) == 0 {
        // Time stands still, so an open that does not yield would conflict for good.
        let yields = dice.roll(2) == 0;
        let until_ns = now().mono_ns + u64::from(yields);
        let how = Detached { until_ns, yields, keeper: keeper.clone(), token: open.id() };
        if share.detach_open(open, how, now()).is_ok()
            && (dice.roll(2) == 0 || share.reclaim(open, caller).is_err())
        {
            return;
        }
    }
    // A file that another thread renamed over it is gone already.
    let _closed = share.close(open, now());
}

/// The number of rounds of each thread, and the most rounds until enough was opened and waited for.
const ROUNDS: u64 = 5000;
const MOST_ROUNDS: u64 = 500_000;

/// How often all threads together have opened something, and how often they would have waited.
#[derive(Default)]
struct ThreadTotals {
    opened: AtomicUsize,
    waited: AtomicUsize,
}

impl ThreadTotals {
    /// Whether the threads have met often enough to show something.
    fn are_enough(&self) -> bool {
        self.opened.load(Ordering::Relaxed) > 300 && self.waited.load(Ordering::Relaxed) > 10
    }
}

/// Opens, changes and closes at random.
fn work(share: &Arc<Share>, n: u64, counts: &ThreadTotals) {
    let mut dice = Dice(n);
    let holder = Arc::new(Obliging(Arc::downgrade(share)));
    let client = ClientKey(u128::from(n));
    share.attach(client, holder.clone());
    let identity = Arc::new(share::Identity { actor: None, administrator: true, ..(*user(0)).clone() });
    let waiter = Waiter { wake: holder.clone(), token: 1 };
    let caller = Caller {
        identity: &identity,
        client,
        waiter: Some(&waiter),
        now: now(),
        origin: None,
        details: None,
    };
    let mut opens: Vec<Arc<Open>> = Vec::new();
    for round in 0..MOST_ROUNDS {
        if round >= ROUNDS && counts.are_enough() {
            break;
        }
        match open_any(share, &caller, &mut dice, n * 10_000 + round) {
            CallResult::Done(opened) => {
                counts.opened.fetch_add(1, Ordering::Relaxed);
                opens.push(opened.open);
            }
            CallResult::Wait(ticket) => {
                counts.waited.fetch_add(1, Ordering::Relaxed);
                share.cancel(ticket);
                // If processors are scarce, no other thread would come to yield.
                std::thread::yield_now();
            }
            CallResult::Refused(_) => {}
        }
        if let Some(open) = opens.last()
            && let CallResult::Wait(ticket) = change_any(share, &caller, &mut dice, open)
        {
            share.cancel(ticket);
        }
        if (opens.len() > 1 || dice.roll(4) == 0)
            && let Some(open) = opens.pop()
        {
            part(share, &caller, &holder, &mut dice, &open);
        }
        if round % 16 == 0 {
            share.tick(now());
        }
    }
    for open in opens {
        let _closed = share.close(&open, now());
    }
    share.detach(client);
}

#[test]
fn threads_neither_hang_nor_leave_anything_behind() {
    let directory = tempfile::tempdir().unwrap();
    let beside = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
    }
    let volume = PosixVolume::open(directory.path(), beside.path()).unwrap();
    let config = Config { enforce: false, ..Config::default() };
    let share = Share::open(Arc::new(volume), config).unwrap();
    let counts = ThreadTotals::default();
    std::thread::scope(|scope| {
        let (share, counts) = (&share, &counts);
        (1..5).for_each(|n| drop(scope.spawn(move || work(share, n, counts))));
    });
    let ThreadTotals { opened, waited } = &counts;
    assert!(counts.are_enough(), "{opened:?} opened, {waited:?} waited");
    share.tick(now().plus(std::time::Duration::from_secs(1)));
    assert_eq!(share.open_count(), 0);
    assert!(share.opens().is_empty() && share.held_ranges().is_empty());
    for name in ["a", "b"] {
        let listed = std::fs::read_dir(directory.path().join(name)).unwrap();
        let names: Vec<_> =
            listed.map(|entry| entry.unwrap().file_name().to_string_lossy().to_lowercase()).collect();
        let different: HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "two names differ only in case: {names:?}");
    }
}
