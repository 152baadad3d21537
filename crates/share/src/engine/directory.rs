//! Directories on the way to files: kept open, with what is known of their names.
//!
//! A kept directory saves opening every component of a path again. It is trusted as long as the volume
//! tells of changes by others ([`Directory::is_told`]); where it does not, each step compares
//! identities, and an index of names counts only while the directory's times have not moved and were
//! at least [`SETTLED`] old when it was made, so that a change within the clock's grain cannot hide.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use volume::{Failure, Name, Node, NodeId, Volume};

use super::access::Security;
use super::cache::{Answer, Cache};
use super::names::{Index, Stamp, has_case, same_folded};
use crate::Refusal;

/// Most directories that are kept for their own sake; each holds a descriptor of the host.
const MAX_KEPT: usize = 2048;

/// Most names in all indexes together, at about 100 bytes each; the index of one directory is kept whatever its size.
const MAX_NAMES: usize = 1 << 20;

/// How long a change of names may hold up who looks whether a name is really gone.
const CHANGE_TAKES: Duration = Duration::from_millis(20);

/// How often it is waited for that others have changed a name, before it is looked up past everything remembered.
const MAX_CHANGES: usize = 8;

/// Age in seconds from which a directory's times tell it from what it was before.
const SETTLED: i64 = 2;

/// A directory.
pub(crate) struct Directory {
    pub id: NodeId,
    pub node: Arc<dyn Node>,
    /// Where it is; none for the root.
    place: Mutex<Option<(Arc<Directory>, Name)>>,
    /// Held while names in it are made, removed or moved ([`Directory::change`]).
    changing: Mutex<()>,
    /// How many names are being changed.
    under_way: AtomicUsize,
    contents: Mutex<Contents>,
    /// Moves with each change of names: what was looked up before such a change is not remembered after it.
    generation: AtomicU64,
    /// By which what its names lead to is remembered; another one when none of that can be trusted.
    serial: AtomicU64,
    cache: Arc<Cache>,
    security: Mutex<Option<Arc<Security>>>,
    address: OnceLock<Vec<u8>>,
    used: AtomicU64,
    /// The volume that tells of changes by others in it.
    told_by: Option<Arc<dyn Volume>>,
}

/// Some names of a directory are being changed: one such change at a time, and who looks for one of them waits.
pub(crate) struct Changing<'a> {
    directory: &'a Directory,
    _lock: MutexGuard<'a, ()>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.directory.contents.lock().in_change.clear();
        self.directory.under_way.store(0, Ordering::Release);
    }
}

#[derive(Default)]
struct Contents {
    /// Names that are being changed.
    in_change: Vec<Name>,
    children: HashMap<Name, Child>,
    /// Whether some child is known under another name than its own.
    has_variants: bool,
    index: Option<Index>,
}

struct Child {
    real: Name,
    directory: Weak<Directory>,
}

/// What is known of a name without asking the volume.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing.
    Nothing,
    /// These are the real names, the best first; none: it does not exist.
    Names(Vec<Name>),
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(volume) = &self.told_by {
            volume.unwatch(self.id);
        }
    }
}

impl Directory {
    pub fn root(volume: &Arc<dyn Volume>, node: Arc<dyn Node>, cache: &Arc<Cache>) -> Arc<Directory> {
        Directory::new(volume, node, None, cache)
    }

    fn new(
        volume: &Arc<dyn Volume>,
        node: Arc<dyn Node>,
        place: Option<(Arc<Directory>, Name)>,
        cache: &Arc<Cache>,
    ) -> Arc<Directory> {
        let tells = volume.facts().tells_changes && volume.watch(node.as_ref()).is_ok();
        Arc::new(Directory {
            id: node.id(),
            node,
            place: Mutex::new(place),
            changing: Mutex::default(),
            under_way: AtomicUsize::new(0),
            contents: Mutex::default(),
            generation: AtomicU64::new(0),
            serial: AtomicU64::new(cache.next_serial()),
            cache: Arc::clone(cache),
            security: Mutex::default(),
            address: OnceLock::new(),
            used: AtomicU64::new(0),
            told_by: tells.then(|| Arc::clone(volume)),
        })
    }

    /// Whether changes by others are told.
    pub fn is_told(&self) -> bool {
        self.told_by.is_some()
    }

    /// The node's address, which stays the same as long as the node is.
    ///
    /// # Errors
    /// As the volume says.
    pub fn address(&self) -> Result<Vec<u8>, Refusal> {
        if let Some(known) = self.address.get() {
            return Ok(known.clone());
        }
        let address = self.node.address()?;
        Ok(self.address.get_or_init(|| address).clone())
    }

