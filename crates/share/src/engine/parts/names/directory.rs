//! Directories on the way to files: kept open, with what is known of their names.
//!
//! A kept directory saves opening every component of a path again. It is trusted as long as the volume
//! tells of changes by others ([`Directory::is_told`]); where it does not, each step compares
//! identities, and an index of names counts only while the directory's times have not moved and were
//! at least [`SETTLED`] old when it was made, so that a change within the clock's grain cannot hide.

mod idle;
mod placed;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use volume::{Failure, Name, Node, NodeId, Volume};
use wire::Shrink;

use super::cache::{Answer, Cache, KeptNode, Made};
use super::index::{Index, Stamp, has_case, same_folded};
use super::pages::Pages;
use crate::Refusal;
use crate::engine::values::address::Address;
use crate::engine::values::protection::Security;
use crate::ranked::{Mutex, MutexGuard, Rank};
pub(crate) use placed::{DirectoryEntry, Evidence};
use placed::{Moves, Standing};

/// Most directories that are kept for their own sake; each holds a descriptor of the host.
const MAX_KEPT: usize = 2048;

/// Most names in all indexes and listings together, at about 100 bytes each; the index of one directory is kept whatever its size.
const MAX_NAMES: usize = 1 << 20;

/// Names asked for in vain from which on an index of a directory is made for exact names too, and how many names there may
/// be for each of them.
const FIRST_SCAN: usize = 16;
const NAMES_FOR_A_MISS: usize = 16;

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
    standing: Mutex<Standing>,
    /// Held while names in it are made, removed or moved ([`Directory::change`]).
    changing: Mutex<()>,
    /// How many names are being changed.
    under_way: AtomicUsize,
    contents: Mutex<Contents>,
    /// How often the volume was asked for an exact name that was not there, since the last index was dropped.
    misses: AtomicUsize,
    /// Moves with each change of names: what was looked up before such a change is not remembered after it.
    generation: AtomicU64,
    /// By which what its names lead to is remembered; another one when none of that can be trusted.
    serial: AtomicU64,
    cache: Arc<Cache>,
    own: Mutex<Own>,
    /// Its entries, as they were listed.
    pub(crate) pages: Pages,
    address: Address,
    /// The number that the directory above lists for it, once it was asked for. It stays as long as this is mounted.
    pub(crate) covered: OnceLock<u64>,
    used: AtomicU64,
    /// When it was of use last, in monotonic seconds.
    used_s: AtomicU64,
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

