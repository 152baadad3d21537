//! Locks with ranks. Each lock has a rank in one table, [`Rank`]. Every debug build panics when a thread
//! takes them in another order than that of the table, so each test checks the order. A release build has
//! nothing of it.
//!
//! The crate uses no other locks; a test below checks that.

mod rank;
#[cfg(debug_assertions)]
mod stack;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A condition variable. Only the guard of a lock with a rank waits for it here.
pub(crate) use parking_lot::Condvar as Condition;
pub(crate) use rank::Rank;
#[cfg(debug_assertions)]
use stack::{HeldLock, LockId};

/// A lock with a rank in the table.
pub(crate) struct Ranked<L> {
    #[cfg(debug_assertions)]
    rank: Rank,
    inner: L,
}

/// A mutex.
pub(crate) type Mutex<T> = Ranked<parking_lot::Mutex<T>>;
/// A lock for many readers or one writer.
pub(crate) type RwLock<T> = Ranked<parking_lot::RwLock<T>>;

/// The locked value, until this is dropped.
#[must_use]
pub(crate) struct Guard<G> {
    guard: G,
    #[cfg(debug_assertions)]
    _counted: HeldLock,
}

/// The value that a mutex guards.
pub(crate) type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>>;
/// Shared access to a value, until this is dropped.
pub(crate) type ReadGuard<'a, T> = Guard<parking_lot::RwLockReadGuard<'a, T>>;
/// The only access to a value, until this is dropped.
pub(crate) type WriteGuard<'a, T> = Guard<parking_lot::RwLockWriteGuard<'a, T>>;

#[cfg(not(debug_assertions))]
const _: () = {
    assert!(size_of::<Mutex<u64>>() == size_of::<parking_lot::Mutex<u64>>());
    assert!(size_of::<RwLock<u64>>() == size_of::<parking_lot::RwLock<u64>>());
    assert!(size_of::<MutexGuard<'_, u64>>() == size_of::<parking_lot::MutexGuard<'_, u64>>());
};

impl<L> Ranked<L> {
    #[cfg_attr(not(debug_assertions), allow(unused_variables))]
    const fn of(rank: Rank, inner: L) -> Ranked<L> {
        Ranked {
            #[cfg(debug_assertions)]
            rank,
            inner,
        }
    }

    /// Panics if this thread must not wait for the lock now.
    #[inline]
    #[track_caller]
    fn check(&self) {
        #[cfg(debug_assertions)]
        self.name().check();
    }

    #[inline]
    fn counted<G>(&self, guard: G) -> Guard<G> {
        Guard {
            guard,
            #[cfg(debug_assertions)]
            _counted: self.name().count(),
        }
    }

    #[cfg(debug_assertions)]
    fn name(&self) -> LockId {
        LockId { rank: self.rank, address: std::ptr::from_ref(self).addr() }
    }
}

impl<T> Mutex<T> {
    pub const fn new(rank: Rank, value: T) -> Mutex<T> {
        Ranked::of(rank, parking_lot::Mutex::new(value))
    }

    /// A lock that guards the default value.
    pub fn of_default(rank: Rank) -> Mutex<T>
    where
        T: Default,
    {
        Mutex::new(rank, T::default())
    }

    /// Waits for the lock.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.check();
        self.counted(self.inner.lock())
    }

    /// Takes the lock if no thread has it, whatever locks this thread holds.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock().map(|guard| self.counted(guard))
    }

    /// Takes the lock if it becomes free within this time.
    pub fn try_lock_for(&self, time: Duration) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock_for(time).map(|guard| self.counted(guard))
    }

    /// The guarded value, for its owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }
}

impl<T> MutexGuard<'_, T> {
    /// Releases the lock while the value is as `is_early` says, and takes it again. Other threads notify
    /// `change`. Returns false if it is still so after this time.
    pub fn wait_while(
        &mut self,
        change: &Condition,
        is_early: impl FnMut(&mut T) -> bool,
        at_most: Duration,
    ) -> bool {
        !change.wait_while_for(&mut self.guard, is_early, at_most).timed_out()
    }
}

impl<T> RwLock<T> {
    pub const fn new(rank: Rank, value: T) -> RwLock<T> {
        Ranked::of(rank, parking_lot::RwLock::new(value))
    }

    /// Waits for the writer.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, T> {
        self.check();
        self.counted(self.inner.read())
    }

    /// Waits for all others.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> WriteGuard<'_, T> {
        self.check();
        self.counted(self.inner.write())
    }
}

impl<L: fmt::Debug> fmt::Debug for Ranked<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(all(test, debug_assertions))]
mod tests;
