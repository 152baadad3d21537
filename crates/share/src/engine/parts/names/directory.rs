//! Directories on the paths to files: kept open, with the known part of their names.
//!
//! A kept directory saves opening every component of a path again. It is trusted as long as the volume
//! reports changes by others ([`Directory::reports_changes`]). Otherwise each step compares identities. An
//! index of names then counts only under two conditions: the directory's times have not moved since, and they
//! were at least [`SETTLED`] old when it was made. So no change can hide within one tick of the clock.

mod idle;
mod location;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use volume::{Failure, Name, Node, NodeId, Volume};

use super::cache::{Cache, CachedTarget, KeptNode, NewFile};
use super::index::{DirectoryTimes, Index, has_case, same_folded};
use super::pages::Pages;
use crate::Refusal;
use crate::engine::values::address::CachedAddress;
use crate::engine::values::protection::Security;
use crate::ranked::{Mutex, MutexGuard, Rank};
pub(crate) use location::{DirectoryEntry, Evidence, change_both};
use location::{Location, Moves};

/// Most directories that are kept open for speed. Each holds a descriptor of the host.
const MAX_KEPT: usize = 2048;
/// The most directories of a path.
pub(super) const MAX_PATH: usize = 4096;

/// Most names in all indexes and listings together, at about 100 bytes each. The index of one directory is
/// kept whatever its size.
const MAX_NAMES: usize = 1 << 20;

/// After this many failed lookups of exact names a directory gets an index for exact names too. The second
/// number is how many names there may be for each failed lookup.
const FIRST_SCAN: usize = 16;
const NAMES_FOR_A_MISS: usize = 16;

/// How long a change of names may delay a lookup that checks whether a name is really gone.
const CHANGE_TAKES: Duration = Duration::from_millis(20);

/// How often a lookup waits for other requests to change a name. After that it bypasses the cache.
const MAX_CHANGES: usize = 8;

/// The age in seconds from which a directory's times distinguish two states of it.
const SETTLED: i64 = 2;

/// A directory.
pub(crate) struct Directory {
    pub id: NodeId,
    pub node: Arc<dyn Node>,
    location: Mutex<Location>,
    /// Held while names in it are created, removed or moved ([`Directory::change`]).
    changing: Mutex<()>,
    /// The number of names that are being changed.
    under_way: AtomicUsize,
    contents: Mutex<DirectoryContents>,
    /// How often an exact name was asked for that did not exist, since the last index was dropped.
    misses: AtomicUsize,
    /// A counter of changes of names. A result that was looked up before a change is not cached after it.
    generation: AtomicU64,
    /// The key under which its names are cached. It is replaced when none of the entries can be trusted.
    serial: AtomicU64,
    cache: Arc<Cache>,
    own: Mutex<OwnProperties>,
    /// Its entries, as they were listed.
    pub(crate) pages: Pages,
    address: CachedAddress,
    /// The number that the parent directory lists for it, once it was asked for. It stays the same while this
    /// is mounted.
    pub(crate) covered: OnceLock<u64>,
    used: AtomicU64,
    /// The time of its last use, in monotonic seconds.
    used_s: AtomicU64,
    /// The volume, if it reports changes by others in this directory.
    reporter: Option<Arc<dyn Volume>>,
}

/// A change of some names of a directory. There is one at a time, and lookups of these names wait.
pub(crate) struct NameChange<'a> {
    directory: &'a Directory,
    _lock: MutexGuard<'a, ()>,
}

impl Drop for NameChange<'_> {
    fn drop(&mut self) {
        self.directory.contents.lock().in_change.clear();
        self.directory.under_way.store(0, Ordering::Release);
    }
}

/// The cached properties of a directory itself.
#[derive(Default)]
struct OwnProperties {
    /// A counter of its changes. Properties that were read before a change may be outdated.
    changes: u64,
    security: Option<Arc<Security>>,
    /// Whether it is a reparse point.
    reparse: Option<bool>,
    /// The generation of its names before its version was last given out.
    version_at: Option<u64>,
}

#[derive(Default)]
struct DirectoryContents {
    /// Names that are being changed.
    in_change: Vec<Name>,
    children: HashMap<Name, KnownChild>,
    /// Whether some child is known under another spelling than its own.
    has_variants: bool,
    index: Option<Index>,
}

