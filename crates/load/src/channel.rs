//! The traffic of a connection, and the security that was negotiated on it.

use std::net::SocketAddr;

use client::ChannelStatus;
use serde::{Deserialize, Serialize};

/// A connection and its traffic since the start of its session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Channel {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) requests: u64,
    /// Bytes that were read and written; over SMB with headers, estimated.
    pub(crate) bytes: u64,
    /// Bytes that the connection itself carried to the server, as the host counts them.
    pub(crate) sent: u64,
    /// Bytes that the connection carried from the server.
    pub(crate) received: u64,
    /// The most credits that the server granted on it at once, if some request needed more.
    pub(crate) most_credits: Option<u32>,
}

impl From<ChannelStatus> for Channel {
    fn from(it: ChannelStatus) -> Channel {
        let ChannelStatus { local, peer, requests, bytes, traffic, most_credits, .. } = it;
        Channel { local, peer, requests, bytes, sent: traffic.sent, received: traffic.received, most_credits }
    }
}

/// The negotiated security.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Security {
    pub(crate) protocol: String,
    pub(crate) dialect: String,
    pub(crate) signing: String,
    pub(crate) encryption: String,
}

impl Security {
    /// The security of a connection that is neither signed nor encrypted.
    pub(crate) fn none(protocol: &str, dialect: &str) -> Security {
        let off = || "off".to_owned();
        let (protocol, dialect) = (protocol.to_owned(), dialect.to_owned());
        Security { protocol, dialect, signing: off(), encryption: off() }
    }
}
