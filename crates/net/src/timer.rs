//! The timer of one connection. It exists from the beginning, since the first deadline may come in the middle
//! of the quickest traffic.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::Sleep;

use crate::clock;

/// Bounds of the time that it is set for. At the longest it fires for nothing and is set again.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// A timer that wakes its task.
#[derive(Debug)]
pub(crate) struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// The deadline that it fires for (monotonic ns). The maximum if it is not armed.
    armed_ns: u64,
}

impl Timer {
    pub(crate) fn new() -> Timer {
        Timer { sleep: Box::pin(tokio::time::sleep(LONGEST)), armed_ns: u64::MAX }
    }

    /// Whether it has fired since it was armed.
    pub(crate) fn rang(&mut self) -> bool {
        let rang = self.armed_ns != u64::MAX && self.sleep.is_elapsed();
        if rang {
            self.armed_ns = u64::MAX;
        }
        rang
    }

    /// Makes sure that it fires by `deadline_ns`. If a deadline was postponed, the timer simply fires too
    /// early, so a busy connection does not touch it.
    pub(crate) fn arm(&mut self, cx: &mut Context<'_>, deadline_ns: Option<u64>) {
        if let Some(at_ns) = deadline_ns.filter(|&at_ns| at_ns < self.armed_ns) {
            self.set(cx, at_ns);
        }
    }

    /// Makes it fire at `at_ns` and not before.
    pub(crate) fn set(&mut self, cx: &mut Context<'_>, at_ns: u64) {
        self.armed_ns = at_ns;
        // Never at once: a deadline that stays in the past must not keep the worker busy.
        let left = Duration::from_nanos(at_ns.saturating_sub(clock::mono_ns())).max(SHORTEST);
        self.sleep.as_mut().reset(tokio::time::Instant::now() + left.min(LONGEST));
        if self.sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }
}
