//! Opens names below a directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use volume::Result;

use crate::errno::{call, failure};
use crate::reserve;

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
    // With O_PATH no open can wait or acquire a terminal, and the call refuses these flags.
    let always = if flags.contains(OFlags::PATH) { OFlags::NOFOLLOW | OFlags::CLOEXEC } else { ALWAYS };
    let open = || rustix::fs::openat2(directory, name, flags | always, mode, resolve);
    if !flags.contains(OFlags::CREATE) {
        return reserve::open_with_reserve(open).map_err(failure);
    }
    reserve::ensure_descriptor(directory)?;
    let fd = call(open)?;
    // The name exists already, so a descriptor of the reserve does less harm than an error.
    reserve::note_opened(fd.as_fd());
    Ok(fd)
}
