//! Counters of each worker. One thread writes them without a locked instruction; readers sum them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only its worker changes and anyone reads.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds on the worker's own thread: a plain load and store, since no other thread writes.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        self.0.store(sum, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one worker, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) bytes_received: Counter,
    pub(crate) bytes_sent: Counter,
    pub(crate) bytes_copied: Counter,
    pub(crate) records: Counter,
    pub(crate) batches: Counter,
    pub(crate) events: Counter,
    pub(crate) hops: Counter,
    pub(crate) jobs: Counter,
    pub(crate) moves: Counter,
    pub(crate) recv_calls: Counter,
    pub(crate) recv_empty: Counter,
    pub(crate) busy_polls: Counter,
    pub(crate) writev_calls: Counter,
    pub(crate) wait_calls: Counter,
    pub(crate) ack_calls: Counter,
    pub(crate) effort_reads: Counter,
    pub(crate) effort_bytes: Counter,
    pub(crate) panics: Counter,
    pub(crate) accepted: Counter,
    pub(crate) refused: Counter,
}

/// The counts since the start, of one worker or of all.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Bytes received.
    pub bytes_received: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Received bytes that were copied because their record came in parts.
    pub bytes_copied: u64,
    /// Whole messages handed to conversations.
    pub records: u64,
    /// Batches with at least one message.
    pub batches: u64,
    /// Events handed to conversations.
    pub events: u64,
    /// Batches that ran on the blocking pool because the connection's calls were slow.
    pub hops: u64,
    /// Jobs that conversations queued for the blocking pool.
    pub jobs: u64,
    /// Connections that moved to another worker.
    pub moves: u64,
    /// System calls that receive.
    pub recv_calls: u64,
    /// Receiving calls that found nothing.
    pub recv_empty: u64,
    /// Further receiving calls that found nothing, by connections that poll before they sleep.
    pub busy_polls: u64,
    /// System calls that send.
    pub writev_calls: u64,
    /// Waits of a worker for the next event (epoll_wait).
    pub wait_calls: u64,
    /// System calls that make the host acknowledge a part of a record at once.
    pub ack_calls: u64,
    /// System calls that read the host's figures for a thread, to find slow batches.
    pub effort_reads: u64,
    /// Bytes that those calls have read.
    pub effort_bytes: u64,
    /// Calls of a conversation, and jobs, that panicked.
    pub panics: u64,
    /// Connections that were accepted.
    pub accepted: u64,
    /// Connections that were closed at once, since a bound was reached.
    pub refused: u64,
}

impl Counters {
    /// Reads the counters. The values may be of slightly different moments.
    pub(crate) fn read(&self) -> Totals {
        Totals {
            bytes_received: self.bytes_received.get(),
            bytes_sent: self.bytes_sent.get(),
            bytes_copied: self.bytes_copied.get(),
            records: self.records.get(),
            batches: self.batches.get(),
            events: self.events.get(),
            hops: self.hops.get(),
            jobs: self.jobs.get(),
            moves: self.moves.get(),
            recv_calls: self.recv_calls.get(),
            recv_empty: self.recv_empty.get(),
            busy_polls: self.busy_polls.get(),
            writev_calls: self.writev_calls.get(),
            wait_calls: self.wait_calls.get(),
            ack_calls: self.ack_calls.get(),
            effort_reads: self.effort_reads.get(),
            effort_bytes: self.effort_bytes.get(),
            panics: self.panics.get(),
            accepted: self.accepted.get(),
            refused: self.refused.get(),
        }
    }
}

impl std::ops::Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            bytes_received: self.bytes_received + other.bytes_received,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            bytes_copied: self.bytes_copied + other.bytes_copied,
            records: self.records + other.records,
            batches: self.batches + other.batches,
            events: self.events + other.events,
            hops: self.hops + other.hops,
            jobs: self.jobs + other.jobs,
            moves: self.moves + other.moves,
            recv_calls: self.recv_calls + other.recv_calls,
            recv_empty: self.recv_empty + other.recv_empty,
            busy_polls: self.busy_polls + other.busy_polls,
            writev_calls: self.writev_calls + other.writev_calls,
            wait_calls: self.wait_calls + other.wait_calls,
            ack_calls: self.ack_calls + other.ack_calls,
            effort_reads: self.effort_reads + other.effort_reads,
            effort_bytes: self.effort_bytes + other.effort_bytes,
            panics: self.panics + other.panics,
            accepted: self.accepted + other.accepted,
            refused: self.refused + other.refused,
        }
    }
}
