//! Delays for password attempts. The server judges the attempts for one user from one address one after the
//! other, and each only some time after a failed one. Without a failure nothing waits.
//!
//! A delayed attempt is a request that is put aside in its connection, with its [`QueuedAttempt`]. It is
//! tried again at a deadline of the connection, or when the attempt before it is done. No thread waits.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use share::Waiter;

use crate::limits::{MAX_PASSWORD_DELAYS, MAX_WAITING_ATTEMPTS};

/// The parts of the table, so that log-ons of different users do not wait for one lock.
const PARTS: usize = 16;

/// The queues of all pairs of user and address with a recent failed attempt.
#[derive(Debug, Default)]
pub(crate) struct PasswordDelays {
    parts: [Mutex<HashMap<u64, AttemptQueue>>; PARTS],
    hasher: RandomState,
}

/// The queue of one user from one address.
#[derive(Debug, Default)]
struct AttemptQueue {
    next: NextAttempt,
    /// The waiting attempts in order, each with its number.
    waiting: VecDeque<(u64, Waiter)>,
    /// The number of attempts that have waited so far.
    numbered: u64,
}

/// When the next attempt of a queue may be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NextAttempt {
    /// At this time (monotonic ns).
    At(u64),
    /// When the outcome of the one that another thread judges is known.
    AfterPending,
}

impl Default for NextAttempt {
    fn default() -> NextAttempt {
        NextAttempt::NOW
    }
}

impl NextAttempt {
    const NOW: NextAttempt = NextAttempt::At(0);

    fn is_due(self, now_ns: u64) -> bool {
        self.at_ns().is_some_and(|at_ns| at_ns <= now_ns)
    }

    fn at_ns(self) -> Option<u64> {
        match self {
            NextAttempt::At(at_ns) => Some(at_ns),
            NextAttempt::AfterPending => None,
        }
    }
}

/// An attempt that is ready for judgment.
pub(crate) struct PasswordAttempt {
    /// The key of its user and address ([`PasswordDelays::key`]).
    pub key: u64,
    /// Its place in the queue, if it has waited.
    pub queued: Option<QueuedAttempt>,
    /// The waiter that wakes it.
    pub waiter: Waiter,
    /// The delay of the next attempt after a failure.
    pub delay_ns: u64,
    /// The time (monotonic ns).
    pub now_ns: u64,
}

/// The outcome of an attempt.
pub(crate) enum AttemptOutcome<R> {
    /// It was judged.
    Judged(R),
    /// It must wait.
    Later(QueuedAttempt),
    /// Too many attempts wait already.
    Refused,
}

/// The place of a waiting attempt in its queue. The drop of this value removes it.
pub struct QueuedAttempt {
    delays: Arc<PasswordDelays>,
    key: u64,
    number: u64,
    /// The async id of the waiting request.
    pub async_id: u64,
    /// When to try it again, if it is the next one and the time is known.
    pub at_ns: Option<u64>,
}

/// An attempt that is being judged. The drop of this value lets the next one go on.
pub(crate) struct PendingAttempt {
    delays: Arc<PasswordDelays>,
    key: u64,
    /// When the next attempt may be judged, if this one fails.
    after_failure: NextAttempt,
    has_failed: bool,
}

impl PendingAttempt {
    /// Ends the attempt with its outcome.
    pub(crate) fn end(mut self, has_failed: bool) {
        self.has_failed = has_failed;
    }
}

impl Drop for PendingAttempt {
    fn drop(&mut self) {
        let next = if self.has_failed { self.after_failure } else { NextAttempt::NOW };
        self.delays.settle(self.key, next);
    }
}

impl PasswordAttempt {
    /// When the next attempt may be judged, if this one fails.
    fn after_failure(&self) -> NextAttempt {
        NextAttempt::At(self.now_ns.saturating_add(self.delay_ns))
    }
}

impl PasswordDelays {
    /// The key of a user and an address. It is a hash, since a user name may be as long as the client likes.
    pub(crate) fn key(&self, user: &str, from: IpAddr) -> u64 {
        self.hasher.hash_one((user, from.to_canonical()))
    }

    fn part(&self, key: u64) -> &Mutex<HashMap<u64, AttemptQueue>> {
        &self.parts[key as usize % PARTS]
    }

    /// Judges an attempt if it may be judged now. `judge` also says whether the attempt has failed. A
    /// waiting attempt comes again with its place.
    pub(crate) fn judge<R>(
        self: &Arc<Self>,
        one: PasswordAttempt,
        judge: impl FnOnce() -> (R, bool),
    ) -> AttemptOutcome<R> {
        let (delay_ns, after_failure) = (one.delay_ns, one.after_failure());
        self.take_turn(one, || {
            let (judged, has_failed) = judge();
            (judged, (has_failed && delay_ns > 0).then_some(after_failure))
        })
    }

