//! A reserve of descriptors. Connections and the server's own state get a descriptor from it when files
//! have used all others.
//!
//! Before a file is refused a descriptor, unused files are closed (`pool`). If the last eighth of the
//! descriptors for files is in use even so, descriptors are scarce. A caller that knows the clients of
//! the files may then share them out.
//!
//! The host assigns the lowest free number (POSIX, open(2)). So a high number shows, without a further
//! call, that nearly all descriptors are in use.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::io::{self, Errno};
use rustix::process::{Resource, getrlimit};
use volume::Result;

use crate::errno::failure;
use crate::pool;

/// The largest reserve. With a low limit it is an eighth of the limit.
const MOST: u64 = 64;
/// Within this distance of the reserve, a descriptor is tried before a file is created, because a
/// creation could not be undone.
const NEAR_BY: i32 = 128;
/// How often files are closed to open one. Others may take the free descriptor.
const TRIES: usize = 8;

/// The first descriptor of the reserve, as far as it is known.
static FROM: AtomicI32 = AtomicI32::new(0);
/// The first descriptor of the upper half.
static HIGH: AtomicI32 = AtomicI32::new(0);
/// Whether the reserve is near.
static IS_NEAR: AtomicBool = AtomicBool::new(false);
/// Whether only an eighth of the descriptors for files is left, and no file could be closed.
static IS_SCARCE: AtomicBool = AtomicBool::new(false);

/// The first descriptor of the reserve with this limit.
fn first_of(limit: Option<u64>) -> i32 {
    let first = limit.map(|limit| limit - MOST.min(limit / 8));
    first.and_then(|first| i32::try_from(first).ok()).unwrap_or(i32::MAX)
}

/// The start of the last eighth of the descriptors for files.
fn last_eighth(from: i32) -> i32 {
    from - from / 8
}

/// The part of the descriptors that a new one belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DescriptorLevel {
    /// Many descriptors are left.
    Many,
    /// It is in the last eighth of the descriptors for files.
    Few,
    /// It belongs to the reserve.
    KeptBack,
}

fn level(fd: BorrowedFd<'_>) -> DescriptorLevel {
    let number = fd.as_raw_fd();
    let is_near = |from: i32| number >= from.saturating_sub(NEAR_BY).min(last_eighth(from));
    if !is_near(FROM.load(Ordering::Relaxed)) {
        return DescriptorLevel::Many;
    }
    // The limit may have changed.
    let limit = getrlimit(Resource::Nofile).current;
    let from = first_of(limit);
    FROM.store(from, Ordering::Relaxed);
    HIGH.store(first_of(limit) / 2, Ordering::Relaxed);
    IS_NEAR.store(is_near(from), Ordering::Relaxed);
    match number {
        _ if number >= from => DescriptorLevel::KeptBack,
        _ if number >= last_eighth(from) => DescriptorLevel::Few,
        _ => DescriptorLevel::Many,
    }
}

/// Whether the descriptor is in the upper half, so that half of them are in use.
pub(crate) fn is_high(fd: BorrowedFd<'_>) -> bool {
    fd.as_raw_fd() >= HIGH.load(Ordering::Relaxed)
}

/// Opens a file. If that would take a descriptor of the reserve, or the host has none, unused files are
/// closed first. If few are left, unused files are closed for the next open.
///
/// # Errors
/// `EMFILE`; errors of the host.
pub(crate) fn open_with_reserve(open: impl Fn() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match open() {
            Ok(fd) => match level(fd.as_fd()) {
                DescriptorLevel::Many => {
                    set_scarce(false);
                    return Ok(fd);
                }
                DescriptorLevel::Few => {
                    set_scarce(!pool::close_idle_ahead());
                    return Ok(fd);
                }
                DescriptorLevel::KeptBack => drop(fd),
            },
            Err(Errno::INTR) => continue,
            Err(Errno::MFILE | Errno::NFILE) => {}
            Err(errno) => return Err(errno),
        }
        if !pool::close_idle() {
            set_scarce(true);
            break;
        }
    }
    Err(Errno::MFILE)
}

fn set_scarce(is_scarce: bool) {
    if IS_SCARCE.load(Ordering::Relaxed) != is_scarce {
        IS_SCARCE.store(is_scarce, Ordering::Relaxed);
    }
}

/// Ensures that there is a descriptor for a file before it is created. The check duplicates `any`, which
/// can be any open descriptor.
///
/// # Errors
/// [`volume::Failure::Exhausted`]
pub(crate) fn ensure_descriptor(any: BorrowedFd<'_>) -> Result<()> {
    if IS_NEAR.load(Ordering::Relaxed) {
        IS_NEAR.store(false, Ordering::Relaxed);
        open_with_reserve(|| rustix::io::fcntl_dupfd_cloexec(any, 0)).map_err(failure)?;
    }
    Ok(())
}

/// Records a descriptor that stays open even if it belongs to the reserve.
pub(crate) fn note_opened(fd: BorrowedFd<'_>) {
    set_scarce(level(fd) != DescriptorLevel::Many && !pool::close_idle_ahead());
}

/// Whether descriptors are scarce and no file could be closed. Otherwise the check only reads a flag.
pub(crate) fn are_scarce(any: BorrowedFd<'_>) -> bool {
    IS_SCARCE.load(Ordering::Relaxed) && is_short(any)
}

/// Keeps some descriptors free for users that do not check here, such as connections. True if they are
/// scarce nevertheless.
pub(crate) fn is_short(any: BorrowedFd<'_>) -> bool {
    let asked = open_with_reserve(|| rustix::io::fcntl_dupfd_cloexec(any, 0));
    asked.is_err() || IS_SCARCE.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_is_kept_back_and_of_many_no_more_than_some() {
        assert_eq!([8, 300, 1024, 1 << 20].map(|limit| first_of(Some(limit))), [7, 263, 960, (1 << 20) - 64]);
        assert_eq!([263, 960].map(last_eighth), [231, 840]);
        assert_eq!((first_of(None), first_of(Some(u64::MAX))), (i32::MAX, i32::MAX));
    }
}
