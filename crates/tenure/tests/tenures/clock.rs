//! The units of time, and the clocks of simulated nodes.

use std::time::Duration;

use tenure::BootTime;
use testkit::dice::Dice;

/// A time in nanoseconds since the world began, as an outside observer measures it.
pub type TrueTime = u64;

pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MILLI;

/// A length in nanoseconds.
pub fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).expect("a simulated time is short")
}

/// CLOCK_BOOTTIME of one boot. It runs too fast or too slow, and never jumps.
#[derive(Debug, Clone, Copy)]
pub struct NodeClock {
    booted: TrueTime,
    /// Nanoseconds of this clock for a million of true ones.
    per_million: u64,
    /// The nanoseconds for which the clock stood still, as that of a paused guest may.
    stood_still: u64,
}

impl NodeClock {
    /// The clock of a node that boots now, one percent fast or slow at most.
    pub fn new(booted: TrueTime, chance: &mut Dice) -> NodeClock {
        let per_million = match chance.below(3) {
            0 => 990_000,
            1 => 1_010_000,
            _ => chance.between(990_000, 1_010_001),
        };
        NodeClock { booted, per_million, stood_still: 0 }
    }

    pub fn read(&self, now: TrueTime) -> BootTime {
        // A boot took a second.
        BootTime { ns: SECOND + self.ticks(self.booted, now) - self.stood_still }
    }

    fn ticks(&self, from: TrueTime, to: TrueTime) -> u64 {
        (to - from) * self.per_million / 1_000_000
    }

    /// The clock stood still from the one time to the other.
    pub fn stand_still(&mut self, from: TrueTime, to: TrueTime) {
        self.stood_still += self.ticks(from, to);
    }

    /// The true time at which the clock reads `at`, or a little later.
    pub fn due(&self, at: BootTime) -> TrueTime {
        let passed = (at.ns + self.stood_still).saturating_sub(SECOND);
        self.booted + passed.saturating_mul(1_000_000).div_ceil(self.per_million)
    }
}
