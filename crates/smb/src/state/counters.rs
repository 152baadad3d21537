//! The counters of a connection, for status. The connection's own thread writes them without a locked
//! instruction. Any thread may read them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one connection. A connection is on one thread at a time, and only that thread adds.
#[derive(Debug, Default)]
pub struct Counters {
    requests: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// A snapshot of the counters. The numbers may be from slightly different moments.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CountersSnapshot {
    /// Parsed requests. Each request of a compound counts.
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

    /// The values of all counters so far.
    pub fn read(&self) -> CountersSnapshot {
        CountersSnapshot {
            requests: self.requests.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }
}

/// Adds with a plain load and store, since no other thread writes.
#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}
