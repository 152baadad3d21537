//! Locks of the wiring.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value behind a lock that is whole also after a panic.
pub(super) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
