//! How much lies on the share, and how much may, where the volume is counted ([`volume::metered`]).

use std::sync::Arc;

use volume::{Meter, QuotaRefusal, Usage};

use crate::engine::Share;

impl Share {
    /// What counts the share's contents; none: nothing does, and its size has no bound but the host's.
    pub fn meter(&self) -> Option<&Arc<Meter>> {
        self.volume().meter().filter(|meter| meter.is_awake())
    }

    /// Has everything counted that changes from now on, and gives what counts it; none where the volume cannot.
    pub fn begin_counting(&self) -> Option<&Arc<Meter>> {
        let meter = self.volume().meter()?;
        meter.wake();
        Some(meter)
    }

    /// What lies there, where it is counted.
    pub fn usage(&self) -> Option<Usage> {
        self.meter().map(|meter| meter.usage())
    }

    /// Sets or lifts the bound on what lies there, in bytes. What is open, and who writes just now, meets it with the
    /// next growth.
    ///
    /// # Errors
    /// [`QuotaRefusal::BelowUsage`]; [`QuotaRefusal::NotCounted`] where nothing can be counted.
    pub fn set_quota(&self, quota: Option<u64>) -> Result<(), QuotaRefusal> {
        let meter = if quota.is_some() { self.begin_counting() } else { self.meter() };
        match (meter, quota) {
            (Some(meter), _) => meter.set_quota(quota),
            (None, Some(_)) => Err(QuotaRefusal::NotCounted),
            (None, None) => Ok(()),
        }
    }

    /// Sets or lifts how large a single file may become, in bytes, where the volume can keep it.
    pub fn set_largest_file(&self, bytes: Option<u64>) {
        if let Some(meter) = self.volume().meter() {
            meter.set_largest(bytes);
        }
    }

    /// How large a single file may become, where that is bound by more than the host.
    pub fn largest_file(&self) -> Option<u64> {
        self.volume().meter()?.largest()
    }

    /// Whether [`Share::set_quota`] would do it now, as far as is known.
    ///
    /// # Errors
    /// [`QuotaRefusal::BelowUsage`]; [`QuotaRefusal::NotCounted`] where nothing is counted yet.
    pub fn check_quota(&self, quota: Option<u64>) -> Result<(), QuotaRefusal> {
        match (self.meter(), quota) {
            (Some(meter), _) => meter.check_quota(quota),
            (None, Some(_)) => Err(QuotaRefusal::NotCounted),
            (None, None) => Ok(()),
        }
    }
}
