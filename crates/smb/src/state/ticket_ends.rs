//! Counts of sessions whose Kerberos tickets have ended, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of sessions whose tickets have ended (MS-SMB2 3.3.5.2.9).
#[derive(Debug, Default)]
pub struct TicketEnds {
    expired: AtomicU64,
    reauthenticated: AtomicU64,
}

impl TicketEnds {
    /// How often a session was told that its ticket has ended. Several requests until the next
    /// authentication count once.
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// How often a session was authenticated again, before or after the end of its ticket.
    #[must_use]
    pub fn reauthenticated(&self) -> u64 {
        self.reauthenticated.load(Ordering::Relaxed)
    }

    pub(crate) fn note_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn note_reauthenticated(&self) {
        self.reauthenticated.fetch_add(1, Ordering::Relaxed);
    }
}
