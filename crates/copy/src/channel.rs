//! How much so many connections of a copy carry.

/// One measurement: how many connections there were to each server, and the bytes that they carried in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trial {
    pub(crate) channels: usize,
    pub(crate) rate: f64,
}
