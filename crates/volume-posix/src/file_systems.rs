//! The identity of each file system that a volume reaches. It is a number that stays the same when the
//! file system is mounted again or the host restarts. A device number does not: a file system without a
//! block device (FUSE, btrfs, NFS) gets another one at each mount.
//!
//! If the host has a lasting number for a file system (`f_fsid` of statvfs(3)), that is the identity.
//! ext4 derives it from the UUID, btrfs from the UUID and the subvolume, tmpfs from a UUID that lives as
//! long as the files. Many file systems have none, or report the device number, or that of a file system
//! below (overlayfs). For these a number is stored in a file of the sidecar store. It is found by the
//! UUID, or else by the mounted source and the mount point below the volume. The module `records` stores
//! that file.
//!
//! A number is determined once for each device number and state of the mount table. For files on the
//! root's own file system it costs a comparison.

mod records;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::{Mutex, RwLock};
use rustix::fs::{Mode, OFlags};
use volume::{Failure, Result};

use self::records::AssignedNumbers;
use crate::errno::call;
use crate::mounts::{self, Mount};
use crate::open::open_below;
use crate::properties::{CEPH, file_system_name};
use crate::stat::stat_fd;
use crate::sys;

/// The path of the volume's root, relative to itself.
const HERE: &[u8] = b".";

/// The file systems of one volume.
pub(crate) struct FileSystems {
    /// The device number of the root's file system.
    device: u64,
    /// The identity of the root's file system.
    own: u64,
    /// Whether handles of the root's file system lead to the same file after a remount.
    has_lasting_handles: bool,
    /// Whether the root's file system is Ceph's, by the kernel's own client.
    is_ceph: bool,
    /// The other file systems that were looked at, by their device numbers.
    seen: RwLock<HashMap<u64, ObservedFileSystem>>,
    marks: RwLock<Marks>,
    records: Mutex<AssignedNumbers>,
}

/// A file system that was looked at. Another one may get its device number after it was unmounted.
#[derive(Clone, Copy)]
struct ObservedFileSystem {
    id: u64,
    /// The count of mount changes at that time.
    changes: u64,
    /// The number that the host reported.
    number: u64,
    name: &'static str,
}

impl ObservedFileSystem {
    /// Whether the host still reports the same for this device number.
    fn is_of(&self, found: &ProbedFileSystem) -> bool {
        (self.number, self.name) == (found.number, found.name)
    }
}

/// The paths of the mounts below the root, by their marks ([`mount_mark`]).
#[derive(Default)]
struct Marks {
    /// The count of mount changes at the time of reading.
    changes: u64,
    paths: HashMap<u32, Vec<Vec<u8>>>,
}

impl Marks {
    /// The marks of a mount table that is not older than `changes`.
    fn read(root: BorrowedFd<'_>, changes: u64) -> Marks {
        let path = mounts::path_of(root);
        let mut paths = HashMap::<u32, Vec<Vec<u8>>>::new();
        for mount in mounts::below(root, changes) {
            let below = mount.below(&path).filter(|_| mount.kind != b"autofs");
            if let Some(below) = below {
                let same = paths.entry(crc32fast::hash(below)).or_default();
                // A file system may be mounted over another.
                if same.iter().all(|known| known != below) {
                    same.push(below.to_vec());
                }
            }
        }
        Marks { changes, paths }
    }
}

impl FileSystems {
    /// Opens the file systems of the volume with this root and the device number `device`. `store` holds
    /// the state that must last; it is changed only if the volume owns it.
    ///
    /// # Errors
    /// Those of the host.
    pub(crate) fn open(
        root: BorrowedFd<'_>,
        device: u64,
        store: OwnedFd,
        owns_store: bool,
    ) -> Result<FileSystems> {
        let found = ProbedFileSystem { number: f_fsid(root)?, device, name: file_system_name(root)? };
        let mut records = AssignedNumbers::open(store, owns_store);
        let own = match (found.lasting(), mounts::mount_of(root)) {
            (Some(lasting), _) => lasting,
            (None, Some(mount)) => records.number(&keys(root, device, &mount, HERE)?, &[found.today()], &[]),
            (None, None) => found.today(),
        };
        // A handle of FUSE is a number in the memory of its process. It leads nowhere after a remount.
        let has_lasting_handles = found.name != "fuse";
        let is_ceph = found.name == CEPH;
        let (seen, marks, records) = (RwLock::default(), RwLock::default(), Mutex::new(records));
        Ok(FileSystems { device, own, has_lasting_handles, is_ceph, seen, marks, records })
    }

