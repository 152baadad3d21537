//! Counts connections: the bounds on them, and which worker takes the next one.
//!
//! Touched when a connection starts, is placed and ends; never for a message.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

/// All connections of one server.
#[derive(Debug)]
pub(crate) struct Census {
    max: usize,
    max_per_address: usize,
    /// Connections of each worker.
    load: Box<[AtomicUsize]>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    addresses: HashMap<IpAddr, usize>,
    /// For each placement key the connections of each worker.
    keys: HashMap<u128, Box<[usize]>>,
}

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

    /// Moves to the worker with the fewest connections of `key`, then the fewest others; stays on its own
    /// where that is as good. Returns the worker.
    pub(crate) fn choose(&mut self, key: u128) -> usize {
        let census = &*self.census;
        let mut state = census.state.lock();
        let of_key = state.keys.entry(key).or_insert_with(|| vec![0; census.load.len()].into_boxed_slice());
        let others = |at: usize| census.load[at].load(Relaxed) - usize::from(at == self.worker);
        let best = (0..of_key.len())
            .min_by_key(|&at| (of_key[at], others(at), at != self.worker))
            .unwrap_or(self.worker);
        of_key[best] += 1;
        census.load[self.worker].fetch_sub(1, Relaxed);
        census.load[best].fetch_add(1, Relaxed);
        self.worker = best;
        self.key = Some(key);
        best
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
    fn connections_of_one_key_are_spread() {
        let census = Census::new(2, 100, 100);
        let mut places: Vec<Place> = (0..8).filter_map(|_| census.admit(HOME)).collect();
        let on: Vec<usize> = places.iter_mut().take(4).map(|place| place.choose(7)).collect();
        assert_eq!(on.iter().filter(|&&worker| worker == 0).count(), 2, "{on:?}");
        assert_eq!(census.load(), [4, 4]);
        drop(places);
        assert_eq!(census.load(), [0, 0]);
        assert!(census.state.lock().keys.is_empty());
        assert!(census.state.lock().addresses.is_empty());
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
