//! The provisioned limits of a share, and the counters of its transactions.

use std::sync::Arc;

use metering::counts::{CountedShare, Counts, Family};
use metering::limits::ShareLimits;

use crate::engine::Share;

impl Share {
    /// The limits that pace requests; none if nothing is limited.
    #[inline]
    pub fn limits(&self) -> Option<Arc<ShareLimits>> {
        self.limits_in_force().get()
    }

    /// Puts limits into force, or lifts them. A request that is held already stays held by its limits.
    pub fn set_limits(&self, limits: Option<ShareLimits>) {
        self.limits_in_force().set(limits);
    }

    /// A number that no other share of this process has; never zero.
    #[inline]
    pub fn number(&self) -> u64 {
        self.counters().number()
    }

    /// Its transactions in one family.
    pub fn counts(&self, family: &'static Family) -> Arc<Counts> {
        self.counters().of(family)
    }

    /// Continues the counters of `before`, which this share replaces. Call it before anything is counted
    /// here.
    pub fn inherit_counters(&self, before: &Share) {
        self.counters().continue_with(before.all_counts());
    }

    /// Its transactions in each family that has any.
    pub fn all_counts(&self) -> Vec<Arc<Counts>> {
        self.counters().all()
    }
}

impl CountedShare for Share {
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
