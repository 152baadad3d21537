//! The cache of names and files, which saves requests to the volume.
//!
//! It has three tables with a limit in bytes, and no entry in them can be outdated:
//!
//! - **Names** ([`CachedTarget`]): the target of an exact name in a directory, as a node that is kept open,
//!   or the fact that the name does not exist. They are trusted only in directories in which the volume
//!   reports changes by others. The engine's own changes take a name out in the same step
//!   ([`super::directory::Directory::added`] and `removed`), and so do events. A result that was looked up
//!   while names changed is not cached.
//! - **Figures** ([`CachedProperties`]): the attribute record, the descriptor and the size of extended
//!   attributes of a file. An entry counts while two conditions hold. The host shows the same time of change,
//!   which was old enough when they were read that no later change can have the same ([`Cache::remember`]).
//!   And the engine itself has stored none of them since ([`Cache::wrote`]), because sidecar data moves none
//!   of the file's times.
//!
//! - **Made** ([`NewFile`]): the fact that a file which was created through the share a moment ago has no
//!   attribute record, under its name and with its address. It is removed with the name's entry, and with the
//!   event of a change by that name.
//!
//! The listings of directories are stored with the directories ([`super::pages`]).
//!
//! The volume is asked for sizes, times, links and permission bits each time. Hosts do not report everything
//! that changes them (mappings of memory, names of the same file elsewhere).
//!
//! Start with [`crate::engine::lookup::name`], which asks the first table, and
//! [`crate::engine::services::records`], which asks the second.

mod bounded;
mod new_files;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use volume::security::Acl;
use volume::{Name, Node, NodeId, Stat, Time};

use crate::engine::values::address::CachedAddress;
use crate::engine::values::descriptors::Descriptors;
use crate::engine::values::ids::IdHash;
use crate::engine::values::protection::Security;
use crate::engine::values::record::Record;
use bounded::{Bounded, SHARDS, Weight};
use new_files::MADE_BYTES;
pub(crate) use new_files::NewFile;

/// The bytes that an existing name counts for, beside its own length: the cached node here, and the host's
/// memory for an open descriptor.
const KEPT_BYTES: usize = 2048;
/// The bytes that a name counts for that does not exist.
const ABSENT_BYTES: usize = 160;
/// The bytes that the figures of a file count for, without a descriptor.
const FIGURES_BYTES: usize = 320;
/// The time for which an unused name is kept, in seconds. For that time its descriptor may hold the storage
/// of a file that was removed out of sight, or keep a file system from being unmounted.
const IDLE_S: u64 = 10;
/// Number of counters of written records.
const WRITTEN: usize = 1024;

/// The cached target of an exact name in a directory.
#[derive(Clone)]
pub(crate) enum CachedTarget {
    /// The name leads to this node.
    There(Arc<KeptNode>),
    /// The name does not exist.
    Absent,
}

impl CachedTarget {
    /// The weight of the entry under a name.
    fn weight(&self, name: &Name) -> Weight {
        match self {
            CachedTarget::There(_) => weight_of_node(name),
            CachedTarget::Absent => Weight::of_bytes(ABSENT_BYTES + name.as_bytes().len()),
        }
    }
}

/// The weight of a node under a name.
fn weight_of_node(name: &Name) -> Weight {
    Weight { bytes: KEPT_BYTES + name.as_bytes().len(), descriptors: 1 }
}

/// A cached node. It is never open for writing: the host would not run such a file.
pub(crate) struct KeptNode {
    pub node: Arc<dyn Node>,
    pub address: CachedAddress,
}

impl KeptNode {
    pub fn new(node: Arc<dyn Node>) -> Arc<KeptNode> {
        Arc::new(KeptNode { node, address: CachedAddress::default() })
    }
}

/// The cached properties of a file beside its stat, valid for one time of change.
#[derive(Clone)]
pub(crate) struct CachedProperties {
    changed: Time,
    born: Option<Time>,
    written: u64,
    pub record: Record,
    pub security: Option<Arc<Security>>,
    /// Size of the extended attributes in list form.
    pub extended: Option<u32>,
    /// The address ([`volume::Node::address`]).
    pub address: Option<Box<[u8]>>,
}

impl CachedProperties {
    fn bytes(&self) -> usize {
        let address = self.address.as_deref().map_or(0, <[u8]>::len);
        FIGURES_BYTES + address + self.security.as_deref().map_or(0, security_bytes)
    }
}

fn security_bytes(security: &Security) -> usize {
    let list = |list: &Option<Acl>| list.as_ref().map_or(0, |list| list.encoded_len() + 96 * list.aces.len());
    256 + list(&security.descriptor.dacl) + list(&security.descriptor.sacl)
}

