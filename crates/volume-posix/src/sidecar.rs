//! The sidecar store: named streams, and notes that do not fit into a file's own attributes.
//!
//! The store is a directory that only this process can enter. A file that has data in it has a folder
//! there. The folder is named after the file system, the file's number and its birth time, so that a
//! later file with the same number does not find it:
//!
//! ```text
//! <file system>-<number>-<birth>/handle.2      identifies an orphan
//! <file system>-<number>-<birth>/note-<name>.2 a note
//! <file system>-<number>-<birth>/streams/<name>
//! ```
//!
//! A note and a handle end with a checksum, so that damage is detected. Those without `.2` were written
//! before checksums existed.
//!
//! The names of all folders are in memory, so that a file without a folder costs no system call. When a
//! file is removed through the volume, its folder goes with its last name. [`SidecarStore::collect`]
//! finds the folders of files that others removed.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use parking_lot::{Mutex, RwLock};
use rustix::fs::{AtFlags, Mode, OFlags};
use volume::{Failure, Name, Note, Result, Time};

use crate::bytes::write_all;
use crate::errno::{call, failure};
use crate::node::PosixNode;
use crate::open::open_below;
use crate::properties::file_system_name;
use crate::quota::{SidecarQuota, cost};
use crate::scan::scan;
use crate::stat::{stat_below, stat_fd};
use crate::sys::{self, Handle};

/// The folder of streams below a file's folder.
const STREAMS: &[u8] = b"streams";
/// The file that holds the handle of the file.
const HANDLE: &[u8] = b"handle";
/// The ending of the name of a file with a checksum.
const WITH_CHECKSUM: &[u8] = b".2";
/// Bytes of a checksum.
const CHECKSUM: usize = 4;
/// A note that is being written.
const UNFINISHED: &[u8] = b"unfinished";
/// Largest note that is read back.
const LARGEST_NOTE: usize = 1 << 20;

/// The file that a folder belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FolderKey {
    file_system: u64,
    inode: u64,
    born: Time,
}

impl FolderKey {
    fn folder(&self) -> String {
        let FolderKey { file_system, inode, born } = self;
        format!("{file_system:x}-{inode:x}-{:x}.{:x}", born.secs.cast_unsigned(), born.nanos)
    }

    fn parse(name: &[u8]) -> Option<FolderKey> {
        let text = std::str::from_utf8(name).ok()?;
        let mut parts = text.split('-');
        let mut hex = || u64::from_str_radix(parts.next()?, 16).ok();
        let (file_system, inode) = (hex()?, hex()?);
        let (secs, nanos) = parts.next()?.split_once('.')?;
        let secs = u64::from_str_radix(secs, 16).ok()?.cast_signed();
        let key = FolderKey {
            file_system,
            inode,
            born: Time { secs, nanos: u32::from_str_radix(nanos, 16).ok()? },
        };
        (key.folder().as_bytes() == name).then_some(key)
    }
}

/// The store.
#[derive(Debug)]
pub(crate) struct SidecarStore {
    store: OwnedFd,
    /// All existing folders.
    index: RwLock<BTreeSet<FolderKey>>,
    /// Held while folders are created and removed, so that neither happens during the other.
    folders: Mutex<()>,
    /// The position of the collection of orphans.
    collected: Mutex<Option<FolderKey>>,
    /// The quota of the store.
    room: SidecarQuota,
    /// Held while a stream grows.
    pub(crate) growth: Mutex<()>,
}

