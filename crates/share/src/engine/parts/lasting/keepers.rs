//! The registered callbacks that keep the time of clients.

use std::sync::{Arc, Weak};

use crate::Lapsing;
use crate::ranked::{Mutex, Rank};

/// The registered callbacks that keep the time of clients.
pub(crate) struct Keepers(Mutex<Vec<Weak<dyn Lapsing>>>);

impl Default for Keepers {
    fn default() -> Keepers {
        Keepers(Mutex::of_default(Rank::TimeKeepers))
    }
}

impl Keepers {
    /// Registers a callback. Entries whose callback is gone are removed.
    pub fn enter(&self, keeper: Weak<dyn Lapsing>) {
        let mut keepers = self.0.lock();
        keepers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&keeper));
        keepers.push(keeper);
    }

    /// All callbacks.
    pub fn all(&self) -> Vec<Arc<dyn Lapsing>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether no callback was ever registered.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
