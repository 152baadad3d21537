//! The locks that a thread holds, in debug builds.

use std::cell::RefCell;
use std::thread;

use super::rank::Rank;

/// A lock that is held or about to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LockId {
    pub rank: Rank,
    /// Distinguishes it from others of its rank.
    pub address: usize,
}

thread_local! {
    static HELD: RefCell<Vec<LockId>> = const { RefCell::new(Vec::new()) };
}

/// A lock that counts as held by this thread until this is dropped.
pub(super) struct HeldLock(LockId);

impl LockId {
    /// Counts the lock as held.
    pub fn count(self) -> HeldLock {
        // A thread that ends has no stack any more, and takes its last locks unseen.
        let _ = HELD.try_with(|held| held.borrow_mut().push(self));
        HeldLock(self)
    }

    /// Panics if this thread must not wait for the lock now.
    #[track_caller]
    pub fn check(self) {
        let in_the_way =
            HELD.try_with(|held| held.borrow().iter().find(|held| !held.may_come_before(self)).copied());
        // A second panic would hide the first.
        if let Ok(Some(held)) = in_the_way
            && !thread::panicking()
        {
            panic!("locks are taken out of order: {:?} while {:?} is held", self.rank, held.rank);
        }
    }

    fn may_come_before(self, next: LockId) -> bool {
        let is_next = next.rank.goes_by_address() && self.rank == next.rank && self.address < next.address;
        !self.rank.is_leaf() && (self.rank < next.rank || is_next)
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        // Guards may be dropped in any order.
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            let at = held.iter().rposition(|lock| *lock == self.0);
            at.map(|at| held.remove(at))
        });
    }
}
