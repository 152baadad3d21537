//! The output while a copy runs: a bar on a terminal, and a line for each fault.

use indicatif::{ProgressBar, ProgressStyle};

/// The bar, which only a terminal shows.
#[derive(Debug, Clone)]
pub(crate) struct Progress(ProgressBar);

const FORM: &str = "{bytes} of {total_bytes} [{wide_bar}] {binary_bytes_per_sec}, {eta} left, {msg}";

impl Progress {
    pub(crate) fn new() -> Progress {
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template(FORM) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(std::time::Duration::from_millis(250));
        Progress(bar)
    }

    /// Adds bytes that will be copied.
    pub(crate) fn expect(&self, bytes: u64) {
        self.0.inc_length(bytes);
    }

    /// Counts copied bytes.
    pub(crate) fn moved(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Uncounts bytes that are not copied after all, or will be copied again.
    pub(crate) fn back(&self, bytes: u64) {
        self.0.dec(bytes);
    }

    /// Shows the number of finished files.
    pub(crate) fn files(&self, done: u64, known: u64) {
        self.0.set_message(format!("{done} of {known} files"));
    }

    /// Prints a line for the user.
    pub(crate) fn say(&self, line: &str) {
        self.0.suspend(|| eprintln!("{line}"));
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
