//! The release of unused directories. Each holds two descriptors of the host.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use volume::NodeId;
use wire::Shrink;

use super::{Directories, Directory, MAX_KEPT, Table};

/// For how many seconds an unused directory is kept.
const IDLE_S: u64 = 20;
/// The same on another file system than the root's, and for names there. That file system can be unmounted
/// only afterwards.
const MOUNTED_IDLE_S: u64 = 2;

impl Directories {
    /// Releases directories that were not used lately, once a second. Each holds two descriptors, and the
    /// host does not report every one that is gone. On another file system than the root's, directories and
    /// cached names keep it from being unmounted, so they are released sooner.
    pub fn drop_idle(&self) {
        let (now_s, home) = (self.cache.now_s(), self.root.id.device);
        if self.looked_s.swap(now_s, Ordering::Relaxed) == now_s {
            return;
        }
        self.stop_keeping(|directory| {
            let idle_s = if directory.id.device == home { IDLE_S } else { MOUNTED_IDLE_S };
            directory.used_s.load(Ordering::Relaxed) + idle_s <= now_s
        });
        // The root is never released, but has as many names as any.
        if self.root.used_s.load(Ordering::Relaxed) + IDLE_S <= now_s {
            self.root.drop_names();
        }
        if self.known.lock().by_id.keys().any(|id| id.device != home) {
            self.cache.note_mounted();
        }
        self.cache.drop_mounted(home, MOUNTED_IDLE_S);
    }

    /// Stops keeping the directories that the predicate selects. Returns true if there was one.
    pub fn stop_keeping(&self, is_meant: impl Fn(&Directory) -> bool) -> bool {
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

    /// Stops keeping a directory that was removed.
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

impl Table {
    /// Releases the eighth of the kept directories that was unused for the longest time.
    pub(super) fn evict(&mut self, root: NodeId) -> Vec<Arc<Directory>> {
        let used = |directory: &Directory| directory.used.load(Ordering::Relaxed);
        let kept = || self.by_id.values().filter_map(|entered| entered.kept.as_deref());
        let mut ages: Vec<u64> = kept().map(used).collect();
        let nth = ages.len() / 8;
        let (_, limit, _) = ages.select_nth_unstable(nth);
        let limit = *limit;
        let old = kept().filter(|directory| used(directory) <= limit && directory.id != root);
        let ids: Vec<NodeId> = old.map(|directory| directory.id).take(nth + 1).collect();
        let dropped: Vec<_> = ids
            .iter()
            .filter_map(|id| self.by_id.get_mut(id).and_then(|entered| entered.kept.take()))
            .collect();
        self.kept -= dropped.len();
        dropped
    }

    /// Drops entries without references, before they are many.
    pub(super) fn tidy(&mut self) {
        if self.by_id.len() > self.tidy_at {
            self.by_id.retain(|_, entered| entered.directory.strong_count() > 0);
            self.by_id.shrink();
            self.tidy_at = 2 * self.by_id.len().max(MAX_KEPT);
        }
    }
}
