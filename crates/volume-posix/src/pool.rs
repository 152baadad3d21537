//! Descriptors of files that nobody uses: closed when descriptors run short, and opened again by the file's handle.
//!
//! As long as fewer than half of the descriptors are in use, nothing here happens and nothing is kept for it. A file that gets
//! one of the upper half is in the pool: whoever uses it takes a reference for as long as a call lasts ([`PosixNode::fd`]). When
//! room is needed, those go that were used longest ago and that nobody uses now ([`make_room`]).
//!
//! A file is left alone if its handle would not lead back to the very same thing: one without a name, one of another mount than
//! the root's, one without a birth time. What was written goes to stable storage first, since a later descriptor would
//! not hear of a failure (fsync(2)). Nobody can find a file by its handle once its last name is gone, so a name goes only after
//! closed files behind it are open again ([`leaving`]). That holds for this process; what a program of the host removes
//! is gone for who had it open, and is [`Failure::Stale`].
//!
//! Locks, in this order: `LEAVING`, `POOL`, `Pooled::open`. No file is opened or stored under the last two.
//!
//! [`PosixNode::fd`]: crate::node::PosixNode::fd

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, OnceLock, Weak};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use rustix::fs::OFlags;
use rustix::io::{self, Errno};
use volume::{Failure, NodeKind, NodeId, OpenHow, Result, Time};
use wire::Source;

use crate::bytes::is_cached;
use crate::errno::call;
use crate::kept_back;
use crate::open::ALWAYS;
use crate::root::Root;
use crate::stat::{stat_below, stat_fd};
use crate::sys::{self, Handle, is_gone};

/// Most files that are closed at once; of few the eighth part.
const MOST: usize = 256;
/// Fewest.
const FEWEST: usize = 4;
/// Most of these that have to go to stable storage first, which whoever needs room waits for.
const MOST_WRITTEN: usize = 16;

/// What a node holds of the host.
pub(crate) enum Descriptor {
    /// The root's, which all nodes of the volume share.
    OfRoot,
    /// Stays open as long as the node.
    Kept(OwnedFd),
    /// Closed while nobody uses it, if need be.
    Pooled(Arc<Pooled>),
}

/// A descriptor for as long as a call lasts.
pub(crate) enum Using<'a> {
    Kept(BorrowedFd<'a>),
    Pooled(Arc<OpenFile>),
}

impl AsFd for Using<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Using::Kept(fd) => *fd,
            Using::Pooled(file) => file.fd.as_fd(),
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

/// A file of the pool, and how it is opened again.
pub(crate) struct Pooled {
    root: Arc<Root>,
    id: NodeId,
    born: Time,
    /// As it was opened first, but for what makes, cuts or waits.
    flags: OFlags,
    /// None while it is closed.
    open: Mutex<Option<Arc<OpenFile>>>,
    /// Known from the first time on that it is closed.
    handle: OnceLock<Handle>,
    /// When it was used last, by [`Clock`].
    used: AtomicU32,
    /// Something was written through it that may not be on stable storage.
    is_written: AtomicBool,
    /// What was written could not be stored, and nobody has been told.
    has_failed: AtomicBool,
    /// It cannot be opened by its handle as it was.
    is_fixed: AtomicBool,
}

/// All files of the pool.
#[derive(Default)]
struct Pool {
    files: Vec<Weak<Pooled>>,
    /// From so many entries on those are left out whose files are gone.
    tidy_at: usize,
    /// Those that are closed; some of them may be open again.
    closed: HashMap<NodeId, Vec<Weak<Pooled>>>,
    /// Up to when it is not tried again to close some for later.
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

