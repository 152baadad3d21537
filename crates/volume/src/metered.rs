//! Wraps any volume, counts what lies on it, and keeps it from growing beyond a bound.
//!
//! Start with [`MeteredVolume::new`], which is given what was counted when it was served last, and [`Meter`], which
//! knows the counts and the bound. What counts is the length of every regular file and named stream, once whatever
//! number of names it has, holes as if they were written; a file that has lost its last name counts until nobody has
//! it open any more. Directories, links, notes and attributes count no bytes, and storage that was only set aside
//! behind a file's end counts none until the file grows into it.
//!
//! A second bound is how large a single file may become ([`Meter::set_largest`]), which is kept whether or not anything is
//! counted.
//!
//! A volume without a bound sleeps ([`MeteredVolume::asleep`]): its nodes look at one flag, and nothing is counted
//! until [`Meter::wake`]. Who was in the middle of a change at that moment finds out behind it, and has everything
//! counted once more.
//!
//! `node` sees all that changes sizes and names, `file` holds what is known of one file, so that what is going to grow
//! is reserved before it does ([`Failure::NoSpace`] otherwise, with nothing done) and what was not used is given back.
//! What others change on the host is found by a [`Scan`], which counts everything anew while clients go on.
//!
//! Who makes, moves or removes a name has it alone meanwhile: what a name led to before a change must be what the change has taken
//! it from.
//!
//! Locks, in this order: the names, `Meter::moving`, the state of one file, a shard of the table of files, the totals.

mod file;
mod node;
mod scan;
mod seen;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::delegate::delegate;
use crate::{Facts, Failure, HostEvent, Kind, Name, Node, NodeId, Result, Space, Volume};

use file::FileMeter;
pub use node::MeteredNode;
pub use scan::Scan;
use seen::Seen;

/// Shards of the table of files, and of the names.
const SHARDS: usize = 64;
/// Directories that clients move while everything is counted anew, at most; with more the count begins again later.
const MAX_MOVED: usize = 1024;

/// What lies on a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Bytes of files and streams.
    pub bytes: u64,
    /// Files, links and special files; directories are none.
    pub files: u64,
}

/// How far counting anew has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counting {
    /// Files counted so far, while it is under way.
    pub under_way: Option<u64>,
    /// How often everything was counted since the volume was opened.
    pub finished: u64,
    /// Files and directories that the process could not look into, the last time.
    pub unreadable: u64,
}

/// Why a bound is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotaRefusal {
    /// More is there already.
    #[error(
        "{used} bytes lie there, more than the {asked} it shall have; remove {} bytes, or give it a larger size",
        .used - .asked
    )]
    BelowUsage {
        /// Bytes that lie there.
        used: u64,
        /// Bytes that were asked for.
        asked: u64,
    },
    /// What lies there is not counted.
    #[error("what lies there is not counted")]
    NotCounted,
}

/// What is known of files that somebody has.
type Files = HashMap<NodeId, Weak<FileMeter>>;

/// A signed number of bytes and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Count {
    bytes: i128,
    files: i64,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.bytes += other.bytes;
        self.files += other.files;
    }

    fn negative(self) -> Count {
        Count { bytes: -self.bytes, files: -self.files }
    }

    /// What is shown: a count that others on the host made wrong is never below nothing.
    fn usage(self) -> Usage {
        Usage {
            bytes: u64::try_from(self.bytes.max(0)).unwrap_or(u64::MAX),
            files: u64::try_from(self.files.max(0)).unwrap_or(0),
        }
    }
}

/// The count that is under way.
#[derive(Default)]
struct Recount {
    count: Count,
    /// Files that are in it.
    seen: Seen,
    /// Directories that were moved and may so escape it.
    moved: Vec<Arc<dyn Node>>,
    /// More were moved than are kept.
    is_spoiled: bool,
}

#[derive(Default)]
struct Totals {
    quota: Option<u64>,
    used: Count,
    /// Those of `used` that have no name any more.
    nameless: Count,
    recount: Option<Recount>,
    /// `used` began with what was known, or everything was counted since.
    is_known: bool,
    /// Something was changed past the count, which is therefore to be made again.
    is_stale: bool,
    finished: u64,
    unreadable: u64,
}

