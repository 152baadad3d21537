//! Files whose rights were just broken, and that get none again at once: rights of an SMB client broken for
//! an NFS client, and rights of an NFS client broken for any client.
//!
//! A client may take the reply that grants a right for later than the notice that breaks it, if both come at
//! the same moment. Linux's client does, and goes on reading old data from memory. And a right on a file that
//! both sides change in turn costs more than it saves. So such a file gets none for a while. If it happens
//! again soon, the time doubles.
//!
//! Delegations of a recalled file are held back in the same way, whichever client wanted it. A client that
//! was told to try again would otherwise find the next delegation there if the holder is quicker, and then
//! the next. Linux's NFS server does the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ranked::{Mutex, Rank};
use volume::NodeId;

/// The first and the longest time without a right.
const FIRST_NS: u64 = 1_000_000_000;
const LONGEST_NS: u64 = 32 * FIRST_NS;
/// Most files that are remembered. Contention for further ones goes unnoticed.
const MAX_FILES: usize = 4096;

/// The files of a share that are contended for.
#[derive(Debug)]
pub(super) struct Contention {
    files: Mutex<HashMap<NodeId, HoldOff>>,
    /// Whether there may be any. If false, there are none, and no lock is needed to know it.
    any: AtomicBool,
}

impl Default for Contention {
    fn default() -> Contention {
        Contention { files: Mutex::of_default(Rank::Contention), any: AtomicBool::new(false) }
    }
}

/// The time for which one of them gets no right.
#[derive(Debug, Clone, Copy)]
struct HoldOff {
    until_ns: u64,
    length_ns: u64,
}

impl HoldOff {
    /// Whether it is forgotten. It is remembered for the same time again, so that the next contention does
    /// not count as a first one.
    fn is_forgotten(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns.saturating_add(self.length_ns)
    }
}

impl Contention {
    /// A right on the file was broken.
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
        files.insert(file, HoldOff { until_ns: now_ns.saturating_add(length_ns), length_ns });
        self.any.store(true, Ordering::Release);
    }

    /// The right is released only now: the file gets none for the same time from here on.
    pub fn begin_again(&self, file: NodeId, now_ns: u64) {
        if let Some(quiet) = self.files.lock().get_mut(&file) {
            quiet.until_ns = now_ns.saturating_add(quiet.length_ns);
        }
    }

    /// Whether the file gets no right now.
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
