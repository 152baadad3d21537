//! The transactions of the share, counted for each family of operations by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metering::counts::{Counted, Counts, Family};

use super::Share;
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

impl Counting {
    fn of(&self, family: &'static Family) -> Arc<Counts> {
        let mut all = self.all.lock();
        if let Some(known) = all.iter().find(|counts| counts.family() == family) {
            return Arc::clone(known);
        }
        let new = Counts::new(family);
        all.push(Arc::clone(&new));
        new
    }

    fn all(&self) -> Vec<Arc<Counts>> {
        self.all.lock().clone()
    }

    fn go_on_with(&self, counts: Vec<Arc<Counts>>) {
        *self.all.lock() = counts;
    }
}

impl Share {
    /// Tells it from all others of this process; never zero.
    #[inline]
    pub fn number(&self) -> u64 {
        self.counting().number
    }

    /// Its transactions in one family.
    pub fn counts(&self, family: &'static Family) -> Arc<Counts> {
        self.counting().of(family)
    }

    /// Goes on counting where `before` is, whose place it takes. To be called before anything is counted here.
    pub fn count_on(&self, before: &Share) {
        self.counting().go_on_with(before.all_counts());
    }

    /// Its transactions in each family in which there were any.
    pub fn all_counts(&self) -> Vec<Arc<Counts>> {
        self.counting().all()
    }
}

impl Counted for Share {
    #[inline]
    fn number(&self) -> u64 {
        self.number()
    }

    fn name(&self) -> String {
        self.name()
    }

    fn counts(&self, family: &'static Family) -> Arc<Counts> {
        self.counts(family)
    }
}
