//! The events of a history, one line for each: the time in the history, the client, the request and the
//! reply.
//!
//! A history runs on one thread, and its log belongs to that thread. Nothing is logged unless [`begin`] was
//! called.

use std::cell::RefCell;
use std::fmt::Write;

thread_local! {
    static LOG: RefCell<Option<Log>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct Log {
    text: String,
    now_ns: u64,
}

/// Begins a log on this thread.
pub fn begin() {
    LOG.set(Some(Log::default()));
}

/// Ends the log of this thread and returns its text, or `None` if there is no log.
pub fn end() -> Option<String> {
    LOG.take().map(|log| log.text)
}

/// Sets the time of the history.
pub fn is_at(now_ns: u64) {
    LOG.with_borrow_mut(|log| {
        if let Some(log) = log {
            log.now_ns = now_ns;
        }
    });
}

/// Adds a line to the log.
pub fn line(what: impl FnOnce() -> String) {
    LOG.with_borrow_mut(|log| {
        if let Some(Log { text, now_ns }) = log {
            let (seconds, micros) = (*now_ns / 1_000_000_000, *now_ns / 1000 % 1_000_000);
            writeln!(text, "{seconds:>5}.{micros:06}  {}", what()).expect("a string takes all");
        }
    });
}
