//! How many connections a copy has: as many as were asked for, or as many as pay.
//!
//! Where nothing was asked for, it begins with one to each server. What is moved in a second is measured, the
//! connections are doubled, and it is measured again. As long as that gains something, they are doubled again; when it
//! does not, those that were added are given up, and for a while nothing is tried: other files may come, or better times.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::file::Shared;

/// The most connections to a server that a copy opens by itself.
const MOST: usize = 8;
/// How much more must be moved with twice the connections, for it to be a gain.
const GAIN: f64 = 1.15;
/// How long is measured: until so many pieces are done, or so long, but never less than that.
const PIECES: u64 = 16;
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(2);
/// How often it is looked whether enough is done.
const STEP: Duration = Duration::from_millis(20);
/// What new connections get to come up to speed.
const SETTLE: Duration = Duration::from_millis(200);
/// When nothing was gained, how long it stays so; twice as long each time.
const AGAIN: Duration = Duration::from_secs(10);
const LONGEST_AGAIN: Duration = Duration::from_secs(120);
/// What a small file counts for beyond its bytes: it takes time even when there are none.
pub(crate) const FILE: u64 = 64 * 1024;

/// One measurement: how many connections there were to each server, and the bytes that they moved in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    pub(crate) channels: usize,
    pub(crate) rate: f64,
}

/// Whether `after`, with twice as many connections, is a gain over `before`.
fn pays(before: Trial, after: Trial) -> bool {
    after.rate >= before.rate * GAIN
}

/// Chooses how many connections the copy has; runs beside it until it is over.
pub(crate) async fn run(shared: Arc<Shared>) {
    let (mut width, mut again) = (1, AGAIN);
    let mut before = measure(&shared, width).await;
    loop {
        let wider = open(&shared, (width * 2).min(MOST)).await;
        if wider <= width {
            return;
        }
        tokio::time::sleep(SETTLE).await;
        let after = measure(&shared, wider).await;
        if pays(before, after) {
            (width, before) = (wider, after);
            if width >= MOST {
                return;
            }
        } else {
            shared.source.narrow(width);
            shared.target.narrow(width);
            shared.set_width(width);
            tokio::time::sleep(again).await;
            again = (again * 2).min(LONGEST_AGAIN);
            before = measure(&shared, width).await;
        }
    }
}

/// Opens connections to both sides; answers how many there are to that which has more.
pub(crate) async fn open(shared: &Shared, channels: usize) -> usize {
    let (source, target) = tokio::join!(shared.source.widen(channels), shared.target.widen(channels));
    shared.set_width(source.max(target));
    source.max(target)
}

/// Measures while there is something to measure, and notes it.
async fn measure(shared: &Shared, channels: usize) -> Trial {
    loop {
        let (since, from) = (Instant::now(), shared.moved());
        let moved = loop {
            tokio::time::sleep(STEP).await;
            let moved = shared.moved() - from;
            let is_enough = moved >= PIECES * shared.piece() && since.elapsed() >= SHORTEST;
            if is_enough || since.elapsed() >= LONGEST {
                break moved;
            }
        };
        // When nothing moves it is not the connections.
        if moved > 0 {
            let trial = Trial { channels, rate: moved as f64 / since.elapsed().as_secs_f64() };
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
}
