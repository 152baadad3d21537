//! Bytes of an open file by its descriptor: what of them is in memory, and writing all of some.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use volume::{Failure, Result};

use crate::errno::failure;
use crate::stat::stat_fd;
use crate::sys;

/// The largest offset that the host takes.
pub(crate) const MAX_OFFSET: u64 = i64::MAX as u64;

/// Whether `len` bytes from offset `at` are in memory. A page counts as there from when its reading begins, and reading ahead
/// goes on in the background. The last byte is asked for as well, since a file is read from the front: whoever finds it here
/// has next to nothing to wait for.
pub(crate) fn is_cached(fd: BorrowedFd<'_>, at: u64, len: usize) -> bool {
    let Some(last) = (len as u64).checked_sub(1).and_then(|last| at.checked_add(last)) else {
        return true;
    };
    sys::pages_missing(fd, at, len as u64) == Ok(0) && sys::has_byte(fd, last)
}

/// What is in memory of a range: all of it or, at the end of the file, what is there.
pub(crate) fn read_cached(fd: BorrowedFd<'_>, at: u64, len: usize, out: &mut Vec<u8>) -> Result<usize> {
    let before = out.len();
    let got = loop {
        match sys::read_append(fd, at, len, out, true) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => return Err(Failure::WouldBlock),
            Err(errno) => return Err(failure(errno)),
            Ok(got) => break got,
        }
    };
    // Less than asked for means the end of the file or the end of what is in memory.
    if got < len && at.saturating_add(got as u64) < stat_fd(fd)?.size {
        out.truncate(before);
        return Err(Failure::WouldBlock);
    }
    Ok(got)
}

pub(crate) fn write_all(fd: BorrowedFd<'_>, mut at: u64, mut data: &[u8]) -> Result<()> {
    if at.checked_add(data.len() as u64).is_none_or(|end| end > MAX_OFFSET) {
        return Err(Failure::TooLarge);
    }
    while !data.is_empty() {
        match rustix::io::pwrite(fd, data, at) {
            Ok(0) => return Err(Failure::Io),
            Ok(done) => {
                at += done as u64;
                data = &data[done..];
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failure(errno)),
        }
    }
    Ok(())
}
