//! What a connection has done, for status: written by the connection's own thread without a locked
//! instruction, read by anyone.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of one connection. A connection is on one thread at a time, and only it adds.
#[derive(Debug, Default)]
pub struct Counters {
    requests: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// A reading; the numbers may be of slightly different moments.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Requests that were taken apart, each of a compound by itself.
    pub requests: u64,
    /// Bytes of messages received, without the transport's prefix.
    pub bytes_in: u64,
    /// Bytes of frames sent, with the transport's prefix.
    pub bytes_out: u64,
}

impl Counters {
    #[inline]
    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    #[inline]
    pub(crate) fn received(&self, bytes: usize) {
        add(&self.bytes_in, bytes as u64);
    }

    #[inline]
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.bytes_out, bytes as u64);
    }

    /// What has been counted so far.
    pub fn read(&self) -> Counted {
        Counted {
            requests: self.requests.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

/// A plain load and store, since nobody else writes.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}
