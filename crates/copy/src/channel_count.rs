//! Chooses the number of connections of a copy: as many as the user asked for, or as many as pay.
//!
//! By default a copy begins with one connection to each server. It measures the throughput, opens four, and
//! measures again. If that is a gain, it goes on to eight. If not, it closes the new ones and tries nothing
//! for a while, because later files or times may differ.
//!
//! If small files have sessions of their own, there are several connections already, and a server is busy
//! with names. Then nothing is tried before enough has been carried or enough time has passed to make it pay.
//!
//! A measurement consists of slices of two round trips. A new connection carries more from slice to slice
//! until it is up to speed. When a slice brings hardly more than the one before it, the following slices
//! count. On a long path that takes a quarter of a second. Other tools, which wait for whole files or pieces,
//! have not seen one by then.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::channel::Trial;
use crate::context::CopyContext;

/// The numbers of connections that a copy tries by itself. Each step takes a moment, in which a faster path
/// is not full.
const STEPS: [usize; 2] = [4, 8];
/// The factor by which more connections must move more to be a gain.
const GAIN: f64 = 1.15;
/// The least and the greatest length of a slice, which is otherwise two round trips.
const SHORTEST: Duration = Duration::from_millis(40);
const LONGEST: Duration = Duration::from_millis(400);
/// A slice with no more than this many times the rate of the previous one is not on the way up.
const STEADY: f64 = 1.1;
/// The number of slices in a mean, and the number of slices after which the mean is taken anyhow.
const SLICES: usize = 3;
const PATIENCE: usize = 40;
/// The bytes carried, or the time passed, before anything is tried beside sessions for small files.
const ENOUGH: u64 = 8 * 1024 * 1024;
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// The pause after a trial without a gain. Each further pause is twice as long.
const AGAIN: Duration = Duration::from_secs(20);
const LONGEST_AGAIN: Duration = Duration::from_secs(120);

/// Whether `after`, with more connections, is a gain over `before`.
fn pays(before: Trial, after: Trial) -> bool {
    after.rate >= before.rate * GAIN
}

/// Whether a trial pays by now.
fn is_worth_it(is_split: bool, carried: u64, since: Duration) -> bool {
    !is_split || carried >= ENOUGH || since >= LONG_ENOUGH
}

/// Chooses the number of connections, in the background until the copy is over.
pub(crate) async fn run(shared: Arc<CopyContext>) {
    let begun = Instant::now();
    let (mut width, mut again) = (1, AGAIN);
    let mut before = measure(&shared, width, begun).await;
    while let Some(next) = STEPS.into_iter().find(|step| *step > width) {
        let wider = open(&shared, next).await;
        if wider <= width {
            return;
        }
        let after = measure(&shared, wider, begun).await;
        if pays(before, after) {
            (width, before) = (wider, after);
        } else {
            shared.source.narrow(width);
            shared.target.narrow(width);
            shared.set_width(width);
            tokio::time::sleep(again).await;
            again = (again * 2).min(LONGEST_AGAIN);
            before = measure(&shared, width, begun).await;
        }
    }
}

/// Opens connections to both sides. Returns the number to the server with more.
pub(crate) async fn open(shared: &CopyContext, channels: usize) -> usize {
    let (source, target) = tokio::join!(shared.source.widen(channels), shared.target.widen(channels));
    shared.set_width(source.max(target));
    source.max(target)
}

/// The measurement of slices, one after the other.
#[derive(Debug, Default)]
struct Slices {
    /// The rates from the first one that counts.
    steady: Vec<f64>,
    last: Option<f64>,
    seen: usize,
}

impl Slices {
    /// Takes the rate of one more slice. Returns the mean when there are enough of them.
    fn take(&mut self, rate: f64) -> Option<f64> {
        // A standstill is no fault of the connections. A directory is being listed, or a disk is slow.
        if rate <= 0.0 {
            return None;
        }
        self.seen += 1;
        let is_steady = self.last.is_some_and(|last| rate <= last * STEADY) || self.seen >= PATIENCE;
        self.last = Some(rate);
        if is_steady || !self.steady.is_empty() {
            self.steady.push(rate);
        }
        let is_enough = self.steady.len() >= SLICES;
        is_enough.then(|| self.steady.iter().sum::<f64>() / self.steady.len() as f64)
    }
}

/// Measures as soon as there is something to measure, and records the result. The copy has `begun` then.
async fn measure(shared: &CopyContext, channels: usize, begun: Instant) -> Trial {
    let mut slices = Slices::default();
    let (mut since, mut from) = (Instant::now(), shared.carried());
    loop {
        let slice = (from.round_trip * 2).clamp(SHORTEST, LONGEST);
        tokio::time::sleep(slice).await;
        let (now, carried) = (Instant::now(), shared.carried());
        // The difference is negative if a connection was lost with its counter.
        let moved = carried.bytes.saturating_sub(from.bytes);
        let rate = moved as f64 / (now - since).as_secs_f64();
        (since, from) = (now, carried);
        if !is_worth_it(shared.is_split(), carried.bytes, now - begun) {
            continue;
        }
        if let Some(rate) = slices.take(rate) {
            let trial = Trial { channels, rate };
            shared.note(trial);
            return trial;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_pay_when_each_has_a_limit_of_its_own_and_not_when_they_share_one() {
        let trial = |channels, rate| Trial { channels, rate };
        assert!(pays(trial(1, 25e6), trial(2, 48e6)) && pays(trial(4, 80e6), trial(8, 95e6)));
        assert!(!pays(trial(2, 100e6), trial(4, 104e6)) && !pays(trial(2, 100e6), trial(4, 80e6)));
    }

    #[test]
    fn beside_sessions_for_small_files_a_trial_waits_until_it_pays() {
        let (soon, late) = (Duration::from_millis(100), LONG_ENOUGH);
        assert!(is_worth_it(false, 0, soon), "a large file waits for connections");
        assert!(!is_worth_it(true, ENOUGH - 1, soon));
        assert!(is_worth_it(true, ENOUGH, soon) && is_worth_it(true, 0, late));
    }

    /// The first result, and the number of slices before it.
    fn answer(rates: impl IntoIterator<Item = f64>) -> Option<(f64, usize)> {
        let mut slices = Slices::default();
        rates.into_iter().zip(1..).find_map(|(rate, count)| Some((slices.take(rate)?, count)))
    }

    #[test]
    fn what_comes_while_a_connection_gets_up_to_speed_does_not_count() {
        assert_eq!(answer([0.0, 0.0, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0, 10.0]), Some((10.0, 10)));
        assert_eq!(answer([5.0; 9]), Some((5.0, 4)));
        assert_eq!(answer([0.0; 1000]), None);
    }

    #[test]
    fn what_never_gets_steady_is_measured_all_the_same() {
        let (_, count) = answer((0..1000).map(|at| 1.2f64.powi(at))).unwrap();
        assert_eq!(count, PATIENCE + SLICES - 1);
    }
}
