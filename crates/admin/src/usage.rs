//! What lies on shares that have a size, and how far that is counted.

use serde::{Deserialize, Serialize};

/// A share on which everything is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedShare {
    /// What may lie there in bytes; null: no bound.
    pub quota_bytes: Option<u64>,
    /// What lies there: lengths of files and named streams.
    pub bytes: u64,
    /// Files, links and special files.
    pub files: u64,
    /// Everything is being counted anew, and so many files were counted so far; null: it is not.
    pub counting: Option<u64>,
    /// How often everything was counted since the server was started.
    pub counted: u64,
    /// What the server may not look into and has not counted, the last time.
    pub unreadable: u64,
}
