//! Repeatable chance for simulations: all choices of a history follow from its seed.

use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A generator after SplitMix64 (Steele, Lea, Flood 2014). It is small, and every seed is good.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The dice of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).expect("it is below a usize")
    }

    /// A number from `least` on, below `end`. It is `least` if that leaves none.
    pub fn between(&mut self, least: u64, end: u64) -> u64 {
        least + self.roll() % end.saturating_sub(least).max(1)
    }

    /// True in `part` of `whole` cases.
    pub fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole) < part
    }

    /// True in one of `of` cases.
    pub fn one_in(&mut self, of: u64) -> bool {
        self.roll().is_multiple_of(of)
    }

    /// The index of one of the weights, with a chance in proportion to its weight. They are not all zero.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, &weight) in weights.iter().enumerate() {
            if left < weight {
                return index;
            }
            left -= weight;
        }
        unreachable!("a number below the sum falls into one of the weights")
    }
}

/// The seeds that an environment variable names as `FIRST+COUNT`.
///
/// # Panics
/// It has another form.
#[must_use]
pub fn wanted_seeds(variable: &str) -> Option<Range<u64>> {
    let text = std::env::var(variable).ok()?;
    let (first, count) = text.split_once('+').unwrap_or_else(|| panic!("{variable} is FIRST+COUNT"));
    let first: u64 = first.parse().expect("a number");
    Some(first..first + count.parse::<u64>().expect("a number"))
}

/// Runs the histories of some seeds on all cores. Each gives its tally, and its failure if it has one. After
/// `enough` failures the rest is not run. Returns the sum of the tallies, and the failures.
///
/// # Panics
/// A history has panicked.
pub fn run_seeds<T: Default + AddAssign + Send, F: Send>(
    seeds: Range<u64>,
    enough: usize,
    history: impl Fn(u64) -> (T, Option<F>) + Sync,
) -> (T, Vec<F>) {
    let next = AtomicU64::new(seeds.start);
    let (total, failed) = (Mutex::new(T::default()), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || failed.lock().expect("no panic with it held").len() >= enough {
                        return;
                    }
                    let (tally, failure) = history(seed);
                    *total.lock().expect("no panic with it held") += tally;
                    failed.lock().expect("no panic with it held").extend(failure);
                }
            });
        }
    });
    let total = total.into_inner().expect("no panic with it held");
    (total, failed.into_inner().expect("no panic with it held"))
}
