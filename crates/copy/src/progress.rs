//! What the user sees while it goes on: a bar on a terminal, and a line for each thing that went wrong.

use indicatif::{ProgressBar, ProgressStyle};

/// The bar, which is there on a terminal only.
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

    /// More has been found to be copied.
    pub(crate) fn expect(&self, bytes: u64) {
        self.0.inc_length(bytes);
    }

    /// So much has been copied.
    pub(crate) fn moved(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// So much turned out not to be copied after all, or will be copied once more.
    pub(crate) fn back(&self, bytes: u64) {
        self.0.dec(bytes);
    }

    /// So many files are done.
    pub(crate) fn files(&self, done: u64, known: u64) {
        self.0.set_message(format!("{done} of {known} files"));
    }

    /// A line for the user.
    pub(crate) fn say(&self, line: &str) {
        self.0.suspend(|| eprintln!("{line}"));
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
