//! Connections of a copy: what each of them has carried, and how much so many of them carry.

use std::net::SocketAddr;

/// A connection to a server.
#[derive(Debug, Clone)]
pub struct Channel {
    /// Our end.
    pub local: SocketAddr,
    /// The server's end.
    pub peer: SocketAddr,
    /// Frames that it has carried.
    pub requests: u64,
    /// Bytes that they have moved, in the direction that counts.
    pub bytes: u64,
}

/// One measurement: how many connections there were to each server, and the bytes that they carried in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    pub(crate) channels: usize,
    pub(crate) rate: f64,
}
