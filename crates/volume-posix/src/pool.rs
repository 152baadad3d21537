//! Descriptors of unused files. They are closed when descriptors run short, and opened again by the
//! file's handle.
//!
//! While fewer than half of the descriptors are in use, the pool does and stores nothing. A file whose
//! descriptor is in the upper half enters the pool. Each call that uses it holds a reference meanwhile
//! ([`PosixNode::fd`]). When descriptors are needed, the unused files that were used longest ago are
//! closed ([`close_idle`]).
//!
//! A file is never closed if its handle might not lead back to it: a file without a name, one of another
//! mount than the root's, one without a birth time. Written data goes to stable storage first, because a
//! later descriptor would not report a failure (fsync(2)). Nobody can find a file by its handle after its
//! last name is gone. So before a name is removed, closed files behind it are opened again
//! ([`reopen_before_removal`]). That holds for this process. When a program of the host removes a closed
//! file, its users get [`Failure::Stale`].
//!
//! Locks, in this order: `NAME_REMOVAL`, `POOL`, `Pooled::open`. No file is opened or synced under the last
//! two.
//!
//! [`PosixNode::fd`]: crate::node::PosixNode::fd

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustix::fs::OFlags;
use rustix::io::{self, Errno};
use volume::{Failure, NodeId, NodeKind, OpenHow, Result, Time};
use wire::Source;

use crate::bytes::is_cached;
use crate::errno::call;
use crate::open::ALWAYS;
use crate::reserve;
use crate::root::Root;
use crate::stat::{stat_below, stat_fd};
use crate::sys::{self, Handle, is_gone};

/// The most files that are closed at once. Of few files it is an eighth.
const MOST: usize = 256;
/// The least number of files that are closed at once.
const FEWEST: usize = 4;
/// The most of these files that need a sync first. The caller that needs a descriptor waits for it.
const MOST_WRITTEN: usize = 16;

/// The descriptor of a node.
pub(crate) enum Descriptor {
    /// The descriptor of the root, which all nodes of the volume share.
    OfRoot,
    /// A descriptor that stays open as long as the node.
    Kept(OwnedFd),
    /// A descriptor that may be closed while it is unused.
    Pooled(Arc<Pooled>),
}

/// A descriptor that stays open during a call.
pub(crate) enum DescriptorGuard<'a> {
    Kept(BorrowedFd<'a>),
    Pooled(Arc<OpenFile>),
}

impl AsFd for DescriptorGuard<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            DescriptorGuard::Kept(fd) => *fd,
            DescriptorGuard::Pooled(file) => file.fd.as_fd(),
        }
    }
}

/// A file of the pool while it is open.
pub(crate) struct OpenFile {
    fd: OwnedFd,
    is_in_memory: bool,
}

impl Source for OpenFile {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn is_cached(&self, at: u64, len: usize) -> bool {
        self.is_in_memory || is_cached(self.fd.as_fd(), at, len)
    }
}

/// A file of the pool, with the data to open it again.
pub(crate) struct Pooled {
    root: Arc<Root>,
    id: NodeId,
    born: Time,
    /// The flags of the first open, without those that create, truncate or wait.
    flags: OFlags,
    /// `None` while it is closed.
    open: Mutex<Option<Arc<OpenFile>>>,
    /// Set when the file is closed for the first time.
    handle: OnceLock<Handle>,
    /// The time of the last use, by [`CLOCK`].
    used: AtomicU32,
    /// Whether written data may not be on stable storage yet.
    is_written: AtomicBool,
    /// Whether a sync has failed and no caller was told.
    has_failed: AtomicBool,
    /// Whether its handle does not lead back to it, so that it must stay open.
    is_fixed: AtomicBool,
}

/// All files of the pool.
#[derive(Default)]
struct Pool {
    files: Vec<Weak<Pooled>>,
    /// The number of entries from which those of files that are gone are removed.
    tidy_at: usize,
    /// The files that are closed. Some of them may be open again.
    closed: HashMap<NodeId, Vec<Weak<Pooled>>>,
    /// The time until which no files are closed ahead of need.
    rest_until: u32,
}

impl Pool {
    fn enter(&mut self, file: &Arc<Pooled>) {
        if self.files.len() >= self.tidy_at {
            self.files.retain(|known| known.strong_count() > 0);
            self.tidy_at = (self.files.len() * 2).max(64);
        }
        self.files.push(Arc::downgrade(file));
    }

    /// Removes the entries of files that are gone. Each holds the memory of a file.
    fn forget_gone(&mut self) {
        self.files.retain(|known| known.strong_count() > 0);
        self.files.shrink_to_fit();
        self.tidy_at = (self.files.len() * 2).max(64);
        self.closed.retain(|_, files| {
            files.retain(|known| known.strong_count() > 0);
            !files.is_empty()
        });
        self.closed.shrink_to_fit();
    }
}

