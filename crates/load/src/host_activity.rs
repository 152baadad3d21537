//! The use of this host's processors by other programs. It is sampled while this process does nothing:
//! busy processors then belong to others. A server on this host does not count either, because it has no
//! work from us then.

use std::time::Duration;

use crate::cpu::{Account, Usage};

/// The length of one sample. The kernel counts in ticks of 10 ms (times(2)), so several samples are
/// summed.
pub const SAMPLE_TIME: Duration = Duration::from_millis(50);

/// The sum of samples of this host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostActivity {
    /// Ticks of other programs, and ticks of all processors.
    others: u64,
    all: u64,
}

/// The start of a sample.
#[derive(Debug)]
pub struct ActivitySample {
    usage: Usage,
    own: Option<Account>,
}

impl ActivitySample {
    /// Starts a sample.
    #[must_use]
    pub fn begin() -> ActivitySample {
        ActivitySample { usage: Usage::read(), own: Account::own().ok() }
    }
}

impl HostActivity {
    /// Ends a sample and adds it.
    pub fn add(&mut self, look: &ActivitySample) {
        let (busy, all) = Usage::read().since(&look.usage).sum();
        let now = Account::own().ok();
        let own_ns = now.as_ref().zip(look.own.as_ref()).map_or(0, |(now, before)| now.since(before));
        let own = own_ns * rustix::param::clock_ticks_per_second() / 1_000_000_000;
        self.others += busy.saturating_sub(own);
        self.all += all;
    }

    /// The part of all processors that others used, from 0 to 1. `None` if the host does not tell it.
    #[must_use]
    pub fn others(&self) -> Option<f64> {
        (self.all > 0).then(|| self.others as f64 / self.all as f64)
    }
}

/// The time in nanoseconds for which the calling thread was ready to run and had no processor (the second
/// number of schedstat, see sched-stats in the kernel's documentation). `None` if the kernel does not
/// count it.
#[must_use]
pub fn waited_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_add_up_and_our_own_work_is_not_that_of_others() {
        assert_eq!(HostActivity::default().others(), None);
        let three = HostActivity { others: 3, all: 12 };
        assert_eq!(three.others(), Some(0.25));
        let look = ActivitySample::begin();
        let mut quiet = HostActivity::default();
        // Until a tick has passed on some processor.
        let has_ticked = (0..1_000_000).any(|_| {
            quiet = HostActivity::default();
            quiet.add(&look);
            quiet.all > 0
        });
        assert!(!has_ticked || quiet.others().is_some_and(|it| (0.0..=1.0).contains(&it)), "{quiet:?}");
    }
}
