//! What a connection of a session looks like from outside.

use std::net::SocketAddr;

use crate::Traffic;

/// A connection that carries a session, and what it has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelStatus {
    /// Our end.
    pub local: SocketAddr,
    /// The server's end.
    pub peer: SocketAddr,
    /// Requests that it has carried: frames of SMB, calls of NFS.
    pub requests: u64,
    /// Bytes of data that they have moved; over SMB with headers, estimated.
    pub bytes: u64,
    /// Bytes that the path itself has carried.
    pub traffic: Traffic,
    /// Whether a request is under way on it.
    pub is_busy: bool,
    /// As [`Connection::most_credits`](crate::smb::Connection::most_credits).
    pub most_credits: Option<u32>,
}
