//! The traffic of the connections to a server.

use std::time::Duration;

use client::ChannelStatus;

/// The bytes that the connections to a server have carried so far in both directions, and their shortest
/// round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Carried {
    pub(crate) bytes: u64,
    pub(crate) round_trip: Duration,
}

impl Carried {
    pub(crate) fn by(channels: &[ChannelStatus]) -> Carried {
        let bytes = channels.iter().map(|it| it.traffic.sent + it.traffic.received).sum();
        let known = channels.iter().map(|it| it.traffic.round_trip).filter(|it| !it.is_zero());
        Carried { bytes, round_trip: known.min().unwrap_or_default() }
    }
}
