//! Pauses before something that was refused for now is tried again, and the end of trying.

use std::time::{Duration, Instant};

use crate::Error;
use crate::error::Result;

/// The first pause, and the longest. Each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Waits for a connection, which must be there within `time`.
///
/// # Errors
/// [`Error::Io`] when it is not; else its own.
pub(crate) async fn within<T>(time: Duration, doing: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(time, doing).await.map_err(|_| late())?
}

/// Waits for what the server says to `step`, for `time` at most.
///
/// # Errors
/// [`Error::Late`] when that is over; else its own.
pub(crate) async fn answered<T>(
    step: &'static str,
    time: Duration,
    doing: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(time, doing).await.map_err(|_| Error::Late { step, after: time })?
}

/// What is said when something took too long.
pub(crate) fn late() -> Error {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// How long something has been tried.
#[derive(Debug)]
pub(crate) struct Patience {
    total: Duration,
    since: Option<Instant>,
    pause: Duration,
}

impl Patience {
    /// Patience that ends when `total` has passed since the first refusal.
    pub(crate) fn new(total: Duration) -> Patience {
        Patience { total, since: None, pause: Duration::ZERO }
    }

    /// How long to wait before the next attempt; none when it is of no use any more.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let since = *self.since.get_or_insert_with(Instant::now);
        if since.elapsed() >= self.total {
            return None;
        }
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        Some(self.pause)
    }
}
