//! What the share may do a second, when it is limited. Whoever does something for a client asks for it; without limits
//! that is one look at a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use metering::limits::ShareLimits;

/// The limits in force.
#[derive(Default)]
pub(crate) struct Limiting {
    is_on: AtomicBool,
    limits: ArcSwapOption<ShareLimits>,
}

impl Limiting {
    /// Those in force; none: nothing is limited.
    #[inline]
    pub fn get(&self) -> Option<Arc<ShareLimits>> {
        if self.is_on.load(Ordering::Relaxed) { self.limits.load_full() } else { None }
    }

    /// Takes these into force.
    pub fn set(&self, limits: Option<ShareLimits>) {
        let is_on = limits.is_some();
        self.limits.store(limits.map(Arc::new));
        self.is_on.store(is_on, Ordering::Release);
    }
}
