//! Whether directories stand where they are said to: others move them, also out of the share.

use std::sync::atomic::Ordering;

use super::{Directories, Directory};

impl Directories {
    /// Others may have moved a directory: of each, and of those above it, it is asked where it stands before it is used by
    /// its address again.
    pub fn note_moved(&self) {
        self.moved.fetch_add(1, Ordering::AcqRel);
    }

    /// To be taken before it is asked where a directory stands, and given to [`Directories::note_placed`].
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Acquire)
    }

    /// Whether others have moved no directory since it was asked where this one stands.
    pub fn is_placed(&self, directory: &Directory) -> bool {
        directory.id == self.root.id || directory.placed_at.load(Ordering::Acquire) == self.moved()
    }

    /// Takes note that a directory stands where it is said to.
    pub fn note_placed(&self, directory: &Directory, moved: u64) {
        directory.placed_at.store(moved, Ordering::Release);
    }
}
