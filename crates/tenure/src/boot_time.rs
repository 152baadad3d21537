//! The time since the host's boot, which goes on while the host is suspended (CLOCK_BOOTTIME).
//!
//! No administrator and no time server changes this clock. A node that was suspended or paused finds on
//! its
//! return that its term is over.

use std::time::Duration;

/// A moment on CLOCK_BOOTTIME of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct BootTime {
    /// Nanoseconds since the host's boot.
    pub ns: u64,
}

impl BootTime {
    /// A moment that is never reached.
    pub const NEVER: BootTime = BootTime { ns: u64::MAX };

    /// The moment that is `by` later.
    #[must_use]
    pub fn plus(self, by: Duration) -> BootTime {
        BootTime { ns: self.ns.saturating_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)) }
    }

    /// The moment that is `by` earlier, or the boot.
    #[must_use]
    pub fn minus(self, by: Duration) -> BootTime {
        match self {
            BootTime::NEVER => BootTime::NEVER,
            at => BootTime { ns: at.ns.saturating_sub(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX)) },
        }
    }

    /// The time from `earlier` to this moment; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: BootTime) -> Duration {
        Duration::from_nanos(self.ns.saturating_sub(earlier.ns))
    }
}
