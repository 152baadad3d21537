//! What is counted of a copy.

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// What the source has.
    pub total: u64,
    /// What was copied, or made.
    pub copied: u64,
    /// What the target has already, and what is left out as neither a file nor a directory.
    pub skipped: u64,
    /// What has something of another kind in its place.
    pub mismatch: u64,
    /// What could not be copied.
    pub failed: u64,
    /// What only the target has, or had.
    pub extras: u64,
}

/// The rows that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) directories: Counts,
    pub(crate) files: Counts,
    pub(crate) bytes: Counts,
    /// Of the files that were skipped, what is neither a file nor a directory.
    pub(crate) others: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, more: &Tally) {
        for (row, more) in [
            (&mut self.directories, &more.directories),
            (&mut self.files, &more.files),
            (&mut self.bytes, &more.bytes),
        ] {
            row.total += more.total;
            row.copied += more.copied;
            row.skipped += more.skipped;
            row.mismatch += more.mismatch;
            row.failed += more.failed;
            row.extras += more.extras;
        }
        self.others += more.others;
    }
}
