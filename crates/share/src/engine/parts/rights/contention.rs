//! Files whose rights have just been taken away, from an SMB client by one of NFS or from one of NFS by anybody, and are not
//! given again at once.
//!
//! A client may take the answer that grants a right for later than the notice that takes it away, when both come at the
//! same moment: Linux's does, and goes on reading old data from memory. And a right on a file that both sides change in
//! turn costs more than it spares. So a file has none for a while; each time that it happens again soon, for twice as
//! long.
//!
//! Delegations of a file that was recalled are held back alike, whoever wanted it: who was told to come again would otherwise
//! find the next one there, if the holder is quicker, and the next. Linux's NFS server does the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ranked::{Mutex, Rank};
use volume::NodeId;

/// How long none is given at first, and at most.
const FIRST_NS: u64 = 1_000_000_000;
const LONGEST_NS: u64 = 32 * FIRST_NS;
/// Files that are remembered; what is beyond is contended for unnoticed.
const MAX_FILES: usize = 4096;

/// The files of a share that are contended for.
#[derive(Debug)]
pub(super) struct Contention {
    files: Mutex<HashMap<NodeId, Quiet>>,
    /// Says without the lock that there are none.
    any: AtomicBool,
}

impl Default for Contention {
    fn default() -> Contention {
        Contention { files: Mutex::of_default(Rank::Contention), any: AtomicBool::new(false) }
    }
}

/// How long one of them is left alone.
#[derive(Debug, Clone, Copy)]
struct Quiet {
    until_ns: u64,
    length_ns: u64,
}

impl Quiet {
    /// It is remembered for as long again as it lasted, to be told apart from a first time.
    fn is_forgotten(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns.saturating_add(self.length_ns)
    }
}

impl Contention {
    /// A right on the file was taken away.
    pub fn note(&self, file: NodeId, now_ns: u64) {
        let mut files = self.files.lock();
        if files.len() >= MAX_FILES {
            files.retain(|_, quiet| !quiet.is_forgotten(now_ns));
        }
        let before = files.get(&file).filter(|quiet| !quiet.is_forgotten(now_ns));
        if before.is_none() && files.len() >= MAX_FILES {
            return;
        }
        let length_ns = before.map_or(FIRST_NS, |quiet| (quiet.length_ns * 2).min(LONGEST_NS));
        files.insert(file, Quiet { until_ns: now_ns.saturating_add(length_ns), length_ns });
        self.any.store(true, Ordering::Release);
    }

    /// The right is given back only now: the file is left alone for as long from here on.
    pub fn begin_again(&self, file: NodeId, now_ns: u64) {
        if let Some(quiet) = self.files.lock().get_mut(&file) {
            quiet.until_ns = now_ns.saturating_add(quiet.length_ns);
        }
    }

    /// Whether no right on the file is to be given now.
    pub fn has(&self, file: NodeId, now_ns: u64) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let mut files = self.files.lock();
        let Some(quiet) = files.get(&file).copied() else { return false };
        if quiet.is_forgotten(now_ns) {
            files.remove(&file);
            self.any.store(!files.is_empty(), Ordering::Release);
        }
        now_ns < quiet.until_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: NodeId = NodeId { device: 1, inode: 2 };

    #[test]
    fn a_file_is_left_alone_for_twice_as_long_each_time_and_forgotten_after_as_long_again() {
        let contention = Contention::default();
        assert!(!contention.has(FILE, 0));
        let (mut now, mut length) = (0, FIRST_NS);
        for _ in 0..8 {
            contention.note(FILE, now);
            assert!(contention.has(FILE, now + length - 1) && !contention.has(FILE, now + length));
            assert!(!contention.has(NodeId { inode: 3, ..FILE }, now));
            now += length + 1;
            length = (length * 2).min(LONGEST_NS);
        }
        now += 2 * LONGEST_NS;
        assert!(!contention.has(FILE, now) && !contention.any.load(Ordering::Relaxed));
        contention.note(FILE, now);
        assert!(!contention.has(FILE, now + FIRST_NS));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let contention = Contention::default();
        (0..2 * MAX_FILES as u64).for_each(|inode| contention.note(NodeId { inode, ..FILE }, 0));
        assert_eq!(contention.files.lock().len(), MAX_FILES);
        contention.note(FILE, 2 * FIRST_NS);
        assert_eq!(contention.files.lock().len(), 1);
    }
}
