//! The transactions of the share, counted separately for each family of operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metering::counts::{Counts, Family};

use crate::ranked::{Mutex, Rank};

/// The next number to give out.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The counters of a share.
pub(crate) struct FamilyCounters {
    number: u64,
    all: Mutex<Vec<Arc<Counts>>>,
}

impl Default for FamilyCounters {
    fn default() -> FamilyCounters {
        FamilyCounters { number: NEXT.fetch_add(1, Ordering::Relaxed), all: Mutex::of_default(Rank::Counts) }
    }
}

impl FamilyCounters {
    /// A number that no other share of this process has; never zero.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The counters of one family, which begin with the first call.
    pub fn of(&self, family: &'static Family) -> Arc<Counts> {
        let mut all = self.all.lock();
        if let Some(known) = all.iter().find(|counts| counts.family() == family) {
            return Arc::clone(known);
        }
        let new = Counts::new(family);
        all.push(Arc::clone(&new));
        new
    }

    /// The counters of each family that has any.
    pub fn all(&self) -> Vec<Arc<Counts>> {
        self.all.lock().clone()
    }

    /// Continues with the counters of another share.
    pub fn continue_with(&self, counts: Vec<Arc<Counts>>) {
        *self.all.lock() = counts;
    }
}
