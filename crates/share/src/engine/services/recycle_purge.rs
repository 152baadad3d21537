//! Removes files from the recycle folder for good: when their time is over, when there are more than the
//! rules allow, and when space runs out.
//!
//! A search goes through the folder in bounded steps ([`Share::search_recycled`]). It removes the files whose
//! time is over and remembers the oldest of the others. Those go first when room is needed. The time of a
//! removal is the change time of the file, which a rename moves. A file that a client has open stays.
//!
//! A client may take a whole directory back with one rename while the search still knows it. So the host is
//! asked where a directory is before anything in it is removed ([`Share::is_below`]).

use std::ops::ControlFlow;
use std::sync::Arc;

use volume::{DirEntry, Name, NodeId, NodeKind, OpenHow, Stat};
use wire::Now;

use crate::engine::Share;
use crate::engine::parts::names::directory::Directory;
use crate::engine::parts::recycle_bin::{FolderSearch, NameReport, RecycledFile, SearchedDirectory};
use crate::engine::values::recycle::RecycleRules;
use crate::{ChangeFilter, ChangeKind};

/// The depth of the directories in the folder of a user. An empty one of them is removed.
const IN_FOLDER_OF_USER: usize = 3;
/// The most files that are removed at once to make room for a request.
const MOST_FOR_ROOM: usize = 64;
/// The most entries that a request looks at to find files whose room it can have.
const MOST_LOOKED_AT: usize = 4096;
/// The greatest depth of a directory in the recycle folder; paths of Linux have at most 4,096 bytes.
const MOST_DEEP: usize = 2048;
/// The room that is made for a request, in bytes.
const ROOM: u64 = 64 << 20;

/// The rules of one search.
#[derive(Clone, Copy)]
struct SearchRules<'a> {
    rules: &'a RecycleRules,
    /// The recycle folder.
    folder: NodeId,
    now: Now,
}

impl Share {
    /// Goes on with the search through the recycle folder, for at most `most` entries, and removes the files
    /// for good that are to go. The caller reports the changes in `told`.
    pub(crate) fn search_recycled(
        &self,
        rules: &RecycleRules,
        now: Now,
        most: usize,
        told: &mut Vec<NameReport>,
    ) {
        let Some(mut search) = self.recycle_bin().take(now.mono_ns) else { return };
        // There is none before the first removal, and a foreign one is not touched.
        let folder = self.find_recycle_folder(rules).ok();
        let mut left = most;
        if let Some(directory) = folder {
            let by = SearchRules { rules, folder: directory.id, now };
            if search.left.is_empty() {
                search.left.push(SearchedDirectory { directory, cookie: 0, depth: 1 });
            }
            while left > 0
                && let Some(at) = search.left.pop()
            {
                left = left.saturating_sub(self.search_in(by, &mut search, at, left, told).max(1));
            }
        } else {
            search.left.clear();
        }
        if !search.left.is_empty() {
            return self.recycle_bin().put_back(search);
        }
        if self.recycle_bin().end(search, now.mono_ns, rules.most_bytes) {
            self.purge_oldest(rules, told);
        }
    }

    /// Removes the oldest recycled files for good, a bounded number of them, because space has run out.
    /// Returns whether there were any.
    #[cold]
    pub(crate) fn purge_for_room(&self, now: Now, told: &mut Vec<NameReport>) -> bool {
        let Some(rules) = self.config().recycle.clone() else { return false };
        if self.purge_some_oldest(&rules, told) {
            return true;
        }
        self.recycle_bin().need_room();
        self.search_recycled(&rules, now, MOST_LOOKED_AT, told);
        self.purge_some_oldest(&rules, told)
    }

    fn purge_some_oldest(&self, rules: &RecycleRules, told: &mut Vec<NameReport>) -> bool {
        let Ok(folder) = self.find_recycle_folder(rules) else { return false };
        let (mut files, mut bytes) = (0, 0);
        while files < MOST_FOR_ROOM
            && bytes < ROOM
            && let Some(oldest) = self.recycle_bin().take_oldest()
        {
            if self.purge(folder.id, &oldest.parent, &oldest.name, oldest.id, oldest.bytes, told) {
                files += 1;
                bytes += oldest.bytes;
            }
        }
        files > 0
    }

    /// Removes the oldest known files for good as long as more is kept than the rules allow.
    fn purge_oldest(&self, rules: &RecycleRules, told: &mut Vec<NameReport>) {
        let Ok(folder) = self.find_recycle_folder(rules) else { return };
        while self.recycle_bin().note_over(rules.most_bytes)
            && let Some(oldest) = self.recycle_bin().take_oldest()
        {
            self.purge(folder.id, &oldest.parent, &oldest.name, oldest.id, oldest.bytes, told);
        }
    }

