//! What a share may do a second and what it has done, as limits and counts see it.

use std::sync::Arc;

use metering::counts::{Counted, Counts, Family};
use metering::limits::ShareLimits;

use crate::engine::Share;

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

    /// Tells it from all others of this process; never zero.
    #[inline]
    pub fn number(&self) -> u64 {
        self.counting().number()
    }

    /// Its transactions in one family.
    pub fn counts(&self, family: &'static Family) -> Arc<Counts> {
        self.counting().of(family)
    }

    /// Goes on counting where `before` is, whose place it takes. To be called before anything is counted here.
    pub fn count_on(&self, before: &Share) {
        self.counting().go_on_with(before.all_counts());
    }

    /// Its transactions in each family in which there were any.
    pub fn all_counts(&self) -> Vec<Arc<Counts>> {
        self.counting().all()
    }
}

impl Counted for Share {
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
