//! What a share remembers of names and files, and how much that is asked.

use serde::{Deserialize, Serialize};

/// One share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedShare {
    /// Whether anything is remembered: it is switched on, and the host tells of changes in the directory.
    pub on: bool,
    /// Names that are.
    pub names: u64,
    /// Files whose attributes and descriptors are.
    pub files: u64,
    /// Bytes that all of it counts for.
    pub bytes: u64,
    /// Names that were found without asking the host, since the share was opened.
    pub hits: u64,
    /// Names for which the host was asked, while anything was remembered.
    pub misses: u64,
}

impl RememberedShare {
    /// What part of the names was found without asking the host, 0 to 1; none when none was looked for.
    #[must_use]
    pub fn hit_share(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
}
