//! The table of open files.
//!
//! A file is in it as long as it is open or has a [`FileRef`](super::FileRef). So there is never a second
//! [`File`] of one node while a request decides about the first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use volume::{NodeId, NodeKind};
use wire::Shrink;

use crate::engine::parts::file::File;
use crate::engine::values::ids::ById;
use crate::ranked::{Mutex, Rank};

/// Shards of the table. Opens of different files seldom need the same one.
const SHARDS: usize = 64;

/// Every file that is open, by its identity.
pub(super) struct OpenFileTable {
    /// A counter of changed files that were taken out, and of changes that the host reported.
    changed: AtomicU64,
    shards: [Mutex<ById<Arc<File>>>; SHARDS],
}

impl Default for OpenFileTable {
    fn default() -> OpenFileTable {
        OpenFileTable {
            changed: AtomicU64::new(0),
            shards: std::array::from_fn(|_| Mutex::of_default(Rank::FileShard)),
        }
    }
}

impl OpenFileTable {
    fn shard(&self, id: NodeId) -> &Mutex<ById<Arc<File>>> {
        // Inode numbers that follow each other go to different shards.
        let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 58) as usize % SHARDS]
    }

    /// The file, which is entered if it is not there, with one more reference.
    pub fn enter(&self, id: NodeId, kind: NodeKind) -> Arc<File> {
        let mut shard = self.shard(id).lock();
        let file = shard.entry(id).or_insert_with(|| Arc::new(File::new(id, kind)));
        file.references.fetch_add(1, Ordering::Relaxed);
        Arc::clone(file)
    }

    /// The file, if it is open.
    pub fn get(&self, id: NodeId) -> Option<Arc<File>> {
        self.shard(id).lock().get(&id).map(Arc::clone)
    }

    /// Drops the state of a file without opens, and takes it out if there is no reference to it. Returns true
    /// if it was taken out.
    pub fn leave(&self, file: &Arc<File>) -> bool {
        // Dropping may close a descriptor, so it happens after the locks are released.
        let _dropped;
        let mut shard = self.shard(file.id).lock();
        let mut state = file.state.lock();
        if !state.members.is_empty() || state.removing > 0 {
            return false;
        }
        _dropped = (state.node.take(), state.sweep(), state.security.take(), state.made.take());
        (state.record, state.extended_size) = (None, None);
        // References are taken under the shard's lock alone, so none comes now.
        let is_referred_to = file.references.load(Ordering::Acquire) > 0;
        if is_referred_to || !shard.get(&file.id).is_some_and(|kept| Arc::ptr_eq(kept, file)) {
            return false;
        }
        if file.is_changed() {
            self.note_changed();
        }
        shard.remove(&file.id);
        shard.shrink();
        true
    }

    /// A file that is not in the table may have been changed.
    pub fn note_changed(&self) {
        self.changed.fetch_add(1, Ordering::SeqCst);
    }

    /// A counter of files that were changed and then closed by all, and of changes that the host reported.
    pub fn changed(&self) -> u64 {
        self.changed.load(Ordering::SeqCst)
    }

    /// Returns the memory of empty shards. A shard that is in use keeps some for the next file.
    pub fn return_unused(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            if shard.is_empty() {
                shard.shrink_to_fit();
            }
        }
    }

    /// All files that are open.
    pub fn all(&self) -> Vec<Arc<File>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.lock().values().map(Arc::clone).collect::<Vec<_>>())
            .collect()
    }
}