    /// Whether the file system with this device number is Ceph's, by the kernel's own client. One below the
    /// root must have been looked at before.
    ///
    /// This client makes files before the metadata server does. Until it forgets such a file, it reports a
    /// time of its own as the birth. The number of a file is never given to another one, unless Ceph had not
    /// heard of the file when the machine died (mount option `wsync`). And its fsync(2) succeeds where data
    /// could not be stored; its fdatasync(2) reports that.
    pub(crate) fn is_ceph(&self, device: u64) -> bool {
        match device == self.device {
            true => self.is_ceph,
            false => self.seen.read().get(&device).is_some_and(|seen| seen.name == CEPH),
        }
    }

    /// The same file systems, as if the root's were Ceph's.
    #[cfg(test)]
    pub(crate) fn on_ceph(self) -> FileSystems {
        FileSystems { is_ceph: true, ..self }
    }

    /// Whether a handle of the root's file system that leads nowhere proves that its file is gone.
    pub(crate) fn has_lasting_handles(&self) -> bool {
        self.has_lasting_handles
    }

    /// The identity of the root's file system.
    pub(crate) fn own(&self) -> u64 {
        self.own
    }

    /// The identity of the file system with this device number, if it is known without a call to the
    /// host.
    pub(crate) fn known(&self, device: u64) -> Option<u64> {
        if device == self.device {
            return Some(self.own);
        }
        let changes = mounts::changes_now();
        let seen = self.seen.read().get(&device).copied();
        seen.filter(|seen| seen.changes == changes).map(|seen| seen.id)
    }

    /// The identity of the file system of a file with the device number `device`. `root` is the volume's
    /// root. `is_used` says whether the sidecar store has data under a number.
    ///
    /// # Errors
    /// Those of the host.
    pub(crate) fn of(
        &self,
        fd: BorrowedFd<'_>,
        device: u64,
        root: BorrowedFd<'_>,
        is_used: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        if let Some(known) = self.known(device) {
            return Ok(known);
        }
        let changes = mounts::changes_now();
        let found = ProbedFileSystem { number: f_fsid(fd)?, device, name: file_system_name(fd)? };
        let id = match mounts::mount_of(fd) {
            Some(mount) => self.number_at(&found, mount, root, is_used)?,
            // The file system was unmounted while files are open on it (`umount -l`). Until they are
            // closed no other gets its device number.
            None => match self.seen.read().get(&device).filter(|seen| seen.is_of(&found)) {
                Some(seen) => seen.id,
                // The host tells no more than earlier versions of this program used.
                None => found.lasting().unwrap_or(mixed(&found.today().to_le_bytes())),
            },
        };
        let now = ObservedFileSystem { id, changes, number: found.number, name: found.name };
        let mut seen = self.seen.write();
        let known = seen.entry(device).or_insert(now);
        if known.changes <= changes {
            *known = now;
        }
        Ok(id)
    }

    /// The identity of a file system that is reached through this mount.
    fn number_at(
        &self,
        found: &ProbedFileSystem,
        mount: Mount,
        root: BorrowedFd<'_>,
        is_used: impl Fn(u64) -> bool,
    ) -> Result<u64> {
        let path = mounts::path_of(root);
        let below = mount.below(&path).unwrap_or(HERE);
        if let Some(lasting) = found.lasting() {
            let key = copy_key(lasting, &mount, below);
            let mut records = self.records.lock();
            // A copy stays a copy, whichever of the two a later process meets first.
            return Ok(match records.given(&key) {
                Some(given) => given,
                None if self.is_another(lasting, found.device, root) => {
                    records.number(&[key], &[], &[self.own])
                }
                None => lasting,
            });
        }
        let today = found.today();
        // Sidecar data under the number of an earlier version must still be found.
        let earlier =
            Some(today).filter(|today| is_used(*today) && !self.is_another(*today, found.device, root));
        let earlier: Vec<u64> = earlier.into_iter().collect();
        let keys = self.keys_of(found.device, mount, root)?;
        Ok(self.records.lock().number(&keys, &earlier, &[self.own]))
    }