    /// Runs `work` if it is the turn of this attempt. `work` also says when the next one may be judged,
    /// unless that is at once.
    fn take_turn<R>(
        self: &Arc<Self>,
        one: PasswordAttempt,
        work: impl FnOnce() -> (R, Option<NextAttempt>),
    ) -> AttemptOutcome<R> {
        let PasswordAttempt { key, queued, waiter, now_ns, .. } = one;
        let mut queues = self.part(key).lock();
        if let Some(queue) = queues.get_mut(&key) {
            let next = queue.waiting.front().map(|&(number, _)| number);
            let is_next = next == queued.as_ref().map(|queued| queued.number);
            if !is_next || !queue.next.is_due(now_ns) {
                if queued.is_none() && queue.waiting.len() >= MAX_WAITING_ATTEMPTS {
                    return AttemptOutcome::Refused;
                }
                let at_ns = queue.next.at_ns().filter(|_| is_next);
                let mut queued = queued.unwrap_or_else(|| {
                    let (number, async_id) = (queue.numbered, waiter.token);
                    queue.numbered += 1;
                    queue.waiting.push_back((number, waiter));
                    QueuedAttempt { delays: Arc::clone(self), key, number, async_id, at_ns }
                });
                queued.at_ns = at_ns;
                return AttemptOutcome::Later(queued);
            }
        }
        // The lock is held, so that no other thread judges an attempt of the same key meanwhile.
        let (done, next) = work();
        if let Some(next) = next {
            if !queues.contains_key(&key) {
                make_room(&mut queues, now_ns);
            }
            queues.entry(key).or_default().next = next;
        }
        drop(queues);
        drop(queued);
        AttemptOutcome::Judged(done)
    }

    /// Begins an attempt that another thread judges, if it may be judged now. The others of its user and
    /// address wait until its outcome is known.
    pub(crate) fn begin(self: &Arc<Self>, one: PasswordAttempt) -> AttemptOutcome<PendingAttempt> {
        let (delays, key, after_failure) = (Arc::clone(self), one.key, one.after_failure());
        self.take_turn(one, || {
            let pending = PendingAttempt { delays, key, after_failure, has_failed: false };
            (pending, Some(NextAttempt::AfterPending))
        })
    }

    /// Sets when the next attempt may be judged, and wakes it.
    fn settle(&self, key: u64, next: NextAttempt) {
        let mut queues = self.part(key).lock();
        let Some(queue) = queues.get_mut(&key) else { return };
        queue.next = next;
        let first = queue.waiting.front().map(|(_, waiter)| waiter.clone());
        if first.is_none() && next == NextAttempt::NOW {
            queues.remove(&key);
        }
        drop(queues);
        if let Some(first) = first {
            first.wake.wake(first.token);
        }
    }

    fn leave(&self, key: u64, number: u64) {
        let mut queues = self.part(key).lock();
        let Some(queue) = queues.get_mut(&key) else { return };
        let was_next = queue.waiting.front().is_some_and(|&(next, _)| next == number);
        queue.waiting.retain(|&(waiting, _)| waiting != number);
        let next = queue.waiting.front().filter(|_| was_next).map(|(_, waiter)| waiter.clone());
        drop(queues);
        if let Some(next) = next {
            next.wake.wake(next.token);
        }
    }
}

/// Removes the queues whose delay has passed. If there are none, it removes the idle queue whose delay ends
/// the soonest.
fn make_room(queues: &mut HashMap<u64, AttemptQueue>, now_ns: u64) {
    if queues.len() < MAX_PASSWORD_DELAYS / PARTS {
        return;
    }
    queues.retain(|_, queue| !queue.next.is_due(now_ns) || !queue.waiting.is_empty());
    if queues.len() >= MAX_PASSWORD_DELAYS / PARTS {
        let idle = queues.iter().filter(|(_, queue)| queue.waiting.is_empty());
        let soonest = idle.min_by_key(|(_, queue)| queue.next).map(|(&key, _)| key);
        soonest.and_then(|key| queues.remove(&key));
    }
}

