//! The mounts below a volume. The host lists them only in `/proc/self/mountinfo` (proc_pid_mountinfo(5)),
//! and no other event reports that a directory leads elsewhere now. [`crate::file_systems`] covers the
//! file systems themselves.
//!
//! All volumes share one open file. The kernel marks it when any mount of the process's namespace changes
//! (poll(2), POLLPRI). They also share the table that one of them has read since: a host may have
//! thousands of mounts, and a server hundreds of volumes.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, StatxFlags};

use crate::sys::ProcPath;

const TABLE: &str = "/proc/self/mountinfo";
/// The shortest time between two checks for changes, in milliseconds, over all volumes.
const ASKED_EVERY_MS: u64 = 100;

/// A mount, from a line of the table. Paths and names stay escaped, as the host writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The mount's number. A later mount may get the same.
    pub(crate) number: u64,
    /// The device number of its file system, as `Stat` has it. The directories of btrfs have others.
    pub(crate) device: u64,
    /// The directory of the file system that is visible at the mount point.
    pub(crate) root: Vec<u8>,
    /// The mount point.
    pub(crate) at: Vec<u8>,
    /// The kind of file system, such as `ext4` and `fuse.sshfs`.
    pub(crate) kind: Vec<u8>,
    /// The mounted source, as the mounting program named it.
    pub(crate) source: Vec<u8>,
}

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The open table. `None` if the host has none.
static OPENED: OnceLock<Option<File>> = OnceLock::new();
static ASKED_MS: AtomicU64 = AtomicU64::new(0);
/// How many changes of the mounts were seen.
static CHANGES: AtomicU64 = AtomicU64::new(1);
/// The table that was read last.
static LAST: Mutex<Last> = Mutex::new(Last { read_at: 0, mounts: Vec::new() });

/// The table at the time when [`CHANGES`] was `read_at`, or later.
struct Last {
    read_at: u64,
    mounts: Vec<Mount>,
}

/// The mounts below one volume.
pub(crate) struct MountsBelow {
    /// The value of [`CHANGES`] at the time of reading.
    read_at: AtomicU64,
    mounts: Mutex<Vec<Mount>>,
}

impl MountsBelow {
    /// The present mounts below `root`.
    pub(crate) fn of(root: BorrowedFd<'_>) -> MountsBelow {
        let changes = changes();
        MountsBelow { read_at: AtomicU64::new(changes), mounts: Mutex::new(below(root, changes)) }
    }

    /// Whether any mount was added or removed since the last call.
    pub(crate) fn have_changed(&self, root: BorrowedFd<'_>) -> bool {
        let changes = changes();
        if self.read_at.swap(changes, Ordering::AcqRel) == changes {
            return false;
        }
        let mut mounts = self.mounts.lock();
        let before = std::mem::replace(&mut *mounts, below(root, changes));
        let path = path_of(root);
        let over = |mounts: &[Mount]| mounts.iter().filter(|mount| mount.at == path).count();
        if over(&mounts) > over(&before) {
            tracing::warn!(
                directory = %String::from_utf8_lossy(&path),
                "a file system was mounted over a directory that is served; \
                 the directory below it is served until the next start"
            );
        }
        before != *mounts
    }
}

/// How many changes of the mounts were seen so far.
pub(crate) fn changes() -> u64 {
    let table = OPENED.get_or_init(|| File::open(TABLE).ok());
    let now_ms =
        u64::try_from(BEGUN.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(ASKED_EVERY_MS);
    let asked_ms = ASKED_MS.load(Ordering::Relaxed);
    if now_ms >= asked_ms + ASKED_EVERY_MS
        && ASKED_MS.compare_exchange(asked_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        note_change(table.as_ref());
    }
    CHANGES.load(Ordering::Acquire)
}

/// As [`changes`], but the host is asked even if it was asked a moment ago.
pub(crate) fn changes_now() -> u64 {
    note_change(OPENED.get_or_init(|| File::open(TABLE).ok()).as_ref());
    CHANGES.load(Ordering::Acquire)
}

fn note_change(table: Option<&File>) {
    if table.is_some_and(has_changed) {
        CHANGES.fetch_add(1, Ordering::AcqRel);
    }
}

/// Whether the table has changed since the last call. The kernel remembers that for each open file.
fn has_changed(table: &File) -> bool {
    let mut polled = [PollFd::new(table, PollFlags::PRI)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// The mounts at a directory and below it, from a table that is not older than `changes`.
pub(crate) fn below(root: BorrowedFd<'_>, changes: u64) -> Vec<Mount> {
    let path = path_of(root);
    with_table(changes, |mounts| {
        mounts.iter().filter(|mount| mount.at == path || mount.below(&path).is_some()).cloned().collect()
    })
}

/// The mount through which a descriptor was opened. `None` if the host does not tell it.
pub(crate) fn mount_of(fd: BorrowedFd<'_>) -> Option<Mount> {
    let seen = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    if seen.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        return None;
    }
    let is_it = |mount: &&Mount| mount.number == seen.stx_mnt_id;
    with_table(changes_now(), |mounts| mounts.iter().rev().find(is_it).cloned())
}

/// Runs `look` on a table that is not older than `changes`.
fn with_table<T>(changes: u64, look: impl FnOnce(&[Mount]) -> T) -> T {
    let mut last = LAST.lock();
    if last.read_at < changes {
        let table = std::fs::read(TABLE).unwrap_or_default();
        let mounts = table.split(|byte| *byte == b'\n').filter_map(parsed).collect();
        *last = Last { read_at: changes, mounts };
    }
    look(&last.mounts)
}

impl Mount {
    /// The mount point's path below a directory, without a leading slash. `None` if it is not below that
    /// directory.
    pub(crate) fn below(&self, path: &[u8]) -> Option<&[u8]> {
        let rest = self.at.strip_prefix(path)?;
        let rest = if path == b"/" { rest } else { rest.strip_prefix(b"/")? };
        (!rest.is_empty()).then_some(rest)
    }
}

/// The path of a directory, as the table writes it. Empty if the host does not tell it.
pub(crate) fn path_of(root: BorrowedFd<'_>) -> Vec<u8> {
    let path = rustix::fs::readlink(ProcPath::of(root.as_fd()).as_c_str(), Vec::new());
    path.map_or_else(|_| b"unknown".to_vec(), |path| escaped(path.as_bytes()))
}

/// Escapes a path like the table (proc_pid_mountinfo(5)).
fn escaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    for byte in path {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            other => out.push(*other),
        }
    }
    out
}

