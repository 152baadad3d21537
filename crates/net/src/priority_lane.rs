//! The priority lane: one more worker, for clients that want little while the other workers are busy.
//!
//! A worker serves its connections one after the other. A client with an occasional request would wait, each
//! time, for all clients that always have more to do. So connections move to the lane as soon as a worker is
//! busy. The lane stays quick because it never has much to do. If it has, the principals that took most of it
//! leave it, and may return after a time that doubles each time. A principal that always wants more is
//! therefore soon back on its former worker, and stays there. It loses nothing but its precedence. All
//! connections of one user count as one, so nobody gets more by having many. The lane is closed to
//! connections on which nobody has logged on.
//!
//! A client that is alone on the server gains nothing from the lane, and stays on its worker.
//!
//! [`PriorityLane`] knows whether workers are busy, [`Standing`] whether a principal may be in the lane, and
//! [`Ledger`] decides who leaves it.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Length of a span (ns).
const SPAN_NS: u64 = 50_000_000;
/// A worker is busy if it waits for less than three quarters of a span, that is, if it works for this many
/// thousandths.
const BUSY: u64 = 250;
/// Workers count as busy for this long (ns) after one was.
const BUSY_NS: u64 = 10_000_000_000;
/// The lane has too much work if it runs or is ready for this many thousandths of a span, and works at least
/// this long (ns) for its clients.
const MOST: u64 = 150;
const LEAST_NS: u64 = SPAN_NS / 20;
/// The share of its work that it then keeps, in thousandths.
const LEFT: u64 = 500;
/// A principal that takes this much (ns) in one span leaves at once.
const TOO_MUCH_NS: u64 = SPAN_NS / 8;
/// The time for which a principal is barred from the lane at first (ns), and how often that doubles.
const BAR_NS: u64 = 5_000_000_000;
const DOUBLINGS: u32 = 6;
/// The lane forgets a bar that ended this long ago (ns).
const FORGOTTEN_NS: u64 = 600_000_000_000;

thread_local! {
    /// The start of this thread's current wait, and the sum of its waits (monotonic ns).
    static WAITED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Notes that this thread begins to wait.
pub(crate) fn wait_begins(now_ns: u64) {
    WAITED.set((now_ns, WAITED.get().1));
}

/// Notes that this thread has stopped waiting.
pub(crate) fn wait_ends(now_ns: u64) {
    let (since_ns, sum_ns) = WAITED.get();
    WAITED.set((now_ns, sum_ns + now_ns.saturating_sub(since_ns)));
}

/// Counts this time (ns) as waiting, although the thread did not sleep.
pub(crate) fn waited(ns: u64) {
    let (since_ns, sum_ns) = WAITED.get();
    WAITED.set((since_ns, sum_ns + ns));
}

/// The lane as all workers know it.
#[derive(Debug)]
pub(crate) struct PriorityLane {
    worker: usize,
    busy_until_ns: AtomicU64,
    /// Whether connections of more than one principal are known.
    is_shared: AtomicBool,
}

impl PriorityLane {
    /// The lane is the worker with this number.
    pub(crate) fn new(worker: usize) -> PriorityLane {
        PriorityLane { worker, busy_until_ns: AtomicU64::new(0), is_shared: AtomicBool::new(false) }
    }

    /// The number of its worker.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    pub(crate) fn set_shared(&self, is_shared: bool) {
        self.is_shared.store(is_shared, Relaxed);
    }

    /// Whether connections of a principal belong in the lane at present.
    pub(crate) fn admits(&self, standing: &Standing, now_ns: u64) -> bool {
        now_ns < self.busy_until_ns.load(Relaxed)
            && self.is_shared.load(Relaxed)
            && !standing.is_barred(now_ns)
    }
}

/// The share of time in which the worker of this thread works.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    began_ns: u64,
    waited_ns: u64,
}

impl Occupancy {
    /// Ends a span if it is over at `now_ns`. Returns for how many thousandths of it the thread did not wait.
    fn look(&mut self, now_ns: u64) -> Option<u64> {
        let (_, waited_ns) = WAITED.get();
        let before = std::mem::replace(self, Occupancy { began_ns: now_ns, waited_ns });
        let passed_ns = now_ns.saturating_sub(before.began_ns);
        if before.began_ns == 0 {
            return None;
        }
        if passed_ns < SPAN_NS {
            *self = before;
            return None;
        }
        let worked_ns = passed_ns.saturating_sub(waited_ns.saturating_sub(before.waited_ns));
        Some(worked_ns.saturating_mul(1000) / passed_ns)
    }

