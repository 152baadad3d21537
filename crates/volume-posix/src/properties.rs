//! The properties of the file system below a volume, determined once.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::LazyLock;

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags, StatVfsMountFlags, XattrFlags};
use rustix::io::Errno;
use volume::{Result, Stat, VolumeProperties};

use crate::errno::call;
use crate::open::ALWAYS;

/// File systems by the magic number that the host reports.
const KNOWN: &[(u64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0xf2f5_2010, "f2fs"),
    (0x794c_7630, "overlay"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x7366_746e, "ntfs3"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb3"),
    (0x6573_5546, "fuse"),
    (0x00c3_6400, "ceph"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x9660, "iso9660"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x0102_1997, "9p"),
    (0x8584_58f6, "ramfs"),
];

/// The name of Ceph's file system by the kernel's own client.
pub(crate) const CEPH: &str = "ceph";

/// File systems that other hosts, or a process behind them, change without an event on this host.
const FAR: &[&str] = &["nfs", "cifs", "smb3", "fuse", CEPH, "gfs2", "ocfs2", "9p"];

/// Whether other hosts, or a process behind it, may change the file system of this file without an event.
///
/// # Errors
/// The host's.
pub fn is_far(file: impl AsFd) -> std::io::Result<bool> {
    Ok(is_far_kind(name_of(file.as_fd())?))
}

/// Whether this file is on Ceph's file system, by Linux's own client.
///
/// # Errors
/// The host's.
pub fn is_kernel_ceph(file: impl AsFd) -> std::io::Result<bool> {
    Ok(name_of(file.as_fd())? == CEPH)
}

/// As [`is_far`], by the name of the file system.
pub(crate) fn is_far_kind(file_system: &str) -> bool {
    FAR.contains(&file_system)
}

/// The flag of a directory in which the file system itself folds case.
const CASEFOLD: u32 = 0x4000_0000;

/// The name of the file system.
pub(crate) fn file_system_name(fd: BorrowedFd<'_>) -> Result<&'static str> {
    call(|| name_of(fd))
}

fn name_of(fd: BorrowedFd<'_>) -> rustix::io::Result<&'static str> {
    let kind = rustix::fs::fstatfs(fd)?.f_type as u64 & 0xffff_ffff;
    Ok(KNOWN.iter().find(|(number, _)| *number == kind).map_or("unknown", |(_, name)| name))
}

/// Whether this process may store notes in attributes that a file's owner cannot change. The check
/// changes nothing.
pub(crate) fn may_use_trusted(root: BorrowedFd<'_>) -> bool {
    // Replacing a missing attribute fails with one error for a privileged process and with another for
    // others.
    let probe = rustix::fs::fsetxattr(root, c"trusted.trunkline.probe", b"", XattrFlags::REPLACE);
    probe == Err(Errno::NODATA)
}

/// All constant properties of the volume with this root directory. `identity` is that of its file system.
pub(crate) fn find(
    root: BorrowedFd<'_>,
    stat: &Stat,
    identity: u64,
    tells_changes: bool,
) -> Result<VolumeProperties> {
    let file_system = file_system_name(root)?;
    let room = call(|| rustix::fs::fstatvfs(root))?;
    let read_only = room.f_flag.contains(StatVfsMountFlags::RDONLY);
    let attributes = rustix::fs::fgetxattr(root, c"user.trunkline.probe", &mut [0_u8; 1]);
    Ok(VolumeProperties {
        file_system: file_system.to_owned(),
        serial: serial(identity, stat.id.inode),
        born: stat.born.unwrap_or(stat.changed),
        name_max: u32::try_from(room.f_namemax).unwrap_or(255).clamp(1, 255),
        folds_case: folds_case(file_system, flags_of(root)),
        clones: !read_only && clones(root, (stat.id.device, identity)),
        discards: discards(stat.id.device),
        extended_attributes: attributes != Err(Errno::OPNOTSUPP),
        read_only,
        tells_changes,
    })
}

/// Whether the host's events about a directory are complete. The directory may be on another file system
/// than the root, and of another kind.
pub(crate) fn is_told_of(directory: BorrowedFd<'_>, properties: &VolumeProperties) -> Result<bool> {
    Ok(is_reliable(file_system_name(directory)?, flags_of(directory), properties.folds_case))
}

/// As [`is_told_of`], from the properties of the directory. If the root folds case, no caller relies on
/// names.
fn is_reliable(file_system: &str, flags: u32, root_folds: bool) -> bool {
    (root_folds || !folds_case(file_system, flags)) && !is_far_kind(file_system)
}

/// The flags of a directory. 0 if the file system has none.
fn flags_of(directory: BorrowedFd<'_>) -> u32 {
    rustix::fs::ioctl_getflags(directory).map_or(0, |flags| flags.bits())
}

/// Whether the file system itself folds case in a directory with these flags.
fn folds_case(file_system: &str, flags: u32) -> bool {
    flags & CASEFOLD != 0 || matches!(file_system, "vfat" | "exfat")
}

/// Mixes two numbers into one. Directories of one file system then differ in the low half too, and some
/// callers show only that half.
fn serial(file_system: u64, inode: u64) -> u64 {
    let mut mixed = file_system ^ inode.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for step in [30, 27, 31] {
        mixed = (mixed ^ mixed >> step).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    mixed
}

/// Whether files of this file system can share blocks. `file_system` is its device and its identity. A server
/// with many shares tries it once for each file system, since unnamed files wait for the journal.
fn clones(root: BorrowedFd<'_>, file_system: (u64, u64)) -> bool {
    static TRIED: Mutex<BTreeMap<(u64, u64), bool>> = Mutex::new(BTreeMap::new());
    let mut tried = TRIED.lock();
    if let Some(clones) = tried.get(&file_system) {
        return *clones;
    }
    // A file system that is full at the moment is asked again by the next share.
    let clones = try_clone(root).map(|clones| *tried.entry(file_system).or_insert(clones));
    clones.unwrap_or(false)
}

/// Tries to share a block between two unnamed files.
fn try_clone(root: BorrowedFd<'_>) -> Result<bool> {
    let unnamed = || {
        let flags = OFlags::TMPFILE | OFlags::RDWR | (ALWAYS - OFlags::NOFOLLOW);
        call(|| rustix::fs::openat(root, c".", flags, Mode::RUSR | Mode::WUSR))
    };
    let (from, to) = (unnamed()?, unnamed()?);
    let block =
        usize::try_from(call(|| rustix::fs::fstatvfs(root))?.f_bsize).unwrap_or(4096).clamp(512, 1 << 20);
    crate::bytes::write_all(from.as_fd(), 0, &vec![1; block])?;
    Ok(rustix::fs::ioctl_ficlone(&to, &from).is_ok())
}

/// Whether the block device with this number, or the disk that it is a partition of, accepts discards. A
/// file system that is not on one block device has no such device.
fn discards(device: u64) -> bool {
    let path = format!("/sys/dev/block/{}:{}", device >> 32, device & 0xffff_ffff);
    let told = ["queue", "../queue"]
        .iter()
        .find_map(|queue| std::fs::read_to_string(format!("{path}/{queue}/discard_max_bytes")).ok());
    told.and_then(|text| text.trim().parse::<u64>().ok()).is_some_and(|most| most > 0)
}

/// The process's mask of permission bits at its first volume. Only the kernel's status file has it without
/// setting it.
pub(crate) fn umask() -> u32 {
    static UMASK: LazyLock<u32> = LazyLock::new(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
    });
    *UMASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_below_the_root_are_judged_by_what_they_are_themselves() {
        for (file_system, flags, root_folds, expected) in [
            ("ext4", 0x80000, false, true),
            ("ext4", CASEFOLD, false, false),
            ("ext4", CASEFOLD, true, true),
            ("vfat", 0, false, false),
            ("exfat", 0, false, false),
            ("nfs", 0, false, false),
            ("ceph", 0, true, false),
        ] {
            assert_eq!(is_reliable(file_system, flags, root_folds), expected, "{file_system} {flags:x}");
        }
    }

    #[test]
    fn discards_are_taken_by_what_the_host_says_takes_them() {
        for entry in std::fs::read_dir("/sys/dev/block").into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let (major, minor) = name.split_once(':').unwrap();
            let device = major.parse::<u64>().unwrap() << 32 | minor.parse::<u64>().unwrap();
            let real = std::fs::canonicalize(entry.path()).unwrap();
            let disk = if real.join("partition").exists() { real.parent().unwrap() } else { real.as_path() };
            let unit = std::fs::read_to_string(disk.join("queue/discard_granularity")).unwrap_or_default();
            // A device without discards has no discard granularity either.
            assert!(!discards(device) || unit.trim() != "0", "{name}");
        }
        assert!(!discards(7));
    }
}
