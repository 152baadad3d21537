//! One query for each key, however many callers want it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// The queries under way.
pub(super) struct Flights<K, V> {
    under_way: Mutex<HashMap<K, Arc<Flight<V>>>>,
}

struct Flight<V> {
    /// None while the query runs; then its result, or nothing if it failed.
    result: Mutex<Option<Option<V>>>,
    landed: Condvar,
}

impl<K: Hash + Eq + Clone, V: Clone> Flights<K, V> {
    pub(super) fn new() -> Flights<K, V> {
        Flights { under_way: Mutex::new(HashMap::new()) }
    }

    /// The result of `query`, or that of the same query that another caller has begun. `None` if that one
    /// does not end before the deadline, or failed.
    pub(super) fn join(&self, key: &K, deadline: Instant, query: impl FnOnce() -> V) -> Option<V> {
        let other = {
            let mut under_way = crate::sync::lock(&self.under_way);
            match under_way.get(key) {
                Some(flight) => Some(Arc::clone(flight)),
                None => {
                    let flight = Flight { result: Mutex::new(None), landed: Condvar::new() };
                    under_way.insert(key.clone(), Arc::new(flight));
                    None
                }
            }
        };
        if let Some(flight) = other {
            return flight.wait(deadline);
        }
        // Removes the entry even if the query panics, so that no later caller waits for it.
        let _landing = Landing { flights: self, key };
        let value = query();
        if let Some(flight) = crate::sync::lock(&self.under_way).get(key) {
            *crate::sync::lock(&flight.result) = Some(Some(value.clone()));
        }
        Some(value)
    }
}

impl<V: Clone> Flight<V> {
    fn wait(&self, deadline: Instant) -> Option<V> {
        let mut result = crate::sync::lock(&self.result);
        loop {
            if let Some(result) = &*result {
                return result.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let woken = self.landed.wait_timeout(result, left);
            result = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}

struct Landing<'a, K: Hash + Eq, V> {
    flights: &'a Flights<K, V>,
    key: &'a K,
}

impl<K: Hash + Eq, V> Drop for Landing<'_, K, V> {
    fn drop(&mut self) {
        let flight = crate::sync::lock(&self.flights.under_way).remove(self.key);
        if let Some(flight) = flight {
            crate::sync::lock(&flight.result).get_or_insert(None);
            flight.landed.notify_all();
        }
    }
}
