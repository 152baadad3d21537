//! Limits the bytes per second of all files together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A limit of bytes per second.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<u64>,
    /// The time at which all bytes so far are paid for.
    free: Mutex<Option<Instant>>,
}

impl Pace {
    pub(crate) fn new(rate: Option<u64>) -> Pace {
        Pace { rate, free: Mutex::default() }
    }

    /// Waits until `bytes` may pass.
    pub(crate) async fn take(&self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let turn = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let turn = free.map_or(now, |free| free.max(now));
            *free = Some(turn + Duration::from_secs_f64(bytes as f64 / rate as f64));
            turn
        };
        tokio::time::sleep_until(turn).await;
    }
}
