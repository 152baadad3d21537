//! Counters to which only one thread adds, by plain loads and stores. Others may read them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds to a counter that no other thread changes.
#[inline]
pub(super) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// The value counted until now.
#[inline]
pub(super) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
