//! The registered callbacks that keep the time of clients.

use std::sync::{Arc, Weak};

use crate::ClientExpiry;
use crate::ranked::{Mutex, Rank};

/// The registered callbacks that keep the time of clients.
pub(crate) struct ExpiryKeepers(Mutex<Vec<Weak<dyn ClientExpiry>>>);

impl Default for ExpiryKeepers {
    fn default() -> ExpiryKeepers {
        ExpiryKeepers(Mutex::of_default(Rank::TimeKeepers))
    }
}

impl ExpiryKeepers {
    /// Registers a callback. Entries whose callback is gone are removed.
    pub fn enter(&self, keeper: Weak<dyn ClientExpiry>) {
        let mut keepers = self.0.lock();
        keepers.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&keeper));
        keepers.push(keeper);
    }

    /// All callbacks.
    pub fn all(&self) -> Vec<Arc<dyn ClientExpiry>> {
        self.0.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether no callback was ever registered.
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
