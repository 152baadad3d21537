//! A histogram of durations. Each doubling has eight steps, so the middle of a step is off by at most one
//! part in sixteen.

use std::sync::atomic::AtomicU64;

use super::one_writer::{add, get};

/// Steps for each doubling, as a power of two.
const STEPS_LOG2: u32 = 3;
const STEPS: usize = 1 << STEPS_LOG2;
/// All shorter durations count as one: 1,024 ns.
const LOWEST_LOG2: u32 = 10;
/// All longer durations count as one: 69 s.
const HIGHEST_LOG2: u32 = 36;
/// Steps of the histogram: one below, one above, and the steps between.
const PLACES: usize = (HIGHEST_LOG2 - LOWEST_LOG2) as usize * STEPS + 2;

/// The step that counts a duration.
#[inline]
fn bucket(ns: u64) -> usize {
    if ns < 1 << LOWEST_LOG2 {
        return 0;
    }
    let log2 = ns.ilog2();
    if log2 >= HIGHEST_LOG2 {
        return PLACES - 1;
    }
    let step = (ns >> (log2 - STEPS_LOG2)) as usize & (STEPS - 1);
    (log2 - LOWEST_LOG2) as usize * STEPS + step + 1
}

/// The shortest duration that is too long for a step; none for the last step.
fn end_of(bucket: usize) -> Option<u64> {
    if bucket + 1 >= PLACES {
        return None;
    }
    let (doubling, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    Some((STEPS as u64 + step) << (doubling as u32 + LOWEST_LOG2 - STEPS_LOG2))
}

/// Counts durations. Only one thread adds to them.
#[derive(Debug)]
pub(super) struct Histogram {
    places: [AtomicU64; PLACES],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { places: [const { AtomicU64::new(0) }; PLACES], sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    #[inline]
    pub fn note(&self, ns: u64) {
        add(&self.places[bucket(ns)], 1);
        add(&self.sum_ns, ns);
    }

    pub fn add_to(&self, distribution: &mut Distribution) {
        distribution.sum_ns += get(&self.sum_ns);
        distribution.places.resize(PLACES, 0);
        for (sum, own) in distribution.places.iter_mut().zip(&self.places) {
            *sum += get(own);
        }
    }
}

/// A distribution of durations that was read from a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    places: Vec<u64>,
    /// The exact sum of all durations.
    pub sum_ns: u64,
}

impl Distribution {
    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.places.iter().sum()
    }

    /// Adds another distribution.
    pub fn add(&mut self, other: &Distribution) {
        self.sum_ns += other.sum_ns;
        self.places.resize(self.places.len().max(other.places.len()), 0);
        for (sum, more) in self.places.iter_mut().zip(&other.places) {
            *sum += more;
        }
    }

    /// The steps: the lower bound in nanoseconds, the upper bound (none: no bound), and the count. Empty
    /// steps are left out.
    pub fn steps(&self) -> impl Iterator<Item = (u64, Option<u64>, u64)> + '_ {
        let noted = self.places.iter().enumerate().filter(|(_, count)| **count > 0);
        noted.map(|(at, count)| (at.checked_sub(1).and_then(end_of).unwrap_or(0), end_of(at), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_counted_in_a_step_that_holds_it_and_is_narrow() {
        let mut times: Vec<u64> =
            (0..64).flat_map(|log2| [1 << log2, (1 << log2) - 1, (1 << log2) | 1]).collect();
        times.extend((0..5000).map(|n| n * n * n));
        for ns in times {
            let at = bucket(ns);
            let begin = at.checked_sub(1).and_then(end_of).unwrap_or(0);
            assert!(begin <= ns, "{ns} in {at}, which begins at {begin}");
            match end_of(at) {
                Some(end) => {
                    assert!(ns < end, "{ns} in {at}, which ends at {end}");
                    assert!(at == 0 || (end - begin) * STEPS as u64 <= begin, "{at} is wide");
                }
                None => assert!(ns >= 1 << HIGHEST_LOG2),
            }
        }
    }

    #[test]
    fn what_is_noted_is_read() {
        let histogram = Histogram::default();
        [0, 1023, 1024, 1151, 1152, 1 << 36].into_iter().for_each(|ns| histogram.note(ns));
        let mut read = Distribution::default();
        histogram.add_to(&mut read);
        let mut twice = read.clone();
        twice.add(&read);
        assert_eq!((read.count(), twice.count(), twice.sum_ns), (6, 12, 2 * read.sum_ns));
        let steps: Vec<_> = read.steps().collect();
        assert_eq!(steps[..3], [(0, Some(1024), 2), (1024, Some(1152), 2), (1152, Some(1280), 1)]);
        assert_eq!(steps[3..], [(1 << 36, None, 1)]);
    }
}
