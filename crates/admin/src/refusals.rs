//! Log lines about callers whose token is refused: the peer and the reason, never the
//! token. Their number is bounded, so a caller cannot fill the log.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most lines in one [`PERIOD`].
const MOST: u32 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// The refusals of one listening socket.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(Mutex<Period>);

#[derive(Debug, Default)]
struct Period {
    /// None before the first refusal.
    began: Option<Instant>,
    lines: u32,
    /// The refusals without a line, since the last line.
    unlogged: u64,
}

impl RefusalLog {
    /// Logs that a token was refused to a caller of `listener`.
    pub(crate) fn note(&self, listener: &str, peer: SocketAddr, why: &str) {
        // The numbers are complete between any two changes, after a panic, too.
        let due = self.0.lock().unwrap_or_else(PoisonError::into_inner).next(Instant::now());
        if let Some(unlogged) = due {
            tracing::warn!(%peer, why, unlogged, "a caller of {listener} was refused");
        }
    }
}

impl Period {
    /// Counts a refusal. Returns the number of those without a line before it, if it gets one itself.
    fn next(&mut self, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= PERIOD) {
            (self.began, self.lines) = (Some(now), 0);
        }
        if self.lines == MOST {
            self.unlogged += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_the_log_stays_short() {
        let (mut period, now) = (Period::default(), Instant::now());
        let lines = (0..100).filter_map(|_| period.next(now)).collect::<Vec<_>>();
        assert_eq!(lines, vec![0; MOST as usize]);
        assert_eq!(period.next(now + PERIOD / 2), None);
        assert_eq!(period.next(now + PERIOD), Some(91));
        assert_eq!(period.next(now + PERIOD), Some(0));
    }
}
