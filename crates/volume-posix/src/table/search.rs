//! Finding a node of the table again: on the way that its record says, in the directory that it was last seen in, and
//! in the whole volume.
//!
//! The whole volume is searched in steps of [`STEP`] names, so that nobody is kept waiting for long: who asks is told to
//! ask again, and each time it goes on a step. One search is for all that are wanted. A node is gone when a search that
//! began after it was wanted has ended without it. When directories were moved or removed meanwhile it is done again. What
//! the host moves unseen from where the search will come to where it has been is missed: that looks like a removal.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use volume::{Failure, NodeKind, Name, Result, Time};

use super::{Key, MAX_DEPTH, Table};
use crate::open::open_below;
use crate::scan::scan;
use crate::stat::{stat_below, stat_fd};

/// Names that are looked at in one step.
const STEP: usize = 1 << 14;
/// Directories that are noted in one directory before they are searched.
const AHEAD: usize = 1 << 12;
/// Most nodes that are searched for at once.
const MAX_WANTED: usize = 1 << 12;
/// Most searches in a row that are done again because directories have moved.
const MAX_REPEATS: u32 = 8;

/// The search of the whole volume.
#[derive(Debug, Default)]
pub(super) struct Search {
    /// Counts searches; the one under way, if there is one.
    number: u64,
    /// What is searched for, by inode number.
    wanted: HashMap<u64, Wanted>,
    /// The directories from the root to where the search stands; empty when there is none.
    way: Vec<Level>,
    /// Whether a directory was not where it had been.
    is_disturbed: bool,
    repeats: u32,
}

/// A node that is searched for.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    born: Time,
    /// The number of the first search that began afterwards.
    first: u64,
}

/// A directory that is being searched.
#[derive(Debug)]
struct Level {
    /// Its name; the root has none.
    name: Option<Name>,
    key: Key,
    /// How far it has been read.
    cookie: u64,
    is_read: bool,
    /// Directories in it that were read and not searched yet.
    below: Vec<Name>,
}

/// How an attempt ended.
enum Found {
    There,
    /// The name leads elsewhere now.
    Missing,
}

