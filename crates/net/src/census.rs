//! Counts connections: the bounds on them, and which worker takes the next one.
//!
//! Touched when a connection starts, is placed or moved and ends, and by each worker once in a span of time (`balance.rs`); never
//! for a message.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// All connections of one server.
#[derive(Debug)]
pub(crate) struct Census {
    max: usize,
    max_per_address: usize,
    /// Connections of each worker.
    load: Box<[AtomicUsize]>,
    /// What each worker has to do.
    busy: Box<[Busy]>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    addresses: HashMap<IpAddr, usize>,
    /// For each placement key the connections of each worker.
    keys: HashMap<u128, Box<[usize]>>,
}

/// How much of a processor a worker took when it said so last, in thousandths, and when that was (monotonic ns).
#[derive(Debug, Default)]
struct Busy {
    parts: AtomicU64,
    at_ns: AtomicU64,
}

/// A worker that has not said for so long (ns) how much it has to do has nothing to do.
const QUIET_NS: u64 = 100_000_000;

/// One connection's place in the census; given up when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    census: Arc<Census>,
    address: IpAddr,
    worker: usize,
    key: Option<u128>,
}

impl Census {
    pub(crate) fn new(workers: usize, max: usize, max_per_address: usize) -> Arc<Census> {
        Arc::new(Census {
            max,
            max_per_address,
            load: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            busy: (0..workers).map(|_| Busy::default()).collect(),
            state: Mutex::default(),
        })
    }

    /// Admits a connection to the worker with the fewest. None when a bound is reached.
    pub(crate) fn admit(self: &Arc<Census>, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut state = self.state.lock();
        if state.total >= self.max {
            return None;
        }
        let of_address = state.addresses.entry(address).or_default();
        if *of_address >= self.max_per_address {
            return None;
        }
        *of_address += 1;
        state.total += 1;
        let worker = (0..self.load.len()).min_by_key(|&at| self.load[at].load(Relaxed))?;
        self.load[worker].fetch_add(1, Relaxed);
        Some(Place { census: Arc::clone(self), address, worker, key: None })
    }

    /// Connections now.
    pub(crate) fn total(&self) -> usize {
        self.state.lock().total
    }

    /// Whether there is nobody to give a connection to.
    pub(crate) fn has_one_worker(&self) -> bool {
        self.load.len() == 1
    }

    /// A worker says how much of a processor it takes, in thousandths.
    pub(crate) fn say(&self, worker: usize, parts: u64, now_ns: u64) {
        let busy = &self.busy[worker];
        busy.parts.store(parts, Relaxed);
        busy.at_ns.store(now_ns, Relaxed);
    }

    /// The worker that has least to do, other than `but`; none when even that has more than `most` thousandths.
    pub(crate) fn idlest(&self, but: usize, most: u64, now_ns: u64) -> Option<usize> {
        let parts = |busy: &Busy| {
            let is_quiet = now_ns.saturating_sub(busy.at_ns.load(Relaxed)) > QUIET_NS;
            if is_quiet { 0 } else { busy.parts.load(Relaxed) }
        };
        let others =
            self.busy.iter().map(parts).enumerate().filter(|(at, parts)| *at != but && *parts <= most);
        others.min_by_key(|(at, parts)| (*parts, self.load[*at].load(Relaxed))).map(|(at, _)| at)
    }

    /// Connections of each worker now.
    pub(crate) fn load(&self) -> Vec<usize> {
        self.load.iter().map(|count| count.load(Relaxed)).collect()
    }
}

impl Place {
    /// The worker it is on.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Moves to the worker with the most connections of `key`, and where there are none yet, to the one with the fewest of
    /// others; stays on its own where that is as good. Returns the worker.
    pub(crate) fn choose(&mut self, key: u128) -> usize {
        let census = &*self.census;
        let mut state = census.state.lock();
        let of_key = state.keys.entry(key).or_insert_with(|| vec![0; census.load.len()].into_boxed_slice());
        let others = |at: usize| census.load[at].load(Relaxed) - usize::from(at == self.worker);
        let best = (0..of_key.len())
            .min_by_key(|&at| (Reverse(of_key[at]), others(at), at != self.worker))
            .unwrap_or(self.worker);
        of_key[best] += 1;
        self.key = Some(key);
        drop(state);
        self.enter(best);
        best
    }

    /// Moves to another worker.
    pub(crate) fn go(&mut self, worker: usize) {
        if let Some(key) = self.key
            && let Some(of_key) = self.census.state.lock().keys.get_mut(&key)
        {
            of_key[self.worker] -= 1;
            of_key[worker] += 1;
        }
        self.enter(worker);
    }

    fn enter(&mut self, worker: usize) {
        self.census.load[self.worker].fetch_sub(1, Relaxed);
        self.census.load[worker].fetch_add(1, Relaxed);
        self.worker = worker;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.census.state.lock();
        state.total -= 1;
        if let Some(count) = state.addresses.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                state.addresses.remove(&self.address);
            }
        }
        if let Some(key) = self.key
            && let Some(of_key) = state.keys.get_mut(&key)
        {
            of_key[self.worker] -= 1;
            if of_key.iter().all(|&count| count == 0) {
                state.keys.remove(&key);
            }
        }
        self.census.load[self.worker].fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn connections_of_one_key_come_together_and_keys_are_spread() {
        let census = Census::new(2, 100, 100);
        let mut places: Vec<Place> = (0..8).filter_map(|_| census.admit(HOME)).collect();
        for (at, key) in [(0, 7), (1, 7), (2, 7), (3, 7)] {
            assert_eq!(places[at].choose(key), 0);
        }
        assert_eq!(census.load(), [6, 2]);
        assert_eq!(places[4].choose(8), 1);
        places[0].go(1);
        assert_eq!(census.load(), [4, 4]);
        drop(places);
        assert_eq!(census.load(), [0, 0]);
        assert!(census.state.lock().keys.is_empty());
        assert!(census.state.lock().addresses.is_empty());
    }

    #[test]
    fn the_worker_that_has_least_to_do_is_found() {
        let census = Census::new(3, 100, 100);
        let now = 10 * QUIET_NS;
        census.say(0, 950, now);
        census.say(1, 700, now);
        census.say(2, 300, now);
        assert_eq!(census.idlest(0, 650, now), Some(2));
        assert_eq!(census.idlest(2, 650, now), None);
        census.say(2, 0, now);
        assert_eq!(census.idlest(0, 200, now), Some(2));
        census.say(2, 300, now);
        assert_eq!(census.idlest(0, 200, now + QUIET_NS), None);
        assert!(census.idlest(0, 200, now + QUIET_NS + 1).is_some(), "who says nothing does nothing");
    }

    #[test]
    fn bounds_hold_for_all_and_for_one_address_in_any_spelling() {
        let census = Census::new(1, 3, 2);
        let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        let first = census.admit(HOME);
        let second = census.admit(mapped);
        assert!(first.is_some() && second.is_some());
        assert!(census.admit(HOME).is_none());
        let third = census.admit(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
        assert!(third.is_some());
        assert!(census.admit(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2))).is_none());
        drop(first);
        assert!(census.admit(HOME).is_some());
    }
}