    /// The keys of a file system that may be mounted at several points: those of the first mount that has
    /// a number, or else of the first mount.
    fn keys_of(&self, device: u64, reached: Mount, root: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
        let path = mounts::path_of(root);
        let mut mounted = mounts::below(root, mounts::changes_now());
        mounted.retain(|mount| mount.device == device && mount.below(&path).is_some());
        mounted.sort_by(|one, other| one.at.cmp(&other.at));
        let has_number = |mount: &&Mount| {
            let key = mount_key(mount, mount.below(&path).unwrap_or(HERE));
            self.records.lock().given(&key).is_some()
        };
        let chosen = mounted.iter().find(has_number).or(mounted.first()).unwrap_or(&reached);
        keys(root, device, chosen, chosen.below(&path).unwrap_or(HERE))
    }

    /// Whether a number belongs to another file system that is mounted now: a copy of a disk has the same
    /// UUID. The file system that was seen first keeps the number for as long as it is mounted. A file
    /// system without a block device has its number from another source, and its device number may just
    /// have changed.
    fn is_another(&self, number: u64, device: u64, root: BorrowedFd<'_>) -> bool {
        let changes = mounts::changes_now();
        let mounted = || mounts::below(root, changes).into_iter().map(|mount| mount.device);
        let seen = self.seen.read();
        let is_same = |(other, seen): (&u64, &ObservedFileSystem)| {
            seen.id == number && *other != device && *other >> 32 != 0
        };
        let mut same = seen.iter().filter(|one| is_same(*one));
        number == self.own || same.any(|(other, _)| mounted().any(|device| device == *other))
    }

