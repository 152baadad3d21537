//! What the share may do a second, when it is limited. Whoever does something for a client asks for it; without limits
//! that is one look at a flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwapOption;
use metering::limits::ShareLimits;

use super::Share;

/// The limits in force.
#[derive(Default)]
pub(super) struct Limiting {
    is_on: AtomicBool,
    limits: ArcSwapOption<ShareLimits>,
}

impl Limiting {
    #[inline]
    fn get(&self) -> Option<Arc<ShareLimits>> {
        if self.is_on.load(Ordering::Relaxed) { self.limits.load_full() } else { None }
    }

    fn set(&self, limits: Option<ShareLimits>) {
        let is_on = limits.is_some();
        self.limits.store(limits.map(Arc::new));
        self.is_on.store(is_on, Ordering::Release);
    }
}

impl Share {
    /// What paces requests; none: nothing does.
    #[inline]
    pub fn limits(&self) -> Option<Arc<ShareLimits>> {
        self.limiting().get()
    }

    /// Takes limits into force, or lifts them. Who is held already stays so for as long as those limits say.
    pub fn set_limits(&self, limits: Option<ShareLimits>) {
        self.limiting().set(limits);
    }
}
