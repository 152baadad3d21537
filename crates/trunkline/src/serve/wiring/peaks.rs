//! The most that shares did in one second: averages hide it. Looked at once a second, kept for a minute.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use share::counts::TransactionKind;

use super::locks::held;

/// How often it is looked at.
pub const LOOKED_EVERY: Duration = Duration::from_secs(1);
/// Looks that are kept.
const KEPT: usize = 60;

/// What was read from a share's counts.
#[derive(Clone, Copy)]
struct Look {
    operations: u64,
    bytes: u64,
    at_ns: u64,
}

#[derive(Default)]
struct Lately {
    last: Option<Look>,
    /// Operations and bytes a second.
    rates: VecDeque<(u64, u64)>,
}

/// The peaks of all shares.
#[derive(Default)]
pub struct Peaks(Mutex<HashMap<u64, Lately>>);

impl Peaks {
    /// Looks at these shares; those that are not among them are forgotten.
    pub fn look<'e>(&self, engines: impl Iterator<Item = &'e Arc<share::Share>>, now_ns: u64) {
        let mut known = held(&self.0);
        let mut next = HashMap::new();
        for engine in engines {
            let mut lately = known.remove(&engine.number()).unwrap_or_default();
            let (mut operations, mut bytes) = (0, 0);
            for counts in engine.all_counts() {
                let habits = counts.pattern();
                operations +=
                    habits.operations(TransactionKind::Read) + habits.operations(TransactionKind::Write);
                bytes += habits.bytes.iter().sum::<u64>();
            }
            lately.note(Look { operations, bytes, at_ns: now_ns });
            next.insert(engine.number(), lately);
        }
        *known = next;
    }

    /// The most operations, and bytes, of a second in the last minute.
    pub fn of(&self, engine: &share::Share) -> (u64, u64) {
        held(&self.0).get(&engine.number()).map_or((0, 0), Lately::most)
    }
}

impl Lately {
    fn note(&mut self, look: Look) {
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
        let mut lately = Lately::default();
        let second = 1_000_000_000;
        let mut look = |at: u64, operations| {
            lately.note(Look { operations, bytes: operations * 4096, at_ns: at * second });
            lately.most()
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
