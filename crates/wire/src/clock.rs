//! Time as an argument: one reading for each batch, made by the transport.

use std::time::Duration;

/// One reading of both clocks, made once for a batch of messages and passed down.
///
/// State machines never read a clock themselves, so tests and the simulated network control the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Now {
    /// Monotonic time in nanoseconds since an arbitrary start, for time-outs and ages.
    pub mono_ns: u64,
    /// Wall time in nanoseconds since 1970-01-01 UTC, for people and protocols.
    pub wall_ns: i64,
}

impl Now {
    /// The reading that is `by` later on both clocks.
    #[must_use]
    pub fn plus(self, by: Duration) -> Now {
        let ns = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        let wall = i64::try_from(ns).unwrap_or(i64::MAX);
        Now { mono_ns: self.mono_ns.saturating_add(ns), wall_ns: self.wall_ns.saturating_add(wall) }
    }
}
