//! Finding a node of the table again: at the place in its record, in the directory that it was last seen
//! in, and in the whole volume.
//!
//! The whole volume is searched in steps of [`STEP`] names, so that no caller waits for long. A caller is
//! told to ask again, and each call continues the search by one step. One search covers all nodes that
//! are wanted. A node is gone when a search that began after it was wanted has ended without it. If
//! directories were moved or removed meanwhile, the search is repeated. The search misses a node that the
//! host moves unseen from a part that is not yet searched to one that is. That looks like a removal.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use volume::{Failure, Name, NodeKind, Result, Time};

use super::{MAX_DEPTH, NodeKey, NodeTable};
use crate::open::open_below;
use crate::scan::scan;
use crate::stat::{stat_below, stat_fd};

/// Names that are checked in one step.
const STEP: usize = 1 << 14;
/// Directories that are noted in one directory before they are searched.
const AHEAD: usize = 1 << 12;
/// The most nodes that are searched for at once.
const MAX_WANTED: usize = 1 << 12;
/// The most searches in a row that are repeated because directories have moved.
const MAX_REPEATS: u32 = 8;

/// The search of the whole volume.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// The number of the search that is under way, or of the last one.
    number: u64,
    /// The nodes that are searched for, by inode number.
    wanted: HashMap<u64, SearchTarget>,
    /// The directories from the root to the position of the search. Empty when no search is under way.
    path: Vec<SearchLevel>,
    /// Whether a directory was not at its earlier place.
    is_disturbed: bool,
    repeats: u32,
}

/// A node that is searched for.
#[derive(Debug, Clone, Copy)]
struct SearchTarget {
    born: Time,
    /// The number of the first search that began afterwards.
    first: u64,
}

/// A directory that is being searched.
#[derive(Debug)]
struct SearchLevel {
    /// Its name. The root has none.
    name: Option<Name>,
    key: NodeKey,
    /// The cookie up to which it was read.
    cookie: u64,
    is_read: bool,
    /// Directories in it that were read and are not searched yet.
    below: Vec<Name>,
}

/// The result of a comparison of a name with a node.
enum NodeMatch {
    There,
    /// The name leads to another node or to none.
    Missing,
}

