//! The throughput of a copy with a number of connections.

/// One measurement: the number of connections to each server, and the bytes that they carried per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    pub(crate) channels: usize,
    pub(crate) rate: f64,
}
