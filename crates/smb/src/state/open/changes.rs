//! Counts of the operations under way on an Open: changes and reads. It also keeps the waiters for their end
//! ([`super::pending`]).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use share::Ticket;

/// The current life of an Open, and the number of changes under way on it. A life ends when the Open is
/// closed or its session detaches it. A reconnect begins another life.
///
/// It is one word. So a change either begins before the end of its life, and is awaited, or does not begin.
#[derive(Debug, Default)]
pub(crate) struct Changes(pub(super) AtomicU64);

/// The bits of the number of changes.
pub(super) const COUNT: u64 = 0x7fff_ffff;
/// The bit for waiters on the last change.
pub(super) const AWAITED: u64 = 0x8000_0000;
/// The position of the life's number.
const LIFE: u32 = 32;

impl Changes {
    /// The number of the current life.
    pub fn life(&self) -> u32 {
        (self.0.load(Ordering::Acquire) >> LIFE) as u32
    }

    /// Begins a change of this life. Returns false if the life has ended. Then nothing may be changed.
    #[inline]
    pub(super) fn begin(&self, life: u32) -> bool {
        let begin = |word: u64| ((word >> LIFE) as u32 == life).then_some(word + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_ok()
    }

    /// Ends a change. Returns true if it was the last one and there are waiters.
    #[inline]
    pub(super) fn end(&self) -> bool {
        // Release and acquire: a waiter sees the effects of the change.
        self.0.fetch_sub(1, Ordering::AcqRel) & (COUNT | AWAITED) == AWAITED | 1
    }

    /// Ends a life. Returns whether changes of it are still under way.
    pub fn end_life(&self) -> bool {
        self.0.fetch_add(1 << LIFE, Ordering::AcqRel) & COUNT != 0
    }

    /// Whether changes are under way.
    pub(super) fn are_under_way(&self) -> bool {
        self.0.load(Ordering::Acquire) & COUNT != 0
    }
}

/// The number of read-only operations of an Open on the blocking pool, such as a READ of data that is not in
/// memory, or a FLUSH.
#[derive(Debug, Default)]
pub(crate) struct PendingReads(pub(super) AtomicU32);

/// The waiters for the end of the changes, or of all operations, of an Open.
#[derive(Debug, Default)]
pub(crate) struct EndWaiters(pub(super) Mutex<Vec<Ticket>>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_begins_in_its_own_life_only() {
        let changes = Changes::default();
        let first = changes.life();
        assert!(changes.begin(first) && changes.begin(first));
        assert!(changes.end_life());
        assert!(!changes.begin(first));
        assert!(changes.are_under_way());
        // A reconnected Open is in the next life.
        let second = changes.life();
        assert_ne!(first, second);
        assert!(!changes.end());
        changes.0.fetch_or(AWAITED, Ordering::Relaxed);
        assert!(changes.end(), "it was the last one");
        assert!(!changes.are_under_way());
        assert!(changes.begin(second));
        changes.end();
        assert!(!changes.end_life());
    }

    #[test]
    fn lives_go_round() {
        let changes = Changes(AtomicU64::new(u64::from(u32::MAX) << LIFE));
        assert!(changes.begin(u32::MAX));
        assert!(changes.end_life());
        assert_eq!(changes.life(), 0);
        assert!(changes.are_under_way());
    }
}
