//! What is mounted below a volume: the host tells of it in `/proc/self/mountinfo` alone (proc_pid_mountinfo(5)), and no other
//! event says that a directory leads elsewhere now.
//!
//! All volumes look at one open file, which the kernel marks when any mount of the process's namespace changes (poll(2), POLLPRI), and
//! at what one of them has read of it since: a host may have thousands of mounts, and a server hundreds of volumes.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::sys::ProcPath;

const TABLE: &str = "/proc/self/mountinfo";
/// The host is asked at most once in so many milliseconds, whoever asks.
const ASKED_EVERY_MS: u64 = 100;

/// A mount's number and where it is, as the host escapes it.
type Mount = (u64, Vec<u8>);

static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
/// The open table; none where the host shows none.
static OPENED: OnceLock<Option<File>> = OnceLock::new();
static ASKED_MS: AtomicU64 = AtomicU64::new(0);
/// How often it was seen that something has changed.
static CHANGES: AtomicU64 = AtomicU64::new(1);
/// The table as it was read last.
static LAST: Mutex<Last> = Mutex::new(Last { read_at: 0, mounts: Vec::new() });

/// The table as it was when [`CHANGES`] was `read_at`, or later.
struct Last {
    read_at: u64,
    mounts: Vec<Mount>,
}

/// The mounts below one volume.
pub(crate) struct MountsBelow {
    /// [`CHANGES`] when they were read.
    read_at: AtomicU64,
    mounts: Mutex<Vec<Mount>>,
}

impl MountsBelow {
    /// Those that are there now.
    pub(crate) fn of(root: BorrowedFd<'_>) -> MountsBelow {
        let changes = changes();
        MountsBelow { read_at: AtomicU64::new(changes), mounts: Mutex::new(below(root, changes)) }
    }

    /// Whether any has come or gone since this was asked last.
    pub(crate) fn have_changed(&self, root: BorrowedFd<'_>) -> bool {
        let changes = changes();
        if self.read_at.swap(changes, Ordering::AcqRel) == changes {
            return false;
        }
        let mut mounts = self.mounts.lock();
        let before = std::mem::replace(&mut *mounts, below(root, changes));
        let path = path_of(root);
        let over = |mounts: &[Mount]| mounts.iter().filter(|(_, at)| *at == path).count();
        if over(&mounts) > over(&before) {
            tracing::warn!(
                directory = %String::from_utf8_lossy(&path),
                "something was mounted over a directory that is served; what lies below it is served on until the next start"
            );
        }
        before != *mounts
    }
}

/// How often anything was mounted or unmounted, as far as has been seen.
fn changes() -> u64 {
    let table = OPENED.get_or_init(|| File::open(TABLE).ok());
    let now_ms =
        u64::try_from(BEGUN.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(ASKED_EVERY_MS);
    let asked_ms = ASKED_MS.load(Ordering::Relaxed);
    if now_ms >= asked_ms + ASKED_EVERY_MS
        && ASKED_MS.compare_exchange(asked_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        && table.as_ref().is_some_and(has_changed)
    {
        CHANGES.fetch_add(1, Ordering::AcqRel);
    }
    CHANGES.load(Ordering::Acquire)
}

/// Whether the table has changed since this was asked last; the kernel remembers that for each open file.
fn has_changed(table: &File) -> bool {
    let mut polled = [PollFd::new(table, PollFlags::PRI)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// The mounts at a directory and below it, from a table that is not older than `changes`.
fn below(root: BorrowedFd<'_>, changes: u64) -> Vec<Mount> {
    let path = path_of(root);
    let is_below = |at: &[u8]| {
        at.strip_prefix(&*path).is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || path == b"/")
    };
    let mut last = LAST.lock();
    if last.read_at < changes {
        let table = std::fs::read(TABLE).unwrap_or_default();
        let mounts = table.split(|byte| *byte == b'\n').filter_map(mount_of).collect();
        *last = Last { read_at: changes, mounts };
    }
    last.mounts.iter().filter(|(_, at)| is_below(at)).cloned().collect()
}

/// Where a directory is, as the table has it; nothing is there where the host does not say.
fn path_of(root: BorrowedFd<'_>) -> Vec<u8> {
    let path = rustix::fs::readlink(ProcPath::of(root.as_fd()).as_c_str(), Vec::new());
    path.map_or_else(|_| b"unknown".to_vec(), |path| escaped(path.as_bytes()))
}

/// A path as the table has it (proc_pid_mountinfo(5)).
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

/// Number and place of the mount in a line of the table: the first and the fifth field.
fn mount_of(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    Some((number, fields.nth(3)?.to_vec()))
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
        // Other tests mount things; what was read before counts no more then.
        let (mut before, mut after) = (read(), read());
        while before.0 != after.0 {
            (before, after) = (after, read());
        }
        assert_eq!(before.1, after.1);
    }

    #[test]
    fn a_line_of_the_table_is_read() {
        let line = br"36 35 98:0 /mnt1 /srv/a\040b rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(mount_of(line), Some((36, escaped(b"/srv/a b"))));
        assert_eq!((mount_of(b""), mount_of(b"36 35 98:0")), (None, None));
    }
}
