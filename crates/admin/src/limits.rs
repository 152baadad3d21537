//! The provisioned limits of shares, and how far they are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A limited share. All rates are for a second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedShare {
    /// The provisioned reads and writes.
    pub iops: u64,
    /// The reads and writes while there are burst credits.
    pub burst_iops: u64,
    /// The burst credits that are left.
    pub burst_credits: u64,
    /// The most burst credits.
    pub max_burst_credits: u64,
    /// The bytes that clients may write; with `is_together` the bytes in both directions.
    pub ingress_bytes: u64,
    /// The bytes that clients may read.
    pub egress_bytes: u64,
    /// Whether both directions count together.
    pub is_together: bool,
    /// The operations on metadata.
    pub metadata_iops: u64,
    /// The requests that are held now.
    pub held: u64,
    /// The requests since the share was limited, by response type.
    pub responses: BTreeMap<String, u64>,
}

impl LimitedShare {
    /// The number of requests that were held, and of all.
    #[must_use]
    pub fn throttled(&self) -> (u64, u64) {
        let held = self.responses.iter().filter(|(name, _)| name.ends_with("Throttling"));
        (held.map(|(_, count)| count).sum(), self.responses.values().sum())
    }
}