/// The size and the hit counters of the cache of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MetadataCaching {
    /// Whether the cache is on.
    pub on: bool,
    /// Names that were found without asking the volume, since the share was opened.
    pub hits: u64,
    /// Names for which the volume was asked while the cache was on.
    pub misses: u64,
    /// Cached names.
    pub names: usize,
    /// Files with cached attributes and descriptors.
    pub files: usize,
    /// Bytes that all entries count for.
    pub bytes: usize,
}

/// The cache of a share.
pub(crate) struct Cache {
    is_on: AtomicBool,
    names: Bounded<(u64, Name), CachedTarget>,
    figures: Bounded<NodeId, Arc<CachedProperties>, IdHash>,
    made: Bounded<(u64, Name), Arc<NewFile>>,
    written: Box<[AtomicU64]>,
    /// How often the engine has stored sidecar data of any file.
    stores: AtomicU64,
    /// Monotonic seconds at the last request or tick.
    now_s: AtomicU64,
    /// The part that is searched for idle names next.
    turn: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    /// The next serial number of a directory. Serials are never reused.
    serials: AtomicU64,
    /// Whether an entry may be on another file system than the root.
    has_mounted: AtomicBool,
    /// How often the whole cache was cleared.
    epoch: AtomicU64,
    /// How often a name of the share was removed, moved or replaced, or may have been.
    names_gone: AtomicU64,
}

impl Cache {
    /// A cache for at most `bytes` bytes: two thirds for names, a quarter for attribute records and
    /// security descriptors, the rest for new files. Nodes hold host descriptors from `descriptors`.
    pub fn new(bytes: usize, descriptors: &Arc<Descriptors>, is_on: bool) -> Cache {
        let none = Descriptors::new(0);
        Cache {
            is_on: AtomicBool::new(is_on),
            names: Bounded::new(bytes / 3 * 2, descriptors),
            figures: Bounded::new(bytes / 4, &none),
            made: Bounded::new(bytes / 12, &none),
            written: (0..WRITTEN).map(|_| AtomicU64::new(0)).collect(),
            stores: AtomicU64::new(0),
            now_s: AtomicU64::new(0),
            turn: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            serials: AtomicU64::new(1),
            has_mounted: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            names_gone: AtomicU64::new(1),
        }
    }

    /// Whether the cache is on.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Turns the cache on, or clears it and turns it off.
    pub fn set(&self, on: bool) {
        self.is_on.store(on, Ordering::Release);
        if !on {
            self.clear();
        }
    }

    /// A serial number that no directory had before.
    pub fn next_serial(&self) -> u64 {
        self.serials.fetch_add(1, Ordering::Relaxed)
    }

    /// Records the time.
    pub fn set_time(&self, now: wire::Now) {
        self.now_s.store(now.mono_ns / 1_000_000_000, Ordering::Relaxed);
    }

    /// Monotonic seconds at the last request or tick.
    pub fn now_s(&self) -> u64 {
        self.now_s.load(Ordering::Relaxed)
    }

    /// The counter of removed names; never zero. Take it before a name is looked up. Enter the target among
    /// the opens of its file. If the counter has another value then, check whether the name still leads to
    /// the target.
    pub fn names_gone(&self) -> u64 {
        self.names_gone.load(Ordering::Acquire)
    }

    /// A name was removed, and no entry leads to it any more.
    pub fn name_went(&self) {
        self.names_gone.fetch_add(1, Ordering::AcqRel);
    }

    /// The epoch. Take it before reading anything, settings too, that [`Cache::add`] is to add.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Clears the cache.
    pub fn clear(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.names.clear();
        self.figures.clear();
        self.made.clear();
    }

    /// Releases every descriptor. Returns false if there was none.
    pub(crate) fn give_back(&self) -> bool {
        let keeps = self.names.usage().0 > 0;
        if keeps {
            self.clear();
        }
        keeps
    }

    /// Drops names and figures that were not used lately. Each call searches one part of them.
    pub fn drop_idle(&self) {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let now_s = self.now_s();
        let since_s = now_s.saturating_sub(IDLE_S);
        self.names.drop_idle(turn, since_s, now_s);
        self.figures.drop_idle(turn, since_s, now_s);
        self.made.drop_idle(turn, since_s, now_s);
    }

    /// An entry from here on is on another file system than the root.
    pub fn note_mounted(&self) {
        self.has_mounted.store(true, Ordering::Release);
    }

    /// Drops names of files on other file systems than `home` that were not used for `idle_s` seconds.
    pub fn drop_mounted(&self, home: u64, idle_s: u64) {
        if !self.has_mounted.swap(false, Ordering::AcqRel) {
            return;
        }
        let now_s = self.now_s();
        let is_mounted = |target: &CachedTarget| match target {
            CachedTarget::There(kept) => kept.node.id().device != home,
            CachedTarget::Absent => false,
        };
        let is_any_left =
            self.names.drop_where(|answer| is_mounted(answer), |used_s| used_s + idle_s <= now_s);
        if is_any_left {
            self.note_mounted();
        }
    }

