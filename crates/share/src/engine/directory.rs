//! Directories on the way to files: kept open, with what is known of their names.
//!
//! A kept directory saves opening every component of a path again. It is trusted as long as the volume
//! tells of changes by others ([`Directory::is_told`]); where it does not, each step compares
//! identities, and an index of names counts only while the directory's times have not moved and were
//! at least [`SETTLED`] old when it was made, so that a change within the clock's grain cannot hide.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use volume::{Name, Node, NodeId, Volume};

use super::access::Security;
use super::names::{Index, Stamp};
use crate::Refusal;

/// Most directories that are kept for their own sake; each holds a descriptor of the host.
const MAX_KEPT: usize = 2048;

/// Most names in all indexes together.
const MAX_NAMES: usize = 4 << 20;

/// Age in seconds from which a directory's times tell it from what it was before.
const SETTLED: i64 = 2;

/// A directory.
pub(crate) struct Directory {
    pub id: NodeId,
    pub node: Arc<dyn Node>,
    /// Where it is; none for the root.
    place: Mutex<Option<(Arc<Directory>, Name)>>,
    /// Held while names in it are made, removed or moved.
    pub changing: Mutex<()>,
    contents: Mutex<Contents>,
    security: Mutex<Option<Arc<Security>>>,
    used: AtomicU64,
    /// The volume that tells of changes by others in it.
    told_by: Option<Arc<dyn Volume>>,
}

#[derive(Default)]
struct Contents {
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
    pub fn root(volume: &Arc<dyn Volume>, node: Arc<dyn Node>) -> Arc<Directory> {
        Directory::new(volume, node, None)
    }

    fn new(
        volume: &Arc<dyn Volume>,
        node: Arc<dyn Node>,
        place: Option<(Arc<Directory>, Name)>,
    ) -> Arc<Directory> {
        let tells = volume.facts().tells_changes && volume.watch(node.as_ref()).is_ok();
        Arc::new(Directory {
            id: node.id(),
            node,
            place: Mutex::new(place),
            changing: Mutex::default(),
            contents: Mutex::default(),
            security: Mutex::default(),
            used: AtomicU64::new(0),
            told_by: tells.then(|| Arc::clone(volume)),
        })
    }

    /// Whether changes by others are told.
    pub fn is_told(&self) -> bool {
        self.told_by.is_some()
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

    /// Remembers where a spelling leads to.
    fn remember_child(&self, asked: &Name, real: &Name, directory: &Arc<Directory>) {
        let mut contents = self.contents.lock();
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
        let mut contents = self.contents.lock();
        match &mut contents.index {
            Some(index) if self.told_by.is_some() => index.insert(name),
            index => *index = None,
        }
        contents.forget(name);
    }

    /// A name was removed.
    pub fn removed(&self, name: &Name) {
        let mut contents = self.contents.lock();
        match &mut contents.index {
            Some(index) if self.told_by.is_some() => index.remove(name),
            index => *index = None,
        }
        contents.forget(name);
    }

    /// Nothing that is remembered of its names can be trusted.
    pub fn forget_names(&self) {
        let mut contents = self.contents.lock();
        *contents = Contents::default();
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

/// The directories that are kept.
pub(super) struct Directories {
    root: Arc<Directory>,
    kept: Mutex<HashMap<NodeId, Arc<Directory>>>,
    clock: AtomicU64,
    names: AtomicUsize,
    /// Wall time in seconds, as the last request or tick said.
    wall_secs: AtomicI64,
}

impl Directories {
    pub fn new(root: Arc<Directory>) -> Directories {
        let kept = HashMap::from([(root.id, Arc::clone(&root))]);
        Directories {
            root,
            kept: Mutex::new(kept),
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

    /// The directory, if it is kept.
    pub fn get(&self, id: NodeId) -> Option<Arc<Directory>> {
        self.kept.lock().get(&id).map(Arc::clone)
    }

    /// The directory behind a node that was found as `real` when `asked` was looked for.
    pub fn enter(
        &self,
        volume: &Arc<dyn Volume>,
        parent: &Arc<Directory>,
        asked: &Name,
        real: &Name,
        node: Arc<dyn Node>,
    ) -> Arc<Directory> {
        let known = self.get(node.id());
        let directory = match known {
            Some(known) => {
                if known.id != self.root.id && !parent.is_within(known.id) {
                    known.set_place(Arc::clone(parent), real.clone());
                }
                known
            }
            None => {
                let place = (Arc::clone(parent), real.clone());
                let new = Directory::new(volume, node, Some(place));
                let mut kept = self.kept.lock();
                let entered = Arc::clone(kept.entry(new.id).or_insert(new));
                let dropped = if kept.len() > MAX_KEPT { self.evict(&mut kept) } else { Vec::new() };
                drop(kept);
                drop(dropped);
                entered
            }
        };
        self.clock.fetch_add(1, Ordering::Relaxed);
        self.touch(&directory);
        parent.remember_child(asked, real, &directory);
        directory
    }

    /// Takes out the eighth that was not used for the longest time.
    fn evict(&self, kept: &mut HashMap<NodeId, Arc<Directory>>) -> Vec<Arc<Directory>> {
        let mut ages: Vec<u64> = kept.values().map(|d| d.used.load(Ordering::Relaxed)).collect();
        let nth = ages.len() / 8;
        let (_, limit, _) = ages.select_nth_unstable(nth);
        let limit = *limit;
        let old = |d: &Arc<Directory>| d.used.load(Ordering::Relaxed) <= limit && d.id != self.root.id;
        let ids: Vec<NodeId> = kept.values().filter(|d| old(d)).map(|d| d.id).collect();
        ids.into_iter().take(nth + 1).filter_map(|id| kept.remove(&id)).collect()
    }

    /// Drops a directory that was removed.
    pub fn forget(&self, id: NodeId) {
        if id != self.root.id {
            let dropped = self.kept.lock().remove(&id);
            drop(dropped);
        }
    }

    /// Nothing that is remembered of any name or descriptor can be trusted.
    pub fn forget_names(&self) {
        let all: Vec<_> = self.kept.lock().values().map(Arc::clone).collect();
        for directory in all {
            directory.forget_names();
            directory.set_security(None);
        }
        self.names.store(0, Ordering::Relaxed);
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
        let all: Vec<_> = self.kept.lock().values().map(Arc::clone).collect();
        for directory in all.iter().filter(|d| d.id != spared.id) {
            // One that is being used stays.
            if let Some(mut contents) = directory.contents.try_lock() {
                contents.index = None;
            }
        }
    }
}