    /// Leaves out those whose files are gone, each of which keeps the memory of one.
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
/// Read while a name goes, written while files are closed.
static LEAVING: RwLock<()> = RwLock::new(());
/// Whether some may be closed.
static ANY_CLOSED: AtomicBool = AtomicBool::new(false);
/// Counts files that come into the pool or are opened again: the time by which they are older or younger.
static CLOCK: AtomicU32 = AtomicU32::new(0);
/// How many have gone since they were left out last.
static GONE: AtomicUsize = AtomicUsize::new(0);
/// How often a file was closed, and opened again.
static CLOSED: AtomicU64 = AtomicU64::new(0);
static OPENED_AGAIN: AtomicU64 = AtomicU64::new(0);

impl Descriptor {
    /// What a node gets that has just been opened.
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
        if !is_found_again || kind == NodeKind::Directory || !kept_back::is_high(fd.as_fd()) {
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

/// The next moment.
fn now() -> u32 {
    CLOCK.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

impl Pooled {
    /// The file, opened again if it is closed.
    ///
    /// # Errors
    /// `ESTALE` when it is gone; `EMFILE`; as the host says.
    pub(crate) fn file(&self) -> io::Result<Arc<OpenFile>> {
        let now = CLOCK.load(Ordering::Relaxed);
        if self.used.load(Ordering::Relaxed) != now {
            self.used.store(now, Ordering::Relaxed);
        }
        if let Some(file) = &*self.open.lock() {
            return Ok(Arc::clone(file));
        }
        self.opened_again(|open| kept_back::with_room(open))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.open.lock().is_none()
    }

    /// Opens it by its handle, by a call that may first make room.
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
        // Somebody else may have been first.
        let file = open.get_or_insert_with(|| {
            OPENED_AGAIN.fetch_add(1, Ordering::Relaxed);
            self.used.store(now(), Ordering::Relaxed);
            Arc::new(OpenFile { fd, is_in_memory: self.root.is_in_memory })
        });
        Ok(Arc::clone(file))
    }

    /// Something is written through it.
    pub(crate) fn note_write(&self) {
        if !self.is_written.load(Ordering::Relaxed) {
            self.is_written.store(true, Ordering::Release);
        }
    }

    /// What was written is about to be stored.
    ///
    /// # Errors
    /// [`Failure::Io`] when that has failed while nobody was there to hear of it.
    pub(crate) fn note_sync(&self) -> Result<()> {
        self.is_written.store(false, Ordering::Release);
        if self.has_failed.swap(false, Ordering::AcqRel) { Err(Failure::Io) } else { Ok(()) }
    }

    /// Stores what was written. False when that fails: then it must stay open, and who asks next is told.
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

    /// Takes the file out to be closed, unless somebody uses it or its handle would not lead back. Held: `LEAVING`, so that its
    /// last name does not go meanwhile.
    fn taken(&self) -> Option<Arc<OpenFile>> {
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
        // Whoever uses it took a reference under the lock: there are this one and the pool's without them.
        let is_used = Arc::strong_count(&file) > 2 || self.is_written.load(Ordering::Acquire);
        if is_fixed || !has_name || is_used { None } else { open.take() }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        GONE.fetch_add(1, Ordering::Relaxed);
    }
}

/// Closes files that nobody uses, those that were used longest ago first. False when there was none.
pub(crate) fn make_room() -> bool {
    let (files, most) = oldest_first();
    let is_written = |file: &&Arc<Pooled>| file.is_written.load(Ordering::Relaxed);
    let (written, stored): (Vec<_>, Vec<_>) = files.iter().partition(is_written);
    if close(stored.into_iter(), most) > 0 {
        return true;
    }
    // All are on their way before the first is waited for: most file systems store them together.
    for file in written.iter().take(most.min(MOST_WRITTEN)) {
        if let Some(file) = &*file.open.lock() {
            sys::begin_storing(file.fd.as_fd());
        }
    }
    close(written.into_iter().filter(|file| file.store()), most.min(MOST_WRITTEN)) > 0
}

/// The same for later: not again at once after there was none.
pub(crate) fn make_room_for_later() -> bool {
    let now = CLOCK.load(Ordering::Relaxed);
    let is_resting = {
        let pool = POOL.lock();
        pool.files.is_empty() || pool.rest_until.wrapping_sub(now).cast_signed() > 0
    };
    if is_resting {
        return false;
    }
    let is_made = make_room();
    if !is_made {
        let mut pool = POOL.lock();
        let rest = u32::try_from(pool.files.len() / 8).unwrap_or(u32::MAX / 4).max(16);
        pool.rest_until = now.wrapping_add(rest);
    }
    is_made
}

/// Whether any file is in the pool. When most of them are gone, nothing is kept for these any more.
pub(crate) fn is_in_use() -> bool {
    let mut pool = POOL.lock();
    if GONE.load(Ordering::Relaxed) > pool.files.len() / 2 {
        GONE.store(0, Ordering::Relaxed);
        pool.forget_gone();
    }
    !pool.files.is_empty()
}

/// How often files of this process were closed since descriptors ran short, and opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdleFiles {
    /// Closed.
    pub closed: u64,
    /// Opened again since somebody used them.
    pub opened_again: u64,
}

impl IdleFiles {
    /// Those of all volumes up to now.
    #[must_use]
    pub fn count() -> IdleFiles {
        IdleFiles {
            closed: CLOSED.load(Ordering::Relaxed),
            opened_again: OPENED_AGAIN.load(Ordering::Relaxed),
        }
    }
}

/// Those that are open, and how many of them go at most.
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
        // One that was used just now may be ahead of `now`.
        .map(|file| (now.wrapping_sub(file.used.load(Ordering::Relaxed)).cast_signed().max(0), file))
        .collect();
    open.sort_unstable_by_key(|(age, _)| std::cmp::Reverse(*age));
    let most = (open.len() / 8).clamp(FEWEST, MOST);
    (open.into_iter().map(|(_, file)| file).collect(), most)
}

/// Closes up to `most` of these; says how many.
fn close<'a>(files: impl Iterator<Item = &'a Arc<Pooled>>, most: usize) -> usize {
    let mut gone = Vec::new();
    for file in files {
        let leaving = LEAVING.write();
        // Before it is closed: whoever removes its name comes behind `leaving` and finds it here.
        if let Some(taken) = file.taken() {
            POOL.lock().closed.entry(file.id).or_default().push(Arc::downgrade(file));
            ANY_CLOSED.store(true, Ordering::Relaxed);
            gone.push(taken);
        }
        drop(leaving);
        if gone.len() >= most {
            break;
        }
    }
    CLOSED.fetch_add(gone.len() as u64, Ordering::Relaxed);
    gone.len()
}

