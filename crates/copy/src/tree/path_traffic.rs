//! The traffic of the connections to a server.

use std::time::Duration;

use client::ChannelStatus;

/// The bytes that the connections to a server have carried so far in both directions, and their shortest
/// round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PathTraffic {
    pub(crate) bytes: u64,
    pub(crate) round_trip: Duration,
}

impl PathTraffic {
    pub(crate) fn by(channels: &[ChannelStatus]) -> PathTraffic {
        let bytes = channels.iter().map(|it| it.traffic.sent + it.traffic.received).sum();
        let known = channels.iter().map(|it| it.traffic.round_trip).filter(|it| !it.is_zero());
        PathTraffic { bytes, round_trip: known.min().unwrap_or_default() }
    }
}
