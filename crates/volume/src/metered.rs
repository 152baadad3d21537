//! Wraps any volume, counts the bytes and files on it, and keeps it from growing beyond a quota.
//!
//! Start with [`MeteredVolume::new`] and [`Meter`]. The first takes the usage that was stored when the
//! volume was served last. The second holds the usage and the quota.
//!
//! The length of every regular file and named stream counts. A file counts once, however many names it
//! has, and a hole counts as if it were written. A file that has lost its last name counts until its last
//! open is closed. Directories, links, notes and attributes count no bytes. Storage that is allocated
//! behind a file's end does not count until the file grows into it.
//!
//! A second bound is the largest size of a single file ([`Meter::set_largest`]). It holds whether or not
//! anything is counted.
//!
//! A volume without a quota does not count ([`MeteredVolume::asleep`]): its nodes look at one flag, and
//! counting starts with [`Meter::wake`]. A change that was under way at that moment marks the count as
//! stale when it ends, and everything is counted once more.
//!
//! The module `node` sees every change of sizes and names. The module `file` holds the known sizes of one
//! file. Growth is reserved before it happens ([`Failure::NoSpace`] otherwise, and nothing is changed),
//! and the unused part of a reservation is returned. A [`Scan`] finds the changes that others make on the
//! host: it counts everything anew while clients continue.
//!
//! A call that creates, moves or removes a name locks that name. The name must not lead to another file
//! between the look at it and the change.
//!
//! Locks, in this order: the names, `Meter::moving`, the state of one file, a shard of the table of
//! files, the totals.

mod file;
mod node;
mod node_id_set;
mod scan;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::delegate::delegate;
use crate::{Failure, HostEvent, Name, Node, NodeId, NodeKind, Result, Space, Volume, VolumeProperties};

use file::FileMeter;
pub use node::MeteredNode;
use node_id_set::NodeIdSet;
pub use scan::Scan;

/// Shards of the table of files, and of the names.
const SHARDS: usize = 64;
/// The most directories that clients may move during a scan. With more, the scan starts again later.
const MAX_MOVED: usize = 1024;

/// The bytes and files on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes of files and streams.
    pub bytes: u64,
    /// Files, links and special files; directories are none.
    pub files: u64,
}

/// The progress of counting everything anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecountProgress {
    /// Files counted so far by the scan that is under way.
    pub under_way: Option<u64>,
    /// How often everything was counted since the volume was opened.
    pub finished: u64,
    /// Files and directories that the last scan had no permission to read.
    pub unreadable: u64,
}

/// The reason why a quota is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaRefusal {
    /// The usage exceeds the quota already.
    #[error(
        "{used} bytes are in use, more than its size of {asked}; remove {} bytes, or choose a larger size",
        .used - .asked
    )]
    BelowUsage {
        /// The bytes in use.
        used: u64,
        /// The quota that was requested.
        asked: u64,
    },
    /// The usage of the volume is not counted.
    #[error("the usage of the volume is not counted")]
    NotCounted,
}

/// The meters of all files that are open.
type Files = HashMap<NodeId, Weak<FileMeter>>;

/// A signed number of bytes and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct UsageDelta {
    bytes: i128,
    files: i64,
}

impl UsageDelta {
    fn add(&mut self, other: UsageDelta) {
        self.bytes += other.bytes;
        self.files += other.files;
    }

    fn negative(self) -> UsageDelta {
        UsageDelta { bytes: -self.bytes, files: -self.files }
    }

    /// The usage to report. Changes by others on the host can make a sum negative; it is reported as
    /// zero.
    fn usage(self) -> Usage {
        Usage {
            bytes: u64::try_from(self.bytes.max(0)).unwrap_or(u64::MAX),
            files: u64::try_from(self.files.max(0)).unwrap_or(0),
        }
    }
}

/// The running sum of a scan.
#[derive(Default)]
struct Recount {
    count: UsageDelta,
    /// The files that the sum includes.
    seen: NodeIdSet,
    /// Directories that were moved, and that the scan could therefore miss.
    moved: Vec<Arc<dyn Node>>,
    /// More directories were moved than `moved` may hold.
    has_too_many_moves: bool,
}

#[derive(Default)]
struct Totals {
    quota: Option<u64>,
    used: UsageDelta,
    /// The part of `used` that belongs to files without a name.
    nameless: UsageDelta,
    recount: Option<Recount>,
    /// Whether `used` is complete: it began with a stored usage, or a scan has finished since.
    is_known: bool,
    /// Whether a change was not counted, so that everything must be counted again.
    is_stale: bool,
    finished: u64,
    unreadable: u64,
}

