//! Whether directories stand where they are said to: others move them, also out of the share.

use std::sync::atomic::Ordering;

use volume::{Name, NodeId};

use super::{Directories, Directory};

/// The mark of a directory of which nobody knows whether it stands where it is said to, however often others have moved one.
const NEVER: u64 = u64::MAX;

impl Directories {
    /// A directory may have been moved: of each, and of those above it, it is asked where it stands before it is used by
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

    /// As of which move a directory that was found as `name` in `parent` a moment ago is known to stand there, if no name of
    /// `parent` has changed since `generation`. Without a generation the volume is asked.
    pub(super) fn placed_in(
        &self,
        parent: &Directory,
        (name, id): (&Name, NodeId),
        generation: Option<u64>,
    ) -> u64 {
        // Before the name is looked at: what is moved after that has another number.
        let placed = match parent.id == self.root.id {
            true => self.moved(),
            false => parent.placed_at.load(Ordering::Acquire),
        };
        let stands_there = match generation {
            // No directory was moved yet.
            _ if placed == 0 => true,
            Some(generation) => parent.generation() == generation,
            None => parent.holds(name, id),
        };
        if stands_there { placed } else { NEVER }
    }

    /// Takes note that a directory stands where it is said to.
    pub fn note_placed(&self, directory: &Directory, moved: u64) {
        directory.placed_at.store(moved, Ordering::Release);
    }
}