struct KnownChild {
    real: Name,
    directory: Weak<Directory>,
}

/// The state of a name that is known without asking the volume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KnownName {
    /// It is not known.
    Nothing,
    /// The real names, the best first. If there are none, the name does not exist.
    Names(Vec<Name>),
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(volume) = &self.reporter {
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
        parent_and_name: Option<(Arc<Directory>, Name)>,
        cache: &Arc<Cache>,
    ) -> Arc<Directory> {
        let tells = volume.properties().tells_changes && volume.watch(node.as_ref()).is_ok();
        Arc::new(Directory {
            id: node.id(),
            node,
            location: Mutex::new(Rank::Location, Location::new(parent_and_name)),
            changing: Mutex::of_default(Rank::NamesChange),
            under_way: AtomicUsize::new(0),
            contents: Mutex::of_default(Rank::Contents),
            misses: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            serial: AtomicU64::new(cache.next_serial()),
            cache: Arc::clone(cache),
            own: Mutex::of_default(Rank::DirectoryOwn),
            pages: Pages::default(),
            address: CachedAddress::default(),
            covered: OnceLock::new(),
            used: AtomicU64::new(0),
            used_s: AtomicU64::new(cache.now_s()),
            reporter: tells.then(|| Arc::clone(volume)),
        })
    }

    /// Whether the volume reports changes by others.
    pub fn reports_changes(&self) -> bool {
        self.reporter.is_some()
    }

    /// The node's address, which stays the same as long as the node exists.
    ///
    /// # Errors
    /// The volume's error.
    pub fn address(&self) -> Result<Vec<u8>, Refusal> {
        self.address.get(|| Ok(self.node.address()?))
    }

    /// Begins a change of these names, when no other change is in progress.
    pub fn change(&self, names: &[&Name]) -> NameChange<'_> {
        let lock = self.changing.lock();
        self.contents.lock().in_change.extend(names.iter().map(|name| (*name).clone()));
        self.under_way.store(names.len(), Ordering::Release);
        NameChange { directory: self, _lock: lock }
    }

    /// Waits until no request is changing a name, in any spelling. Returns false if it is changed again and
    /// again. The caller must hold no lock of this directory.
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

    /// The generation. Take it before the volume is asked for a name. Pass it to [`Directory::remember`] with
    /// the answer.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The cached target of an exact name.
    pub fn answer(&self, name: &Name) -> Option<CachedTarget> {
        self.cache.answer(self.serial.load(Ordering::Acquire), name)
    }

    /// Whether the cache says that a name leads to this node, and no request is changing the name.
    pub fn leads_to(&self, name: &Name, id: NodeId) -> bool {
        let is_it = |answer| matches!(answer, Some(CachedTarget::There(kept)) if kept.node.id() == id);
        self.reports_changes() && self.cache.is_on() && self.settle(name) && is_it(self.answer(name))
    }

    /// Whether the volume says that a name leads to this node.
    pub fn holds(&self, name: &Name, id: NodeId) -> bool {
        self.node.stat_name(name).is_ok_and(|stat| stat.id == id)
    }

    /// Caches the target of a name if it is worth its room and no name has changed since `generation`.
    pub fn remember(&self, name: &Name, generation: u64, answer: CachedTarget) {
        if self.reports_changes() {
            let serial = self.serial.load(Ordering::Acquire);
            self.note_mounted(&answer);
            self.cache.keep(serial, name, answer, || self.generation() == generation);
        }
    }

    /// Whether a node will be cached under a name. Call it once before [`Directory::cache_admitted`].
    pub fn admits(&self, name: &Name) -> bool {
        self.reports_changes() && self.cache.admits_node(self.serial.load(Ordering::Acquire), name)
    }

    /// Caches a node that [`Directory::admits`] has accepted, if no name has changed since `generation`.
    pub fn cache_admitted(&self, name: &Name, generation: u64, kept: &Arc<KeptNode>) {
        let (serial, answer) = (self.serial.load(Ordering::Acquire), CachedTarget::There(Arc::clone(kept)));
        self.note_mounted(&answer);
        self.cache.keep_admitted(serial, name, answer, || self.generation() == generation);
    }

    /// Records that a name leads to another file system. A single file can be mounted too.
    fn note_mounted(&self, answer: &CachedTarget) {
        if let CachedTarget::There(kept) = answer
            && kept.node.id().device != self.id.device
        {
            self.cache.note_mounted();
        }
    }

    /// The file that was created under a name a moment ago.
    pub fn made(&self, name: &Name) -> Option<Arc<NewFile>> {
        self.cache.made(self.serial.load(Ordering::Acquire), name)
    }

    /// Caches that a file was created under a name. The caller is changing the name ([`Directory::change`])
    /// and has added it. It does nothing if there was any other event since `generation`, which was taken
    /// before.
    pub fn note_new_file(&self, name: &Name, generation: u64, made: &Arc<NewFile>) {
        if self.reports_changes() {
            let serial = self.serial.load(Ordering::Acquire);
            self.cache.note_new_file(serial, name, made, || self.generation() == generation + 1);
        }
    }

    /// Others have changed a file by this name, perhaps its sidecar data.
    pub fn forget_new_file(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.cache.forget_new_file(self.serial.load(Ordering::Acquire), name);
    }

    /// Drops the cached target of a name. The name is still known to exist.
    pub fn forget_name(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.pages.names_changed();
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        self.contents.lock().forget(name);
        self.cache.name_went();
    }

    /// A name was reported or seen to be gone. It may have been created again since, so the volume is asked
    /// before the index drops it.
    pub fn note_missing(&self, name: &Name) {
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

    /// The directories above it, nearest first, each with the name that leads down from it.
    pub fn ancestors(self: &Arc<Self>) -> Vec<(Arc<Directory>, Name)> {
        let mut out = Vec::new();
        let mut at = self.parent_and_name();
        while let Some((parent, name)) = at {
            at = parent.parent_and_name();
            out.push((parent, name));
            if out.len() > MAX_PATH {
                break;
            }
        }
        out
    }

    /// Its path from the root of the share.
    pub fn path(self: &Arc<Self>) -> Vec<Name> {
        self.ancestors().into_iter().rev().map(|(_, name)| name).collect()
    }

    /// The path of a name in it.
    pub fn path_to(self: &Arc<Self>, name: &Name) -> Vec<Name> {
        let mut path = self.path();
        path.push(name.clone());
        path
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

    /// Caches the target of a spelling, if no name has changed since `generation`.
    fn cache_child(&self, asked: &Name, real: &Name, directory: &Arc<Directory>, generation: u64) {
        let mut contents = self.contents.lock();
        if self.generation() != generation {
            return;
        }
        if contents.children.len() >= MAX_KEPT {
            contents.children.retain(|_, c| c.directory.strong_count() > 0);
        }
        contents.has_variants |= asked != real;
        let child = KnownChild { real: real.clone(), directory: Arc::downgrade(directory) };
        contents.children.insert(asked.clone(), child);
    }

    /// The state of a name in the index. Without an index it is not known.
    pub(crate) fn known(&self, name: &Name) -> Result<KnownName, Refusal> {
        let mut contents = self.contents.lock();
        let Some(index) = &contents.index else {
            return Ok(KnownName::Nothing);
        };
        self.used_s.store(self.cache.now_s(), Ordering::Relaxed);
        if !self.reports_changes() && index.stamp != Some(self.stamp()?) {
            contents.index = None;
            return Ok(KnownName::Nothing);
        }
        Ok(KnownName::Names(index.find(name)))
    }

    fn stamp(&self) -> Result<DirectoryTimes, Refusal> {
        let stat = self.node.stat()?;
        Ok(DirectoryTimes { modified: stat.modified, changed: stat.changed })
    }

    /// A name was created.
    pub fn added(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.pages.name_added();
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        let mut contents = self.contents.lock();
        match &mut contents.index {
            Some(index) if self.reporter.is_some() && index.may_grow(MAX_NAMES) => index.insert(name),
            _ => self.drop_index(&mut contents),
        }
        contents.forget(name);
    }

    /// A name was removed.
    pub fn removed(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.pages.names_changed();
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        let mut contents = self.contents.lock();
        match &mut contents.index {
            Some(index) if self.reporter.is_some() => index.remove(name),
            _ => self.drop_index(&mut contents),
        }
        contents.forget(name);
        drop(contents);
        self.cache.name_went();
    }

    /// Drops everything about its names that is kept only for speed. The versions given out stay valid.
    pub fn drop_names(&self) {
        self.pages.forget();
        let mut contents = self.contents.lock();
        let index = contents.index.take();
        contents.children.retain(|_, child| child.directory.strong_count() > 0);
        contents.children.shrink_to_fit();
        drop(contents);
        drop(index);
        self.misses.store(0, Ordering::Relaxed);
    }

    fn drop_index(&self, contents: &mut DirectoryContents) {
        if contents.index.take().is_some() {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// No cached target of its names can be trusted any more.
    pub fn forget_names(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.pages.names_changed();
        self.serial.store(self.cache.next_serial(), Ordering::Release);
        self.misses.store(0, Ordering::Relaxed);
        let mut contents = self.contents.lock();
        let in_change = std::mem::take(&mut contents.in_change);
        let dropped = std::mem::replace(
            &mut *contents,
            DirectoryContents { in_change, ..DirectoryContents::default() },
        );
        drop(contents);
        drop(dropped);
        self.cache.name_went();
    }

    /// The descriptor, as it was read last.
    pub fn known_security(&self) -> Option<Arc<Security>> {
        if self.reports_changes() { self.own.lock().security.clone() } else { None }
    }

    /// The counter of changes. Take it before reading a property of the directory itself that is to be
    /// cached.
    pub fn own_changes(&self) -> u64 {
        self.own.lock().changes
    }

    /// A property of the directory itself may have changed, its descriptor too.
    pub fn own_changed(&self) {
        let mut own = self.own.lock();
        *own = OwnProperties { changes: own.changes + 1, ..OwnProperties::default() };
    }

    /// Whether it is a reparse point, if that is known.
    pub fn known_reparse(&self) -> Option<bool> {
        if self.reports_changes() { self.own.lock().reparse } else { None }
    }

    /// Caches whether it is one, if nothing was changed since `own_changes`.
    pub fn note_reparse(&self, is_reparse: bool, own_changes: u64) {
        let mut own = self.own.lock();
        if own.changes == own_changes {
            own.reparse = Some(is_reparse);
        }
    }

    /// Caches the descriptor that was read, if nothing was changed since `own_changes`.
    pub fn note_security(&self, security: Arc<Security>, own_changes: u64) {
        let mut own = self.own.lock();
        if own.changes == own_changes {
            own.security = Some(security);
        }
    }

    /// Whether neither a name nor a property of its own has changed since its version was given out.
    pub fn is_version_current(&self) -> bool {
        self.reports_changes() && self.own.lock().version_at == Some(self.generation())
    }

    /// Records that its version was given out; `generation` and `own_changes` were taken before.
    pub fn note_version_issued(&self, generation: u64, own_changes: u64) {
        let mut own = self.own.lock();
        if own.changes == own_changes {
            own.version_at = Some(generation);
        }
    }
}

impl DirectoryContents {
    /// Forgets the target of a real name, under all its spellings.
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

/// The known directories. There is never a second [`Directory`] of one node, so a change of one is visible to
/// all. One that is no longer kept for speed is still found as long as there is a reference to it.
pub(crate) struct Directories {
    volume: Arc<dyn Volume>,
    root: Arc<Directory>,
    cache: Arc<Cache>,
    known: Mutex<Table>,
    clock: AtomicU64,
    /// The number of names in all indexes and listings.
    names: Arc<AtomicUsize>,
    /// Wall time in seconds at the last request or tick.
    wall_secs: AtomicI64,
    /// The time of the last search for unused ones, in monotonic seconds.
    looked_s: AtomicU64,
    /// Whether there was one whose changes the host does not report.
    has_unreported: AtomicBool,
    moves: Moves,
}

struct Table {
    by_id: HashMap<NodeId, KnownDirectory>,
    /// How many of them are kept for speed.
    kept: usize,
    /// The size from which the table is searched for entries without references.
    tidy_at: usize,
}

struct KnownDirectory {
    directory: Weak<Directory>,
    /// The same directory, while it is kept for speed.
    kept: Option<Arc<Directory>>,
}

impl Directories {
    pub fn new(volume: &Arc<dyn Volume>, root: &Arc<Directory>, cache: &Arc<Cache>) -> Directories {
        let has_unreported = AtomicBool::new(!root.reports_changes());
        let entered = KnownDirectory { directory: Arc::downgrade(root), kept: Some(Arc::clone(root)) };
        let table = Table { by_id: HashMap::from([(root.id, entered)]), kept: 1, tidy_at: 2 * MAX_KEPT };
        Directories {
            volume: Arc::clone(volume),
            root: Arc::clone(root),
            cache: Arc::clone(cache),
            known: Mutex::new(Rank::Directories, table),
            clock: AtomicU64::new(1),
            names: Arc::default(),
            wall_secs: AtomicI64::new(0),
            looked_s: AtomicU64::new(0),
            has_unreported,
            moves: Moves::default(),
        }
    }

    /// Whether there may be a directory whose changes the host does not report.
    pub fn has_unreported(&self) -> bool {
        self.has_unreported.load(Ordering::Relaxed)
    }

    /// Records that there may be one, or a file whose directory is not known.
    pub fn note_unreported(&self) {
        self.has_unreported.store(true, Ordering::Relaxed);
    }

    /// Records the time.
    pub fn set_time(&self, now: wire::Now) {
        self.wall_secs.store(now.wall_ns.div_euclid(1_000_000_000), Ordering::Relaxed);
    }

    /// Wall time in seconds. It may lag, and never runs ahead.
    pub fn wall_secs(&self) -> i64 {
        self.wall_secs.load(Ordering::Relaxed)
    }

    /// Records that a directory was used.
    pub fn touch(&self, directory: &Directory) {
        directory.used.store(self.clock.load(Ordering::Relaxed), Ordering::Relaxed);
        directory.used_s.store(self.cache.now_s(), Ordering::Relaxed);
    }

    /// The directory, if it is known.
    pub fn get(&self, id: NodeId) -> Option<Arc<Directory>> {
        self.known.lock().by_id.get(&id)?.directory.upgrade()
    }

    /// The directory of a node that was found as `real` when `asked` was looked up. The name is cached with
    /// the earlier generation of `parent`.
    pub fn enter(
        &self,
        parent: &Arc<Directory>,
        (asked, real): (&Name, &Name),
        node: Arc<dyn Node>,
        generation: Option<u64>,
    ) -> Arc<Directory> {
        let found = generation.map_or(Evidence::Before, Evidence::LookedUp);
        let directory = self.enter_as(parent.entry(real), node, found);
        if let Some(generation) = generation {
            parent.cache_child(asked, real, &directory, generation);
        }
        directory
    }

    /// The directory of a node that was found under this name in this directory.
    pub(crate) fn enter_as(
        &self,
        entry: DirectoryEntry<'_>,
        node: Arc<dyn Node>,
        found: Evidence,
    ) -> Arc<Directory> {
        let directory = self.get(node.id()).unwrap_or_else(|| {
            let parent_and_name = (Arc::clone(entry.parent), entry.name.clone());
            Directory::new(&self.volume, node, Some(parent_and_name), &self.cache)
        });
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.touch(&directory);
        if !directory.reports_changes() {
            self.note_unreported();
        }
        if directory.id.device != self.root.id.device {
            self.cache.note_mounted();
        }
        let directory = self.keep(directory);
        // Only now: a client that renames it finds it here, or has counted its rename already.
        self.note_found(&directory, entry, found);
        directory
    }

    /// Keeps a directory for speed, or the known one of the same node.
    fn keep(&self, directory: Arc<Directory>) -> Arc<Directory> {
        // Dropping may close descriptors and end watches, so it happens after the lock is released.
        let mut dropped = Vec::new();
        let mut table = self.known.lock();
        let entered = table
            .by_id
            .entry(directory.id)
            .or_insert_with(|| KnownDirectory { directory: Arc::downgrade(&directory), kept: None });
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

    fn all(&self) -> Vec<Arc<Directory>> {
        self.known.lock().by_id.values().filter_map(|entered| entered.directory.upgrade()).collect()
    }

    /// No cached name, file or descriptor can be trusted any more.
    pub fn forget_names(&self) {
        for directory in self.all() {
            directory.forget_names();
            directory.own_changed();
        }
        self.cache.clear();
    }

    /// Drops all listings.
    pub fn forget_listings(&self) {
        self.all().iter().for_each(|directory| directory.pages.forget());
    }

    /// The spellings of a name before one is created. If changes by others are reported, the answer is
    /// complete, although the index may have been dropped since the lookup.
    ///
    /// # Errors
    /// The volume's error.
    pub fn known(&self, directory: &Directory, name: &Name) -> Result<KnownName, Refusal> {
        if directory.reports_changes() && has_case(name.as_bytes()) {
            return Ok(KnownName::Names(self.spellings(directory, name)?));
        }
        directory.known(name)
    }

    /// The real names that are `name` but for case, from the directory's index. If there is none, a scan
    /// makes it.
    ///
    /// # Errors
    /// The volume's error.
    pub fn spellings(&self, directory: &Directory, name: &Name) -> Result<Vec<Name>, Refusal> {
        if let KnownName::Names(names) = directory.known(name)? {
            return Ok(names);
        }
        let mut contents = directory.contents.lock();
        let stamp = if directory.reports_changes() { None } else { Some(directory.stamp()?) };
        let Some(index) = self.indexed(directory, stamp, usize::MAX)? else {
            return Ok(Vec::new());
        };
        let found = index.find(name);
        if let Some(stamp) = stamp {
            let newest = stamp.modified.max(stamp.changed).secs;
            let age = self.wall_secs.load(Ordering::Relaxed) - newest;
            if directory.stamp()? != stamp || age < SETTLED {
                return Ok(found);
            }
        }
        self.keep_index(directory, &mut contents, index);
        Ok(found)
    }

    /// The volume was asked for an exact name that does not exist. If that happens often, an index saves
    /// requests. One is made after enough such names for the directory's size, so that each of them pays for
    /// a small part of the scan.
    pub fn missed(&self, directory: &Directory) {
        let misses = directory.misses.fetch_add(1, Ordering::Relaxed) + 1;
        if misses < FIRST_SCAN || !misses.is_power_of_two() || !directory.reports_changes() {
            return;
        }
        let mut contents = directory.contents.lock();
        if contents.index.is_none()
            && let Ok(Some(index)) = self.indexed(directory, None, misses.saturating_mul(NAMES_FOR_A_MISS))
        {
            self.keep_index(directory, &mut contents, index);
        }
    }

    /// Stores an index. Other indexes are dropped if all of them have too many names.
    fn keep_index(&self, directory: &Directory, contents: &mut DirectoryContents, index: Index) {
        self.make_room(directory);
        contents.index = Some(index);
    }

    /// The number of names in all indexes and listings.
    pub fn names(&self) -> &Arc<AtomicUsize> {
        &self.names
    }

    /// Drops all indexes and listings if they have too many names. Those of `spared`, whose contents the
    /// caller may hold, stay.
    pub fn make_room(&self, spared: &Directory) {
        if self.names.load(Ordering::Relaxed) <= MAX_NAMES {
            return;
        }
        for directory in self.all().iter().filter(|d| d.id != spared.id) {
            directory.pages.forget();
            // An index in use stays.
            if let Some(mut contents) = directory.contents.try_lock() {
                directory.drop_index(&mut contents);
            }
        }
    }

    /// An index of a directory's names, made by a scan; none if there are more names than `at_most`.
    fn indexed(
        &self,
        directory: &Directory,
        stamp: Option<DirectoryTimes>,
        at_most: usize,
    ) -> Result<Option<Index>, Refusal> {
        let mut index = Index::new(stamp, &self.names);
        let mut is_whole = true;
        directory.node.entries(0, &mut |entry| {
            is_whole = index.len() < at_most;
            if !is_whole {
                return ControlFlow::Break(());
            }
            index.insert(&entry.name);
            ControlFlow::Continue(())
        })?;
        Ok(is_whole.then_some(index))
    }
}

#[cfg(test)]
mod tests;