    /// Begins to change these names, when no other change is under way.
    pub fn change(&self, names: &[&Name]) -> Changing<'_> {
        let lock = self.changing.lock();
        self.contents.lock().in_change.extend(names.iter().map(|name| (*name).clone()));
        self.under_way.store(names.len(), Ordering::Release);
        Changing { directory: self, _lock: lock }
    }

    /// Waits until nobody is changing a name, in any spelling; false when it is changed again and again. Nothing of this
    /// directory may be locked by the caller.
    pub fn settle(&self, name: &Name) -> bool {
        for _ in 0..MAX_CHANGES {
            if self.under_way.load(Ordering::Acquire) == 0 {
                return true;
            }
            let is_it = |one: &Name| same_folded(one.as_bytes(), name.as_bytes());
            if !self.contents.lock().in_change.iter().any(is_it) {
                return true;
            }
            drop(self.changing.lock());
        }
        false
    }

    /// To be taken before the volume is asked for a name, and given to [`Directory::remember`] with what it said.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What is remembered of an exact name.
    pub fn answer(&self, name: &Name) -> Option<Answer> {
        self.cache.answer(self.serial.load(Ordering::Acquire), name)
    }

    /// Remembers what a name leads to, unless names have changed since `generation`.
    pub fn remember(&self, name: &Name, generation: u64, answer: Answer) {
        if self.is_told() {
            let serial = self.serial.load(Ordering::Acquire);
            self.cache.keep(serial, name, answer, || self.generation() == generation);
        }
    }

    /// Forgets what a name leads to; that it stands there is still known.
    pub fn forget_name(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        self.contents.lock().forget(name);
    }

    /// Somebody says or has seen that a name is gone. It may have been made again since, so the volume is asked before the
    /// index leaves it out.
    pub fn seen_gone(&self, name: &Name) {
        self.forget_name(name);
        if self.contents.lock().index.is_none() {
            return;
        }
        let Some(_changing) = self.changing.try_lock_for(CHANGE_TAKES) else {
            return self.forget_names();
        };
        match self.node.stat_name(name) {
            Err(Failure::NotFound) => self.removed(name),
            _ => self.added(name),
        }
    }

    pub fn place(&self) -> Option<(Arc<Directory>, Name)> {
        self.place.lock().clone()
    }

    pub fn set_place(&self, parent: Arc<Directory>, name: Name) {
        *self.place.lock() = Some((parent, name));
    }

    /// The directories above it, nearest first, each with the name that leads down from it.
    pub fn ancestors(self: &Arc<Self>) -> Vec<(Arc<Directory>, Name)> {
        let mut out = Vec::new();
        let mut at = self.place();
        while let Some((parent, name)) = at {
            at = parent.place();
            out.push((parent, name));
            if out.len() > 4096 {
                break;
            }
        }
        out
    }

    /// Its path from the root of the share.
    pub fn path(self: &Arc<Self>) -> Vec<Name> {
        self.ancestors().into_iter().rev().map(|(_, name)| name).collect()
    }

    /// Whether it is `other` or below it.
    pub fn is_within(self: &Arc<Self>, other: NodeId) -> bool {
        self.id == other || self.ancestors().iter().any(|(directory, _)| directory.id == other)
    }

    /// The subdirectory that this spelling is known to lead to.
    pub fn child(&self, name: &Name, exact: bool) -> Option<(Name, Arc<Directory>)> {
        let contents = self.contents.lock();
        let child = contents.children.get(name).filter(|c| !exact || c.real == *name)?;
        Some((child.real.clone(), child.directory.upgrade()?))
    }

    /// Remembers where a spelling leads to, unless names have changed since `generation`.
    fn remember_child(&self, asked: &Name, real: &Name, directory: &Arc<Directory>, generation: u64) {
        let mut contents = self.contents.lock();
        if self.generation() != generation {
            return;
        }
        if contents.children.len() >= MAX_KEPT {
            contents.children.retain(|_, c| c.directory.strong_count() > 0);
        }
        contents.has_variants |= asked != real;
        let child = Child { real: real.clone(), directory: Arc::downgrade(directory) };
        contents.children.insert(asked.clone(), child);
    }

    /// What the index knows of a name. Without one, nothing.
    pub(super) fn known(&self, name: &Name) -> Result<Known, Refusal> {
        let mut contents = self.contents.lock();
        let Some(index) = &contents.index else {
            return Ok(Known::Nothing);
        };
        if !self.is_told() && index.stamp != Some(self.stamp()?) {
            contents.index = None;
            return Ok(Known::Nothing);
        }
        Ok(Known::Names(index.find(name)))
    }

    fn stamp(&self) -> Result<Stamp, Refusal> {
        let stat = self.node.stat()?;
        Ok(Stamp { modified: stat.modified, changed: stat.changed })
    }

    /// A name was made.
    pub fn added(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        let mut contents = self.contents.lock();
        match &mut contents.index {
            Some(index) if self.told_by.is_some() => index.insert(name),
            index => *index = None,
        }
        contents.forget(name);
    }

    /// A name was removed.
    pub fn removed(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        let mut contents = self.contents.lock();
        match &mut contents.index {
            Some(index) if self.told_by.is_some() => index.remove(name),
            index => *index = None,
        }
        contents.forget(name);
    }

    /// Nothing that is remembered of its names can be trusted.
    pub fn forget_names(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.serial.store(self.cache.next_serial(), Ordering::Release);
        let mut contents = self.contents.lock();
        let in_change = std::mem::take(&mut contents.in_change);
        let dropped = std::mem::replace(&mut *contents, Contents { in_change, ..Contents::default() });
        drop(contents);
        drop(dropped);
    }

    /// The descriptor, as it was read last.
    pub fn known_security(&self) -> Option<Arc<Security>> {
        if self.is_told() { self.security.lock().clone() } else { None }
    }

    pub fn set_security(&self, security: Option<Arc<Security>>) {
        *self.security.lock() = security;
    }
}

