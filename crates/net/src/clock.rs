//! The only place that reads a clock.

use rustix::time::{ClockId, clock_gettime};
use tenure::BootTime;
use wire::Now;

/// Reads both clocks. Monotonic time is the host's `CLOCK_MONOTONIC`, so all threads and crates agree on it.
#[must_use]
pub fn now() -> Now {
    let wall = clock_gettime(ClockId::Realtime);
    Now {
        mono_ns: mono_ns(),
        wall_ns: wall.tv_sec.saturating_mul(1_000_000_000).saturating_add(wall.tv_nsec),
    }
}

/// The time since the host's boot, which goes on while the host is suspended.
#[must_use]
pub fn boot_time() -> BootTime {
    let boot = clock_gettime(ClockId::Boottime);
    // CLOCK_BOOTTIME counts up from the start of the host and is never negative.
    BootTime { ns: (boot.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(boot.tv_nsec as u64) }
}

/// The monotonic time (ns), to measure a duration.
pub(crate) fn mono_ns() -> u64 {
    let mono = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC counts up from the start of the host and is never negative.
    (mono.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(mono.tv_nsec as u64)
}