/// As long as this lives no file is closed, so that what is open behind a name stays open without it.
pub(crate) struct Leaving {
    _no_closing: RwLockReadGuard<'static, ()>,
}

/// To be called before a name goes: what is closed of the file behind it is opened again. It cannot make room for that, and may
/// take of what is kept back.
///
/// # Errors
/// [`Failure::Exhausted`]
pub(crate) fn leaving(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Leaving> {
    let leaving = Leaving { _no_closing: LEAVING.read() };
    if !ANY_CLOSED.load(Ordering::Relaxed) {
        return Ok(leaving);
    }
    let Ok(stat) = stat_below(directory, name) else { return Ok(leaving) };
    let closed = POOL.lock().closed.remove(&stat.id).unwrap_or_default();
    for file in closed.iter().filter_map(Weak::upgrade) {
        let is_closed = file.is_closed();
        // Who finds it gone is told so; only what may be had in a moment stands against the name's going.
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        if is_closed && file.opened_again(|open| open()).is_err_and(|errno| exhausted.contains(&errno)) {
            POOL.lock().closed.insert(stat.id, closed);
            return Err(Failure::Exhausted);
        }
    }
    Ok(leaving)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_gone_do_not_stay_in_the_pool() {
        let place = tempfile::tempdir().unwrap();
        let volume = crate::PosixVolume::open(place.path(), &place.path().join("beside")).unwrap();
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
        let place = tempfile::tempdir().unwrap();
        let volume = crate::PosixVolume::open(place.path(), &place.path().join("beside")).unwrap();
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
