//! The method for sending the data of large reads, if there are two: copied into the reply, or sent by the
//! host from its page cache (sendfile).
//!
//! The protocol asks with each large read ([`Transfer::chooses`]). The transport tries both methods on the
//! live connection and selects the cheaper one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

/// The size in bytes from which a read is large. To find out whether its data is in memory costs as much as
/// to copy a few KiB, and pieces of the page cache go to the network in smaller steps.
pub const UNCOPIED: usize = 128 * 1024;

/// The rule for sending the data of large reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SendFile {
    /// The transport decides for each connection.
    #[default]
    Auto,
    /// Always from the page cache.
    Always,
    /// Always copied.
    Never,
}

/// The cost of one method: medians over the measured phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Processor time of the worker, in ns for each MiB.
    pub cpu_ns: u64,
    /// Time from the first byte to the last, in ns for each MiB.
    pub time_ns: u64,
}

/// The result of trying both methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trial {
    /// Copied into the reply.
    pub copied: Cost,
    /// Sent from the page cache.
    pub uncopied: Cost,
}

/// The choice of one connection, as the protocol, the transport and the status output see it.
#[derive(Debug, Default)]
pub struct Transfer {
    uncopied: AtomicBool,
    /// Bytes of reads with a choice, since the transport last asked.
    chosen: AtomicU64,
    trial: Mutex<Option<Trial>>,
}

impl Transfer {
    /// Whether to send the data of a read of `len` bytes without copying. Called once for each read that
    /// could be.
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

    /// Whether data is sent without copying at present, if the transport decides.
    pub fn is_uncopied(&self) -> bool {
        self.uncopied.load(Relaxed)
    }

    /// The last result. None while there is none.
    pub fn trial(&self) -> Option<Trial> {
        *self.trial.lock()
    }

    /// Bytes of reads with a choice, since the last call. For the transport.
    pub fn take_chosen(&self) -> u64 {
        if self.chosen.load(Relaxed) == 0 { 0 } else { self.chosen.swap(0, Relaxed) }
    }

    /// Sets the method from now on. For the transport.
    pub fn set_uncopied(&self, uncopied: bool) {
        self.uncopied.store(uncopied, Relaxed);
    }

    /// Stores a result. For the transport.
    pub fn set_trial(&self, trial: Trial) {
        *self.trial.lock() = Some(trial);
    }
}