    /// Whether a directory lies in the directory `above`, or is it, as the host says now.
    fn is_below(&self, above: NodeId, directory: &Arc<Directory>) -> bool {
        let mut at = Arc::clone(&directory.node);
        for _ in 0..MOST_DEEP {
            if at.id() == above {
                return true;
            }
            match at.parent_and_name() {
                Ok(Some((parent, _))) => at = parent,
                _ => return false,
            }
        }
        false
    }

    /// Looks at up to `most` further entries of a directory, and returns their number.
    fn search_in(
        &self,
        by: SearchRules<'_>,
        search: &mut FolderSearch,
        at: SearchedDirectory,
        most: usize,
        told: &mut Vec<NameReport>,
    ) -> usize {
        let SearchedDirectory { directory, cookie, depth } = at;
        if !self.is_below(by.folder, &directory) {
            return 0;
        }
        let mut entries: Vec<DirEntry> = Vec::new();
        let listed = directory.node.entries(cookie, &mut |entry| {
            entries.push(entry);
            if entries.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let is_whole = entries.len() < most || listed.is_err();
        match entries.last() {
            Some(last) if !is_whole => {
                let directory = Arc::clone(&directory);
                search.left.push(SearchedDirectory { directory, cookie: last.cookie, depth });
            }
            _ if depth >= IN_FOLDER_OF_USER => self.remove_if_empty(by.folder, &directory, told),
            _ => {}
        }
        for entry in &entries {
            let Ok(stat) = directory.node.stat_name(&entry.name) else { continue };
            match stat.kind {
                NodeKind::Directory => {
                    if let Some(below) = self.searched(&directory, &entry.name, depth + 1) {
                        search.left.push(below);
                    }
                }
                _ if is_over(by.rules, &stat, by.now)
                    && self.purge(by.folder, &directory, &entry.name, stat.id, stat.allocated, told) => {}
                _ => search.add(RecycledFile {
                    changed: stat.changed,
                    bytes: stat.allocated,
                    id: stat.id,
                    parent: Arc::clone(&directory),
                    name: entry.name.clone(),
                }),
            }
        }
        entries.len()
    }

    fn searched(&self, parent: &Arc<Directory>, name: &Name, depth: usize) -> Option<SearchedDirectory> {
        let generation = parent.generation();
        let node = parent.node.lookup(name, OpenHow::Attributes).ok()?;
        let is_here = node.kind() == NodeKind::Directory && node.id().device == parent.id.device;
        let directory =
            is_here.then(|| self.directories().enter(parent, (name, name), node, Some(generation)))?;
        Some(SearchedDirectory { directory, cookie: 0, depth })
    }

    /// Removes a file of the recycle folder for good, unless it is open, its name leads to another file, or
    /// its directory was taken out of the folder.
    fn purge(
        &self,
        folder: NodeId,
        parent: &Arc<Directory>,
        name: &Name,
        id: NodeId,
        bytes: u64,
        told: &mut Vec<NameReport>,
    ) -> bool {
        let changing = parent.change(&[name]);
        let is_in_use = self.open_files().get(id).is_some_and(|file| file.has_members());
        let may_go = !is_in_use && parent.holds(name, id) && self.is_below(folder, parent);
        if !may_go || parent.node.remove(name, false, None).is_err() {
            return false;
        }
        parent.removed(name);
        drop(changing);
        self.recycle_bin().count_gone(bytes, true);
        told.push(removed(parent, name, ChangeFilter::FILE_NAME));
        true
    }

    /// Removes a directory of a user's folder if nothing is in it and no client has it open.
    fn remove_if_empty(&self, folder: NodeId, directory: &Arc<Directory>, told: &mut Vec<NameReport>) {
        let Some((parent, name)) = directory.parent_and_name() else { return };
        let changing = parent.change(&[&name]);
        let is_in_use = self.open_files().get(directory.id).is_some_and(|file| file.has_members());
        let may_go = !is_in_use && parent.holds(&name, directory.id) && self.is_below(folder, directory);
        if !may_go || parent.node.remove(&name, true, None).is_err() {
            return;
        }
        parent.removed(&name);
        drop(changing);
        self.directories().forget(directory.id);
        told.push(removed(&parent, &name, ChangeFilter::DIR_NAME));
    }
}

fn removed(parent: &Arc<Directory>, name: &Name, what: ChangeFilter) -> NameReport {
    NameReport { directory: Arc::clone(parent), name: name.clone(), kind: ChangeKind::Removed, what }
}

/// Whether the time of a file is over. A change time in the future says nothing.
fn is_over(rules: &RecycleRules, stat: &Stat, now: Now) -> bool {
    let Some(keep_for) = rules.keep_for else { return false };
    let age = now.wall_ns.div_euclid(1_000_000_000) - stat.changed.secs;
    u64::try_from(age).is_ok_and(|age| age >= keep_for.as_secs())
}
