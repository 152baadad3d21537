//! Descriptors that are kept back from files, so that connections and the server's own state get one when files have used up
//! all others.
//!
//! Before files are refused one, those that nobody uses are closed (`pool`). When the last eighth of those for files is in use
//! all the same, descriptors are scarce, and whoever knows whose files they are may share them out.
//!
//! The host gives the lowest number that is free (POSIX, open(2)): who is given a high one learns without a further call that
//! nearly all are in use.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::io::{self, Errno};
use rustix::process::{Resource, getrlimit};
use volume::Result;

use crate::errno::failure;
use crate::pool;

/// Most descriptors that are kept back; of few the eighth part.
const MOST: u64 = 64;
/// So many before the first that is kept back it is asked for one before a file is made, which could not be undone.
const NEAR_BY: i32 = 128;
/// How often room is made for one file: others may take it.
const TRIES: usize = 8;

/// The first that is kept back, as far as is known.
static FROM: AtomicI32 = AtomicI32::new(0);
/// The first of the upper half.
static HIGH: AtomicI32 = AtomicI32::new(0);
/// Whether those that are kept back are near.
static IS_NEAR: AtomicBool = AtomicBool::new(false);
/// Whether an eighth of those for files is left, and no file could be closed.
static IS_SCARCE: AtomicBool = AtomicBool::new(false);

/// The first that is kept back where there are `limit`.
fn first_of(limit: Option<u64>) -> i32 {
    let first = limit.map(|limit| limit - MOST.min(limit / 8));
    first.and_then(|first| i32::try_from(first).ok()).unwrap_or(i32::MAX)
}

/// Where the last eighth begins of those for files.
fn last_eighth(from: i32) -> i32 {
    from - from / 8
}

/// How a new descriptor stands among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    /// There are many left.
    Many,
    /// It is in the last eighth of those for files.
    Few,
    /// It is one of those that are kept back.
    KeptBack,
}

fn level(fd: BorrowedFd<'_>) -> Level {
    let number = fd.as_raw_fd();
    let is_near = |from: i32| number >= from.saturating_sub(NEAR_BY).min(last_eighth(from));
    if !is_near(FROM.load(Ordering::Relaxed)) {
        return Level::Many;
    }
    // The limit may be another one by now.
    let limit = getrlimit(Resource::Nofile).current;
    let from = first_of(limit);
    FROM.store(from, Ordering::Relaxed);
    HIGH.store(first_of(limit) / 2, Ordering::Relaxed);
    IS_NEAR.store(is_near(from), Ordering::Relaxed);
    match number {
        _ if number >= from => Level::KeptBack,
        _ if number >= last_eighth(from) => Level::Few,
        _ => Level::Many,
    }
}

/// Whether it is in the upper half, so that half are in use.
pub(crate) fn is_high(fd: BorrowedFd<'_>) -> bool {
    fd.as_raw_fd() >= HIGH.load(Ordering::Relaxed)
}

/// Opens a file. When that would take a descriptor that is kept back, or the host has none, files that nobody uses are closed
/// for it; when few are left, for the next.
///
/// # Errors
/// `EMFILE`; as the host says.
pub(crate) fn with_room(open: impl Fn() -> io::Result<OwnedFd>) -> io::Result<OwnedFd> {
    for _ in 0..TRIES {
        match open() {
            Ok(fd) => match level(fd.as_fd()) {
                Level::Many => {
                    set_scarce(false);
                    return Ok(fd);
                }
                Level::Few => {
                    set_scarce(!pool::make_room_for_later());
                    return Ok(fd);
                }
                Level::KeptBack => drop(fd),
            },
            Err(Errno::INTR) => continue,
            Err(Errno::MFILE | Errno::NFILE) => {}
            Err(errno) => return Err(errno),
        }
        if !pool::make_room() {
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

/// Makes sure, before a name is made, that there is a descriptor for it; any open one will do to ask.
///
/// # Errors
/// [`volume::Failure::Exhausted`]
pub(crate) fn ask(any: BorrowedFd<'_>) -> Result<()> {
    if IS_NEAR.load(Ordering::Relaxed) {
        IS_NEAR.store(false, Ordering::Relaxed);
        with_room(|| rustix::io::fcntl_dupfd_cloexec(any, 0)).map_err(failure)?;
    }
    Ok(())
}

/// Takes note of a descriptor that stays although it may be one of those that are kept back.
pub(crate) fn note(fd: BorrowedFd<'_>) {
    set_scarce(level(fd) != Level::Many && !pool::make_room_for_later());
}

/// Whether descriptors are scarce, and no file could be closed for more. As long as they are not, that is one look at a flag.
pub(crate) fn are_scarce(any: BorrowedFd<'_>) -> bool {
    IS_SCARCE.load(Ordering::Relaxed) && is_short(any)
}

/// Keeps some free for who does not ask here, such as connections. Whether they are scarce all the same.
pub(crate) fn is_short(any: BorrowedFd<'_>) -> bool {
    let asked = with_room(|| rustix::io::fcntl_dupfd_cloexec(any, 0));
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
