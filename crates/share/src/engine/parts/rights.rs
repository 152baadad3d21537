//! The files with caching rights, and the files that get none for a while.

mod contention;
mod keys;

use std::sync::atomic::{AtomicU64, Ordering};

use volume::NodeId;

use contention::Contention;
pub(crate) use keys::Keys;

/// The caching rights of a share, beyond those that each file knows of itself.
#[derive(Default)]
pub(crate) struct CachingRights {
    keys: Keys,
    /// Files that clients of both protocols contend for.
    contended: Contention,
    /// Files whose rights that are released as a whole were recalled, for whatever reason.
    recalled: Contention,
    /// The time of the last search for expired rights, in monotonic seconds.
    looked_s: AtomicU64,
}

impl CachingRights {
    /// The stream of the right under each key.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// A right on a file was broken for a client of the other protocol.
    pub fn note_contended(&self, file: NodeId, now_ns: u64) {
        self.contended.note(file, now_ns);
    }

    /// A right on a file that is released as a whole was recalled.
    pub fn note_recalled(&self, file: NodeId, now_ns: u64) {
        self.recalled.note(file, now_ns);
    }

    /// Such a right is released only now.
    pub fn note_released(&self, file: NodeId, now_ns: u64) {
        self.recalled.begin_again(file, now_ns);
    }

    /// Whether the file gets no right now, of those that are released as a whole or of the others.
    pub fn is_quiet(&self, file: NodeId, whole: bool, now_ns: u64) -> bool {
        let quiet = if whole { &self.recalled } else { &self.contended };
        quiet.has(file, now_ns)
    }

    /// Whether expired rights were not yet searched for in this second.
    pub fn begin_second(&self, now_s: u64) -> bool {
        self.looked_s.swap(now_s, Ordering::Relaxed) != now_s
    }
}
