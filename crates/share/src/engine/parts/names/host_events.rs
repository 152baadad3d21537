//! The time up to which the events of the host were taken in.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::Now;

use crate::ranked::{Mutex, Rank};

/// The events of the host are taken in by one thread at a time, so that later requests know them too.
pub(super) struct HostEventIntake {
    taking: Mutex<()>,
    /// The time up to which they were taken in (monotonic ns).
    looked_at_ns: AtomicU64,
}

impl Default for HostEventIntake {
    fn default() -> HostEventIntake {
        HostEventIntake { taking: Mutex::of_default(Rank::HostEvents), looked_at_ns: AtomicU64::new(0) }
    }
}

impl HostEventIntake {
    pub fn is_done(&self, now: Now) -> bool {
        self.looked_at_ns.load(Ordering::Acquire) >= now.mono_ns
    }

    pub fn take_in<T>(&self, now: Now, apply: impl FnOnce() -> T) -> T {
        let _taking = self.taking.lock();
        let applied = apply();
        self.looked_at_ns.fetch_max(now.mono_ns, Ordering::AcqRel);
        applied
    }
}
