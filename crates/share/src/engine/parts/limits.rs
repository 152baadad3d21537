//! The provisioned limits of the share, if it is limited. Each action for a client asks for them. Without
//! limits that is one look at a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use metering::limits::ShareLimits;

/// The limits in force.
#[derive(Default)]
pub(crate) struct LimitsInForce {
    is_on: AtomicBool,
    limits: ArcSwapOption<ShareLimits>,
}

impl LimitsInForce {
    /// The limits in force; none if nothing is limited.
    #[inline]
    pub fn get(&self) -> Option<Arc<ShareLimits>> {
        if self.is_on.load(Ordering::Relaxed) { self.limits.load_full() } else { None }
    }

    /// Puts these limits into force.
    pub fn set(&self, limits: Option<ShareLimits>) {
        let is_on = limits.is_some();
        self.limits.store(limits.map(Arc::new));
        self.is_on.store(is_on, Ordering::Release);
    }
}
