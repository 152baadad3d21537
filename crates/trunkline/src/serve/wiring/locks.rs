//! A helper for locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value that is consistent even after a panic.
pub(super) fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
