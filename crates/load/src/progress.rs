//! A line on the terminal that shows the progress of a load.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::run::LoadRun;

/// Shows the line until it is dropped.
pub(crate) struct Progress(Option<(Sender<()>, JoinHandle<()>)>);

/// The interval of updates.
const STEP: Duration = Duration::from_secs(1);

impl Progress {
    /// Starts the line, if standard error is a terminal.
    pub(crate) fn start(shared: &Arc<LoadRun>) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let (over, is_over) = channel();
        let shared = Arc::clone(shared);
        let shown = thread::spawn(move || {
            let mut before = (Instant::now(), 0, 0);
            while is_over.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                let (operations, bytes) = shared.so_far();
                let now = (Instant::now(), operations, bytes);
                let seconds = (now.0 - before.0).as_secs_f64();
                let rates = [now.1 - before.1, now.2 - before.2].map(|count| count as f64 / seconds);
                show(&format!("\r{}\x1b[K", line(&shared, now.0, rates)));
                before = now;
            }
            show("\r\x1b[K");
        });
        Progress(Some((over, shown)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((over, shown)) = self.0.take() {
            drop(over);
            // Neither the line nor its failure belongs to the measurement.
            let _ = shown.join();
        }
    }
}

fn show(text: &str) {
    // The terminal is gone.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// `3 of 10 s, 120.5 MiB/s, 30848 I/O per s`.
fn line(shared: &LoadRun, now: Instant, [operations, bytes]: [f64; 2]) -> String {
    let from = shared.window.measured_from();
    if now < from {
        return format!("warming up, {} s left", (from - now).as_secs());
    }
    if shared.window.measured_to().is_some_and(|end| now >= end) {
        return "cooling down".to_owned();
    }
    let mibs = bytes / 1_048_576.0;
    let of = shared.plan.runtime.map(|all| format!(" of {}", all.as_secs())).unwrap_or_default();
    format!("{}{of} s, {mibs:.1} MiB/s, {operations:.0} I/O per s", (now - from).as_secs())
}
