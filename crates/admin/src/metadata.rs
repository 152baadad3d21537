//! The metadata cache of shares: names and files that are remembered, and how often that helps.

use serde::{Deserialize, Serialize};

/// The metadata cache of one share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedShare {
    /// Whether it is in use: it is switched on, and the host tells of changes in the directory.
    pub on: bool,
    /// Whether the host reports no changes by its programs in the directory.
    #[serde(default)]
    pub unreported: bool,
    /// The number of names.
    pub names: u64,
    /// The number of files with their attributes and descriptors.
    pub files: u64,
    /// The bytes that all of it counts for.
    pub bytes: u64,
    /// The names that were found without the host since the share was opened.
    pub hits: u64,
    /// The names for which the host was asked while the cache was in use.
    pub misses: u64,
}

impl RememberedShare {
    /// The part of the names that were found without the host, 0 to 1. None when none was looked up.
    #[must_use]
    pub fn hit_share(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
}