    /// The result of `look` at the mount with this mark. No other mount is accessed, because its file
    /// system may respond slowly. If two paths have one mark, the file is at one of them. If it is at
    /// both, the meant one is unknown.
    ///
    /// # Errors
    /// [`Failure::Stale`] when no mount has this mark; errors of `look` and of the host.
    pub(crate) fn at_mount<T>(
        &self,
        mark: u32,
        root: BorrowedFd<'_>,
        look: impl Fn(BorrowedFd<'_>) -> Result<T>,
    ) -> Result<T> {
        if mark == crc32fast::hash(HERE) {
            return look(root);
        }
        let look_at = |below: Vec<u8>| match open_top(root, &below) {
            Ok(top) => look(top.as_fd()),
            Err(Failure::NotFound | Failure::NotADirectory | Failure::IsALink) => Err(Failure::Stale),
            Err(why) => Err(why),
        };
        let mut found = Err(Failure::Stale);
        for below in self.paths_of(mark, root) {
            match (look_at(below), &found) {
                (Ok(_), Ok(_)) => return Err(Failure::Stale),
                (Ok(it), Err(_)) => found = Ok(it),
                (Err(why), Err(Failure::Stale)) => found = Err(why),
                (Err(_), _) => {}
            }
        }
        found
    }

    /// The paths of the mounts with this mark. The mount table is read again if none is known.
    fn paths_of(&self, mark: u32, root: BorrowedFd<'_>) -> Vec<Vec<u8>> {
        let changes = mounts::changes();
        let marks = self.marks.read();
        if let Some(paths) = marks.paths.get(&mark).filter(|_| marks.changes == changes) {
            return paths.clone();
        }
        drop(marks);
        let changes = mounts::changes_now();
        let mut marks = self.marks.write();
        if marks.changes < changes {
            *marks = Marks::read(root, changes);
        }
        marks.paths.get(&mark).cloned().unwrap_or_default()
    }
}

/// The mark of the mount that a file is reached through: a checksum of the mount's path below the root,
/// which is [`HERE`] for the root's own mount. Through another mount the same file may be read-only, or
/// may not exist.
///
/// # Errors
/// [`volume::Failure::NotSupported`] if the host does not tell the mount.
pub(crate) fn mount_mark(fd: BorrowedFd<'_>, root: BorrowedFd<'_>) -> Result<u32> {
    let mount = mounts::mount_of(fd).ok_or(Failure::NotSupported)?;
    Ok(crc32fast::hash(mount.below(&mounts::path_of(root)).unwrap_or(HERE)))
}

/// Opens the top of a mount. It is closed after each use, because nobody can unmount a file system while
/// it is open.
fn open_top(root: BorrowedFd<'_>, below: &[u8]) -> Result<OwnedFd> {
    open_below(root, &mounts::unescaped(below), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
}

/// The `f_fsid` of statvfs(3).
fn f_fsid(fd: BorrowedFd<'_>) -> Result<u64> {
    Ok(call(|| rustix::fs::fstatvfs(fd))?.f_fsid)
}

/// The host's information about a file system.
struct ProbedFileSystem {
    /// The `f_fsid` of statvfs(3).
    number: u64,
    device: u64,
    name: &'static str,
}

impl ProbedFileSystem {
    /// The file system's own number, unless it depends on the mount.
    fn lasting(&self) -> Option<u64> {
        // overlayfs reports the number of the file system below it.
        let is_own = self.number != 0 && self.number != encoded(self.device) && self.name != "overlay";
        is_own.then_some(self.number)
    }

    /// The number that earlier versions of this program used.
    fn today(&self) -> u64 {
        if self.number == 0 { self.device } else { self.number }
    }
}

/// The `f_fsid` that the kernel makes from a device number (`huge_encode_dev`).
fn encoded(device: u64) -> u64 {
    let (major, minor) = (device >> 32, device & 0xffff_ffff);
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}

/// The keys that lead to the stored number of a file system without one of its own: its UUID, and the
/// mounted source with the mount point. Older kernels do not report the UUID of every file system.
fn keys(root: BorrowedFd<'_>, device: u64, mount: &Mount, below: &[u8]) -> Result<Vec<Vec<u8>>> {
    let uuid = if below == HERE {
        sys::file_system_uuid(root)
    } else {
        match open_top(root, below) {
            Ok(top) if stat_fd(&top)?.id.device == device => sys::file_system_uuid(top.as_fd()),
            // The mount point is a single file, or another file system is mounted over it.
            Ok(_) | Err(Failure::NotADirectory) => None,
            Err(why) => return Err(why),
        }
    };
    let by_uuid = uuid.map(|uuid| format!("uuid {:032x}", u128::from_be_bytes(uuid)).into_bytes());
    Ok(by_uuid.into_iter().chain([mount_key(mount, below)]).collect())
}

/// The key of a file system whose own number belongs to another one.
fn copy_key(number: u64, mount: &Mount, below: &[u8]) -> Vec<u8> {
    [format!("copy {number:016x} ").as_bytes(), &mount_key(mount, below)].concat()
}

/// The mounted source and the mount point below the root.
fn mount_key(mount: &Mount, below: &[u8]) -> Vec<u8> {
    [&mount.kind[..], &mount.source, &mount.root, below].join(&b' ')
}

/// Mixes bytes into one number that is not zero.
fn mixed(bytes: &[u8]) -> u64 {
    let mut mixed = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        mixed = (mixed ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    for step in [30, 27, 31] {
        mixed = (mixed ^ mixed >> step).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    mixed.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_the_device_or_anothers_does_not_last() {
        let (sda1, late) = (8 << 32 | 1, 259 << 32 | 0x1234);
        assert_eq!((encoded(sda1), encoded(late)), (0x801, 0x0121_0334));
        for (number, device, name, own, today) in [
            (0x801, sda1, "xfs", None, 0x801),
            (0x801, late, "ext4", Some(0x801), 0x801),
            (0, 0x2f, "fuse", None, 0x2f),
            (77, 0x2f, "overlay", None, 77),
            (77, 0x2f, "btrfs", Some(77), 77),
        ] {
            let found = ProbedFileSystem { number, device, name };
            assert_eq!((found.lasting(), found.today()), (own, today), "{name}");
        }
    }

    #[test]
    fn a_key_says_what_is_mounted_and_where_and_nothing_of_devices() {
        let line = |number: u8, minor: u8| {
            let line = format!("{number} 1 0:{minor} /part /srv/a/b rw shared:1 - fuse.sshfs me@there:/x rw");
            mounts::parsed(line.as_bytes()).unwrap()
        };
        let keys = [line(36, 47), line(37, 48)].map(|mount| mount_key(&mount, mount.below(b"/srv").unwrap()));
        assert_eq!(keys[0], b"fuse.sshfs me@there:/x /part a/b");
        assert_eq!(keys[0], keys[1]);
        assert_eq!(copy_key(0x2f, &line(1, 2), b"a/b")[..22], *b"copy 000000000000002f ");
    }

    #[test]
    fn bytes_that_differ_give_numbers_that_differ() {
        let numbers = [&b""[..], b"a", b"b", b"ab", b"ba", b"fuse a / x", b"fuse a / y"].map(mixed);
        let all: std::collections::BTreeSet<_> = numbers.into_iter().collect();
        assert_eq!(all.len(), numbers.len());
        assert!(!all.contains(&0));
    }
}
