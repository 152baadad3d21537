//! Retries with growing pauses, and time limits on connecting.

use std::time::{Duration, Instant};

use crate::Error;
use crate::error::Result;

/// The first and the longest pause. Each pause is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Waits for a connection for at most `time`.
///
/// # Errors
/// [`Error::Io`] when the time is over, and the errors of `doing`.
pub(crate) async fn within<T>(time: Duration, doing: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(time, doing).await.map_err(|_| late())?
}

/// Waits for the server's reply to `step` for at most `time`.
///
/// # Errors
/// [`Error::Late`] when the time is over, and the errors of `doing`.
pub(crate) async fn answered<T>(
    step: &'static str,
    time: Duration,
    doing: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(time, doing).await.map_err(|_| Error::Late { step, after: time })?
}

/// The error of an attempt that took too long.
pub(crate) fn late() -> Error {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// The state of repeated attempts.
#[derive(Debug)]
pub(crate) struct Backoff {
    total: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Backoff {
    /// Attempts that end when `total` has passed since the first refusal.
    pub(crate) fn new(total: Duration) -> Backoff {
        Backoff { total, since: None, pause: Duration::ZERO }
    }

    /// The pause before the next attempt, or none when the time is over.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.total {
            return None;
        }
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Some(self.pause)
    }
}
