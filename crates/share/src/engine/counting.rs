//! The transactions of the share, counted for each family of operations by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Share;
use crate::counts::{Counts, Family};
use crate::ranked::{Mutex, Rank};

/// Numbers that were given away.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The counts.
pub(super) struct Counting {
    number: u64,
    all: Mutex<Vec<Arc<Counts>>>,
}

impl Default for Counting {
    fn default() -> Counting {
        Counting { number: NEXT.fetch_add(1, Ordering::Relaxed), all: Mutex::of_default(Rank::Counts) }
    }
}

impl Share {
    /// Tells it from all others of this process; never zero.
    #[inline]
    pub fn number(&self) -> u64 {
        self.counting.number
    }

    /// Its transactions in one family.
    pub fn counts(&self, family: &'static Family) -> Arc<Counts> {
        let mut all = self.counting.all.lock();
        if let Some(known) = all.iter().find(|counts| counts.family() == family) {
            return Arc::clone(known);
        }
        let new = Counts::new(family);
        all.push(Arc::clone(&new));
        new
    }

    /// Goes on counting where `before` is, whose place it takes. To be called before anything is counted here.
    pub fn count_on(&self, before: &Share) {
        let counts = before.all_counts();
        *self.counting.all.lock() = counts;
    }

    /// Its transactions in each family in which there were any.
    pub fn all_counts(&self) -> Vec<Arc<Counts>> {
        self.counting.all.lock().clone()
    }
}
