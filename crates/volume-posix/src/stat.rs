//! The host's attributes of a file: those of a descriptor, and those of a name below one.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, FileType, Statx, StatxAttributes, StatxFlags, StatxTimestamp};
use volume::{NodeId, NodeKind, Result, Stat, Time};

use crate::errno::call;

/// The fields that every statx call requests.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The stat of a descriptor's file.
pub(crate) fn stat_fd(fd: impl AsFd) -> Result<Stat> {
    call(|| rustix::fs::statx(fd.as_fd(), c"", AtFlags::EMPTY_PATH, WANTED)).map(|seen| stat_of(&seen))
}

/// The attributes of the file that a name leads to. A symbolic link is not followed, and no automount is
/// triggered.
pub(crate) fn stat_below(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Stat> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    call(|| rustix::fs::statx(directory, name, flags, WANTED)).map(|seen| stat_of(&seen))
}

fn time(stamp: StatxTimestamp) -> Time {
    Time { secs: stamp.tv_sec, nanos: stamp.tv_nsec }
}

fn stat_of(seen: &Statx) -> Stat {
    let pair = |major: u32, minor: u32| u64::from(major) << 32 | u64::from(minor);
    let kind = match FileType::from_raw_mode(u32::from(seen.stx_mode)) {
        FileType::Directory => NodeKind::Directory,
        FileType::Symlink => NodeKind::Link,
        FileType::Fifo => NodeKind::Pipe,
        FileType::Socket => NodeKind::Socket,
        FileType::CharacterDevice => NodeKind::CharDevice,
        FileType::BlockDevice => NodeKind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => NodeKind::File,
    };
    let is_device = matches!(kind, NodeKind::CharDevice | NodeKind::BlockDevice);
    let has_birth = seen.stx_mask & StatxFlags::BTIME.bits() != 0;
    Stat {
        id: NodeId { device: pair(seen.stx_dev_major, seen.stx_dev_minor), inode: seen.stx_ino },
        file_system: 0,
        kind,
        size: seen.stx_size,
        allocated: seen.stx_blocks.saturating_mul(512),
        links: seen.stx_nlink,
        mode: u32::from(seen.stx_mode) & 0o7777,
        uid: seen.stx_uid,
        gid: seen.stx_gid,
        rdev: if is_device { pair(seen.stx_rdev_major, seen.stx_rdev_minor) } else { 0 },
        accessed: time(seen.stx_atime),
        modified: time(seen.stx_mtime),
        changed: time(seen.stx_ctime),
        born: has_birth.then(|| time(seen.stx_btime)),
        fixed: seen.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
    }
}
