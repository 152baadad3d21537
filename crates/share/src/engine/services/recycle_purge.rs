//! Removes files from the recycle folder for good: when their time is over, when there are more than the
//! rules allow, and when space runs out.
//!
//! A search goes through the folder in bounded steps ([`Share::search_recycled`]). It removes the files whose
//! time is over and remembers the oldest of the others. Those go first when room is needed
//! ([`Share::purge_for_room`]). The time of a removal is the change time of the file, which a rename moves. A
//! file that a client has open stays.
//!
//! A client may take a whole directory back with one rename while the search still knows a path in it. So
//! each path is walked again from the recycle folder before anything is removed, while no client can move a
//! directory ([`RecycleBin::hold_moves`](crate::engine::parts::recycle_bin::RecycleBin::hold_moves)).

use std::ops::ControlFlow;
use std::sync::Arc;

use volume::{DirEntry, Name, Node, NodeKind, OpenHow, Stat};
use wire::Now;

use crate::engine::Share;
use crate::engine::parts::names::directory::Directory;
use crate::engine::parts::recycle_bin::{FolderSearch, NameReport, RecycledFile, SearchedDirectory};
use crate::engine::services::recycle_folders::{is_in_the_making, is_left_behind};
use crate::engine::values::recycle::RecycleRules;
use crate::{ChangeFilter, ChangeKind};

/// The depth below the recycle folder of the directories in the folder of a user. An empty one is removed.
const IN_FOLDER_OF_USER: usize = 2;
/// The most entries that a request looks at to find files whose room it can have.
const MOST_LOOKED_AT: usize = 65_536;
/// The room that a host may keep to itself for a request, in bytes: for indirect blocks and for its journal.
const MARGIN: u64 = 1 << 20;

/// The rules of one search.
#[derive(Clone, Copy)]
struct SearchRules<'a> {
    rules: &'a RecycleRules,
    /// The recycle folder.
    folder: &'a Arc<Directory>,
    now: Now,
}

