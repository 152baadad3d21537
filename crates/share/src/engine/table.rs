//! The table of open files.

use std::sync::Arc;

use parking_lot::Mutex;
use volume::{Kind, NodeId};
use wire::Shrink;

use super::file::File;
use super::ids::ById;

/// Shards of the table; opens of different files seldom meet in one.
const SHARDS: usize = 64;

/// Every file that is open, by its identity.
pub(super) struct Files {
    shards: [Mutex<ById<Arc<File>>>; SHARDS],
}

impl Default for Files {
    fn default() -> Files {
        Files { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Files {
    fn shard(&self, id: NodeId) -> &Mutex<ById<Arc<File>>> {
        // Inode numbers that follow each other go to different shards.
        let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.shards[(mixed >> 58) as usize % SHARDS]
    }

    /// The file, entered when it is not there.
    pub fn enter(&self, id: NodeId, kind: Kind) -> Arc<File> {
        let mut shard = self.shard(id).lock();
        Arc::clone(shard.entry(id).or_insert_with(|| Arc::new(File::new(id, kind))))
    }

    /// The file, if it is open.
    pub fn get(&self, id: NodeId) -> Option<Arc<File>> {
        self.shard(id).lock().get(&id).map(Arc::clone)
    }

    /// Takes a file out that nobody has open any more. True when it was.
    pub fn leave(&self, file: &Arc<File>) -> bool {
        // What is dropped may close a descriptor, so it outlives the locks.
        let _dropped;
        let mut shard = self.shard(file.id).lock();
        let mut state = file.state.lock();
        if state.members.is_empty() && state.removing == 0 && !state.dead {
            state.dead = true;
            _dropped = (state.node.take(), state.sweep());
            if shard.get(&file.id).is_some_and(|kept| Arc::ptr_eq(kept, file)) {
                shard.remove(&file.id);
                shard.shrink();
            }
            return true;
        }
        false
    }

    /// All files that are open.
    pub fn all(&self) -> Vec<Arc<File>> {
        self.shards
            .iter()
            .flat_map(|shard| shard.lock().values().map(Arc::clone).collect::<Vec<_>>())
            .collect()
    }
}
