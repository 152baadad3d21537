//! What is being carried out on an Open: how many changes, how many requests that only look, and who waits for their end
//! ([`super::changing`]).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use share::Ticket;

/// Which life of an Open this is, and how many changes are being carried out on it. A life ends when the Open is closed,
/// or left by its session; taken up again it begins another one.
///
/// One word, so that a change begins either before the end of its life, and is waited for, or not at all.
#[derive(Debug, Default)]
pub(crate) struct Changes(pub(super) AtomicU64);

/// How many there are.
pub(super) const COUNT: u64 = 0x7fff_ffff;
/// Somebody waits for the last of them.
pub(super) const AWAITED: u64 = 0x8000_0000;
/// Where the number of the life stands.
const LIFE: u32 = 32;

impl Changes {
    /// The life of this moment.
    pub fn life(&self) -> u32 {
        (self.0.load(Ordering::Acquire) >> LIFE) as u32
    }

    /// A change of this life begins; false when that is over, and nothing may be changed.
    #[inline]
    pub(super) fn begin(&self, life: u32) -> bool {
        let begin = |word: u64| ((word >> LIFE) as u32 == life).then_some(word + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, begin).is_ok()
    }

    /// A change is over; true when it was the last one, and somebody waits for that.
    #[inline]
    pub(super) fn end(&self) -> bool {
        // Release and acquire: who has waited sees what it has changed.
        self.0.fetch_sub(1, Ordering::AcqRel) & (COUNT | AWAITED) == AWAITED | 1
    }

    /// A life is over; whether changes of it still are being carried out.
    pub fn end_life(&self) -> bool {
        self.0.fetch_add(1 << LIFE, Ordering::AcqRel) & COUNT != 0
    }

    /// Whether changes are being carried out.
    pub(super) fn are_under_way(&self) -> bool {
        self.0.load(Ordering::Acquire) & COUNT != 0
    }
}

/// How many requests that only look are being carried out elsewhere on an Open: a READ of what is not in memory, a FLUSH.
#[derive(Debug, Default)]
pub(crate) struct Looks(pub(super) AtomicU32);

/// Who waits until the last change of an Open is over, or until nothing looks at it any more.
#[derive(Debug, Default)]
pub(crate) struct Awaiting(pub(super) Mutex<Vec<Ticket>>);

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
        // Whoever takes the Open up is in the next one.
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