impl Share {
    /// Goes on with the search through the recycle folder, for at most `most` entries, and removes the files
    /// for good that are to go. The caller has the turn, and reports the changes in `told`.
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
        if let Some(folder) = &folder {
            let by = SearchRules { rules, folder, now };
            if search.left.is_empty() {
                self.remove_left_behind(self.root(), now);
                search.left.push(SearchedDirectory { path: Arc::from([]), cookie: 0 });
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

    /// Makes room for a request that needs `needed` bytes of storage and has found too few, at its attempt
    /// number `attempt` from 0. The oldest recycled files go for good, as few as are needed. If all that are
    /// known are too few, none goes. Returns whether the request has a chance now.
    #[cold]
    pub(crate) fn purge_for_room(
        &self,
        needed: u64,
        attempt: usize,
        now: Now,
        told: &mut Vec<NameReport>,
    ) -> bool {
        let Some(rules) = self.config().recycle.clone() else { return false };
        let _turn = self.recycle_bin().turn();
        let short = match self.missing_room(needed, attempt) {
            // Another request has made room.
            Some(0) => return true,
            Some(short) => short,
            None => return false,
        };
        if !self.recycle_bin().can_give(short) {
            self.recycle_bin().need_room(now.mono_ns);
            self.search_recycled(&rules, now, MOST_LOOKED_AT, told);
        }
        if !self.recycle_bin().can_give(short) {
            // The search itself may have removed files.
            return self.missing_room(needed, 0) == Some(0);
        }
        let Ok(folder) = self.find_recycle_folder(&rules) else { return false };
        let mut freed = 0;
        while freed < short
            && let Some(oldest) = self.recycle_bin().take_oldest()
        {
            if self.purge(&folder, &oldest, told) {
                freed += oldest.bytes.max(1);
            }
        }
        freed > 0
    }

    /// The bytes that must become free for a request. None: there is room, and more would not help.
    fn missing_room(&self, needed: u64, attempt: usize) -> Option<u64> {
        let space = self.volume().space().ok()?;
        let short = needed.saturating_sub(space.available);
        let has_no_files = space.files > 0 && space.files_free == 0;
        if short > 0 {
            Some(short)
        } else if has_no_files {
            Some(1)
        } else if attempt == 0 {
            Some(0)
        } else {
            (space.available < needed.saturating_add(MARGIN)).then_some(1)
        }
    }

    /// Removes the oldest known files for good as long as more is kept than the rules allow.
    fn purge_oldest(&self, rules: &RecycleRules, told: &mut Vec<NameReport>) {
        let Ok(folder) = self.find_recycle_folder(rules) else { return };
        while self.recycle_bin().note_over(rules.most_bytes)
            && let Some(oldest) = self.recycle_bin().take_oldest()
        {
            self.purge(&folder, &oldest, told);
        }
    }

    /// Looks at the entries of one directory, at most `most`. Returns how many they were.
    fn search_in(
        &self,
        by: SearchRules<'_>,
        search: &mut FolderSearch,
        at: SearchedDirectory,
        most: usize,
        told: &mut Vec<NameReport>,
    ) -> usize {
        let SearchedDirectory { path, cookie } = at;
        let Some(node) = node_at(by.folder, &path) else { return 0 };
        let mut entries: Vec<DirEntry> = Vec::new();
        let listed = node.entries(cookie, &mut |entry| {
            entries.push(entry);
            if entries.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        let is_whole = entries.len() < most || listed.is_err();
        match entries.last() {
            Some(last) if !is_whole => {
                search.left.push(SearchedDirectory { path: Arc::clone(&path), cookie: last.cookie });
            }
            _ if path.len() >= IN_FOLDER_OF_USER => self.remove_if_empty(by.folder, &path, told),
            _ => {}
        }
        for entry in &entries {
            let Ok(stat) = node.stat_name(&entry.name) else { continue };
            if stat.kind == NodeKind::Directory {
                self.reach(by, search, &path, &entry.name, &stat);
                continue;
            }
            let file = RecycledFile {
                changed: stat.changed,
                bytes: stat.allocated,
                id: stat.id,
                directory: Arc::clone(&path),
                name: entry.name.clone(),
            };
            if !is_over(by.rules, &stat, by.now) || !self.purge(by.folder, &file, told) {
                search.add(file);
            }
        }
        entries.len()
    }

    /// Adds a directory to those that remain. One that a server has not completed is removed instead.
    fn reach(&self, by: SearchRules<'_>, search: &mut FolderSearch, path: &[Name], name: &Name, stat: &Stat) {
        if is_in_the_making(name.as_bytes()) && is_left_behind(stat, by.now) {
            if let Some(parent) = self.directory_at(by.folder, path) {
                self.remove_left_behind(&parent, by.now);
            }
        } else if stat.id.device == by.folder.id.device {
            let path = path.iter().chain([name]).cloned().collect();
            search.left.push(SearchedDirectory { path, cookie: 0 });
        }
    }

    /// The directory to which this path leads from the recycle folder.
    fn directory_at(&self, folder: &Arc<Directory>, path: &[Name]) -> Option<Arc<Directory>> {
        let mut at = Arc::clone(folder);
        for name in path {
            at = self.existing_folder(&at, name).ok()?.filter(|found| found.id.device == folder.id.device)?;
        }
        Some(at)
    }

    /// Removes a file of the recycle folder for good, unless it is open, has changed since it was found, or
    /// is no longer where it was found.
    fn purge(&self, folder: &Arc<Directory>, file: &RecycledFile, told: &mut Vec<NameReport>) -> bool {
        let no_moves = self.recycle_bin().hold_moves();
        let Some(parent) = self.directory_at(folder, &file.directory) else { return false };
        let name = &file.name;
        let changing = parent.change(&[name]);
        let is_in_use = self.persistence().unrestored().has_file(file.id.inode)
            || self.open_files().get(file.id).is_some_and(|open| open.has_members());
        let is_same = |stat: Stat| stat.id == file.id && stat.changed == file.changed;
        let may_go = !is_in_use && parent.node.stat_name(name).is_ok_and(is_same);
        if !may_go || parent.node.remove(name, false, None).is_err() {
            // It may be removed once more, and is a younger one then.
            self.recycle_bin().note_new();
            return false;
        }
        parent.removed(name);
        // A request may have found it, and opens it now.
        if let Some(open) = self.open_files().get(file.id) {
            open.note_removed(parent.id, name);
        }
        drop(changing);
        drop(no_moves);
        self.recycle_bin().count_gone(file.bytes, true);
        told.push(NameReport { purged: Some(file.id), ..removed(&parent, name, ChangeFilter::FILE_NAME) });
        true
    }

    /// Removes a directory of a user's folder if nothing is in it and no client has it open.
    fn remove_if_empty(&self, folder: &Arc<Directory>, path: &[Name], told: &mut Vec<NameReport>) {
        let Some((name, above)) = path.split_last() else { return };
        let no_moves = self.recycle_bin().hold_moves();
        let Some(parent) = self.directory_at(folder, above) else { return };
        let Ok(Some(directory)) = self.existing_folder(&parent, name) else { return };
        let changing = parent.change(&[name]);
        let is_in_use = self.open_files().get(directory.id).is_some_and(|file| file.has_members());
        let may_go = !is_in_use && parent.holds(name, directory.id);
        if !may_go || parent.node.remove(name, true, None).is_err() {
            return;
        }
        parent.removed(name);
        drop(changing);
        drop(no_moves);
        self.directories().forget(directory.id);
        told.push(removed(&parent, name, ChangeFilter::DIR_NAME));
    }
}

/// The directory to which this path leads from the recycle folder, known to nobody else.
fn node_at(folder: &Directory, path: &[Name]) -> Option<Arc<dyn Node>> {
    let mut at = Arc::clone(&folder.node);
    for name in path {
        let next = at.lookup(name, OpenHow::Attributes).ok()?;
        let is_here = next.kind() == NodeKind::Directory && next.id().device == folder.id.device;
        at = is_here.then_some(next)?;
    }
    Some(at)
}

fn removed(parent: &Arc<Directory>, name: &Name, what: ChangeFilter) -> NameReport {
    let (directory, name) = (Arc::clone(parent), name.clone());
    NameReport { directory, name, kind: ChangeKind::Removed, what, purged: None }
}

/// Whether the time of a file is over. A change time in the future says nothing.
fn is_over(rules: &RecycleRules, stat: &Stat, now: Now) -> bool {
    let Some(keep_for) = rules.keep_for else { return false };
    let age = now.wall_ns.div_euclid(1_000_000_000) - stat.changed.secs;
    u64::try_from(age).is_ok_and(|age| age >= keep_for.as_secs())
}
