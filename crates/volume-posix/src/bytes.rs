//! Reading cached bytes of an open file, and writing all of a buffer.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use volume::{Failure, Result};

use crate::errno::failure;
use crate::stat::stat_fd;
use crate::sys;

/// The largest offset that the host accepts.
pub(crate) const MAX_OFFSET: u64 = i64::MAX as u64;

/// Whether `len` bytes from offset `at` are in memory. A page counts as present as soon as its reading
/// has begun, and readahead continues in the background. The last byte is checked too: a file is read
/// from the front, so if the last byte is present, hardly any wait is left.
pub(crate) fn is_cached(fd: BorrowedFd<'_>, at: u64, len: usize) -> bool {
    let Some(last) = (len as u64).checked_sub(1).and_then(|last| at.checked_add(last)) else {
        return true;
    };
    sys::pages_missing(fd, at, len as u64) == Ok(0) && sys::has_byte(fd, last)
}

/// Reads a range from memory: all of it or, at the end of the file, the rest of the file.
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
    // A short read means the end of the file, or the end of the cached part.
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
