//! The highest rates of shares within one second, which averages hide. They are sampled once a second and
//! kept for a minute.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use share::counts::TransactionKind;

use super::locks::held;

/// The sampling interval.
pub const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// The number of samples to keep.
const KEPT: usize = 60;

/// A sample of a share's counters.
#[derive(Clone, Copy)]
struct CounterSample {
    operations: u64,
    bytes: u64,
    at_ns: u64,
}

#[derive(Default)]
struct RecentRates {
    last: Option<CounterSample>,
    /// Operations and bytes a second.
    rates: VecDeque<(u64, u64)>,
}

/// The peaks of all shares.
#[derive(Default)]
pub struct SharePeaks(Mutex<HashMap<u64, RecentRates>>);

impl SharePeaks {
    /// Takes a sample of these shares, and forgets all others.
    pub fn look<'e>(&self, engines: impl Iterator<Item = &'e Arc<share::Share>>, now_ns: u64) {
        let mut known = held(&self.0);
        let mut next = HashMap::new();
        for engine in engines {
            let mut recent = known.remove(&engine.number()).unwrap_or_default();
            let (mut operations, mut bytes) = (0, 0);
            for counts in engine.all_counts() {
                let habits = counts.pattern();
                operations +=
                    habits.operations(TransactionKind::Read) + habits.operations(TransactionKind::Write);
                bytes += habits.bytes.iter().sum::<u64>();
            }
            recent.note(CounterSample { operations, bytes, at_ns: now_ns });
            next.insert(engine.number(), recent);
        }
        *known = next;
    }

    /// The highest numbers of operations and of bytes in one second of the last minute.
    pub fn of(&self, engine: &share::Share) -> (u64, u64) {
        held(&self.0).get(&engine.number()).map_or((0, 0), RecentRates::most)
    }
}

impl RecentRates {
    fn note(&mut self, look: CounterSample) {
        if let Some(last) = self.last {
            let ns = look.at_ns.saturating_sub(last.at_ns).max(1);
            let rate = |more: u64| {
                u64::try_from(u128::from(more) * 1_000_000_000 / u128::from(ns)).unwrap_or(u64::MAX)
            };
            let operations = look.operations.saturating_sub(last.operations);
            let bytes = look.bytes.saturating_sub(last.bytes);
            self.rates.truncate(KEPT - 1);
            self.rates.push_front((rate(operations), rate(bytes)));
        }
        self.last = Some(look);
    }

    fn most(&self) -> (u64, u64) {
        let most = |take: fn(&(u64, u64)) -> u64| self.rates.iter().map(take).max().unwrap_or(0);
        (most(|rate| rate.0), most(|rate| rate.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_seen_for_a_minute() {
        let mut recent = RecentRates::default();
        let second = 1_000_000_000;
        let mut look = |at: u64, operations| {
            recent.note(CounterSample { operations, bytes: operations * 4096, at_ns: at * second });
            recent.most()
        };
        assert_eq!(look(0, 1000), (0, 0), "what was before is not of this second");
        assert_eq!(look(1, 1500), (500, 500 * 4096));
        assert_eq!(look(3, 1600), (500, 500 * 4096));
        for at in 4..=61 {
            assert_eq!(look(at, 1600).0, 500, "at {at}");
        }
        assert_eq!(look(62, 1600), (50, 50 * 4096));
    }
}
