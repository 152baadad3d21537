//! Opens names below a directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use volume::Result;

use crate::errno::{call, failure};
use crate::kept_back;

/// Flags that every open has.
pub(crate) const ALWAYS: OFlags =
    OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens one component below a directory, never through a symbolic link of any kind.
pub(crate) fn open_below(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    // With O_PATH nothing is opened that could wait or become a terminal, and the call refuses the flags.
    let always = if flags.contains(OFlags::PATH) { OFlags::NOFOLLOW | OFlags::CLOEXEC } else { ALWAYS };
    let open = || rustix::fs::openat2(directory, name, flags | always, mode, resolve);
    if !flags.contains(OFlags::CREATE) {
        return kept_back::with_room(open).map_err(failure);
    }
    kept_back::ask(directory)?;
    let fd = call(open)?;
    // The name is there now: one descriptor more does less harm.
    kept_back::note(fd.as_fd());
    Ok(fd)
}
