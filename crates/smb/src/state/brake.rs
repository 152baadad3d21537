//! Delays for password attempts. The server judges the attempts for one user from one address one after the
//! other, and each only some time after a failed one. Without a failure nothing waits.
//!
//! A delayed attempt is a request that is put aside in its connection, with its [`Queued`]. It is tried
//! again at a deadline of the connection, or when the attempt before it is done. No thread waits.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use share::Waiter;

use crate::limits::{MAX_BRAKED, MAX_TRIES_WAITING};

/// The parts of the table, so that log-ons of different users do not wait for one lock.
const PARTS: usize = 16;

/// The queues of all pairs of user and address with a recent failed attempt.
#[derive(Debug, Default)]
pub(crate) struct Brake {
    parts: [Mutex<HashMap<u64, Gate>>; PARTS],
    hasher: RandomState,
}

/// The queue of one user from one address.
#[derive(Debug, Default)]
struct Gate {
    /// When the next attempt may be judged.
    ready_ns: u64,
    /// The waiting attempts in order, each with its number.
    waiting: VecDeque<(u64, Waiter)>,
    /// The number of attempts that have waited so far.
    numbered: u64,
}

/// An attempt that is ready for judgment.
pub(crate) struct Try {
    /// The key of its user and address ([`Brake::key`]).
    pub key: u64,
    /// Its place in the queue, if it has waited.
    pub place: Option<Queued>,
    /// The waiter that wakes it.
    pub waiter: Waiter,
    /// The delay of the next attempt after a failure.
    pub delay_ns: u64,
    /// The time (monotonic ns).
    pub now_ns: u64,
}

/// The outcome of an attempt.
pub(crate) enum Tried<R> {
    /// It was judged.
    Judged(R),
    /// It must wait.
    Later(Queued),
    /// Too many attempts wait already.
    Refused,
}

/// The place of a waiting attempt in its queue. The drop of this value removes it.
pub struct Queued {
    brake: Arc<Brake>,
    key: u64,
    number: u64,
    /// The async id of the waiting request.
    pub async_id: u64,
    /// When to try it again, if it is the next one.
    pub at_ns: Option<u64>,
}

impl Brake {
    /// The key of a user and an address. It is a hash, since a user name may be as long as the client likes.
    pub(crate) fn key(&self, user: &str, from: IpAddr) -> u64 {
        self.hasher.hash_one((user, from.to_canonical()))
    }

    fn part(&self, key: u64) -> &Mutex<HashMap<u64, Gate>> {
        &self.parts[key as usize % PARTS]
    }

    /// Judges an attempt if it may be judged now. `judge` also says whether the attempt has failed. A
    /// waiting attempt comes again with its place.
    pub(crate) fn judge<R>(self: &Arc<Self>, one: Try, judge: impl FnOnce() -> (R, bool)) -> Tried<R> {
        let Try { key, place, waiter, delay_ns, now_ns } = one;
        let mut gates = self.part(key).lock();
        if let Some(gate) = gates.get_mut(&key) {
            let next = gate.waiting.front().map(|&(number, _)| number);
            let is_next = next == place.as_ref().map(|place| place.number);
            if !is_next || now_ns < gate.ready_ns {
                if place.is_none() && gate.waiting.len() >= MAX_TRIES_WAITING {
                    return Tried::Refused;
                }
                let at_ns = is_next.then_some(gate.ready_ns);
                let mut place = place.unwrap_or_else(|| {
                    let (number, async_id) = (gate.numbered, waiter.token);
                    gate.numbered += 1;
                    gate.waiting.push_back((number, waiter));
                    Queued { brake: Arc::clone(self), key, number, async_id, at_ns }
                });
                place.at_ns = at_ns;
                return Tried::Later(place);
            }
        }
        // The lock is held, so that no other thread judges an attempt of the same key meanwhile.
        let (judged, has_failed) = judge();
        if has_failed && delay_ns > 0 {
            if !gates.contains_key(&key) {
                make_room(&mut gates, now_ns);
            }
            gates.entry(key).or_default().ready_ns = now_ns.saturating_add(delay_ns);
        }
        drop(gates);
        drop(place);
        Tried::Judged(judged)
    }

    fn leave(&self, key: u64, number: u64) {
        let mut gates = self.part(key).lock();
        let Some(gate) = gates.get_mut(&key) else { return };
        let was_next = gate.waiting.front().is_some_and(|&(next, _)| next == number);
        gate.waiting.retain(|&(waiting, _)| waiting != number);
        let next = gate.waiting.front().filter(|_| was_next).map(|(_, waiter)| waiter.clone());
        drop(gates);
        if let Some(next) = next {
            next.wake.wake(next.token);
        }
    }
}