static POOL: LazyLock<Mutex<Pool>> = LazyLock::new(Mutex::default);
/// Held for reading while a name is removed, for writing while files are closed.
static NAME_REMOVAL: RwLock<()> = RwLock::new(());
/// Whether any file may be closed.
static ANY_CLOSED: AtomicBool = AtomicBool::new(false);
/// Counts files that enter the pool or are opened again. It is the clock of the pool.
static CLOCK: AtomicU32 = AtomicU32::new(0);
/// The number of files that are gone since their entries were last removed.
static GONE: AtomicUsize = AtomicUsize::new(0);
/// How many times a file was closed.
static CLOSED: AtomicU64 = AtomicU64::new(0);
static OPENED_AGAIN: AtomicU64 = AtomicU64::new(0);

impl Descriptor {
    /// The descriptor for a node that was just opened.
    pub(crate) fn of(
        root: &Arc<Root>,
        fd: OwnedFd,
        id: NodeId,
        kind: NodeKind,
        born: Time,
        how: OpenHow,
        is_path: bool,
    ) -> Descriptor {
        let is_found_again = root.mount.is_some() && id.device == root.id.device && born != Time::default();
        if !is_found_again || kind == NodeKind::Directory || !reserve::is_high(fd.as_fd()) {
            return Descriptor::Kept(fd);
        }
        let flags = match how {
            _ if is_path => OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            OpenHow::ReadWrite => OFlags::RDWR | ALWAYS,
            OpenHow::Read | OpenHow::Attributes => OFlags::RDONLY | ALWAYS,
        };
        let file = OpenFile { fd, is_in_memory: root.is_in_memory };
        let pooled = Arc::new(Pooled {
            root: Arc::clone(root),
            id,
            born,
            flags,
            open: Mutex::new(Some(Arc::new(file))),
            handle: OnceLock::new(),
            used: AtomicU32::new(now()),
            is_written: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_fixed: AtomicBool::new(false),
        });
        POOL.lock().enter(&pooled);
        Descriptor::Pooled(pooled)
    }
}