/// Removes the escapes from a path of the table.
pub(crate) fn unescaped(path: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(path.len()), 0);
    while let Some(byte) = path.get(at) {
        let octal = path.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *byte == b'\\') {
            Some(meant) => {
                out.push(meant);
                at += 4;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

/// The mount in a line of the table.
pub(crate) fn parsed(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (major, minor) = std::str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
    let device = major.parse::<u64>().ok()? << 32 | u64::from(minor.parse::<u32>().ok()?);
    let (root, at) = (fields.next()?.to_vec(), fields.next()?.to_vec());
    fields.find(|field| *field == b"-")?;
    let (kind, source) = (fields.next()?.to_vec(), fields.next()?.to_vec());
    Some(Mount { number, device, root, at, kind, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_once_however_many_volumes_there_are() {
        let root = File::open("/").expect("a root");
        let read = || {
            let changes = changes();
            let volumes: Vec<_> = (0..50).map(|_| MountsBelow::of(root.as_fd())).collect();
            let last = LAST.lock();
            assert!(!last.mounts.is_empty() && !volumes[0].mounts.lock().is_empty());
            (changes, last.mounts.as_ptr())
        };
        // Other tests mount file systems. Then the comparison is repeated.
        let (mut before, mut after) = (read(), read());
        while before.0 != after.0 {
            (before, after) = (after, read());
        }
        assert_eq!(before.1, after.1);
    }

    #[test]
    fn a_line_of_the_table_is_read() {
        let line = br"36 35 98:7 /mnt1 /srv/a\040b rw,noatime master:1 shared:2 - ext3 /dev/root rw";
        let mount = parsed(line).expect("a mount");
        let fields = [&mount.root, &mount.at, &mount.kind, &mount.source].map(Vec::as_slice);
        assert_eq!((mount.number, mount.device), (36, 98 << 32 | 7));
        assert_eq!(fields, [&b"/mnt1"[..], br"/srv/a\040b", b"ext3", b"/dev/root"]);
        assert_eq!((unescaped(&mount.at), escaped(b"/srv/a b")), (b"/srv/a b".to_vec(), mount.at.clone()));
        for wrong in
            [&b""[..], b"36 35 98:0", b"36 35 98 /mnt1 /srv - ext3 /dev/root", b"36 35 98:0 / /srv rw"]
        {
            assert_eq!(parsed(wrong), None);
        }
    }

    #[test]
    fn only_what_is_below_a_directory_counts() {
        let mount = parsed(br"36 35 98:7 / /srv/ab rw - ext3 /dev/root rw").expect("a mount");
        assert_eq!(mount.below(b"/srv"), Some(&b"ab"[..]));
        assert_eq!(mount.below(b"/"), Some(&b"srv/ab"[..]));
        for path in [&b"/srv/ab"[..], b"/srv/a", b"/srv/ab/c", b"unknown"] {
            assert_eq!(mount.below(path), None);
        }
    }

    #[test]
    fn what_the_host_escapes_is_read_back() {
        for path in [&b"a b\tc\nd\\e"[..], b"", b"\\", b"plain", "\u{e4}".as_bytes()] {
            assert_eq!(unescaped(&escaped(path)), path);
        }
        assert_eq!(unescaped(br"\0"), br"\0");
    }
}
