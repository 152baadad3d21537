//! Time as an argument, so that tests need no sleep.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The time since an arbitrary start, for the ages of cached records.
pub trait Clock: Send + Sync {
    /// The time now. It never goes back.
    fn now(&self) -> Duration;
}

/// The host's monotonic clock.
#[derive(Debug)]
pub struct HostClock(Instant);

impl Default for HostClock {
    fn default() -> HostClock {
        HostClock(Instant::now())
    }
}

impl Clock for HostClock {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A clock that stands still until someone moves it, for tests.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<Duration>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        *crate::sync::lock(&self.0) += by;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        *crate::sync::lock(&self.0)
    }
}
