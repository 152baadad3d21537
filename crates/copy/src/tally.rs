//! The counts of a copy.

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Objects in the source.
    pub total: u64,
    /// Objects that were copied or created.
    pub copied: u64,
    /// Objects that the target has already, and objects left out as neither a file nor a directory.
    pub skipped: u64,
    /// Objects with an object of another type in their place.
    pub mismatch: u64,
    /// Objects that could not be copied.
    pub failed: u64,
    /// Objects that only the target has, or had.
    pub extras: u64,
}

/// The rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    pub(crate) directories: Counts,
    pub(crate) files: Counts,
    pub(crate) bytes: Counts,
    /// The skipped objects that are neither files nor directories.
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
