//! Notices that leave before the answer to the request that has caused them, on the connection that it came over.
//!
//! Linux's client lists a directory from memory until it is told, also what it has changed itself. Over another channel the
//! notice would come as late as that channel is full, and the client would list what it has long removed.
//!
//! Whoever asks the engine says over which connection ([`share::Origin`]), and the notice says so too. While the connection
//! itself asks, the notice is kept here until it has the answer. A job of its on the blocking pool asks in its place: then the
//! notice comes through the connection's mailbox, and the job's end behind it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::notice::Notice;

/// Those of one connection.
#[derive(Debug, Default)]
pub(crate) struct OwnNotices {
    /// Whether there are any.
    any: AtomicBool,
    kept: Mutex<Vec<Notice>>,
}

impl OwnNotices {
    /// Keeps a notice until the connection takes it, which it does before it answers.
    pub fn keep(&self, notice: Notice) {
        let mut kept = self.kept.lock();
        kept.push(notice);
        self.any.store(true, Ordering::Release);
    }

    /// What was kept.
    #[inline]
    pub fn take(&self) -> Vec<Notice> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut kept = self.kept.lock();
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut kept)
    }
}