impl Totals {
    /// The bytes that count against the quota. Until a first scan has finished, the sum of that scan may
    /// be larger than `used`.
    fn in_use(&self) -> i128 {
        let found = self.recount.as_ref().map_or(0, |recount| recount.count.bytes);
        self.used.bytes.max(if self.finished == 0 { found } else { 0 }).max(0)
    }

    fn apply(&mut self, id: NodeId, delta: UsageDelta, is_nameless: bool) {
        self.used.add(delta);
        if is_nameless {
            self.nameless.add(delta);
        }
        if let Some(recount) = &mut self.recount
            && (is_nameless || recount.seen.contains(id))
        {
            recount.count.add(delta);
        }
    }
}

/// Counts the bytes and files on a volume, and enforces its quota.
pub struct Meter {
    inner: Arc<dyn Volume>,
    /// Whether anything is counted. Once set, it stays set.
    is_awake: AtomicBool,
    /// The largest size of a file, in bytes.
    largest: AtomicU64,
    totals: Mutex<Totals>,
    files: Vec<Mutex<Files>>,
    /// Held while a change decides what a name leads to.
    names: Vec<Mutex<()>>,
    /// Held for reading while a name is created, moved or removed; for writing while a recount begins or
    /// ends.
    moving: RwLock<()>,
}

impl std::fmt::Debug for Meter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meter").field("usage", &self.usage()).finish_non_exhaustive()
    }
}

impl Meter {
    /// Whether changes are counted.
    #[must_use]
    pub fn is_awake(&self) -> bool {
        self.is_awake.load(Ordering::SeqCst)
    }

    /// Counts every change from now on. [`Meter::recount`] finds the files that exist already.
    pub fn wake(&self) {
        self.is_awake.store(true, Ordering::SeqCst);
    }

    /// Sets or lifts the largest size of a file or stream. A file that is larger already keeps its size,
    /// and may be changed within it.
    pub fn set_largest(&self, bytes: Option<u64>) {
        self.largest.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The largest size of a file or stream. With `None` only the host limits it.
    #[must_use]
    pub fn largest(&self) -> Option<u64> {
        Some(self.largest.load(Ordering::Relaxed)).filter(|bytes| *bytes < u64::MAX)
    }

    /// Refuses data of a node that would reach up to `end`, if that is beyond the largest size.
    fn check_largest(&self, node: &dyn Node, end: u64) -> Result<()> {
        if end <= self.largest.load(Ordering::Relaxed) || end <= node.stat()?.size {
            return Ok(());
        }
        Err(Failure::TooLarge)
    }

    /// Whether the count has missed a change, so that everything must be counted anew.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.totals.lock().is_stale
    }

    /// Marks the count as stale after a change that began before anything was counted.
    fn mark_uncounted_change(&self) {
        if self.is_awake() {
            let mut totals = self.totals.lock();
            totals.is_stale = true;
            if let Some(recount) = &mut totals.recount {
                recount.has_too_many_moves = true;
            }
        }
    }

