//! The size of the share's contents, and its quota, if the volume is counted ([`volume::metered`]).

use std::sync::Arc;

use volume::{Meter, QuotaRefusal, Usage};

use crate::engine::Share;

impl Share {
    /// The meter of the share's contents. None: nothing is counted, and only the host limits the size.
    pub fn meter(&self) -> Option<&Arc<Meter>> {
        self.volume().meter().filter(|meter| meter.is_awake())
    }

    /// Counts all changes from now on, and returns the meter; none if the volume has none.
    pub fn begin_counting(&self) -> Option<&Arc<Meter>> {
        let meter = self.volume().meter()?;
        meter.wake();
        Some(meter)
    }

    /// The size of the contents, if it is counted.
    pub fn usage(&self) -> Option<Usage> {
        self.meter().map(|meter| meter.usage())
    }

    /// Sets or lifts the quota in bytes. It applies to open files and concurrent writes at their next growth.
    ///
    /// # Errors
    /// [`QuotaRefusal::BelowUsage`]; [`QuotaRefusal::NotCounted`] if nothing can be counted.
    pub fn set_quota(&self, quota: Option<u64>) -> Result<(), QuotaRefusal> {
        let meter = if quota.is_some() { self.begin_counting() } else { self.meter() };
        match (meter, quota) {
            (Some(meter), _) => meter.set_quota(quota),
            (None, Some(_)) => Err(QuotaRefusal::NotCounted),
            (None, None) => Ok(()),
        }
    }

    /// Sets or lifts the largest size of a single file in bytes, if the volume can enforce it.
    pub fn set_largest_file(&self, bytes: Option<u64>) {
        if let Some(meter) = self.volume().meter() {
            meter.set_largest(bytes);
        }
    }

    /// The largest size of a single file, if more than the host limits it.
    pub fn largest_file(&self) -> Option<u64> {
        self.volume().meter()?.largest()
    }

    /// Whether [`Share::set_quota`] would succeed now, as far as is known.
    ///
    /// # Errors
    /// [`QuotaRefusal::BelowUsage`]; [`QuotaRefusal::NotCounted`] if nothing is counted yet.
    pub fn check_quota(&self, quota: Option<u64>) -> Result<(), QuotaRefusal> {
        match (self.meter(), quota) {
            (Some(meter), _) => meter.check_quota(quota),
            (None, Some(_)) => Err(QuotaRefusal::NotCounted),
            (None, None) => Ok(()),
        }
    }
}