impl Contents {
    /// Forgets where a real name leads to, under all its spellings.
    fn forget(&mut self, real: &Name) {
        if self.children.is_empty() {
            return;
        }
        self.children.remove(real);
        if self.has_variants {
            self.children.retain(|_, child| child.real != *real);
        }
    }
}

/// The directories that are known. There is never a second one of the same node, so that whatever changes one is seen by
/// everybody: one that is no longer kept for its own sake is still found as long as somebody holds it.
pub(super) struct Directories {
    root: Arc<Directory>,
    cache: Arc<Cache>,
    known: Mutex<Table>,
    clock: AtomicU64,
    names: AtomicUsize,
    /// Wall time in seconds, as the last request or tick said.
    wall_secs: AtomicI64,
}

struct Table {
    by_id: HashMap<NodeId, Entered>,
    /// How many of them are kept for their own sake.
    kept: usize,
    /// From how many on it is looked which of them nobody holds any more.
    tidy_at: usize,
}

struct Entered {
    directory: Weak<Directory>,
    /// The same, while it is kept for its own sake.
    kept: Option<Arc<Directory>>,
}

impl Directories {
    pub fn new(root: Arc<Directory>, cache: &Arc<Cache>) -> Directories {
        let entered = Entered { directory: Arc::downgrade(&root), kept: Some(Arc::clone(&root)) };
        let table = Table { by_id: HashMap::from([(root.id, entered)]), kept: 1, tidy_at: 2 * MAX_KEPT };
        Directories {
            root,
            cache: Arc::clone(cache),
            known: Mutex::new(table),
            clock: AtomicU64::new(1),
            names: AtomicUsize::new(0),
            wall_secs: AtomicI64::new(0),
        }
    }

    /// Takes note of the time.
    pub fn set_time(&self, now: wire::Now) {
        self.wall_secs.store(now.wall_ns.div_euclid(1_000_000_000), Ordering::Relaxed);
    }

    /// Wall time in seconds; it may lag, and never runs ahead.
    pub fn wall_secs(&self) -> i64 {
        self.wall_secs.load(Ordering::Relaxed)
    }