    /// The usage, as far as it is known.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let totals = self.totals.lock();
        UsageDelta { bytes: totals.in_use(), files: totals.used.files }.usage()
    }

    /// The usage to store for the next start: without the files that end with the process. `None` until
    /// the usage is known.
    #[must_use]
    pub fn to_keep(&self) -> Option<Usage> {
        let totals = self.totals.lock();
        let mut named = totals.used;
        named.add(totals.nameless.negative());
        totals.is_known.then(|| named.usage())
    }

    /// The quota in bytes.
    #[must_use]
    pub fn quota(&self) -> Option<u64> {
        self.totals.lock().quota
    }

    /// Sets or lifts the quota.
    ///
    /// # Errors
    /// [`QuotaRefusal::BelowUsage`] when the new quota is lower than the old one and lower than the
    /// usage.
    pub fn set_quota(&self, quota: Option<u64>) -> std::result::Result<(), QuotaRefusal> {
        let mut totals = self.totals.lock();
        check_quota(&totals, quota)?;
        totals.quota = quota;
        Ok(())
    }

    /// Checks whether [`Meter::set_quota`] would succeed now.
    ///
    /// # Errors
    /// Those of [`Meter::set_quota`].
    pub fn check_quota(&self, quota: Option<u64>) -> std::result::Result<(), QuotaRefusal> {
        check_quota(&self.totals.lock(), quota)
    }

    /// The progress of counting everything anew.
    #[must_use]
    pub fn counting(&self) -> RecountProgress {
        let totals = self.totals.lock();
        let so_far = |recount: &Recount| recount.count.usage().files;
        RecountProgress {
            under_way: totals.recount.as_ref().map(so_far),
            finished: totals.finished,
            unreadable: totals.unreadable,
        }
    }

    /// Begins to count everything anew.
    ///
    /// # Errors
    /// [`Failure::Busy`] while another scan is under way; errors of the volume about its root.
    pub fn recount(self: &Arc<Meter>) -> Result<Scan> {
        Scan::begin(self)
    }

    /// Reserves `bytes` more for a file.
    fn reserve(&self, id: NodeId, bytes: u64, is_nameless: bool) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let mut totals = self.totals.lock();
        fits(&totals, bytes)?;
        totals.apply(id, UsageDelta { bytes: bytes.into(), files: 0 }, is_nameless);
        Ok(())
    }

    /// Checks that `bytes` more would fit, without a reservation.
    fn check_room(&self, bytes: u64) -> Result<()> {
        fits(&self.totals.lock(), bytes)
    }

    /// Adds a change of a file to the usage.
    fn note(&self, id: NodeId, delta: UsageDelta, is_nameless: bool) {
        if delta != UsageDelta::default() {
            self.totals.lock().apply(id, delta, is_nameless);
        }
    }

    /// Counts a new file. The scan that is under way may have found it already.
    fn made(&self, id: NodeId, files: i64, whole: UsageDelta) {
        let mut totals = self.totals.lock();
        totals.used.files += files;
        if let Some(recount) = &mut totals.recount
            && recount.seen.insert(id)
        {
            recount.count.add(whole);
        }
    }

    /// Adds a file to the sum of the scan that is under way, if there is one. Each file is added once.
    fn see(&self, id: NodeId, whole: UsageDelta) {
        if let Some(recount) = &mut self.totals.lock().recount
            && recount.seen.insert(id)
        {
            recount.count.add(whole);
        }
    }

    /// Marks a file that has lost its last name. It counts until it is closed.
    fn lost_name(&self, id: NodeId, whole: UsageDelta) {
        let mut totals = self.totals.lock();
        totals.nameless.add(whole);
        if let Some(recount) = &mut totals.recount
            && !recount.seen.remove(id)
        {
            recount.count.add(whole);
        }
    }

    /// Remembers a directory that moves. It may move from a part that the scan has not visited to one
    /// that it has.
    fn note_moved(&self, directory: &Arc<dyn Node>) {
        if let Some(recount) = &mut self.totals.lock().recount {
            if recount.moved.len() < MAX_MOVED {
                recount.moved.push(Arc::clone(directory));
            } else {
                recount.has_too_many_moves = true;
            }
        }
    }

    fn is_counting(&self) -> bool {
        self.totals.lock().recount.is_some()
    }

    fn shard(&self, id: NodeId) -> &Mutex<Files> {
        let mixed = (id.inode ^ id.device.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.files[(mixed >> 32) as usize % SHARDS]
    }

    /// Locks these names, each in a directory, until the result is dropped.
    fn lock_names<const N: usize>(&self, names: [(NodeId, &Name); N]) -> Vec<MutexGuard<'_, ()>> {
        // If the host folds case, several spellings mean one name: the whole directory is locked.
        let folds = self.inner.properties().folds_case;
        let shard = |(directory, name): (NodeId, &Name)| {
            let mut hasher = DefaultHasher::new();
            (directory, if folds { &[] } else { name.as_bytes() }).hash(&mut hasher);
            hasher.finish() as usize % SHARDS
        };
        let mut shards = names.map(shard);
        shards.sort_unstable();
        let is_first = |at: &usize| *at == 0 || shards[*at - 1] != shards[*at];
        (0..N).filter(is_first).map(|at| self.names[shards[at]].lock()).collect()
    }

    /// The meter of a file. All who have the file open share it.
    fn enter(self: &Arc<Meter>, id: NodeId, kind: NodeKind) -> Arc<FileMeter> {
        let mut shard = self.shard(id).lock();
        if let Some(known) = shard.get(&id).and_then(Weak::upgrade) {
            return known;
        }
        let new = FileMeter::new(self, id, kind);
        shard.insert(id, Arc::downgrade(&new));
        new
    }

    /// Removes the meter of a file that nobody has open any more.
    fn leave(&self, id: NodeId) {
        let mut shard = self.shard(id).lock();
        // The file may have been opened again meanwhile.
        if shard.get(&id).is_some_and(|left| left.strong_count() == 0) {
            shard.remove(&id);
        }
    }
}