/// Advances the clock.
fn now() -> u32 {
    CLOCK.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

impl Pooled {
    /// The file, opened again if it is closed.
    ///
    /// # Errors
    /// `ESTALE` when the file is gone; `EMFILE`; errors of the host.
    pub(crate) fn file(&self) -> io::Result<Arc<OpenFile>> {
        let now = CLOCK.load(Ordering::Relaxed);
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
        if let Some(file) = &*self.open.lock() {
            return Ok(Arc::clone(file));
        }
        self.opened_again(|open| reserve::open_with_reserve(open))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.open.lock().is_none()
    }

    /// Opens the file by its handle. `open` may first close other files.
    fn opened_again(
        &self,
        open: impl FnOnce(&dyn Fn() -> io::Result<OwnedFd>) -> io::Result<OwnedFd>,
    ) -> io::Result<Arc<OpenFile>> {
        let handle = self.handle.get().ok_or(Errno::STALE)?;
        let fd = open(&|| {
            let opened = handle.open_for(self.root.fd.as_fd(), self.flags);
            opened.map_err(|errno| if is_gone(errno) { Errno::STALE } else { errno })
        })?;
        if !stat_fd(&fd).is_ok_and(|stat| stat.id == self.id && stat.born == Some(self.born)) {
            return Err(Errno::STALE);
        }
        let mut open = self.open.lock();
        // Another thread may have opened it first.
        let file = open.get_or_insert_with(|| {
            OPENED_AGAIN.fetch_add(1, Ordering::Relaxed);
            self.used.store(now(), Ordering::Relaxed);
            Arc::new(OpenFile { fd, is_in_memory: self.root.is_in_memory })
        });
        Ok(Arc::clone(file))
    }

    /// Records that data is written through the file.
    pub(crate) fn note_write(&self) {
        if !self.is_written.load(Ordering::Relaxed) {
            self.is_written.store(true, Ordering::Release);
        }
    }

    /// Records that the written data is about to be synced.
    ///
    /// # Errors
    /// [`Failure::Io`] when a sync has failed and no caller was told.
    pub(crate) fn note_sync(&self) -> Result<()> {
        self.is_written.store(false, Ordering::Release);
        if self.has_failed.swap(false, Ordering::AcqRel) { Err(Failure::Io) } else { Ok(()) }
    }

    /// Syncs the written data. False when that fails: the file must stay open then, and the next caller
    /// gets the error.
    fn store(&self) -> bool {
        let Some(file) = self.open.lock().clone() else { return false };
        self.is_written.store(false, Ordering::Release);
        let is_stored = call(|| rustix::fs::fdatasync(&file.fd)).is_ok();
        if !is_stored {
            self.has_failed.store(true, Ordering::Release);
            self.is_fixed.store(true, Ordering::Relaxed);
        }
        is_stored
    }

    /// Takes the descriptor out to be closed, unless the file is used or its handle would not lead back.
    /// `NAME_REMOVAL` is held, so that the last name is not removed meanwhile.
    fn take_idle(&self) -> Option<Arc<OpenFile>> {
        let file = self.open.lock().clone()?;
        if self.handle.get().is_none() {
            match Handle::with_mount(file.fd.as_fd()) {
                Ok((handle, mount)) if Some(mount) == self.root.mount => drop(self.handle.set(handle)),
                _ => self.is_fixed.store(true, Ordering::Relaxed),
            }
        }
        let has_name = stat_fd(&file.fd).is_ok_and(|stat| stat.links > 0);
        let is_fixed = self.is_fixed.load(Ordering::Relaxed);
        let mut open = self.open.lock();
        // A user took a reference under the lock. Without users there are two: this one and the pool's.
        let is_used = Arc::strong_count(&file) > 2 || self.is_written.load(Ordering::Acquire);
        if is_fixed || !has_name || is_used { None } else { open.take() }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        GONE.fetch_add(1, Ordering::Relaxed);
    }
}

/// Closes unused files, those first that were used longest ago. False if there were none.
pub(crate) fn close_idle() -> bool {
    let (files, most) = oldest_first();
    let is_written = |file: &&Arc<Pooled>| file.is_written.load(Ordering::Relaxed);
    let (written, stored): (Vec<_>, Vec<_>) = files.iter().partition(is_written);
    if close(stored.into_iter(), most) > 0 {
        return true;
    }
    // All syncs begin before the first is waited for: most file systems then store the data together.
    for file in written.iter().take(most.min(MOST_WRITTEN)) {
        if let Some(file) = &*file.open.lock() {
            sys::begin_storing(file.fd.as_fd());
        }
    }
    close(written.into_iter().filter(|file| file.store()), most.min(MOST_WRITTEN)) > 0
}

/// Closes unused files ahead of need. After a call that found none, it waits before the next attempt.
pub(crate) fn close_idle_ahead() -> bool {
    let now = CLOCK.load(Ordering::Relaxed);
    let is_resting = {
        let pool = POOL.lock();
        pool.files.is_empty() || pool.rest_until.wrapping_sub(now).cast_signed() > 0
    };
    if is_resting {
        return false;
    }
    let is_made = close_idle();
    if !is_made {
        let mut pool = POOL.lock();
        let rest = u32::try_from(pool.files.len() / 8).unwrap_or(u32::MAX / 4).max(16);
        pool.rest_until = now.wrapping_add(rest);
    }
    is_made
}

/// Whether any file is in the pool. If most are gone, their entries are removed first.
pub(crate) fn is_in_use() -> bool {
    let mut pool = POOL.lock();
    if GONE.load(Ordering::Relaxed) > pool.files.len() / 2 {
        GONE.store(0, Ordering::Relaxed);
        pool.forget_gone();
    }
    !pool.files.is_empty()
}

/// How many times files of this process were closed because descriptors ran short, and opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleFiles {
    /// The number of closed files.
    pub closed: u64,
    /// The number of files that were opened again for use.
    pub opened_again: u64,
}

impl IdleFiles {
    /// The counts of all volumes so far.
    #[must_use]
    pub fn count() -> IdleFiles {
        IdleFiles {
            closed: CLOSED.load(Ordering::Relaxed),
            opened_again: OPENED_AGAIN.load(Ordering::Relaxed),
        }
    }
}

/// The open files, oldest first, and the largest number of them to close.
fn oldest_first() -> (Vec<Arc<Pooled>>, usize) {
    let known: Vec<Arc<Pooled>> = {
        let mut pool = POOL.lock();
        pool.files.retain(|file| file.strong_count() > 0);
        let is_closed = |file: &Weak<Pooled>| file.upgrade().is_some_and(|file| file.is_closed());
        pool.closed.retain(|_, files| {
            files.retain(is_closed);
            !files.is_empty()
        });
        ANY_CLOSED.store(!pool.closed.is_empty(), Ordering::Relaxed);
        pool.files.iter().filter_map(Weak::upgrade).collect()
    };
    let now = CLOCK.load(Ordering::Relaxed);
    let mut open: Vec<_> = known
        .into_iter()
        .filter(|file| !file.is_fixed.load(Ordering::Relaxed) && file.open.lock().is_some())
        // A file that was used just now may be ahead of `now`.
        .map(|file| (now.wrapping_sub(file.used.load(Ordering::Relaxed)).cast_signed().max(0), file))
        .collect();
    open.sort_unstable_by_key(|(age, _)| std::cmp::Reverse(*age));
    let most = (open.len() / 8).clamp(FEWEST, MOST);
    (open.into_iter().map(|(_, file)| file).collect(), most)
}