/// Removes the queues whose delay has passed. If there are none, it removes the idle queue whose delay ends
/// the soonest.
fn make_room(gates: &mut HashMap<u64, Gate>, now_ns: u64) {
    if gates.len() < MAX_BRAKED / PARTS {
        return;
    }
    gates.retain(|_, gate| now_ns < gate.ready_ns || !gate.waiting.is_empty());
    if gates.len() >= MAX_BRAKED / PARTS {
        let idle = gates.iter().filter(|(_, gate)| gate.waiting.is_empty());
        let soonest = idle.min_by_key(|(_, gate)| gate.ready_ns).map(|(&key, _)| key);
        soonest.and_then(|key| gates.remove(&key));
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.brake.leave(self.key, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Remembers the last woken request, and counts the attempts that may be judged.
    #[derive(Default)]
    struct Bell {
        rang: AtomicU64,
        made: AtomicU64,
    }

    impl share::Wake for Bell {
        fn wake(&self, token: u64) {
            self.rang.store(token, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct Scene {
        brake: Arc<Brake>,
        bell: Arc<Bell>,
    }

    const DELAY_NS: u64 = 2_000_000_000;
    const ANN: u64 = 1;

    impl Scene {
        fn call(&self, key: u64, place: Option<Queued>, now_ns: u64, fails: bool) -> Tried<()> {
            let wake = Arc::clone(&self.bell) as Arc<dyn share::Wake>;
            let token = place
                .as_ref()
                .map_or_else(|| 1 + self.bell.made.fetch_add(1, Ordering::Relaxed), |place| place.async_id);
            let one = Try { key, place, waiter: Waiter { wake, token }, delay_ns: DELAY_NS, now_ns };
            self.brake.judge(one, || ((), fails))
        }

        fn is_judged(&self, key: u64, now_ns: u64, fails: bool) -> bool {
            matches!(self.call(key, None, now_ns, fails), Tried::Judged(()))
        }

        fn waits(&self, place: Option<Queued>, now_ns: u64) -> Queued {
            match self.call(ANN, place, now_ns, false) {
                Tried::Later(place) => place,
                Tried::Judged(()) => panic!("judged"),
                Tried::Refused => panic!("refused"),
            }
        }

        /// The last woken request.
        fn rang(&self) -> u64 {
            self.bell.rang.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn right_passwords_never_wait_and_a_failure_holds_its_own_alone() {
        let scene = Scene::default();
        assert!((0..1000).all(|_| scene.is_judged(ANN, 0, false)));
        assert!(scene.is_judged(ANN, 0, true));
        assert!(scene.is_judged(2, 1, false), "another user or address");
        let place = scene.waits(None, 1);
        assert_eq!(place.at_ns, Some(DELAY_NS));
        assert!(matches!(scene.call(ANN, Some(place), DELAY_NS, false), Tried::Judged(())));
        assert!(scene.is_judged(ANN, DELAY_NS, false) && scene.is_judged(ANN, DELAY_NS, false));
    }

    #[test]
    fn tries_come_in_their_order_and_no_more_than_some_wait() {
        let scene = Scene::default();
        assert!(scene.is_judged(ANN, 0, true));
        let mut places: VecDeque<Queued> = (0..MAX_TRIES_WAITING).map(|_| scene.waits(None, 1)).collect();
        assert_eq!(places[0].at_ns, Some(DELAY_NS));
        assert!(places.range(1..).all(|place| place.at_ns.is_none()));
        assert!(matches!(scene.call(ANN, None, 1, false), Tried::Refused));
        // The second attempt is not judged before the first, however late it is.
        let second = scene.waits(places.remove(1), DELAY_NS);
        let first = places.pop_front();
        assert!(matches!(scene.call(ANN, first, DELAY_NS, true), Tried::Judged(())));
        assert_eq!(scene.rang(), second.async_id);
        assert_eq!(scene.waits(Some(second), DELAY_NS).at_ns, Some(2 * DELAY_NS));
    }

    #[test]
    fn who_leaves_makes_room_and_wakes_the_next() {
        let scene = Scene::default();
        assert!(scene.is_judged(ANN, 0, true));
        let [first, second, third] = [(); 3].map(|()| scene.waits(None, 1));
        drop(second);
        assert_eq!(scene.rang(), 0);
        drop(first);
        assert_eq!(scene.rang(), third.async_id);
        let third = scene.waits(Some(third), DELAY_NS - 1);
        assert_eq!(third.at_ns, Some(DELAY_NS));
        drop(third);
        assert!(scene.is_judged(ANN, DELAY_NS, false));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let scene = Scene::default();
        for key in 0..3 * MAX_BRAKED as u64 {
            assert!(scene.is_judged(key, key, true));
        }
        let kept: usize = scene.brake.parts.iter().map(|part| part.lock().len()).sum();
        assert_eq!(kept, MAX_BRAKED);
        assert!(
            matches!(scene.call(3 * MAX_BRAKED as u64 - 1, None, 0, false), Tried::Later(_)),
            "the latest stay"
        );
    }
}