fn check_quota(totals: &Totals, quota: Option<u64>) -> std::result::Result<(), QuotaRefusal> {
    let used = UsageDelta { bytes: totals.in_use(), files: 0 }.usage().bytes;
    // Others on the host may have filled the volume beyond its quota. Keeping or raising the quota is
    // allowed even then.
    let is_lower = |asked: u64| totals.quota.is_none_or(|now| asked < now);
    match quota {
        Some(asked) if asked < used && is_lower(asked) => Err(QuotaRefusal::BelowUsage { used, asked }),
        _ => Ok(()),
    }
}

fn fits(totals: &Totals, bytes: u64) -> Result<()> {
    let is_beyond = |quota: u64| totals.in_use() + i128::from(bytes) > i128::from(quota);
    if bytes > 0 && totals.quota.is_some_and(is_beyond) { Err(Failure::NoSpace) } else { Ok(()) }
}

/// A volume whose bytes and files are counted.
pub struct MeteredVolume {
    meter: Arc<Meter>,
}

impl MeteredVolume {
    /// The host's space, limited by the quota. The host may have less than the quota promises.
    fn bounded(&self, host: Space) -> Space {
        let Some(quota) = self.meter.quota() else { return host };
        let left = quota.saturating_sub(self.meter.usage().bytes);
        Space { total: quota, free: left.min(host.free), available: left.min(host.available), ..host }
    }

    /// Wraps a volume. `kept` is the result of [`Meter::to_keep`] from the last time that it was served.
    /// Without it the usage is unknown until a first scan has finished.
    #[must_use]
    pub fn new(inner: Arc<dyn Volume>, quota: Option<u64>, kept: Option<Usage>) -> MeteredVolume {
        let volume = MeteredVolume::made(inner, quota, kept);
        volume.meter.wake();
        volume
    }

    /// Wraps a volume on which nothing is counted yet.
    #[must_use]
    pub fn asleep(inner: Arc<dyn Volume>) -> MeteredVolume {
        MeteredVolume::made(inner, None, None)
    }

    fn made(inner: Arc<dyn Volume>, quota: Option<u64>, kept: Option<Usage>) -> MeteredVolume {
        let files = |usage: Usage| i64::try_from(usage.files).unwrap_or(i64::MAX);
        let used = kept.map_or(UsageDelta::default(), |kept| UsageDelta {
            bytes: kept.bytes.into(),
            files: files(kept),
        });
        let meter = Meter {
            inner,
            is_awake: AtomicBool::new(false),
            largest: AtomicU64::new(u64::MAX),
            totals: Mutex::new(Totals { quota, used, is_known: kept.is_some(), ..Totals::default() }),
            files: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            names: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            moving: RwLock::new(()),
        };
        MeteredVolume { meter: Arc::new(meter) }
    }
}

impl Volume for MeteredVolume {
    delegate! {
        |it| it.meter.inner;
        fn properties(&self) -> &VolumeProperties;
        fn is_short(&self) -> bool;
        fn release_unused(&self);
        fn unwatch(&self, directory: NodeId);
        fn take_events(&self, sink: &mut dyn FnMut(HostEvent));
        fn wait_events(&self, at_most: Duration) -> bool;
    }

    fn root(&self) -> Result<Arc<dyn Node>> {
        Ok(MeteredNode::wrap(self.meter.inner.root()?, &self.meter))
    }

    fn find(&self, address: &[u8]) -> Result<Arc<dyn Node>> {
        Ok(MeteredNode::wrap(self.meter.inner.find(address)?, &self.meter))
    }

    fn space(&self) -> Result<Space> {
        self.meter.inner.space().map(|host| self.bounded(host))
    }

    fn space_at(&self, node: &dyn Node) -> Result<Space> {
        self.meter.inner.space_at(MeteredNode::unwrap(node)).map(|host| self.bounded(host))
    }

    fn watch(&self, directory: &dyn Node) -> Result<()> {
        self.meter.inner.watch(MeteredNode::unwrap(directory))
    }

    fn meter(&self) -> Option<&Arc<Meter>> {
        Some(&self.meter)
    }
}

#[cfg(test)]
mod tests;
