//! Where caching rights are, and which are not given for a while.

mod contention;
mod keys;

use std::sync::atomic::{AtomicU64, Ordering};

use volume::NodeId;

use contention::Contention;
pub(crate) use keys::Keys;

/// The caching rights of a share beyond what each file knows of its own.
#[derive(Default)]
pub(crate) struct CachingRights {
    keys: Keys,
    /// Files that clients of both protocols contend for.
    contended: Contention,
    /// Files whose rights were wanted back that are given back as a whole, by whomever.
    recalled: Contention,
    /// When it was looked last which rights are over, in monotonic seconds.
    looked_s: AtomicU64,
}

impl CachingRights {
    /// Where the right under each key is.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// A right on a file was taken away that the other side wanted.
    pub fn note_contended(&self, file: NodeId, now_ns: u64) {
        self.contended.note(file, now_ns);
    }

    /// A right on a file was asked back that is given back as a whole.
    pub fn note_recalled(&self, file: NodeId, now_ns: u64) {
        self.recalled.note(file, now_ns);
    }

    /// Such a right is given back only now.
    pub fn note_given_back(&self, file: NodeId, now_ns: u64) {
        self.recalled.begin_again(file, now_ns);
    }

    /// Whether no right on the file is to be given now, of those that are given back as a whole or of the others.
    pub fn is_quiet(&self, file: NodeId, whole: bool, now_ns: u64) -> bool {
        let quiet = if whole { &self.recalled } else { &self.contended };
        quiet.has(file, now_ns)
    }

    /// Whether it was not looked in this second yet which rights are over.
    pub fn begin_second(&self, now_s: u64) -> bool {
        self.looked_s.swap(now_s, Ordering::Relaxed) != now_s
    }
}
