//! Descriptors that are kept back from files, so that connections and the server's own state get one when files have used up
//! all others.
//!
//! The host gives the lowest number that is free (POSIX, open(2)): who is given a high one learns without a further call that
//! nearly all are in use.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::process::{Resource, getrlimit};
use volume::{Failure, Result};

use crate::errno::call;

/// Most descriptors that are kept back; of few the eighth part.
const MOST: u64 = 64;
/// So many before the first that is kept back it is asked for one before a file is made, which could not be undone.
const NEAR_BY: i32 = 128;

/// The first that is kept back, as far as is known.
static FROM: AtomicI32 = AtomicI32::new(0);
/// Whether that is near.
static IS_NEAR: AtomicBool = AtomicBool::new(false);

/// The first that is kept back where there are `limit`.
fn first_of(limit: Option<u64>) -> i32 {
    let first = limit.map(|limit| limit - MOST.min(limit / 8));
    first.and_then(|first| i32::try_from(first).ok()).unwrap_or(i32::MAX)
}

/// Gives a descriptor for a file on, unless it is one of those that are kept back.
///
/// # Errors
/// [`Failure::Exhausted`]
pub(crate) fn checked(fd: OwnedFd) -> Result<OwnedFd> {
    if is_left(fd.as_fd()) { Ok(fd) } else { Err(Failure::Exhausted) }
}

/// Whether a descriptor is one of those for files.
pub(crate) fn is_left(fd: BorrowedFd<'_>) -> bool {
    let number = fd.as_raw_fd();
    let is_near = |from: i32| number >= from.saturating_sub(NEAR_BY);
    if !is_near(FROM.load(Ordering::Relaxed)) {
        return true;
    }
    // The limit may be another one by now.
    let from = first_of(getrlimit(Resource::Nofile).current);
    FROM.store(from, Ordering::Relaxed);
    IS_NEAR.store(is_near(from), Ordering::Relaxed);
    number < from
}

/// Makes sure, before a name is made, that there is a descriptor for it; any open one will do to ask.
///
/// # Errors
/// [`Failure::Exhausted`]
pub(crate) fn ask(any: BorrowedFd<'_>) -> Result<()> {
    if IS_NEAR.load(Ordering::Relaxed) {
        IS_NEAR.store(false, Ordering::Relaxed);
        checked(call(|| rustix::io::fcntl_dupfd_cloexec(any, 0))?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_is_kept_back_and_of_many_no_more_than_some() {
        assert_eq!([8, 300, 1024, 1 << 20].map(|limit| first_of(Some(limit))), [7, 263, 960, (1 << 20) - 64]);
        assert_eq!((first_of(None), first_of(Some(u64::MAX))), (i32::MAX, i32::MAX));
    }
}