/// Opens the node at the place in its record, or at its present name in the same directory. `None` when
/// it is at neither.
pub(super) fn at_its_place<T>(
    table: &NodeTable,
    key: NodeKey,
    open: &dyn Fn(BorrowedFd<'_>, &Name) -> Result<T>,
) -> Result<Option<T>> {
    if key.inode == table.root_id.inode {
        return Ok(None);
    }
    // The path from the node to the root.
    let mut path = Vec::new();
    let mut at = key;
    while at.inode != table.root_id.inode {
        let Some(location) = table.location(at.inode)?.filter(|location| location.born == at.born) else {
            return Ok(None);
        };
        let Some(above) = key_of(table, location.parent) else { return Ok(None) };
        path.push((at, location.name, above));
        at = above;
        if path.len() > MAX_DEPTH {
            return Ok(None);
        }
    }
    let mut directory: Option<OwnedFd> = None;
    while let Some((own, name, above)) = path.pop() {
        let here = directory.as_ref().map_or(table.root(), AsFd::as_fd);
        let mut name = name;
        if let NodeMatch::Missing = look(here, &name, own)? {
            let Some(other) = renamed(here, own)? else { return Ok(None) };
            table.put(own, above.inode, &other);
            name = other;
        }
        if path.is_empty() {
            return missing_is_none(open(here, &name));
        }
        let Some(next) = missing_is_none(open_directory(here, &name))? else { return Ok(None) };
        directory = Some(next);
    }
    Ok(None)
}

/// The key of a directory in the table. The root needs no record.
fn key_of(table: &NodeTable, inode: u64) -> Option<NodeKey> {
    if inode == table.root_id.inode {
        return Some(NodeKey { inode, born: Time::default() });
    }
    table.records.read().index.get(&inode).map(|entry| NodeKey { inode, born: entry.born })
}

fn open_directory(above: BorrowedFd<'_>, name: &Name) -> Result<OwnedFd> {
    open_below(above, name.as_bytes(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
}

/// Compares the node of a name with the wanted one.
fn look(directory: BorrowedFd<'_>, name: &Name, key: NodeKey) -> Result<NodeMatch> {
    let seen = missing_is_none(stat_below(directory, name.as_bytes()))?;
    Ok(if seen.is_some_and(|stat| NodeKey::of(&stat) == key) { NodeMatch::There } else { NodeMatch::Missing })
}

/// The new name of a node in the directory that it was known in.
fn renamed(directory: BorrowedFd<'_>, key: NodeKey) -> Result<Option<Name>> {
    let mut names = Vec::new();
    let read = scan(directory, 0, &mut |entry| {
        if entry.inode == key.inode {
            names.push(entry.name);
        }
        ControlFlow::Continue(())
    });
    match read {
        // The directory may permit traversal and not reading.
        Ok(()) | Err(Failure::Denied) => {}
        Err(why) => return Err(why),
    }
    for name in names {
        if let NodeMatch::There = look(directory, &name, key)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Treats a name that leads nowhere, or to another kind of node, as absent.
fn missing_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::NotFound | Failure::NotADirectory | Failure::IsALink | Failure::Stale) => Ok(None),
        Err(why) => Err(why),
    }
}

impl NodeTable {
    /// Adds a node to the search. False when the search has too many.
    pub(super) fn want(&self, key: NodeKey) -> bool {
        let mut search = self.search.lock();
        let first = search.number + 1;
        if search.wanted.len() >= MAX_WANTED && !search.wanted.contains_key(&key.inode) {
            return false;
        }
        search.wanted.entry(key.inode).or_insert(SearchTarget { born: key.born, first }).born == key.born
    }

    /// Records that a client has moved a directory.
    pub(crate) fn moved_directory(&self) {
        self.search.lock().is_disturbed = true;
    }

    /// Searches for a node, by one step.
    ///
    /// # Errors
    /// [`Failure::Busy`] when it was not found yet, [`Failure::Stale`] when it is nowhere; errors of the
    /// host.
    pub(super) fn search_for(&self, key: NodeKey) -> Result<()> {
        if !self.want(key) {
            return Err(Failure::Busy);
        }
        self.search_on()?;
        if self.records.read().gone.contains(&key) {
            return Err(Failure::Stale);
        }
        if self.search.lock().wanted.contains_key(&key.inode) { Err(Failure::Busy) } else { Ok(()) }
    }

    /// Continues the search by one step, if any node is wanted.
    ///
    /// # Errors
    /// Those of the host, when a directory cannot be read that should be readable.
    pub(super) fn search_on(&self) -> Result<()> {
        let mut search = self.search.lock();
        let mut left = STEP;
        while left > 0 && !search.wanted.is_empty() {
            if search.path.is_empty() {
                search.begin(self);
            }
            search.step(self, &mut left)?;
            if search.path.is_empty() {
                search.end(self);
            }
        }
        if search.wanted.is_empty() {
            search.path.clear();
        }
        Ok(())
    }
}

impl Search {
    fn begin(&mut self, table: &NodeTable) {
        self.number += 1;
        self.is_disturbed = false;
        self.path.push(SearchLevel::new(None, NodeKey { inode: table.root_id.inode, born: Time::default() }));
    }

    /// Ends a search that has visited everything.
    fn end(&mut self, table: &NodeTable) {
        if self.is_disturbed && self.repeats < MAX_REPEATS {
            self.repeats += 1;
            return;
        }
        self.repeats = 0;
        let number = self.number;
        for (inode, wanted) in self.wanted.extract_if(|_, wanted| wanted.first <= number) {
            table.gone(NodeKey { inode, born: wanted.born });
        }
    }

    /// Reads on in the current directory, or enters the next one.
    fn step(&mut self, table: &NodeTable, left: &mut usize) -> Result<()> {
        // An empty directory takes a step too.
        *left -= 1;
        let Some(directory) = self.open(table.root())? else {
            self.is_disturbed = true;
            self.path.pop();
            return Ok(());
        };
        let here = directory.as_ref().map_or(table.root(), AsFd::as_fd);
        let deep = self.path.len() > MAX_DEPTH;
        let Some(level) = self.path.last_mut() else { return Ok(()) };
        if let Some(name) = level.below.last().cloned() {
            let below = open_directory(here, &name).and_then(|below| Ok((stat_fd(&below)?, below)));
            let stat = reachable(below)?.map(|(stat, _)| stat);
            level.below.pop();
            match stat {
                // Nodes of other file systems have no address in the table.
                Some(stat) if stat.id.device == table.root_id.device && !deep => {
                    self.path.push(SearchLevel::new(Some(name), NodeKey::of(&stat)));
                }
                Some(_) => {}
                None => self.is_disturbed = true,
            }
            return Ok(());
        }
        if level.is_read {
            self.path.pop();
            return Ok(());
        }
        let Some(found) = reachable(level.read(here, left, |inode| self.wanted.contains_key(&inode)))? else {
            self.path.pop();
            return Ok(());
        };
        for name in found {
            let Some(stat) = missing_is_none(stat_below(here, name.as_bytes()))? else { continue };
            let key = NodeKey::of(&stat);
            let is_wanted = self.wanted.get(&key.inode).is_some_and(|wanted| wanted.born == key.born);
            if is_wanted && stat.id.device == table.root_id.device {
                self.note(table, key, &name);
                self.wanted.remove(&key.inode);
            }
        }
        Ok(())
    }

    /// Records the directory and name of a found node, and those of the directories above it.
    fn note(&self, table: &NodeTable, key: NodeKey, name: &Name) {
        for pair in self.path.windows(2) {
            if let [above, SearchLevel { key, name: Some(name), .. }] = pair {
                table.put(*key, above.key.inode, name);
            }
        }
        if let Some(level) = self.path.last() {
            table.put(key, level.key.inode, name);
        }
    }

    /// The directory at the position of the search. The inner `None` means the root, the outer one that
    /// the path to it has changed.
    fn open(&self, root: BorrowedFd<'_>) -> Result<Option<Option<OwnedFd>>> {
        let mut directory: Option<OwnedFd> = None;
        for level in &self.path {
            let Some(name) = &level.name else { continue };
            let here = directory.as_ref().map_or(root, AsFd::as_fd);
            let Some(next) = reachable(open_directory(here, name))? else { return Ok(None) };
            if NodeKey::of(&stat_fd(&next)?) != level.key {
                return Ok(None);
            }
            directory = Some(next);
        }
        Ok(Some(directory))
    }
}

/// As [`missing_is_none`], and for directories that this process may not read: clients cannot pass
/// through them either.
fn reachable<T>(result: Result<T>) -> Result<Option<T>> {
    if let Err(Failure::Denied) = result { Ok(None) } else { missing_is_none(result) }
}

impl SearchLevel {
    fn new(name: Option<Name>, key: NodeKey) -> SearchLevel {
        SearchLevel { name, key, cookie: 0, is_read: false, below: Vec::new() }
    }

    /// Reads on: collects the directories, and returns the names that may lead to wanted nodes.
    fn read(
        &mut self,
        here: BorrowedFd<'_>,
        left: &mut usize,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<Vec<Name>> {
        let mut found = Vec::new();
        let (mut cookie, mut below) = (self.cookie, Vec::new());
        let mut is_read = true;
        scan(here, self.cookie, &mut |entry| {
            if *left == 0 || below.len() >= AHEAD {
                is_read = false;
                return ControlFlow::Break(());
            }
            *left -= 1;
            cookie = entry.cookie;
            if is_wanted(entry.inode) {
                found.push(entry.name.clone());
            }
            // If the host does not report the kind, the attempt to open it as a directory shows it.
            if matches!(entry.kind, Some(NodeKind::Directory) | None) {
                below.push(entry.name);
            }
            ControlFlow::Continue(())
        })?;
        (self.cookie, self.below, self.is_read) = (cookie, below, is_read);
        Ok(found)
    }
}