    /// Counts a name that was found without asking the volume.
    pub fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a name for which the volume had to be asked.
    pub fn missed(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// The cached target of a name in the directory with this serial.
    pub fn answer(&self, directory: u64, name: &Name) -> Option<CachedTarget> {
        self.names.get(&(directory, name.clone()), self.now_s())
    }

    /// Whether a node is worth its room under a name. Call it once before the node is cached.
    pub fn admits_node(&self, directory: u64, name: &Name) -> bool {
        self.is_on() && self.names.admits(&(directory, name.clone()), weight_of_node(name), self.now_s())
    }

    /// Caches the target of a name if it is worth its room and `is_right` still holds.
    pub fn keep(&self, directory: u64, name: &Name, answer: CachedTarget, is_right: impl FnOnce() -> bool) {
        let key = (directory, name.clone());
        if self.is_on() && self.names.admits(&key, answer.weight(name), self.now_s()) {
            self.keep_admitted(directory, name, answer, is_right);
        }
    }

    /// As [`Cache::keep`], for a node that [`Cache::admits_node`] has accepted.
    pub fn keep_admitted(
        &self,
        directory: u64,
        name: &Name,
        answer: CachedTarget,
        is_right: impl FnOnce() -> bool,
    ) {
        let (key, weight) = ((directory, name.clone()), answer.weight(name));
        self.names.put(key, answer, weight, self.now_s(), || self.is_on() && is_right());
    }

    /// Drops a name.
    pub fn forget(&self, directory: u64, name: &Name) {
        let key = (directory, name.clone());
        drop(self.made.remove(&key));
        // Closing a descriptor takes time, so it is dropped after the lock is released.
        drop(self.names.remove(&key));
    }

    /// The file that was created under a name a moment ago.
    pub fn made(&self, directory: u64, name: &Name) -> Option<Arc<NewFile>> {
        if self.is_on() { self.made.get(&(directory, name.clone()), self.now_s()) } else { None }
    }

    /// Caches that a file was created under a name, if `is_right` still holds.
    pub fn note_new_file(
        &self,
        directory: u64,
        name: &Name,
        made: &Arc<NewFile>,
        is_right: impl FnOnce() -> bool,
    ) {
        let (key, now_s) = ((directory, name.clone()), self.now_s());
        let weight = Weight::of_bytes(MADE_BYTES + name.as_bytes().len());
        if self.is_on() && self.made.admits(&key, weight, now_s) {
            self.made.put(key, Arc::clone(made), weight, now_s, || self.is_on() && is_right());
        }
    }

    /// Drops the entry of a file that was created under a name.
    pub fn forget_new_file(&self, directory: u64, name: &Name) {
        drop(self.made.remove(&(directory, name.clone())));
    }

    fn counter(&self, id: NodeId) -> &AtomicU64 {
        let mixed = (id.inode ^ id.device.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.written[(mixed >> 48) as usize % WRITTEN]
    }

    /// The counter of sidecar writes. Take it before reading properties of a file that are to be cached.
    pub fn written(&self, id: NodeId) -> u64 {
        self.counter(id).load(Ordering::Acquire)
    }

    /// The engine stores sidecar data of a file. Call it before and after.
    pub fn wrote(&self, id: NodeId) {
        self.stores.fetch_add(1, Ordering::AcqRel);
        self.counter(id).fetch_add(1, Ordering::AcqRel);
    }

    /// The counter of all sidecar writes. Take it before creating a file that is to be cached
    /// ([`Cache::new_file_now`]).
    pub fn stores(&self) -> u64 {
        self.stores.load(Ordering::Acquire)
    }

    /// The entry of a file that had this stat at its creation. None if sidecar data of any file was stored
    /// since `stores`, because it may have been this one.
    pub fn new_file_now(&self, stat: &Stat, stores: u64) -> Option<Arc<NewFile>> {
        let made = NewFile::new(stat, self.written(stat.id));
        (self.is_on() && self.stores() == stores).then(|| Arc::new(made))
    }

    /// The cached properties of a file at some stat. [`Cache::counts`] compares it with the current one.
    pub fn figures_of(&self, id: NodeId) -> Option<Arc<CachedProperties>> {
        if self.is_on() { self.figures.get(&id, self.now_s()) } else { None }
    }

    /// Whether cached properties of a file are valid for its current stat.
    pub fn counts(&self, known: &CachedProperties, stat: &Stat) -> bool {
        (known.changed, known.born, known.written) == (stat.changed, stat.born, self.written(stat.id))
    }

    /// The cached properties of a file with this stat.
    pub fn known(&self, stat: &Stat) -> Option<Arc<CachedProperties>> {
        self.figures_of(stat.id).filter(|known| self.counts(known, stat))
    }

    /// Caches the record of a file that had this stat before, with a time of change that no later change can
    /// have too. `written` was taken before the record was read.
    pub fn remember(&self, stat: &Stat, written: u64, record: Record) {
        let (changed, born) = (stat.changed, stat.born);
        let known = CachedProperties {
            changed,
            born,
            written,
            record,
            security: None,
            extended: None,
            address: None,
        };
        self.put(stat.id, known, self.epoch());
    }

    /// Adds properties to the entry of a file. They were read meanwhile and belong to the entry: a change on
    /// either side makes all of it invalid.
    pub fn add(&self, stat: &Stat, epoch: u64, more: impl FnOnce(&mut CachedProperties)) {
        if let Some(known) = self.known(stat) {
            let mut known = CachedProperties::clone(&known);
            more(&mut known);
            self.put(stat.id, known, epoch);
        }
    }

    fn put(&self, id: NodeId, known: CachedProperties, epoch: u64) {
        let (weight, written) = (Weight::of_bytes(known.bytes()), known.written);
        let is_right = || self.is_on() && self.epoch() == epoch && self.written(id) == written;
        if self.figures.admits(&id, weight, self.now_s()) {
            self.figures.put(id, Arc::new(known), weight, self.now_s(), is_right);
        }
    }

    /// The size and the hit counters of the cache.
    pub fn summary(&self) -> MetadataCaching {
        let ((names, name_bytes), (files, file_bytes)) = (self.names.usage(), self.figures.usage());
        let (made, made_bytes) = self.made.usage();
        MetadataCaching {
            on: self.is_on(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            names,
            files: files + made,
            bytes: name_bytes + file_bytes + made_bytes,
        }
    }
}

/// If the volume itself folds case, one file has many exact names, and events report one of them.
pub(crate) fn can_remember(properties: &volume::VolumeProperties) -> bool {
    properties.tells_changes && !properties.folds_case
}

#[cfg(test)]
mod tests {
    use volume::NodeKind;

    use super::*;

    /// A file that was changed last at this second.
    pub(super) fn stat(changed: i64) -> Stat {
        let at = |secs| Time { secs, nanos: 0 };
        Stat {
            id: NodeId { device: 1, inode: 2 },
            file_system: 0,
            kind: NodeKind::File,
            size: 0,
            allocated: 0,
            links: 1,
            mode: 0o644,
            uid: 0,
            gid: 0,
            rdev: 0,
            accessed: at(1),
            modified: at(1),
            changed: at(changed),
            born: Some(at(1)),
            fixed: false,
        }
    }

    #[test]
    fn figures_count_until_the_time_of_change_moves_or_the_engine_writes() {
        let cache = Cache::new(1 << 20, &Descriptors::new(99), true);
        let record = Record { extended_size: 7, ..Record::default() };
        cache.remember(&stat(5), cache.written(stat(5).id), record);
        cache.add(&stat(5), cache.epoch() + 1, |known| known.extended = Some(8));
        cache.add(&stat(5), cache.epoch(), |known| known.extended = Some(9));
        let known = cache.known(&stat(5)).unwrap();
        assert_eq!((known.record, known.extended), (record, Some(9)));
        assert!(cache.known(&stat(6)).is_none());
        assert!(cache.known(&Stat { born: None, ..stat(5) }).is_none(), "another file with its number");
        cache.wrote(stat(5).id);
        assert!(cache.known(&stat(5)).is_none());
        let before = cache.written(stat(5).id);
        cache.wrote(stat(5).id);
        cache.remember(&stat(5), before, record);
        assert!(cache.known(&stat(5)).is_none(), "read before it was written");
    }

    #[test]
    fn nothing_is_remembered_while_it_is_off() {
        let cache = Cache::new(1 << 20, &Descriptors::new(99), false);
        let name = Name::new(b"a").unwrap();
        cache.keep(1, &name, CachedTarget::Absent, || true);
        cache.remember(&stat(5), 0, Record::default());
        assert_eq!(cache.summary(), MetadataCaching::default());
        cache.set(true);
        cache.keep(1, &name, CachedTarget::Absent, || true);
        cache.keep(2, &name, CachedTarget::Absent, || false);
        cache.remember(&stat(5), 0, Record::default());
        assert!(
            matches!(cache.answer(1, &name), Some(CachedTarget::Absent)) && cache.answer(2, &name).is_none()
        );
        let summary = cache.summary();
        assert_eq!((summary.on, summary.names, summary.files), (true, 1, 1));
        assert_eq!(summary.bytes, ABSENT_BYTES + 1 + FIGURES_BYTES);
        cache.set(false);
        assert_eq!(cache.summary(), MetadataCaching::default());
    }
}