    /// Says that a directory was of use.
    pub fn touch(&self, directory: &Directory) {
        directory.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The directory, if it is known.
    pub fn get(&self, id: NodeId) -> Option<Arc<Directory>> {
        self.known.lock().by_id.get(&id)?.directory.upgrade()
    }

    /// The directory behind a node that was found as `real` when `asked` was looked for. That this name leads there is
    /// remembered with the generation that `parent` had before.
    pub fn enter(
        &self,
        volume: &Arc<dyn Volume>,
        parent: &Arc<Directory>,
        (asked, real): (&Name, &Name),
        node: Arc<dyn Node>,
        generation: Option<u64>,
    ) -> Arc<Directory> {
        let directory = match self.get(node.id()) {
            Some(known) => {
                if known.id != self.root.id && !parent.is_within(known.id) {
                    known.set_place(Arc::clone(parent), real.clone());
                }
                known
            }
            None => {
                let place = (Arc::clone(parent), real.clone());
                Directory::new(volume, node, Some(place), &self.cache)
            }
        };
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.touch(&directory);
        let directory = self.keep(directory);
        if let Some(generation) = generation {
            parent.remember_child(asked, real, &directory, generation);
        }
        directory
    }

    /// Keeps a directory for its own sake, or the one of the same node that is known already.
    fn keep(&self, directory: Arc<Directory>) -> Arc<Directory> {
        // What is dropped may close descriptors and end watches, so it outlives the lock.
        let mut dropped = Vec::new();
        let mut table = self.known.lock();
        let entered = table
            .by_id
            .entry(directory.id)
            .or_insert_with(|| Entered { directory: Arc::downgrade(&directory), kept: None });
        let known = match entered.directory.upgrade() {
            Some(known) => known,
            None => {
                entered.directory = Arc::downgrade(&directory);
                Arc::clone(&directory)
            }
        };
        let is_new = entered.kept.replace(Arc::clone(&known)).is_none();
        table.kept += usize::from(is_new);
        if table.kept > MAX_KEPT {
            dropped = table.evict(self.root.id);
        }
        table.tidy();
        drop(table);
        drop(dropped);
        known
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

    fn all(&self) -> Vec<Arc<Directory>> {
        self.known.lock().by_id.values().filter_map(|entered| entered.directory.upgrade()).collect()
    }

    /// Nothing that is remembered of any name, file or descriptor can be trusted.
    pub fn forget_names(&self) {
        for directory in self.all() {
            directory.forget_names();
            directory.set_security(None);
        }
        self.cache.clear();
        self.names.store(0, Ordering::Relaxed);
    }

    /// What is known of the spellings of a name before one is made: everything where changes by others are told, though the
    /// index may have been dropped since the name was looked for.
    ///
    /// # Errors
    /// As the volume says.
    pub fn known(&self, directory: &Directory, name: &Name) -> Result<Known, Refusal> {
        if directory.is_told() && has_case(name.as_bytes()) {
            return Ok(Known::Names(self.spellings(directory, name)?));
        }
        directory.known(name)
    }

    /// The real names that are `name` but for case, from the directory's index, which is made by a scan
    /// when there is none.
    ///
    /// # Errors
    /// As the volume says.
    pub fn spellings(&self, directory: &Directory, name: &Name) -> Result<Vec<Name>, Refusal> {
        if let Known::Names(names) = directory.known(name)? {
            return Ok(names);
        }
        let mut contents = directory.contents.lock();
        let stamp = if directory.is_told() { None } else { Some(directory.stamp()?) };
        let mut index = Index::new(stamp);
        directory.node.entries(0, &mut |entry| {
            index.insert(&entry.name);
            std::ops::ControlFlow::Continue(())
        })?;
        let found = index.find(name);
        if let Some(stamp) = stamp {
            let newest = stamp.modified.max(stamp.changed).secs;
            let age = self.wall_secs.load(Ordering::Relaxed) - newest;
            if directory.stamp()? != stamp || age < SETTLED {
                return Ok(found);
            }
        }
        if self.names.fetch_add(index.len(), Ordering::Relaxed) + index.len() > MAX_NAMES {
            self.drop_indexes(directory);
            self.names.store(index.len(), Ordering::Relaxed);
        }
        contents.index = Some(index);
        Ok(found)
    }

    /// Drops all indexes but that of `spared`, which the caller holds.
    fn drop_indexes(&self, spared: &Directory) {
        for directory in self.all().iter().filter(|d| d.id != spared.id) {
            // One that is being used stays.
            if let Some(mut contents) = directory.contents.try_lock() {
                contents.index = None;
            }
        }
    }
}

impl Table {
    /// Lets go of the eighth of those kept that was not used for the longest time.
    fn evict(&mut self, root: NodeId) -> Vec<Arc<Directory>> {
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

    /// Forgets directories that nobody holds any more, before they are many.
    fn tidy(&mut self) {
        if self.by_id.len() > self.tidy_at {
            self.by_id.retain(|_, entered| entered.directory.strong_count() > 0);
            self.tidy_at = 2 * self.by_id.len().max(MAX_KEPT);
        }
    }
}
