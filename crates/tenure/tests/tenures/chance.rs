//! Repeatable chance and the clocks of simulated nodes.

use std::time::Duration;

use tenure::BootTime;

/// A time in nanoseconds since the world began, as an outside observer measures it.
pub type TrueTime = u64;

pub const MILLI: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MILLI;

/// A length in nanoseconds.
pub fn nanos(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).expect("a simulated time is short")
}

/// A generator after SplitMix64 (Steele, Lea, Flood 2014). It is small, and every seed is good.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `least` on, below `end`.
    pub fn between(&mut self, least: u64, end: u64) -> u64 {
        least + self.roll() % (end - least).max(1)
    }

    /// An index below `end`, which is not zero.
    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).expect("it is below a usize")
    }

    /// True in one of `of` cases.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.roll().is_multiple_of(of)
    }
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
    pub fn new(booted: TrueTime, chance: &mut Chance) -> NodeClock {
        let per_million = match chance.index(3) {
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