impl Totals {
    /// What counts against the bound. Before everything was counted once, what was found so far may be more.
    fn in_use(&self) -> i128 {
        let found = self.recount.as_ref().map_or(0, |recount| recount.count.bytes);
        self.used.bytes.max(if self.finished == 0 { found } else { 0 }).max(0)
    }

    fn apply(&mut self, id: NodeId, delta: Count, is_nameless: bool) {
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

/// Counts what lies on a volume, and knows its bound.
pub struct Meter {
    inner: Arc<dyn Volume>,
    /// Whether anything is counted. Never taken back.
    is_awake: AtomicBool,
    /// How far the data of a file may reach.
    largest: AtomicU64,
    totals: Mutex<Totals>,
    files: Vec<Mutex<Files>>,
    /// Held while what a name leads to changes.
    names: Vec<Mutex<()>>,
    /// Read while a name is made, moves or goes, written when a recount begins or ends.
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

    /// Counts every change from now on. What lies there already is found by [`Meter::recount`].
    pub fn wake(&self) {
        self.is_awake.store(true, Ordering::SeqCst);
    }

    /// Sets or lifts how large a file or stream may become. One that is larger already is not made smaller, and may be
    /// changed within its length.
    pub fn set_largest(&self, bytes: Option<u64>) {
        self.largest.store(bytes.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How large a file or stream may become; none: as large as the host lets it.
    #[must_use]
    pub fn largest(&self) -> Option<u64> {
        Some(self.largest.load(Ordering::Relaxed)).filter(|bytes| *bytes < u64::MAX)
    }

    /// Whether the data of a node may reach up to `end`.
    fn check_largest(&self, node: &dyn Node, end: u64) -> Result<()> {
        if end <= self.largest.load(Ordering::Relaxed) || end <= node.stat()?.size {
            return Ok(());
        }
        Err(Failure::TooLarge)
    }

    /// Whether the count has missed a change, and everything is to be counted anew.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.totals.lock().is_stale
    }

    /// Something was changed that was begun while nothing was counted.
    fn passed_by(&self) {
        if self.is_awake() {
            let mut totals = self.totals.lock();
            totals.is_stale = true;
            if let Some(recount) = &mut totals.recount {
                recount.is_spoiled = true;
            }
        }
    }

    /// What lies there, as far as is known.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let totals = self.totals.lock();
        Count { bytes: totals.in_use(), files: totals.used.files }.usage()
    }

    /// The same without what will be gone with the process: what is to be known at the next start. None as long as
    /// it is not known.
    #[must_use]
    pub fn to_keep(&self) -> Option<Usage> {
        let totals = self.totals.lock();
        let mut named = totals.used;
        named.add(totals.nameless.negative());
        totals.is_known.then(|| named.usage())
    }

    /// The bound in bytes.
    #[must_use]
    pub fn quota(&self) -> Option<u64> {
        self.totals.lock().quota
    }

    /// Sets or lifts the bound.
    ///
    /// # Errors
    /// [`QuotaRefusal::BelowUsage`] where it is to be lower than it is.
    pub fn set_quota(&self, quota: Option<u64>) -> std::result::Result<(), QuotaRefusal> {
        let mut totals = self.totals.lock();
        check_quota(&totals, quota)?;
        totals.quota = quota;
        Ok(())
    }

    /// Whether [`Meter::set_quota`] would do it now.
    ///
    /// # Errors
    /// As there.
    pub fn check_quota(&self, quota: Option<u64>) -> std::result::Result<(), QuotaRefusal> {
        check_quota(&self.totals.lock(), quota)
    }

    /// How far counting anew has come.
    #[must_use]
    pub fn counting(&self) -> Counting {
        let totals = self.totals.lock();
        let so_far = |recount: &Recount| recount.count.usage().files;
        Counting {
            under_way: totals.recount.as_ref().map(so_far),
            finished: totals.finished,
            unreadable: totals.unreadable,
        }
    }

    /// Begins to count everything anew.
    ///
    /// # Errors
    /// [`Failure::Busy`] while another count is under way; what the volume says of its root.
    pub fn recount(self: &Arc<Meter>) -> Result<Scan> {
        Scan::begin(self)
    }

    /// Reserves room for `bytes` more of a file.
    fn reserve(&self, id: NodeId, bytes: u64, is_nameless: bool) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let mut totals = self.totals.lock();
        fits(&totals, bytes)?;
        totals.apply(id, Count { bytes: bytes.into(), files: 0 }, is_nameless);
        Ok(())
    }

    /// Whether there is room for `bytes` more, without taking it.
    fn check_room(&self, bytes: u64) -> Result<()> {
        fits(&self.totals.lock(), bytes)
    }

    /// Notes what has changed of a file.
    fn note(&self, id: NodeId, delta: Count, is_nameless: bool) {
        if delta != Count::default() {
            self.totals.lock().apply(id, delta, is_nameless);
        }
    }

    /// A file was made. The count that is under way may have found it already.
    fn made(&self, id: NodeId, files: i64, whole: Count) {
        let mut totals = self.totals.lock();
        totals.used.files += files;
        if let Some(recount) = &mut totals.recount
            && recount.seen.insert(id)
        {
            recount.count.add(whole);
        }
    }

    /// Has a file in the count that is under way, if there is one, once.
    fn see(&self, id: NodeId, whole: Count) {
        if let Some(recount) = &mut self.totals.lock().recount
            && recount.seen.insert(id)
        {
            recount.count.add(whole);
        }
    }

    /// A file has lost its last name; it counts until it is closed.
    fn lost_name(&self, id: NodeId, whole: Count) {
        let mut totals = self.totals.lock();
        totals.nameless.add(whole);
        if let Some(recount) = &mut totals.recount
            && !recount.seen.remove(id)
        {
            recount.count.add(whole);
        }
    }

    /// A directory moves, maybe from where the count that is under way has not been to where it has.
    fn moves(&self, directory: &Arc<dyn Node>) {
        if let Some(recount) = &mut self.totals.lock().recount {
            if recount.moved.len() < MAX_MOVED {
                recount.moved.push(Arc::clone(directory));
            } else {
                recount.is_spoiled = true;
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

    /// Has these names, each in a directory, alone until what is given back is dropped.
    fn alone<const N: usize>(&self, names: [(NodeId, &Name); N]) -> Vec<MutexGuard<'_, ()>> {
        // Where the host takes several spellings for one name, its whole directory is meant.
        let folds = self.inner.facts().folds_case;
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

    /// What is known of a file for as long as anybody has it.
    fn enter(self: &Arc<Meter>, id: NodeId, kind: Kind) -> Arc<FileMeter> {
        let mut shard = self.shard(id).lock();
        if let Some(known) = shard.get(&id).and_then(Weak::upgrade) {
            return known;
        }
        let new = FileMeter::new(self, id, kind);
        shard.insert(id, Arc::downgrade(&new));
        new
    }

    /// Nobody has the file any more.
    fn leave(&self, id: NodeId) {
        let mut shard = self.shard(id).lock();
        // Somebody may have come back meanwhile.
        if shard.get(&id).is_some_and(|left| left.strong_count() == 0) {
            shard.remove(&id);
        }
    }
}

fn check_quota(totals: &Totals, quota: Option<u64>) -> std::result::Result<(), QuotaRefusal> {
    let used = Count { bytes: totals.in_use(), files: 0 }.usage().bytes;
    // Others on the host may have filled it beyond its bound: that is kept or raised all the same.
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

/// A volume on which everything is counted.
pub struct MeteredVolume {
    meter: Arc<Meter>,
}

impl MeteredVolume {
    /// The host's room within the bound. The host may have less than was promised.
    fn bounded(&self, host: Space) -> Space {
        let Some(quota) = self.meter.quota() else { return host };
        let left = quota.saturating_sub(self.meter.usage().bytes);
        Space { total: quota, free: left.min(host.free), available: left.min(host.available), ..host }
    }

    /// Wraps a volume. `kept` is what [`Meter::to_keep`] said when it was served last; without it nothing is known
    /// until everything was counted once.
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
        let used =
            kept.map_or(Count::default(), |kept| Count { bytes: kept.bytes.into(), files: files(kept) });
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
        fn facts(&self) -> &Facts;
        fn is_short(&self) -> bool;
        fn keep_room(&self);
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
