//! How the data of large reads leaves a connection, where there are two ways: copied into the reply, or sent by the host from its
//! page cache.
//!
//! The protocol asks with each large read ([`Transfer::chooses`]); the transport tries both ways on the live connection and sets the
//! cheaper one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// Bytes from which on a read is large. To find out whether its data is in memory costs as much as to copy a few KiB, and pieces
/// of the page cache go to the network in smaller steps.
pub const UNCOPIED: usize = 128 * 1024;

/// Who decides how the data of large reads leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendFile {
    /// The transport, for each connection.
    #[default]
    Auto,
    /// It always leaves from the page cache.
    Always,
    /// It is always copied.
    Never,
}

/// What one way costs: medians over the turns that were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Processor time of the worker, in ns for each MiB.
    pub cpu_ns: u64,
    /// Time from the first byte to the last, in ns for each MiB.
    pub time_ns: u64,
}

/// What was measured when both ways were tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trial {
    /// Copied into the reply.
    pub copied: Cost,
    /// Sent from the page cache.
    pub uncopied: Cost,
}

/// One connection's choice, as the protocol, the transport and status see it.
#[derive(Debug, Default)]
pub struct Transfer {
    uncopied: AtomicBool,
    /// Bytes of reads for which there was a choice, since the transport last asked.
    chosen: AtomicU64,
    trial: Mutex<Option<Trial>>,
}

impl Transfer {
    /// Whether the data of a read of `len` bytes leaves without being copied; called once for each read that could.
    pub fn chooses(&self, rule: SendFile, len: usize) -> bool {
        match rule {
            SendFile::Always => true,
            SendFile::Never => false,
            SendFile::Auto => {
                self.chosen.fetch_add(len as u64, Relaxed);
                self.is_uncopied()
            }
        }
    }

    /// Whether data leaves without being copied at present, where the transport decides.
    pub fn is_uncopied(&self) -> bool {
        self.uncopied.load(Relaxed)
    }

    /// What was measured last; none while nothing was.
    pub fn trial(&self) -> Option<Trial> {
        *self.trial.lock()
    }

    /// Bytes of reads for which there was a choice, since the last call. For the transport.
    pub fn take_chosen(&self) -> u64 {
        if self.chosen.load(Relaxed) == 0 { 0 } else { self.chosen.swap(0, Relaxed) }
    }

    /// Sets how data leaves from now on. For the transport.
    pub fn set_uncopied(&self, uncopied: bool) {
        self.uncopied.store(uncopied, Relaxed);
    }

    /// Keeps what was measured. For the transport.
    pub fn set_trial(&self, trial: Trial) {
        *self.trial.lock() = Some(trial);
    }
}