/// Opens the node where its record says, or where its directory has it now; none when it is at neither place.
pub(super) fn at_its_place<T>(
    table: &Table,
    key: Key,
    open: &dyn Fn(BorrowedFd<'_>, &Name) -> Result<T>,
) -> Result<Option<T>> {
    if key.inode == table.root_id.inode {
        return Ok(None);
    }
    // From the node to the root.
    let mut way = Vec::new();
    let mut at = key;
    while at.inode != table.root_id.inode {
        let Some(place) = table.place(at.inode)?.filter(|place| place.born == at.born) else {
            return Ok(None);
        };
        let Some(above) = key_of(table, place.parent) else { return Ok(None) };
        way.push((at, place.name, above));
        at = above;
        if way.len() > MAX_DEPTH {
            return Ok(None);
        }
    }
    let mut directory: Option<OwnedFd> = None;
    while let Some((own, name, above)) = way.pop() {
        let here = directory.as_ref().map_or(table.root(), AsFd::as_fd);
        let mut name = name;
        if let Found::Missing = look(here, &name, own)? {
            let Some(other) = renamed(here, own)? else { return Ok(None) };
            table.put(own, above.inode, &other);
            name = other;
        }
        if way.is_empty() {
            return missing_is_none(open(here, &name));
        }
        let Some(next) = missing_is_none(open_directory(here, &name))? else { return Ok(None) };
        directory = Some(next);
    }
    Ok(None)
}

/// What the table knows a directory by; the root needs no record.
fn key_of(table: &Table, inode: u64) -> Option<Key> {
    if inode == table.root_id.inode {
        return Some(Key { inode, born: Time::default() });
    }
    table.records.read().index.get(&inode).map(|entry| Key { inode, born: entry.born })
}

fn open_directory(above: BorrowedFd<'_>, name: &Name) -> Result<OwnedFd> {
    open_below(above, name.as_bytes(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
}

/// Whether a name leads to a node.
fn look(directory: BorrowedFd<'_>, name: &Name, key: Key) -> Result<Found> {
    let seen = missing_is_none(stat_below(directory, name.as_bytes()))?;
    Ok(if seen.is_some_and(|stat| Key::of(&stat) == key) { Found::There } else { Found::Missing })
}

/// The name under which a directory has a node that was known by another name.
fn renamed(directory: BorrowedFd<'_>, key: Key) -> Result<Option<Name>> {
    let mut names = Vec::new();
    let read = scan(directory, 0, &mut |entry| {
        if entry.inode == key.inode {
            names.push(entry.name);
        }
        ControlFlow::Continue(())
    });
    match read {
        // It may be passed through and not be read.
        Ok(()) | Err(Failure::Denied) => {}
        Err(why) => return Err(why),
    }
    for name in names {
        if let Found::There = look(directory, &name, key)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// A name that leads nowhere, or to something else than it did.
fn missing_is_none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::NotFound | Failure::NotADirectory | Failure::IsALink | Failure::Stale) => Ok(None),
        Err(why) => Err(why),
    }
}

impl Table {
    /// Has a node searched for; false when that must wait for others.
    pub(super) fn want(&self, key: Key) -> bool {
        let mut search = self.search.lock();
        let first = search.number + 1;
        if search.wanted.len() >= MAX_WANTED && !search.wanted.contains_key(&key.inode) {
            return false;
        }
        search.wanted.entry(key.inode).or_insert(Wanted { born: key.born, first }).born == key.born
    }

    /// A directory has been moved by a client.
    pub(crate) fn moved_directory(&self) {
        self.search.lock().is_disturbed = true;
    }

    /// Searches for a node, one step at a time.
    ///
    /// # Errors
    /// [`Failure::Busy`] when it was not found yet, [`Failure::Stale`] when it is nowhere; as the host says.
    pub(super) fn search_for(&self, key: Key) -> Result<()> {
        if !self.want(key) {
            return Err(Failure::Busy);
        }
        self.search_on()?;
        if self.records.read().gone.contains(&key) {
            return Err(Failure::Stale);
        }
        if self.search.lock().wanted.contains_key(&key.inode) { Err(Failure::Busy) } else { Ok(()) }
    }

    /// Goes on with the search by one step, if there is anything to search for.
    ///
    /// # Errors
    /// As the host says, when a directory cannot be read that should be.
    pub(super) fn search_on(&self) -> Result<()> {
        let mut search = self.search.lock();
        let mut left = STEP;
        while left > 0 && !search.wanted.is_empty() {
            if search.way.is_empty() {
                search.begin(self);
            }
            search.step(self, &mut left)?;
            if search.way.is_empty() {
                search.end(self);
            }
        }
        if search.wanted.is_empty() {
            search.way.clear();
        }
        Ok(())
    }
}

impl Search {
    fn begin(&mut self, table: &Table) {
        self.number += 1;
        self.is_disturbed = false;
        self.way.push(Level::new(None, Key { inode: table.root_id.inode, born: Time::default() }));
    }

    /// Everything has been looked at.
    fn end(&mut self, table: &Table) {
        if self.is_disturbed && self.repeats < MAX_REPEATS {
            self.repeats += 1;
            return;
        }
        self.repeats = 0;
        let number = self.number;
        for (inode, wanted) in self.wanted.extract_if(|_, wanted| wanted.first <= number) {
            table.gone(Key { inode, born: wanted.born });
        }
    }

    /// Reads on in the directory that the search stands in, or goes into the next one.
    fn step(&mut self, table: &Table, left: &mut usize) -> Result<()> {
        // Also for an empty directory.
        *left -= 1;
        let Some(directory) = self.open(table.root())? else {
            self.is_disturbed = true;
            self.way.pop();
            return Ok(());
        };
        let here = directory.as_ref().map_or(table.root(), AsFd::as_fd);
        let deep = self.way.len() > MAX_DEPTH;
        let Some(level) = self.way.last_mut() else { return Ok(()) };
        if let Some(name) = level.below.last().cloned() {
            let below = open_directory(here, &name).and_then(|below| Ok((stat_fd(&below)?, below)));
            let stat = reachable(below)?.map(|(stat, _)| stat);
            level.below.pop();
            match stat {
                // Nothing of another file system has an address.
                Some(stat) if stat.id.device == table.root_id.device && !deep => {
                    self.way.push(Level::new(Some(name), Key::of(&stat)));
                }
                Some(_) => {}
                None => self.is_disturbed = true,
            }
            return Ok(());
        }
        if level.is_read {
            self.way.pop();
            return Ok(());
        }
        let Some(found) = reachable(level.read(here, left, |inode| self.wanted.contains_key(&inode)))? else {
            self.way.pop();
            return Ok(());
        };
        for name in found {
            let Some(stat) = missing_is_none(stat_below(here, name.as_bytes()))? else { continue };
            let key = Key::of(&stat);
            let is_wanted = self.wanted.get(&key.inode).is_some_and(|wanted| wanted.born == key.born);
            if is_wanted && stat.id.device == table.root_id.device {
                self.note(table, key, &name);
                self.wanted.remove(&key.inode);
            }
        }
        Ok(())
    }

    /// Notes a node that was found, and the way to it.
    fn note(&self, table: &Table, key: Key, name: &Name) {
        for pair in self.way.windows(2) {
            if let [above, Level { key, name: Some(name), .. }] = pair {
                table.put(*key, above.key.inode, name);
            }
        }
        if let Some(level) = self.way.last() {
            table.put(key, level.key.inode, name);
        }
    }

    /// The directory that the search stands in: none on the inside for the root, and on the outside when the way to it
    /// has changed.
    fn open(&self, root: BorrowedFd<'_>) -> Result<Option<Option<OwnedFd>>> {
        let mut directory: Option<OwnedFd> = None;
        for level in &self.way {
            let Some(name) = &level.name else { continue };
            let here = directory.as_ref().map_or(root, AsFd::as_fd);
            let Some(next) = reachable(open_directory(here, name))? else { return Ok(None) };
            if Key::of(&stat_fd(&next)?) != level.key {
                return Ok(None);
            }
            directory = Some(next);
        }
        Ok(Some(directory))
    }
}

/// As [`missing_is_none`], also for what this process may not read: clients cannot pass through it either.
fn reachable<T>(result: Result<T>) -> Result<Option<T>> {
    if let Err(Failure::Denied) = result { Ok(None) } else { missing_is_none(result) }
}

impl Level {
    fn new(name: Option<Name>, key: Key) -> Level {
        Level { name, key, cookie: 0, is_read: false, below: Vec::new() }
    }

    /// Reads on: notes the directories and gives the names that may lead to what is wanted.
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
            // Where the host does not tell what it is, opening it as a directory does.
            if matches!(entry.kind, Some(NodeKind::Directory) | None) {
                below.push(entry.name);
            }
            ControlFlow::Continue(())
        })?;
        (self.cookie, self.below, self.is_read) = (cookie, below, is_read);
        Ok(found)
    }
}
