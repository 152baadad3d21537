//! The time until which this process may reply to clients.
//!
//! The transport asks [`ServingTerm::permits`] right before it sends. A process that was paused, or
//! whose node
//! was cut off from the tenure store, finds there that its term is over. Another node may serve by
//! then, so
//! nothing that this process knows is told to anybody.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::BootTime;

/// The end of the term, shared between the threads that renew it and those that send.
#[derive(Debug)]
pub struct ServingTerm {
    until_ns: AtomicU64,
}

impl Default for ServingTerm {
    /// A term without end.
    fn default() -> ServingTerm {
        ServingTerm::new(BootTime::NEVER)
    }
}

impl ServingTerm {
    /// A term that ends at `until`. The caller has subtracted its margin.
    #[must_use]
    pub fn new(until: BootTime) -> ServingTerm {
        ServingTerm { until_ns: AtomicU64::new(until.ns) }
    }

    /// Whether replies may be sent at the time that `now` reads. A term without end reads no clock.
    #[must_use]
    pub fn permits(&self, now: impl FnOnce() -> BootTime) -> bool {
        match self.until_ns.load(Ordering::Acquire) {
            u64::MAX => true,
            0 => false,
            until => now().ns < until,
        }
    }

    /// Extends the term. A term that was ended stays ended.
    pub fn extend(&self, until: BootTime) {
        let longer = |present: u64| (present != 0 && present < until.ns).then_some(until.ns);
        // It fails if the term has ended or is longer already.
        let _ = self.until_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, longer);
    }

    /// Ends the term for good: nothing more is sent.
    pub fn end(&self) {
        self.until_ns.store(0, Ordering::Release);
    }

    /// The present end of the term.
    #[must_use]
    pub fn until(&self) -> BootTime {
        BootTime { ns: self.until_ns.load(Ordering::Acquire) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_is_sent_from_the_end_of_the_term_on() {
        let at = |ns| BootTime { ns };
        let term = ServingTerm::new(at(100));
        assert!(term.permits(|| at(99)));
        assert!(!term.permits(|| at(100)));
        term.extend(at(50));
        assert_eq!(term.until(), at(100));
        term.extend(at(100).plus(Duration::from_nanos(10)));
        assert!(term.permits(|| at(109)));
        term.end();
        term.extend(BootTime::NEVER);
        assert!(!term.permits(|| at(1)));
    }

    #[test]
    fn a_term_without_end_reads_no_clock() {
        assert!(ServingTerm::new(BootTime::NEVER).permits(|| unreachable!("no clock is needed")));
    }
}