/// Closes up to `most` of these files. Returns how many were closed.
fn close<'a>(files: impl Iterator<Item = &'a Arc<Pooled>>, most: usize) -> usize {
    let mut gone = Vec::new();
    for file in files {
        let guard = NAME_REMOVAL.write();
        // The entry is made before the file is closed: a call that removes its name comes after
        // `reopen_before_removal`, and finds it here.
        if let Some(taken) = file.take_idle() {
            POOL.lock().closed.entry(file.id).or_default().push(Arc::downgrade(file));
            ANY_CLOSED.store(true, Ordering::Relaxed);
            gone.push(taken);
        }
        drop(guard);
        if gone.len() >= most {
            break;
        }
    }
    CLOSED.fetch_add(gone.len() as u64, Ordering::Relaxed);
    gone.len()
}

/// While it exists no file is closed, so a file that is open now stays open after its name is removed.
pub(crate) struct NameRemovalGuard {
    _no_closing: RwLockReadGuard<'static, ()>,
}

/// Must be called before a name is removed. It opens a closed file behind the name again. It cannot close
/// other files for this, and may take a descriptor of the reserve.
///
/// # Errors
/// [`Failure::Exhausted`]
pub(crate) fn reopen_before_removal(directory: BorrowedFd<'_>, name: &[u8]) -> Result<NameRemovalGuard> {
    let guard = NameRemovalGuard { _no_closing: NAME_REMOVAL.read() };
    if !ANY_CLOSED.load(Ordering::Relaxed) {
        return Ok(guard);
    }
    let Ok(stat) = stat_below(directory, name) else { return Ok(guard) };
    let closed = POOL.lock().closed.remove(&stat.id).unwrap_or_default();
    for file in closed.iter().filter_map(Weak::upgrade) {
        let is_closed = file.is_closed();
        // A caller that finds the file gone is told so. Only a temporary shortage prevents the removal of
        // the name.
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        if is_closed && file.opened_again(|open| open()).is_err_and(|errno| exhausted.contains(&errno)) {
            POOL.lock().closed.insert(stat.id, closed);
            return Err(Failure::Exhausted);
        }
    }
    Ok(guard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_gone_do_not_stay_in_the_pool() {
        let temp_dir = tempfile::tempdir().unwrap();
        let volume = crate::PosixVolume::open(temp_dir.path(), &temp_dir.path().join("beside")).unwrap();
        let mut pool = Pool::default();
        let kept = file(&volume.shared.root);
        pool.enter(&kept);
        for _ in 0..10_000 {
            pool.enter(&file(&volume.shared.root));
        }
        assert!(pool.files.len() <= 64, "{}", pool.files.len());
        assert!(pool.files.iter().any(|known| known.ptr_eq(&Arc::downgrade(&kept))));
    }

    #[test]
    fn nothing_is_kept_for_files_that_are_gone() {
        let temp_dir = tempfile::tempdir().unwrap();
        let volume = crate::PosixVolume::open(temp_dir.path(), &temp_dir.path().join("beside")).unwrap();
        let mut pool = Pool::default();
        let kept = file(&volume.shared.root);
        pool.enter(&kept);
        let gone: Vec<_> = (0..1000).map(|_| file(&volume.shared.root)).collect();
        for file in &gone {
            pool.enter(file);
            pool.closed.entry(file.id).or_default().push(Arc::downgrade(file));
        }
        let before = GONE.load(Ordering::Relaxed);
        drop(gone);
        assert!(GONE.load(Ordering::Relaxed) >= before + 1000);
        pool.forget_gone();
        assert!((pool.files.len(), pool.closed.len()) == (1, 0) && pool.files.capacity() < 100);
        assert_eq!(Arc::weak_count(&kept), 1);
    }

    fn file(root: &Arc<Root>) -> Arc<Pooled> {
        Arc::new(Pooled {
            root: Arc::clone(root),
            id: root.id,
            born: Time::default(),
            flags: OFlags::RDONLY,
            open: Mutex::default(),
            handle: OnceLock::new(),
            used: AtomicU32::new(0),
            is_written: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_fixed: AtomicBool::new(false),
        })
    }
}
