//! What limited shares may do, and how far they use it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A limited share. All rates are for a second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedShare {
    /// Reads and writes.
    pub iops: u64,
    /// The same as long as there are burst credits.
    pub burst_iops: u64,
    /// Burst credits.
    pub burst_credits: u64,
    /// The most of them.
    pub max_burst_credits: u64,
    /// Bytes written by clients; with `is_together` in both directions.
    pub ingress_bytes: u64,
    /// Bytes read by clients.
    pub egress_bytes: u64,
    /// Both directions count together.
    pub is_together: bool,
    /// Operations on metadata.
    pub metadata_iops: u64,
    /// Requests that are held now.
    pub held: u64,
    /// Requests since the share was limited, by response type.
    pub responses: BTreeMap<String, u64>,
}

impl LimitedShare {
    /// Requests that were held, and all.
    #[must_use]
    pub fn throttled(&self) -> (u64, u64) {
        let held = self.responses.iter().filter(|(name, _)| name.ends_with("Throttling"));
        (held.map(|(_, count)| count).sum(), self.responses.values().sum())
    }
}