    /// Opens the lane after a span in which this worker was busy.
    pub(crate) fn update_lane(&mut self, lane: &PriorityLane, now_ns: u64) {
        if self.look(now_ns).is_some_and(|worked| worked >= BUSY) {
            lane.busy_until_ns.store(now_ns.saturating_add(BUSY_NS), Relaxed);
        }
    }
}

/// The standing of one principal in the lane.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    barred_until_ns: AtomicU64,
    bars: AtomicU32,
    /// Nanoseconds that it took in the lane in the current span. Only the lane's thread writes this.
    took_ns: AtomicU64,
}

impl Standing {
    /// Whether it is barred from the lane.
    pub(crate) fn is_barred(&self, now_ns: u64) -> bool {
        now_ns < self.barred_until_ns.load(Relaxed)
    }

    /// Whether it is barred from the lane, or was until recently.
    pub(crate) fn is_remembered(&self, now_ns: u64) -> bool {
        let until_ns = self.barred_until_ns.load(Relaxed);
        until_ns != 0 && now_ns.saturating_sub(until_ns) <= FORGOTTEN_NS
    }

    fn bar(&self, now_ns: u64) {
        if self.is_barred(now_ns) {
            return;
        }
        let bars = if self.is_remembered(now_ns) { (self.bars.load(Relaxed) + 1).min(DOUBLINGS) } else { 0 };
        self.bars.store(bars, Relaxed);
        // A random addition of up to a quarter. Principals that were barred together then do not return
        // together.
        let length_ns = BAR_NS << bars;
        let chance = RandomState::new().build_hasher().finish();
        self.barred_until_ns.store(now_ns.saturating_add(length_ns + chance % (length_ns / 4)), Relaxed);
    }
}

/// The times of the current span, by principal.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    occupancy: Occupancy,
    took_ns: u64,
    served: Vec<Arc<Standing>>,
}

impl Ledger {
    /// Adds the time that a connection of a principal took, on the processor or in calls that waited. After a
    /// span with too much work the principals leave that took most.
    pub(crate) fn charge(&mut self, standing: &Arc<Standing>, took_ns: u64, now_ns: u64) {
        if let Some(worked) = self.occupancy.look(now_ns) {
            self.end_span(worked, now_ns);
        }
        let before_ns = standing.took_ns.load(Relaxed);
        if before_ns == 0 {
            self.served.push(Arc::clone(standing));
        }
        standing.took_ns.store(before_ns + took_ns.max(1), Relaxed);
        self.took_ns += took_ns;
        if before_ns + took_ns > TOO_MUCH_NS {
            standing.bar(now_ns);
        }
    }

    fn end_span(&mut self, worked: u64, now_ns: u64) {
        if worked > MOST && self.took_ns > LEAST_NS {
            self.thin_out(self.took_ns.saturating_mul(LEFT) / 1000, now_ns);
        }
        self.served.drain(..).for_each(|standing| standing.took_ns.store(0, Relaxed));
        self.took_ns = 0;
    }

