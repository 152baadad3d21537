//! The public view of a connection of a session.

use std::net::SocketAddr;

use crate::Traffic;

/// A connection of a session and its counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelStatus {
    /// Our address.
    pub local: SocketAddr,
    /// The server's address.
    pub peer: SocketAddr,
    /// The requests that it has carried: SMB frames or NFS calls.
    pub requests: u64,
    /// The bytes of data that these requests have moved. Over SMB the number is an estimate that includes
    /// headers.
    pub bytes: u64,
    /// The bytes that the path itself has carried.
    pub traffic: Traffic,
    /// Whether a request is pending on it.
    pub is_busy: bool,
    /// See [`Connection::most_credits`](crate::smb::Connection::most_credits).
    pub most_credits: Option<u32>,
}
