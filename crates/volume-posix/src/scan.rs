//! Directory scans.
//!
//! Each scan has its own descriptor: the position in a directory belongs to the descriptor, and
//! concurrent scans must not move each other. The cookie of an entry is the host's own. It resumes behind
//! that entry, whatever was added or removed since.

use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use volume::{DirEntry, Name, NodeKind, Result};

use crate::errno::{call, failure};
use crate::open::open_below;

/// Bytes of entries that are read at once.
const CHUNK: usize = 32 * 1024;

/// Shows the entries behind `cookie` of an open directory.
pub(crate) fn scan(
    directory: BorrowedFd<'_>,
    cookie: u64,
    visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
) -> Result<()> {
    let own = open_below(directory, b".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    if cookie != 0 {
        call(|| rustix::fs::seek(own.as_fd(), SeekFrom::Start(cookie)))?;
    }
    let mut buffer = vec![MaybeUninit::<u8>::uninit(); CHUNK];
    let mut entries = RawDir::new(own.as_fd(), &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::INTR) => continue,
            // The directory was removed while it is open, so it has no entries.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failure(errno)),
        };
        // `.` and `..` are not valid names.
        let Ok(name) = Name::new(entry.file_name().to_bytes()) else { continue };
        let kind = match entry.file_type() {
            FileType::RegularFile => Some(NodeKind::File),
            FileType::Directory => Some(NodeKind::Directory),
            FileType::Symlink => Some(NodeKind::Link),
            FileType::Fifo => Some(NodeKind::Pipe),
            FileType::Socket => Some(NodeKind::Socket),
            FileType::CharacterDevice => Some(NodeKind::CharDevice),
            FileType::BlockDevice => Some(NodeKind::BlockDevice),
            FileType::Unknown => None,
        };
        let shown = DirEntry { name, inode: entry.ino(), kind, cookie: entry.next_entry_cookie() };
        if visit(shown).is_break() {
            break;
        }
    }
    Ok(())
}
