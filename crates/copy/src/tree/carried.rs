//! What the connections to a server have carried.

use std::time::Duration;

use client::Traffic;

/// What the connections to a server have carried so far, in both directions, and their shortest round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    pub(crate) bytes: u64,
    pub(crate) round_trip: Duration,
}

impl Carried {
    pub(crate) fn of(traffic: Traffic) -> Carried {
        Carried { bytes: traffic.sent + traffic.received, round_trip: traffic.round_trip }
    }

    /// Both together.
    pub(crate) fn and(self, other: Carried) -> Carried {
        let known = [self, other].into_iter().map(|it| it.round_trip).filter(|it| !it.is_zero());
        Carried { bytes: self.bytes + other.bytes, round_trip: known.min().unwrap_or_default() }
    }
}