    /// Bars the principals that took most, until the others took `enough_ns`.
    fn thin_out(&mut self, enough_ns: u64, now_ns: u64) {
        self.served.sort_unstable_by_key(|standing| standing.took_ns.load(Relaxed));
        let mut left_ns = self.took_ns;
        for standing in self.served.iter().rev() {
            if left_ns <= enough_ns {
                return;
            }
            left_ns = left_ns.saturating_sub(standing.took_ns.load(Relaxed));
            standing.bar(now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN_NS: u64 = 1_000_000_000;

    fn lane() -> PriorityLane {
        let lane = PriorityLane::new(2);
        lane.set_shared(true);
        lane
    }

    /// Simulates a span in which this thread works for these thousandths and waits for the rest. Returns its
    /// end.
    fn span(worked: u64, began_ns: u64) -> u64 {
        let ends_ns = began_ns + SPAN_NS;
        wait_begins(began_ns + SPAN_NS * worked / 1000);
        wait_ends(ends_ns);
        ends_ns
    }

    /// A lane, and a time at which it is open.
    fn busy() -> (PriorityLane, u64) {
        let (lane, mut occupancy) = (lane(), Occupancy::default());
        occupancy.update_lane(&lane, BEGIN_NS);
        assert!(!lane.admits(&Standing::default(), BEGIN_NS), "nothing is known of the time before");
        let now_ns = span(BUSY, BEGIN_NS);
        occupancy.update_lane(&lane, now_ns);
        (lane, now_ns)
    }

    #[test]
    fn a_worker_that_is_busy_opens_the_lane_for_a_while() {
        let ((lane, now_ns), someone) = (busy(), Standing::default());
        assert!(lane.admits(&someone, now_ns + BUSY_NS - 1) && !lane.admits(&someone, now_ns + BUSY_NS));
        someone.bar(now_ns);
        assert!(!lane.admits(&someone, now_ns));
        let (idle, mut occupancy) = (self::lane(), Occupancy::default());
        occupancy.update_lane(&idle, BEGIN_NS);
        let now_ns = span(BUSY - 1, BEGIN_NS);
        occupancy.update_lane(&idle, now_ns);
        assert!(!idle.admits(&Standing::default(), now_ns));
    }

    #[test]
    fn nobody_is_put_before_himself() {
        let (lane, now_ns) = busy();
        assert!(lane.admits(&Standing::default(), now_ns));
        lane.set_shared(false);
        assert!(!lane.admits(&Standing::default(), now_ns));
    }

    /// Lets three principals work in the lane for these thousandths of a span each. Returns whether they are
    /// barred after it, and the time.
    fn barred(
        ledger: &mut Ledger,
        all: &[Arc<Standing>; 3],
        works: [u64; 3],
        began_ns: u64,
    ) -> ([bool; 3], u64) {
        for (standing, work) in all.iter().zip(works) {
            ledger.charge(standing, SPAN_NS * work / 1000, began_ns);
        }
        let now_ns = span(works.iter().sum(), began_ns);
        ledger.charge(&all[2], 0, now_ns);
        ([0, 1, 2].map(|at| all[at].is_barred(now_ns)), now_ns)
    }

    #[test]
    fn the_principals_that_take_most_leave_the_lane() {
        let all = <[Arc<Standing>; 3]>::default();
        let mut ledger = Ledger::default();
        let (found, now_ns) = barred(&mut ledger, &all, [0, 0, 0], BEGIN_NS);
        assert_eq!(found, [false; 3]);
        let (found, now_ns) = barred(&mut ledger, &all, [100, 40, 9], now_ns);
        assert_eq!(found, [false; 3], "it waits for long enough");
        let (found, now_ns) = barred(&mut ledger, &all, [100, 50, 10], now_ns);
        assert_eq!(found, [true, false, false]);
        let (found, now_ns) = barred(&mut ledger, &all, [0, 90, 62], now_ns);
        assert_eq!(found, [true, true, false], "and so on, until half is left");
        ledger.charge(&all[2], TOO_MUCH_NS - 1, now_ns);
        assert!(!all[2].is_barred(now_ns));
        let later_ns = span(0, now_ns);
        ledger.charge(&all[2], TOO_MUCH_NS, later_ns);
        assert!(!all[2].is_barred(later_ns), "another span");
        ledger.charge(&all[2], 1, later_ns);
        assert!(all[2].is_barred(later_ns), "one that takes too much does not stay until the span ends");
    }

    #[test]
    fn a_principal_comes_back_later_each_time_until_it_is_forgotten() {
        let principal = Standing::default();
        let mut now_ns = BEGIN_NS;
        for doublings in 0..=DOUBLINGS + 1 {
            principal.bar(now_ns);
            let length_ns = BAR_NS << doublings.min(DOUBLINGS);
            assert!(principal.is_barred(now_ns + length_ns - 1));
            now_ns += length_ns + length_ns / 4;
            assert!(!principal.is_barred(now_ns));
        }
        now_ns += FORGOTTEN_NS + BAR_NS;
        principal.bar(now_ns);
        assert!(!principal.is_barred(now_ns + BAR_NS + BAR_NS / 4));
    }
}