/// What was seen of a directory itself.
#[derive(Default)]
struct Own {
    /// How often something of it was changed, so that what was seen before may be untrue.
    changes: u64,
    security: Option<Arc<Security>>,
    /// Whether it is a reparse point.
    reparse: Option<bool>,
    /// The generation of its names before its version was told last.
    version_at: Option<u64>,
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
pub(crate) enum Known {
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
        let tells = volume.properties().tells_changes && volume.watch(node.as_ref()).is_ok();
        Arc::new(Directory {
            id: node.id(),
            node,
            standing: Mutex::new(Rank::Standing, Standing::new(place)),
            changing: Mutex::of_default(Rank::NamesChange),
            under_way: AtomicUsize::new(0),
            contents: Mutex::of_default(Rank::Contents),
            misses: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            serial: AtomicU64::new(cache.next_serial()),
            cache: Arc::clone(cache),
            own: Mutex::of_default(Rank::DirectoryOwn),
            pages: Pages::default(),
            address: Address::default(),
            covered: OnceLock::new(),
            used: AtomicU64::new(0),
            used_s: AtomicU64::new(cache.now_s()),
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
        self.address.get(|| Ok(self.node.address()?))
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

    /// Whether a name is remembered to lead to this node, and nobody is changing it.
    pub fn leads_to(&self, name: &Name, id: NodeId) -> bool {
        let is_it = |answer| matches!(answer, Some(Answer::There(kept)) if kept.node.id() == id);
        self.is_told() && self.cache.is_on() && self.settle(name) && is_it(self.answer(name))
    }

    /// Whether the volume says that a name leads to this node.
    pub fn holds(&self, name: &Name, id: NodeId) -> bool {
        self.node.stat_name(name).is_ok_and(|stat| stat.id == id)
    }

    /// Remembers what a name leads to if that is worth its room, unless names have changed since `generation`.
    pub fn remember(&self, name: &Name, generation: u64, answer: Answer) {
        if self.is_told() {
            let serial = self.serial.load(Ordering::Acquire);
            self.note_mounted(&answer);
            self.cache.keep(serial, name, answer, || self.generation() == generation);
        }
    }

    /// Whether a node that a name is about to lead to will be remembered; to be asked once before
    /// [`Directory::remember_let_in`].
    pub fn lets_in(&self, name: &Name) -> bool {
        self.is_told() && self.cache.lets_node_in(self.serial.load(Ordering::Acquire), name)
    }

    /// Remembers a node of which [`Directory::lets_in`] has said so, unless names have changed since `generation`.
    pub fn remember_let_in(&self, name: &Name, generation: u64, kept: &Arc<KeptNode>) {
        let (serial, answer) = (self.serial.load(Ordering::Acquire), Answer::There(Arc::clone(kept)));
        self.note_mounted(&answer);
        self.cache.keep_let_in(serial, name, answer, || self.generation() == generation);
    }

    /// Notes that a name leads to another file system: a file can be mounted, too.
    fn note_mounted(&self, answer: &Answer) {
        if let Answer::There(kept) = answer
            && kept.node.id().device != self.id.device
        {
            self.cache.note_mounted();
        }
    }

    /// A file that was made under a name a moment ago.
    pub fn made(&self, name: &Name) -> Option<Arc<Made>> {
        self.cache.made(self.serial.load(Ordering::Acquire), name)
    }

    /// Remembers that a file was made under a name, which the caller is changing ([`Directory::change`]) and has added,
    /// unless there was news of anything else since `generation`, which was taken before.
    pub fn note_made(&self, name: &Name, generation: u64, made: &Arc<Made>) {
        if self.is_told() {
            let serial = self.serial.load(Ordering::Acquire);
            self.cache.note_made(serial, name, made, || self.generation() == generation + 1);
        }
    }

    /// Something was changed by a name by others, perhaps what lies beside its file.
    pub fn forget_made(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.cache.forget_made(self.serial.load(Ordering::Acquire), name);
    }

    /// Forgets what a name leads to; that it stands there is still known.
    pub fn forget_name(&self, name: &Name) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.pages.names_changed();
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        self.contents.lock().forget(name);
        self.cache.name_went();
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
    pub(crate) fn known(&self, name: &Name) -> Result<Known, Refusal> {
        let mut contents = self.contents.lock();
        let Some(index) = &contents.index else {
            return Ok(Known::Nothing);
        };
        self.used_s.store(self.cache.now_s(), Ordering::Relaxed);
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
        self.pages.name_added();
        self.cache.forget(self.serial.load(Ordering::Acquire), name);
        let mut contents = self.contents.lock();
        match &mut contents.index {
            Some(index) if self.told_by.is_some() && index.may_grow(MAX_NAMES) => index.insert(name),
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
            Some(index) if self.told_by.is_some() => index.remove(name),
            _ => self.drop_index(&mut contents),
        }
        contents.forget(name);
        drop(contents);
        self.cache.name_went();
    }

    /// Keeps nothing of its names for speed alone; what was told of them stays true.
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

    fn drop_index(&self, contents: &mut Contents) {
        if contents.index.take().is_some() {
            self.misses.store(0, Ordering::Relaxed);
        }
    }

    /// Nothing that is remembered of its names can be trusted.
    pub fn forget_names(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        self.pages.names_changed();
        self.serial.store(self.cache.next_serial(), Ordering::Release);
        self.misses.store(0, Ordering::Relaxed);
        let mut contents = self.contents.lock();
        let in_change = std::mem::take(&mut contents.in_change);
        let dropped = std::mem::replace(&mut *contents, Contents { in_change, ..Contents::default() });
        drop(contents);
        drop(dropped);
        self.cache.name_went();
    }

    /// The descriptor, as it was read last.
    pub fn known_security(&self) -> Option<Arc<Security>> {
        if self.is_told() { self.own.lock().security.clone() } else { None }
    }

    /// To be taken before anything is read of the directory itself that is to be noted.
    pub fn own_changes(&self) -> u64 {
        self.own.lock().changes
    }

    /// Something of the directory itself may be another now, its descriptor too.
    pub fn own_changed(&self) {
        let mut own = self.own.lock();
        *own = Own { changes: own.changes + 1, ..Own::default() };
    }

    /// Whether it is a reparse point, if that is known.
    pub fn known_reparse(&self) -> Option<bool> {
        if self.is_told() { self.own.lock().reparse } else { None }
    }

    /// Takes note whether it is one, unless something was changed since `own_changes`.
    pub fn note_reparse(&self, is_reparse: bool, own_changes: u64) {
        let mut own = self.own.lock();
        if own.changes == own_changes {
            own.reparse = Some(is_reparse);
        }
    }

    /// Takes note of the descriptor that was read, unless something was changed since `own_changes`.
    pub fn note_security(&self, security: Arc<Security>, own_changes: u64) {
        let mut own = self.own.lock();
        if own.changes == own_changes {
            own.security = Some(security);
        }
    }

    /// Whether neither a name nor anything of its own has changed since its version was told.
    pub fn is_as_told(&self) -> bool {
        self.is_told() && self.own.lock().version_at == Some(self.generation())
    }

    /// Takes note that its version was told; `generation` and `own_changes` were taken before.
    pub fn note_told(&self, generation: u64, own_changes: u64) {
        let mut own = self.own.lock();
        if own.changes == own_changes {
            own.version_at = Some(generation);
        }
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
pub(crate) struct Directories {
    volume: Arc<dyn Volume>,
    root: Arc<Directory>,
    cache: Arc<Cache>,
    known: Mutex<Table>,
    clock: AtomicU64,
    /// How many names all indexes and listings have.
    names: Arc<AtomicUsize>,
    /// Wall time in seconds, as the last request or tick said.
    wall_secs: AtomicI64,
    /// When it was looked last which of them nobody uses, in monotonic seconds.
    looked_s: AtomicU64,
    /// There was one of which the host tells nothing.
    has_untold: AtomicBool,
    moves: Moves,
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
    pub fn new(volume: &Arc<dyn Volume>, root: &Arc<Directory>, cache: &Arc<Cache>) -> Directories {
        let has_untold = AtomicBool::new(!root.is_told());
        let entered = Entered { directory: Arc::downgrade(root), kept: Some(Arc::clone(root)) };
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
            has_untold,
            moves: Moves::default(),
        }
    }

    /// Whether there may be one of which the host tells nothing.
    pub fn has_untold(&self) -> bool {
        self.has_untold.load(Ordering::Relaxed)
    }

    /// Takes note that there may be one, or a file whose directory is not known.
    pub fn note_untold(&self) {
        self.has_untold.store(true, Ordering::Relaxed);
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
        directory.used_s.store(self.cache.now_s(), Ordering::Relaxed);
    }

    /// The directory, if it is known.
    pub fn get(&self, id: NodeId) -> Option<Arc<Directory>> {
        self.known.lock().by_id.get(&id)?.directory.upgrade()
    }

    /// The directory behind a node that was found as `real` when `asked` was looked for. That this name leads there is
    /// remembered with the generation that `parent` had before.
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
            parent.remember_child(asked, real, &directory, generation);
        }
        directory
    }

    /// The directory behind a node that was found as this name in this directory.
    pub(crate) fn enter_as(
        &self,
        entry: DirectoryEntry<'_>,
        node: Arc<dyn Node>,
        found: Evidence,
    ) -> Arc<Directory> {
        let directory = self.get(node.id()).unwrap_or_else(|| {
            let place = (Arc::clone(entry.parent), entry.name.clone());
            Directory::new(&self.volume, node, Some(place), &self.cache)
        });
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.touch(&directory);
        if !directory.is_told() {
            self.note_untold();
        }
        if directory.id.device != self.root.id.device {
            self.cache.note_mounted();
        }
        let directory = self.keep(directory);
        // Only now: a client that renames it finds it here, or has counted its rename already.
        self.note_found(&directory, entry, found);
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

    fn all(&self) -> Vec<Arc<Directory>> {
        self.known.lock().by_id.values().filter_map(|entered| entered.directory.upgrade()).collect()
    }

    /// Nothing that is remembered of any name, file or descriptor can be trusted.
    pub fn forget_names(&self) {
        for directory in self.all() {
            directory.forget_names();
            directory.own_changed();
        }
        self.cache.clear();
    }

    /// Forgets all listings.
    pub fn forget_listings(&self) {
        self.all().iter().for_each(|directory| directory.pages.forget());
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

    /// The volume was asked for an exact name that is not there. Where that happens often an index saves asking: one is made
    /// when there were enough such names for the directory's size, so that the scans take a little of each of them.
    pub fn missed(&self, directory: &Directory) {
        let misses = directory.misses.fetch_add(1, Ordering::Relaxed) + 1;
        if misses < FIRST_SCAN || !misses.is_power_of_two() || !directory.is_told() {
            return;
        }
        let mut contents = directory.contents.lock();
        if contents.index.is_none()
            && let Ok(Some(index)) = self.indexed(directory, None, misses.saturating_mul(NAMES_FOR_A_MISS))
        {
            self.keep_index(directory, &mut contents, index);
        }
    }

    /// Keeps an index; others go when all of them have too many names.
    fn keep_index(&self, directory: &Directory, contents: &mut Contents, index: Index) {
        self.make_room(directory);
        contents.index = Some(index);
    }

    /// How many names all indexes and listings have.
    pub fn names(&self) -> &Arc<AtomicUsize> {
        &self.names
    }

    /// Drops all indexes and listings but those of `spared`, whose contents the caller may hold, when they have too many names.
    pub fn make_room(&self, spared: &Directory) {
        if self.names.load(Ordering::Relaxed) <= MAX_NAMES {
            return;
        }
        for directory in self.all().iter().filter(|d| d.id != spared.id) {
            directory.pages.forget();
            // One that is being used stays.
            if let Some(mut contents) = directory.contents.try_lock() {
                directory.drop_index(&mut contents);
            }
        }
    }

    /// An index of a directory's names, made by a scan; none when there are more names than this.
    fn indexed(
        &self,
        directory: &Directory,
        stamp: Option<Stamp>,
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
            self.by_id.shrink();
            self.tidy_at = 2 * self.by_id.len().max(MAX_KEPT);
        }
    }
}

#[cfg(test)]
mod tests;
