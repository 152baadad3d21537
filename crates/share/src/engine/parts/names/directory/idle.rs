//! Directories that nobody uses: each holds two descriptors of the host.

use std::sync::atomic::Ordering;

use volume::NodeId;
use wire::Shrink;

use super::{Directories, Directory};

/// For how many seconds a directory is kept that nobody uses.
const IDLE_S: u64 = 20;
/// The same on another file system than the root's, which can be unmounted only then; also for names there.
const MOUNTED_IDLE_S: u64 = 2;

impl Directories {
    /// Lets go of directories that nobody has used lately, once a second: each holds two descriptors, and the host does not tell of
    /// every one that is gone. On another file system than the root's they and what their names lead to keep that from
    /// being unmounted, and go sooner.
    pub fn drop_idle(&self) {
        let (now_s, home) = (self.cache.now_s(), self.root.id.device);
        if self.looked_s.swap(now_s, Ordering::Relaxed) == now_s {
            return;
        }
        self.let_go(|directory| {
            let idle_s = if directory.id.device == home { IDLE_S } else { MOUNTED_IDLE_S };
            directory.used_s.load(Ordering::Relaxed) + idle_s <= now_s
        });
        // The root is never let go, but has as many names as any.
        if self.root.used_s.load(Ordering::Relaxed) + IDLE_S <= now_s {
            self.root.drop_names();
        }
        if self.known.lock().by_id.keys().any(|id| id.device != home) {
            self.cache.note_mounted();
        }
        self.cache.drop_mounted(home, MOUNTED_IDLE_S);
    }

    /// Keeps none of the directories that this is said of for their own sake any more. True when there was one.
    pub fn let_go(&self, is_meant: impl Fn(&Directory) -> bool) -> bool {
        let mut table = self.known.lock();
        let root = self.root.id;
        let kept = table.by_id.values_mut().filter(|entered| {
            entered.kept.as_deref().is_some_and(|directory| directory.id != root && is_meant(directory))
        });
        let dropped: Vec<_> = kept.filter_map(|entered| entered.kept.take()).collect();
        table.kept -= dropped.len();
        table.by_id.retain(|_, entered| entered.directory.strong_count() > 0);
        table.by_id.shrink();
        drop(table);
        !dropped.is_empty()
    }

    /// Keeps a directory that was removed no longer.
    pub fn forget(&self, id: NodeId) {
        if id != self.root.id {
            let mut table = self.known.lock();
            let dropped = table.by_id.get_mut(&id).and_then(|entered| entered.kept.take());
            table.kept -= usize::from(dropped.is_some());
            drop(table);
            drop(dropped);
        }
    }
}
