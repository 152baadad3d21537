//! The files on shares that have a size, and how far they are counted.

use serde::{Deserialize, Serialize};

/// A share on which all files are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedShare {
    /// The size of the share in bytes; null: no bound.
    pub quota_bytes: Option<u64>,
    /// The bytes of files and named streams.
    pub bytes: u64,
    /// The number of files, links and special files.
    pub files: u64,
    /// The number of files that the running count has reached; null when no count runs.
    pub counting: Option<u64>,
    /// The number of complete counts since the start of the server.
    pub counted: u64,
    /// The number of directories and files that the server could not read in the last count.
    pub unreadable: u64,
}