impl Drop for QueuedAttempt {
    fn drop(&mut self) {
        self.delays.leave(self.key, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Remembers the last woken request, and counts the attempts that may be judged.
    #[derive(Default)]
    struct Bell {
        last_woken: AtomicU64,
        made: AtomicU64,
    }

    impl share::Wake for Bell {
        fn wake(&self, token: u64) {
            self.last_woken.store(token, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct DelayedLogons {
        delays: Arc<PasswordDelays>,
        bell: Arc<Bell>,
    }

    const DELAY_NS: u64 = 2_000_000_000;
    const ANN: u64 = 1;

    impl DelayedLogons {
        fn call(
            &self,
            key: u64,
            queued: Option<QueuedAttempt>,
            now_ns: u64,
            fails: bool,
        ) -> AttemptOutcome<()> {
            let wake = Arc::clone(&self.bell) as Arc<dyn share::Wake>;
            let token = queued
                .as_ref()
                .map_or_else(|| 1 + self.bell.made.fetch_add(1, Ordering::Relaxed), |queued| queued.async_id);
            let one =
                PasswordAttempt { key, queued, waiter: Waiter { wake, token }, delay_ns: DELAY_NS, now_ns };
            self.delays.judge(one, || ((), fails))
        }

        fn is_judged(&self, key: u64, now_ns: u64, fails: bool) -> bool {
            matches!(self.call(key, None, now_ns, fails), AttemptOutcome::Judged(()))
        }

        fn waits(&self, queued: Option<QueuedAttempt>, now_ns: u64) -> QueuedAttempt {
            match self.call(ANN, queued, now_ns, false) {
                AttemptOutcome::Later(queued) => queued,
                AttemptOutcome::Judged(()) => panic!("judged"),
                AttemptOutcome::Refused => panic!("refused"),
            }
        }

        /// The last woken request.
        fn last_woken(&self) -> u64 {
            self.bell.last_woken.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn right_passwords_never_wait_and_a_failure_holds_its_own_alone() {
        let scene = DelayedLogons::default();
        assert!((0..1000).all(|_| scene.is_judged(ANN, 0, false)));
        assert!(scene.is_judged(ANN, 0, true));
        assert!(scene.is_judged(2, 1, false), "another user or address");
        let queued = scene.waits(None, 1);
        assert_eq!(queued.at_ns, Some(DELAY_NS));
        assert!(matches!(scene.call(ANN, Some(queued), DELAY_NS, false), AttemptOutcome::Judged(())));
        assert!(scene.is_judged(ANN, DELAY_NS, false) && scene.is_judged(ANN, DELAY_NS, false));
    }

    #[test]
    fn tries_come_in_their_order_and_no_more_than_some_wait() {
        let scene = DelayedLogons::default();
        assert!(scene.is_judged(ANN, 0, true));
        let mut places: VecDeque<QueuedAttempt> =
            (0..MAX_WAITING_ATTEMPTS).map(|_| scene.waits(None, 1)).collect();
        assert_eq!(places[0].at_ns, Some(DELAY_NS));
        assert!(places.range(1..).all(|queued| queued.at_ns.is_none()));
        assert!(matches!(scene.call(ANN, None, 1, false), AttemptOutcome::Refused));
        // The second attempt is not judged before the first, however late it is.
        let second = scene.waits(places.remove(1), DELAY_NS);
        let first = places.pop_front();
        assert!(matches!(scene.call(ANN, first, DELAY_NS, true), AttemptOutcome::Judged(())));
        assert_eq!(scene.last_woken(), second.async_id);
        assert_eq!(scene.waits(Some(second), DELAY_NS).at_ns, Some(2 * DELAY_NS));
    }

    #[test]
    fn attempts_wait_for_one_that_another_thread_judges() {
        let scene = DelayedLogons::default();
        let begin = |now_ns| {
            let wake = Arc::clone(&scene.bell) as Arc<dyn share::Wake>;
            let waiter = Waiter { wake, token: 99 };
            let one = PasswordAttempt { key: ANN, queued: None, waiter, delay_ns: DELAY_NS, now_ns };
            match scene.delays.begin(one) {
                AttemptOutcome::Judged(pending) => pending,
                AttemptOutcome::Later(_) | AttemptOutcome::Refused => panic!("it waits"),
            }
        };
        // A right password keeps the next one only until it is known to be right.
        let pending = begin(0);
        let second = scene.waits(None, 1);
        pending.end(false);
        assert_eq!(scene.last_woken(), second.async_id);
        assert!(matches!(scene.call(ANN, Some(second), 2, false), AttemptOutcome::Judged(())));
        // A wrong one keeps it for the delay.
        let pending = begin(3);
        let second = scene.waits(None, 4);
        pending.end(true);
        assert_eq!(scene.waits(Some(second), 5).at_ns, Some(3 + DELAY_NS));
        // One that was never judged has not failed.
        drop(begin(4 + DELAY_NS));
        assert!(scene.is_judged(ANN, 5 + DELAY_NS, false));
    }

    #[test]
    fn who_leaves_makes_room_and_wakes_the_next() {
        let scene = DelayedLogons::default();
        assert!(scene.is_judged(ANN, 0, true));
        let [first, second, third] = [(); 3].map(|()| scene.waits(None, 1));
        drop(second);
        assert_eq!(scene.last_woken(), 0);
        drop(first);
        assert_eq!(scene.last_woken(), third.async_id);
        let third = scene.waits(Some(third), DELAY_NS - 1);
        assert_eq!(third.at_ns, Some(DELAY_NS));
        drop(third);
        assert!(scene.is_judged(ANN, DELAY_NS, false));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let scene = DelayedLogons::default();
        for key in 0..3 * MAX_PASSWORD_DELAYS as u64 {
            assert!(scene.is_judged(key, key, true));
        }
        let kept: usize = scene.delays.parts.iter().map(|part| part.lock().len()).sum();
        assert_eq!(kept, MAX_PASSWORD_DELAYS);
        assert!(
            matches!(
                scene.call(3 * MAX_PASSWORD_DELAYS as u64 - 1, None, 0, false),
                AttemptOutcome::Later(_)
            ),
            "the latest stay"
        );
    }
}