impl SidecarStore {
    /// Opens the store and reads the names of its folders. A missing store is created.
    pub(crate) fn open(store: &Path) -> Result<SidecarStore> {
        // The mode does not depend on the process's mask: nobody else may enter the parents that are
        // created either.
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(store).map_err(|e| {
            e.raw_os_error().map_or(Failure::Io, |code| failure(rustix::io::Errno::from_raw_os_error(code)))
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let store = call(|| rustix::fs::open(store, flags, Mode::empty()))?;
        call(|| rustix::fs::fchmod(&store, Mode::RWXU))?;
        let mut index = BTreeSet::new();
        scan(store.as_fd(), 0, &mut |entry| {
            index.extend(FolderKey::parse(entry.name.as_bytes()));
            ControlFlow::Continue(())
        })?;
        Ok(SidecarStore {
            store,
            index: RwLock::new(index),
            folders: Mutex::default(),
            collected: Mutex::default(),
            room: SidecarQuota::default(),
            growth: Mutex::default(),
        })
    }

    /// Sets the quota of the store in bytes.
    pub(crate) fn set_quota(&self, bytes: u64) {
        self.room.set_bound(bytes);
    }

    /// Reserves space for a stream or note of `after` bytes. `before` is its old size, if it exists.
    ///
    /// # Errors
    /// [`Failure::NoSpace`], and nothing is reserved.
    pub(crate) fn reserve_space(&self, before: Option<u64>, after: u64) -> Result<()> {
        self.room.change(before.map_or(0, cost), cost(after), || self.count())
    }

    /// Releases the space of a stream or a note that is gone, or was not created.
    pub(crate) fn release_space(&self, size: u64) {
        self.room.release(cost(size));
    }

    /// The space in use, by the rules of [`SidecarQuota`].
    fn count(&self) -> Result<u64> {
        let keys: Vec<FolderKey> = self.index.read().iter().copied().collect();
        let mut used = 0_u64;
        for key in keys {
            let folder = match self.folder(&key) {
                Ok(folder) => folder,
                // Removed in between.
                Err(Failure::NotFound) => continue,
                Err(why) => return Err(why),
            };
            used = used.saturating_add(counted(folder.as_fd())?);
            match open_folder(folder.as_fd(), STREAMS) {
                Ok(streams) => used = used.saturating_add(counted(streams.as_fd())?),
                Err(Failure::NotFound) => {}
                Err(why) => return Err(why),
            }
        }
        Ok(used)
    }

    /// Whether the store has data under this number of a file system.
    pub(crate) fn has_file_system(&self, file_system: u64) -> bool {
        let first = FolderKey { file_system, inode: 0, born: Time { secs: i64::MIN, nanos: 0 } };
        self.index.read().range(first..).next().is_some_and(|key| key.file_system == file_system)
    }

    /// A descriptor of the store, for the other files that are kept in it.
    pub(crate) fn store(&self) -> Result<OwnedFd> {
        call(|| rustix::io::fcntl_dupfd_cloexec(&self.store, 0))
    }

    /// The number of files with data in the store.
    pub(crate) fn count_folders(&self) -> usize {
        self.index.read().len()
    }

    /// Whether no file has data in the store.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.read().is_empty()
    }

    /// Whether this file has data in the store.
    pub(crate) fn has(&self, node: &PosixNode) -> bool {
        self.find(node).is_ok_and(|key| key.is_some())
    }

    fn key(&self, node: &PosixNode) -> Result<FolderKey> {
        let shared = &node.shared;
        let file_system = match shared.file_systems.known(node.id.device) {
            Some(id) => id,
            None => shared.file_system_of(node.fd()?.as_fd(), node.id.device)?,
        };
        let file_system = if has_passing_number(node)? { node.id.device } else { file_system };
        let key = FolderKey { file_system, inode: node.id.inode, born: node.born };
        if shared.file_systems.is_ceph(node.id.device) {
            // Earlier versions named the folder after a birth time.
            let of = |secs| FolderKey { born: Time { secs, nanos: 0 }, ..key };
            let index = self.index.read();
            let mut same = index.range(of(i64::MIN)..of(i64::MAX));
            return Ok(same.next().copied().unwrap_or(key));
        }
        Ok(key)
    }

    /// The file's key, if it has a folder.
    fn find(&self, node: &PosixNode) -> Result<Option<FolderKey>> {
        if self.is_empty() {
            return Ok(None);
        }
        let key = self.key(node)?;
        Ok(self.index.read().contains(&key).then_some(key))
    }

    fn folder(&self, key: &FolderKey) -> Result<OwnedFd> {
        open_folder(self.store.as_fd(), key.folder().as_bytes())
    }

    /// The file's folder. A missing one is created. The caller holds the lock on folders.
    fn ensure_folder(&self, node: &PosixNode) -> Result<OwnedFd> {
        // Nothing would ever remove a folder of a file without a name.
        if stat_fd(node.fd()?)?.links == 0 {
            return Err(Failure::Stale);
        }
        let key = self.key(node)?;
        let name = key.folder();
        let is_new = match call(|| rustix::fs::mkdirat(&self.store, name.as_bytes(), Mode::RWXU)) {
            Ok(()) => true,
            Err(Failure::Exists) => false,
            Err(why) => return Err(why),
        };
        let folder = self.folder(&key)?;
        if self.index.read().contains(&key) {
            return Ok(folder);
        }
        // Only a privileged process can use the handle, and only if the file system has handles.
        if let Ok(handle) = Handle::of(node.fd()?.as_fd()) {
            let text = [&handle.kind.to_le_bytes(), &*handle.bytes].concat();
            if let Err(why) = write_file(folder.as_fd(), &with_checksum(HANDLE), &sealed(&text)) {
                // Without a handle nobody could ever tell that the folder is an orphan.
                if is_new {
                    self.remove_whole(&key)?;
                }
                return Err(why);
            }
        }
        self.index.write().insert(key);
        Ok(folder)
    }

    /// A note that is in the store.
    pub(crate) fn note(&self, node: &PosixNode, note: Note) -> Result<Option<Vec<u8>>> {
        let Some(key) = self.find(node)? else { return Ok(None) };
        let folder = match self.folder(&key) {
            Err(Failure::NotFound) => return Ok(None),
            other => other?,
        };
        read_sealed(&key, folder.as_fd(), note_file(note))
    }

    /// Stores or removes a note.
    pub(crate) fn set_note(&self, node: &PosixNode, note: Note, value: Option<&[u8]>) -> Result<()> {
        let Some(value) = value else {
            let Some(key) = self.find(node)? else { return Ok(()) };
            let _folders = self.folders.lock();
            let folder = match self.folder(&key) {
                Err(Failure::NotFound) => return Ok(()),
                other => other?,
            };
            // The order matters: an older note must never become visible again.
            let was_there = [note_file(note).to_vec(), with_checksum(note_file(note))].map(|name| match self
                .unlink(folder.as_fd(), &name)
            {
                Err(Failure::NotFound) => Ok(false),
                other => other.map(|()| true),
            });
            let [earlier, now] = was_there;
            return if earlier? | now? { self.tidy(&key) } else { Ok(()) };
        };
        if value.len() > LARGEST_NOTE {
            return Err(Failure::TooLarge);
        }
        let _folders = self.folders.lock();
        let folder = self.ensure_folder(node)?;
        let value = sealed(value);
        let before = size_of(folder.as_fd(), &with_checksum(note_file(note)))?;
        self.reserve_space(before, value.len() as u64)?;
        // After a crash, of the host too, either the old or the complete new note is there.
        let lay = || {
            let file = write_file(folder.as_fd(), UNFINISHED, &value)?;
            call(|| rustix::fs::fdatasync(&file))?;
            call(|| rustix::fs::renameat(&folder, UNFINISHED, &folder, with_checksum(note_file(note))))
        };
        lay().inspect_err(|_| self.undo_reservation(before, value.len() as u64))?;
        match self.unlink(folder.as_fd(), note_file(note)) {
            Err(Failure::NotFound) => Ok(()),
            other => other,
        }
    }

    /// Releases the reservation for a change that was not made.
    pub(crate) fn undo_reservation(&self, before: Option<u64>, after: u64) {
        self.room.release(cost(after).saturating_sub(before.map_or(0, cost)));
    }

    /// Returns when the names in the file's folder are on stable storage. The data may then be removed
    /// from its old place.
    pub(crate) fn sync_names(&self, node: &PosixNode) -> Result<()> {
        let Some(key) = self.find(node)? else { return Ok(()) };
        let folder = self.folder(&key)?;
        call(|| rustix::fs::fsync(&folder))?;
        call(|| rustix::fs::fsync(&self.store))
    }

    /// The folder of the file's streams, if it has streams.
    pub(crate) fn streams(&self, node: &PosixNode) -> Result<Option<OwnedFd>> {
        let Some(key) = self.find(node)? else { return Ok(None) };
        match self.folder(&key).and_then(|folder| open_folder(folder.as_fd(), STREAMS)) {
            Ok(streams) => Ok(Some(streams)),
            Err(Failure::NotFound) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Creates a stream and opens it for reading and writing.
    pub(crate) fn make_stream(&self, node: &PosixNode, name: &Name, exclusive: bool) -> Result<OwnedFd> {
        let _folders = self.folders.lock();
        let folder = self.ensure_folder(node)?;
        match call(|| rustix::fs::mkdirat(&folder, STREAMS, Mode::RWXU)) {
            Ok(()) | Err(Failure::Exists) => {}
            Err(why) => return Err(why),
        }
        let streams = open_folder(folder.as_fd(), STREAMS)?;
        let is_new = size_of(streams.as_fd(), name.as_bytes())?.is_none();
        if is_new {
            self.reserve_space(None, 0)?;
        }
        let flags = OFlags::RDWR | OFlags::CREATE | if exclusive { OFlags::EXCL } else { OFlags::empty() };
        let made = open_below(streams.as_fd(), name.as_bytes(), flags, Mode::RUSR | Mode::WUSR);
        made.inspect_err(|_| {
            if is_new {
                self.release_space(0);
            }
        })
    }

    /// Removes a stream.
    pub(crate) fn remove_stream(&self, node: &PosixNode, name: &Name) -> Result<()> {
        let key = self.find(node)?.ok_or(Failure::NotFound)?;
        let _folders = self.folders.lock();
        let streams = open_folder(self.folder(&key)?.as_fd(), STREAMS)?;
        self.unlink(streams.as_fd(), name.as_bytes())?;
        self.tidy(&key)
    }

    /// Removes all data of a file that was created just now. It cannot have any of its own.
    pub(crate) fn forget(&self, node: &PosixNode) {
        if let Ok(Some(key)) = self.find(node) {
            self.remove_folder(&key);
        }
    }

    /// Checks up to `at_most` folders, and starts behind those of the last call. It removes the folders
    /// whose file on the file system of `root` is gone; `here` is the identity of that file system.
    /// Returns how many were removed. Without the privilege to open files by handle none is removed.
    pub(crate) fn collect(&self, root: BorrowedFd<'_>, here: u64, at_most: usize) -> Result<usize> {
        let mut position = self.collected.lock();
        let from = position.map_or(Bound::Unbounded, Bound::Excluded);
        let keys: Vec<FolderKey> =
            self.index.read().range((from, Bound::Unbounded)).take(at_most).copied().collect();
        // Starts again when the end was reached.
        *position = if keys.len() < at_most { None } else { keys.last().copied() };
        drop(position);
        let mut removed = 0;
        for key in keys.iter().filter(|key| key.file_system == here) {
            let text = match self.folder(key).and_then(|folder| read_sealed(key, folder.as_fd(), HANDLE)) {
                Ok(Some(text)) => text,
                // The folder's file is unknown, so the folder stays.
                Ok(None) | Err(Failure::NotFound | Failure::Io) => continue,
                Err(why) => return Err(why),
            };
            let Some((kind, bytes)) = text.split_first_chunk::<4>() else { continue };
            let handle = Handle { kind: i32::from_le_bytes(*kind), bytes: bytes.into() };
            match handle.exists(root) {
                Ok(true) => {}
                Ok(false) => {
                    self.remove_folder(key);
                    removed += 1;
                }
                Err(errno) => return Err(failure(errno)),
            }
        }
        Ok(removed)
    }

    /// Removes a folder that holds only the handle. The caller holds the lock on folders.
    fn tidy(&self, key: &FolderKey) -> Result<()> {
        let folder = self.folder(key)?;
        match call(|| rustix::fs::unlinkat(&folder, STREAMS, AtFlags::REMOVEDIR)) {
            Ok(()) | Err(Failure::NotFound) => {}
            Err(Failure::NotEmpty | Failure::Exists) => return Ok(()),
            Err(why) => return Err(why),
        }
        let mut is_empty = true;
        scan(folder.as_fd(), 0, &mut |entry| {
            let name = entry.name.as_bytes();
            is_empty &= name == HANDLE || name == with_checksum(HANDLE);
            if is_empty { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if is_empty {
            self.remove_whole(key)?;
        }
        Ok(())
    }

    /// Removes a folder with everything in it. A failure only goes to the log: the file is gone already,
    /// and no caller could receive it.
    fn remove_folder(&self, key: &FolderKey) {
        let _folders = self.folders.lock();
        if let Err(why) = self.remove_whole(key) {
            tracing::warn!(folder = key.folder(), %why, "cannot remove the sidecar data of a removed file");
        }
    }

    /// Removes a file of the store, and releases its space.
    fn unlink(&self, folder: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
        let size = size_of(folder, name)?;
        call(|| rustix::fs::unlinkat(folder, name, AtFlags::empty()))?;
        if let Some(size) = size.filter(|_| !name.starts_with(HANDLE)) {
            self.release_space(size);
        }
        Ok(())
    }

    fn remove_files(&self, folder: BorrowedFd<'_>) -> Result<()> {
        let mut names = Vec::new();
        scan(folder, 0, &mut |entry| {
            names.push(entry.name);
            ControlFlow::Continue(())
        })?;
        names.iter().try_for_each(|name| match self.unlink(folder, name.as_bytes()) {
            Err(Failure::NotFound) => Ok(()),
            other => other,
        })
    }

    fn remove_whole(&self, key: &FolderKey) -> Result<()> {
        let folder = self.folder(key)?;
        match open_folder(folder.as_fd(), STREAMS) {
            Ok(streams) => {
                self.remove_files(streams.as_fd())?;
                call(|| rustix::fs::unlinkat(&folder, STREAMS, AtFlags::REMOVEDIR))?;
            }
            Err(Failure::NotFound) => {}
            Err(why) => return Err(why),
        }
        self.remove_files(folder.as_fd())?;
        call(|| rustix::fs::unlinkat(&self.store, key.folder().as_bytes(), AtFlags::REMOVEDIR))?;
        self.index.write().remove(key);
        Ok(())
    }
}

fn note_file(note: Note) -> &'static [u8] {
    match note {
        Note::Attributes => b"note-attributes",
        Note::Descriptor => b"note-descriptor",
        Note::ObjectId => b"note-object-id",
        Note::Reparse => b"note-reparse",
        // They are stored only with the file.
        Note::AccessList => b"note-access-list",
        Note::DefaultList => b"note-default-list",
    }
}

/// The name of a file with a checksum. A file without one is from an earlier version.
fn with_checksum(name: &[u8]) -> Vec<u8> {
    [name, WITH_CHECKSUM].concat()
}

/// Bytes followed by their checksum.
fn sealed(value: &[u8]) -> Vec<u8> {
    [value, &crc32fast::hash(value).to_le_bytes()].concat()
}

/// The content of a file in the folder of `key`, with or without a checksum. `None` if it does not exist.
fn read_sealed(key: &FolderKey, folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Vec<u8>>> {
    let file = with_checksum(name);
    match read_file(folder, &file) {
        Ok(mut bytes) => {
            let (value, sum) = bytes.split_last_chunk::<CHECKSUM>().unwrap_or((&bytes, &[0; CHECKSUM]));
            if crc32fast::hash(value).to_le_bytes() != *sum || bytes.len() < CHECKSUM {
                let file = String::from_utf8_lossy(&file);
                tracing::warn!(
                    folder = key.folder(), %file, inode = key.inode,
                    "the sidecar data of a file is damaged: restore it, or remove it and do without"
                );
                return Err(Failure::Io);
            }
            bytes.truncate(bytes.len() - CHECKSUM);
            Ok(Some(bytes))
        }
        Err(Failure::NotFound) => match read_file(folder, name) {
            Ok(value) => Ok(Some(value)),
            Err(Failure::NotFound) => Ok(None),
            Err(why) => Err(why),
        },
        Err(why) => Err(why),
    }
}

/// Whether a file's number is only the number of its node in the memory of a FUSE process. After a
/// remount that process gives the number to another file. A birth time would distinguish the two.
fn has_passing_number(node: &PosixNode) -> Result<bool> {
    if node.born != Time::default() {
        return Ok(false);
    }
    let fd = node.fd()?;
    if file_system_name(fd.as_fd())? != "fuse" {
        return Ok(false);
    }
    // The kernel makes a handle of FUSE from the two halves of the number, the upper one first
    // (`fuse_encode_fh`).
    let Ok(handle) = Handle::of(fd.as_fd()) else { return Ok(true) };
    let half =
        |at: usize| handle.bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map(u32::from_ne_bytes);
    let number = half(0).zip(half(4)).map(|(upper, lower)| u64::from(upper) << 32 | u64::from(lower));
    Ok(number == Some(node.id.inode))
}

fn open_folder(below: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    open_below(below, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// The size of a file in a folder, if it exists.
fn size_of(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Option<u64>> {
    match stat_below(folder, name) {
        Ok(stat) => Ok(Some(stat.size)),
        Err(Failure::NotFound) => Ok(None),
        Err(why) => Err(why),
    }
}

/// The space that the files of a folder use. The handle of a folder belongs to the server and does not
/// count, nor do folders.
fn counted(folder: BorrowedFd<'_>) -> Result<u64> {
    let mut used = 0_u64;
    let mut failed = Ok(());
    scan(folder, 0, &mut |entry| {
        let name = entry.name.as_bytes();
        if name.starts_with(HANDLE) || name == STREAMS {
            return ControlFlow::Continue(());
        }
        match size_of(folder, name) {
            Ok(size) => used = used.saturating_add(size.map_or(0, cost)),
            Err(why) => failed = Err(why),
        }
        ControlFlow::Continue(())
    })?;
    failed.map(|()| used)
}

/// Replaces a file's content, and returns the file still open.
fn write_file(folder: BorrowedFd<'_>, name: &[u8], bytes: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    let fd = open_below(folder, name, flags, Mode::RUSR | Mode::WUSR)?;
    write_all(fd.as_fd(), 0, bytes)?;
    Ok(fd)
}

fn read_file(folder: BorrowedFd<'_>, name: &[u8]) -> Result<Vec<u8>> {
    let fd = open_below(folder, name, OFlags::RDONLY, Mode::empty())?;
    let size = usize::try_from(stat_fd(&fd)?.size).unwrap_or(usize::MAX).min(LARGEST_NOTE + CHECKSUM);
    let mut out = Vec::with_capacity(size);
    while out.len() < size {
        let at = out.len();
        if call(|| sys::read_append(fd.as_fd(), at as u64, size - at, &mut out, false))? == 0 {
            break;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_store_and_what_leads_to_it_are_open_to_their_owner_only() {
        let temp_dir = tempfile::tempdir().unwrap();
        drop(SidecarStore::open(&temp_dir.path().join("a/b/store")).unwrap());
        for made in ["a", "a/b", "a/b/store"] {
            let mode = std::fs::metadata(temp_dir.path().join(made)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{made}");
        }
    }

    #[test]
    fn a_folder_whose_handle_cannot_be_written_is_made_anew() {
        let temp_dir = tempfile::tempdir().unwrap();
        let (files, store) = (temp_dir.path().join("files"), temp_dir.path().join("store"));
        std::fs::create_dir(&files).unwrap();
        let volume = crate::PosixVolume::open(&files, &store).unwrap();
        let (node, sidecar) = (&volume.root, &volume.shared.sidecar);
        let folder = store.join(sidecar.key(node).unwrap().folder());
        let handle = folder.join("handle.2");
        std::fs::create_dir_all(&handle).unwrap();
        let has_handles = Handle::of(node.fd().unwrap().as_fd()).is_ok();
        assert_eq!(sidecar.ensure_folder(node).err(), has_handles.then_some(Failure::IsADirectory));
        assert_eq!(sidecar.has(node), !has_handles);
        std::fs::remove_dir(&handle).unwrap();
        sidecar.ensure_folder(node).unwrap();
        assert!(sidecar.has(node));
        assert_eq!(handle.is_file(), has_handles);
    }

    #[test]
    fn a_folders_name_leads_back_to_its_key() {
        for secs in [0, -1, 1_700_000_000, i64::MIN] {
            let key =
                FolderKey { file_system: u64::MAX, inode: 0x12, born: Time { secs, nanos: 999_999_999 } };
            assert_eq!(FolderKey::parse(key.folder().as_bytes()), Some(key));
        }
        for name in ["", "1", "1-2", "1-2-3", "01-2-3.4", "1-2-3.4-5", "x-2-3.4", "1-2-3.100000000"] {
            assert_eq!(FolderKey::parse(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn damage_is_never_taken_for_what_was_written() {
        let temp_dir = tempfile::tempdir().unwrap();
        let (files, store) = (temp_dir.path().join("files"), temp_dir.path().join("store"));
        std::fs::create_dir(&files).unwrap();
        let volume = crate::PosixVolume::open(&files, &store).unwrap();
        let (node, sidecar) = (&volume.root, &volume.shared.sidecar);
        let value = [7; 40];
        sidecar.set_note(node, Note::Descriptor, Some(&value)).unwrap();
        let folder = store.join(sidecar.key(node).unwrap().folder());
        for file in ["note-descriptor.2", "handle.2"].map(|name| folder.join(name)) {
            let Ok(whole) = std::fs::read(&file) else { continue };
            for at in 0..whole.len() {
                let mut changed = whole.clone();
                changed[at] ^= 1 << (at % 8);
                for bytes in [&changed[..], &whole[..at]] {
                    std::fs::write(&file, bytes).unwrap();
                    let read = sidecar.note(node, Note::Descriptor);
                    let is_note = file.ends_with("note-descriptor.2");
                    assert_eq!(
                        read,
                        if is_note { Err(Failure::Io) } else { Ok(Some(value.to_vec())) },
                        "{at}"
                    );
                    let collected = volume.collect_orphans(9).unwrap_or_default();
                    assert_eq!(collected, 0, "{at}");
                }
            }
            std::fs::write(&file, &whole).unwrap();
        }
        assert_eq!(sidecar.note(node, Note::Descriptor), Ok(Some(value.to_vec())));
    }

    #[test]
    fn a_note_of_an_earlier_version_is_read_and_goes_with_the_next() {
        let temp_dir = tempfile::tempdir().unwrap();
        let (files, store) = (temp_dir.path().join("files"), temp_dir.path().join("store"));
        std::fs::create_dir(&files).unwrap();
        let volume = crate::PosixVolume::open(&files, &store).unwrap();
        let (node, sidecar) = (&volume.root, &volume.shared.sidecar);
        sidecar.set_note(node, Note::Descriptor, Some(b"new")).unwrap();
        let folder = store.join(sidecar.key(node).unwrap().folder());
        let [earlier, now] = ["note-descriptor", "note-descriptor.2"].map(|name| folder.join(name));
        let read = || sidecar.note(node, Note::Descriptor).unwrap();
        std::fs::remove_file(&now).unwrap();
        std::fs::write(&earlier, b"old").unwrap();
        assert_eq!(read().as_deref(), Some(&b"old"[..]));
        sidecar.set_note(node, Note::Descriptor, Some(b"newer")).unwrap();
        assert_eq!((read().as_deref(), earlier.exists()), (Some(&b"newer"[..]), false));
        std::fs::write(&earlier, b"old").unwrap();
        sidecar.set_note(node, Note::Descriptor, None).unwrap();
        assert_eq!((read(), earlier.exists(), now.exists(), folder.exists()), (None, false, false, false));
    }
}
