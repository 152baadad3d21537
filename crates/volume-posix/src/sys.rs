//! The few system calls that need `unsafe`, each behind a safe function.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fmt::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use volume::Extent;

/// The error number of the C library.
fn last() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}

/// `/proc/self/fd/N`: a path to a descriptor's file, for calls that take no descriptor.
pub(crate) struct ProcPath([u8; 32]);

impl ProcPath {
    pub(crate) fn of(fd: impl AsFd) -> ProcPath {
        struct To<'a>(&'a mut [u8], usize);
        impl std::fmt::Write for To<'_> {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                let end = self.1 + text.len();
                self.0.get_mut(self.1..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
                self.1 = end;
                Ok(())
            }
        }
        let mut path = ProcPath([0; 32]);
        // 14 bytes of path and at most 11 of number leave space for the final zero.
        let _ = write!(To(&mut path.0[..31], 0), "/proc/self/fd/{}", fd.as_fd().as_raw_fd());
        path
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Appends up to `len` bytes from offset `at` to `out`, which has the capacity already. Returns their
/// number. With `cached` it reads only data in memory, and fails with `EAGAIN` if there is none.
pub(crate) fn read_append(
    fd: BorrowedFd<'_>,
    at: u64,
    len: usize,
    out: &mut Vec<u8>,
    cached: bool,
) -> Result<usize> {
    let at = libc::off_t::try_from(at).map_err(|_| Errno::INVAL)?;
    let room = out.spare_capacity_mut();
    let len = len.min(room.len());
    let into = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: len };
    let flags = if cached { libc::RWF_NOWAIT } else { 0 };
    // SAFETY: `into` covers `len` bytes of the vector's own spare capacity, which nobody else can reach
    // while `out` is borrowed; the kernel writes at most that many and needs none of them initialised.
    let got = unsafe { libc::preadv2(fd.as_raw_fd(), &into, 1, at, flags) };
    let Ok(got) = usize::try_from(got) else { return Err(last()) };
    // SAFETY: the kernel has initialised the first `got` bytes behind the old length, and `got <= len`,
    // which is within the capacity.
    unsafe { out.set_len(out.len() + got) };
    Ok(got)
}

/// Whether the byte at offset `at` is in memory.
pub(crate) fn has_byte(fd: BorrowedFd<'_>, at: u64) -> bool {
    let Ok(at) = libc::off_t::try_from(at) else { return false };
    let mut byte = 0u8;
    let into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // SAFETY: `into` covers one byte, which outlives the call.
    unsafe { libc::preadv2(fd.as_raw_fd(), &into, 1, at, libc::RWF_NOWAIT) == 1 }
}

/// The number of pages of a range (`len` is not zero) that are not in memory.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EPERM` for a file that this process neither owns nor may write,
/// `EOPNOTSUPP` if the file system has no page cache.
pub(crate) fn pages_missing(fd: BorrowedFd<'_>, at: u64, len: u64) -> Result<u64> {
    /// The call's number, which is the same on every kind of processor that Rust's library runs on.
    const CACHESTAT: libc::c_long = 451;
    /// `struct cachestat_range`.
    #[repr(C)]
    struct CachestatRange {
        off: u64,
        len: u64,
    }
    /// `struct cachestat`.
    #[repr(C)]
    #[derive(Default)]
    struct Pages {
        cached: u64,
        dirty: u64,
        writeback: u64,
        evicted: u64,
        recently_evicted: u64,
    }
    let (asked, mut pages) = (CachestatRange { off: at, len }, Pages::default());
    // SAFETY: both have the kernel's layout and outlive the call; it reads the one and writes the other.
    let done = unsafe { libc::syscall(CACHESTAT, fd.as_raw_fd(), &raw const asked, &raw mut pages, 0) };
    if done != 0 {
        return Err(last());
    }
    let page = rustix::param::page_size() as u64;
    let wanted = (at.saturating_add(len) - 1) / page - at / page + 1;
    Ok(wanted.saturating_sub(pages.cached))
}

/// Starts writing a file's data to its device, without waiting for it.
pub(crate) fn begin_storing(fd: BorrowedFd<'_>) {
    // SAFETY: takes numbers and touches no memory. The call that waits for the data reports errors.
    unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Makes `to` share storage with `from` for a range.
pub(crate) fn clone_range(
    from: BorrowedFd<'_>,
    at: u64,
    to: BorrowedFd<'_>,
    to_at: u64,
    len: u64,
) -> Result<()> {
    let range = libc::file_clone_range {
        src_fd: i64::from(from.as_raw_fd()),
        src_offset: at,
        src_length: len,
        dest_offset: to_at,
    };
    // SAFETY: FICLONERANGE reads one `file_clone_range`, which lives until the call returns; both
    // descriptors are borrowed for as long.
    if unsafe { libc::ioctl(to.as_raw_fd(), libc::FICLONERANGE, &range) } == 0 { Ok(()) } else { Err(last()) }
}

/// The UUID of a directory's file system, if the host reports one. It does from Linux 6.9 on.
pub(crate) fn file_system_uuid(directory: BorrowedFd<'_>) -> Option<[u8; 16]> {
    /// `FS_IOC_GETFSUUID` of linux/fs.h: `_IOR(0x15, 0, struct fsuuid2)`.
    const GETFSUUID: libc::c_ulong = 0x8011_1500;
    /// `struct fsuuid2` of linux/fs.h.
    #[repr(C)]
    #[derive(Default)]
    struct FsUuid {
        len: u8,
        uuid: [u8; 16],
    }
    let mut told = FsUuid::default();
    // SAFETY: the call writes one `fsuuid2`, which lives until it returns, and any bits are a value of it.
    let done = unsafe { libc::ioctl(directory.as_raw_fd(), GETFSUUID as _, &raw mut told) };
    (done == 0 && told.len == 16 && told.uuid != [0; 16]).then_some(told.uuid)
}

/// The number of extents that one call returns.
const EXTENTS: usize = 64;

/// `struct fiemap_extent` of linux/fiemap.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

/// `struct fiemap` of linux/fiemap.h, with space for extents behind it.
#[repr(C)]
struct RawExtents {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS],
}

/// The result of one call.
pub(crate) struct Extents {
    pub extents: Vec<Extent>,
    /// Whether there are no more extents.
    pub is_end: bool,
}

/// Some of the extents of a file, from an offset on.
pub(crate) fn extents(fd: BorrowedFd<'_>, from: u64) -> Result<Extents> {
    /// `FS_IOC_FIEMAP` of linux/fs.h: `_IOWR('f', 11, struct fiemap)`.
    const FIEMAP: libc::c_ulong = 0xC020_660B;
    const LAST: u32 = 0x1;
    /// The flags of an extent whose position is unknown, not decided, or not its own.
    const NO_PLACE: u32 = 0x2 | 0x4 | 0x100 | 0x200 | 0x400;
    let mut told = RawExtents {
        start: from,
        length: u64::MAX - from,
        flags: 0,
        mapped: 0,
        count: EXTENTS as u32,
        reserved: 0,
        extents: [RawExtent::default(); EXTENTS],
    };
    // SAFETY: FIEMAP reads the head and writes no more extents than `count` says, for which there is
    // space; the structure lives until the call returns, and any bits are a value of it.
    if unsafe { libc::ioctl(fd.as_raw_fd(), FIEMAP as _, &raw mut told) } != 0 {
        return Err(last());
    }
    let told = told.extents.iter().take(told.mapped as usize);
    let is_end = told.clone().next_back().is_none_or(|extent| extent.flags & LAST != 0);
    let extents = told.map(|extent| Extent {
        at: extent.logical,
        len: extent.length,
        physical: (extent.flags & NO_PLACE == 0).then_some(extent.physical),
    });
    Ok(Extents { extents: extents.collect(), is_end })
}

/// The calling thread's file system user and group, and its supplementary groups. The C library's own
/// functions would change them for every thread.
pub(crate) mod credentials {
    use super::{Errno, Result, last};

    /// An ID that no user has. Setting it changes nothing and returns the present one.
    const ASK: u32 = u32::MAX;

    fn switch(number: libc::c_long, id: u32) -> u32 {
        // SAFETY: setfsuid and setfsgid take one number, touch no memory and cannot fail; they return
        // the id from before.
        (unsafe { libc::syscall(number, id) }) as u32
    }

    /// Sets the user and returns whether that succeeded.
    pub(crate) fn set_user(uid: u32) -> bool {
        switch(libc::SYS_setfsuid, uid);
        switch(libc::SYS_setfsuid, ASK) == uid
    }

    /// Sets the group and returns whether that succeeded.
    pub(crate) fn set_group(gid: u32) -> bool {
        switch(libc::SYS_setfsgid, gid);
        switch(libc::SYS_setfsgid, ASK) == gid
    }

    /// Sets the supplementary groups.
    pub(crate) fn set_groups(groups: &[u32]) -> Result<()> {
        // SAFETY: the kernel reads `groups.len()` numbers from the slice and keeps no pointer.
        let done = unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) };
        if done == 0 { Ok(()) } else { Err(last()) }
    }

    /// Returns the supplementary groups.
    pub(crate) fn groups() -> Result<Vec<u32>> {
        let mut groups = vec![0_u32; 65536];
        // SAFETY: the kernel writes at most `groups.len()` numbers into the vector.
        let count = unsafe { libc::syscall(libc::SYS_getgroups, groups.len(), groups.as_mut_ptr()) };
        groups.truncate(usize::try_from(count).map_err(|_| last())?);
        groups.shrink_to_fit();
        Ok(groups)
    }

    /// The user of the process for the file system.
    pub(crate) fn user() -> u32 {
        switch(libc::SYS_setfsuid, ASK)
    }

    /// The group of the process for the file system.
    pub(crate) fn group() -> u32 {
        switch(libc::SYS_setfsgid, ASK)
    }

    /// The error for a switch that did not succeed.
    pub(crate) const REFUSED: Errno = Errno::PERM;
}

/// A file's handle: its type and its bytes. The kernel writes it into events too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Handle {
    pub(crate) kind: i32,
    pub(crate) bytes: Box<[u8]>,
}

/// The largest number of bytes in a handle.
const HANDLE_MAX: usize = 128;

/// `struct file_handle` with space for the longest handle.
#[repr(C)]
struct RawHandle {
    len: u32,
    kind: i32,
    bytes: [u8; HANDLE_MAX],
}

/// Whether an error of [`Handle::open`] means that no file has the handle any more.
pub(crate) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::STALE | Errno::NOENT | Errno::INVAL | Errno::OVERFLOW)
}

impl Handle {
    /// The handle of a descriptor's file.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Result<Handle> {
        Handle::with_mount(fd).map(|(handle, _)| handle)
    }

    /// The handle, and the number of the mount through which the descriptor was opened.
    pub(crate) fn with_mount(fd: BorrowedFd<'_>) -> Result<(Handle, i32)> {
        let mut raw = RawHandle { len: HANDLE_MAX as u32, kind: 0, bytes: [0; HANDLE_MAX] };
        let mut mount = 0;
        // SAFETY: `raw` has the layout of `struct file_handle` with `len` bytes of space behind it, the
        // path is an empty string with its zero, and all three outlive the call.
        let done = unsafe {
            libc::name_to_handle_at(
                fd.as_raw_fd(),
                c"".as_ptr(),
                (&raw mut raw).cast(),
                &mut mount,
                libc::AT_EMPTY_PATH,
            )
        };
        if done != 0 {
            return Err(last());
        }
        let bytes = raw.bytes.get(..raw.len as usize).ok_or(Errno::OVERFLOW)?;
        Ok((Handle { kind: raw.kind, bytes: bytes.into() }, mount))
    }

    /// Opens the file that has this handle on the file system of `mount`, with `O_PATH`.
    ///
    /// # Errors
    /// `ESTALE` when it is gone, `EPERM` without the privilege to open by handle, and others.
    pub(crate) fn open(&self, mount: BorrowedFd<'_>) -> Result<OwnedFd> {
        self.open_for(mount, OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW)
    }

    /// As [`Handle::open`], with other flags.
    ///
    /// # Errors
    /// As [`Handle::open`], and those of open(2).
    pub(crate) fn open_for(&self, mount: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        let mut raw = RawHandle { len: self.bytes.len() as u32, kind: self.kind, bytes: [0; HANDLE_MAX] };
        raw.bytes.get_mut(..self.bytes.len()).ok_or(Errno::OVERFLOW)?.copy_from_slice(&self.bytes);
        let flags = flags.bits().cast_signed();
        // SAFETY: `raw` has the layout of `struct file_handle`, says its own length and outlives the call.
        let fd = unsafe { libc::open_by_handle_at(mount.as_raw_fd(), (&raw mut raw).cast(), flags) };
        if fd < 0 {
            return Err(last());
        }
        // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Whether the file that had this handle still exists on the file system of `mount`.
    ///
    /// # Errors
    /// `EPERM` without the privilege to open by handle, and others.
    pub(crate) fn exists(&self, mount: BorrowedFd<'_>) -> Result<bool> {
        match self.open(mount) {
            Ok(_) => Ok(true),
            Err(Errno::STALE | Errno::NOENT) => Ok(false),
            Err(other) => Err(other),
        }
    }
}

/// The kernel's reports of changes by others.
pub(crate) mod fanotify {
    use super::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, Result, last};

    /// Opens a queue of events with the directory's handle and the name in each, and with the handle of a
    /// node whose data or attributes changed. The number of marks is unlimited for a privileged process. The
    /// queue is always limited, so that its overflow can be handled.
    pub(crate) fn queue() -> Result<OwnedFd> {
        let base = libc::FAN_CLASS_NOTIF
            | libc::FAN_REPORT_DFID_NAME
            | libc::FAN_REPORT_FID
            | libc::FAN_NONBLOCK
            | libc::FAN_CLOEXEC;
        let mut result = Err(super::Errno::PERM);
        for extra in [libc::FAN_UNLIMITED_MARKS, 0] {
            // SAFETY: takes two numbers and returns a new descriptor or -1.
            let fd = unsafe { libc::fanotify_init(base | extra, (libc::O_RDONLY | libc::O_CLOEXEC) as u32) };
            if fd >= 0 {
                // SAFETY: the kernel has just made this descriptor, and nobody else owns it.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
            result = Err(last());
        }
        result
    }

    /// The events that are requested for a directory: creation, removal and renames of names, and changes
    /// of data and attributes of their files.
    const MASK: u64 = libc::FAN_CREATE
        | libc::FAN_DELETE
        | libc::FAN_MODIFY
        | libc::FAN_ATTRIB
        | libc::FAN_ONDIR
        | libc::FAN_EVENT_ON_CHILD;

    /// The form in which the host reports renames.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Renames {
        /// In one event; from Linux 5.17 on.
        Whole,
        /// In one event for the old name and one for the new name.
        Halves,
    }

    /// Adds or removes the mark on a directory.
    pub(crate) fn mark(
        queue: BorrowedFd<'_>,
        directory: BorrowedFd<'_>,
        renames: Renames,
        add: bool,
    ) -> Result<()> {
        let moves = match renames {
            Renames::Whole => libc::FAN_RENAME,
            Renames::Halves => libc::FAN_MOVED_FROM | libc::FAN_MOVED_TO,
        };
        let change = if add { libc::FAN_MARK_ADD } else { libc::FAN_MARK_REMOVE };
        // SAFETY: the path is a string with its zero that outlives the call; the rest are numbers.
        let done = unsafe {
            libc::fanotify_mark(
                queue.as_raw_fd(),
                change | libc::FAN_MARK_ONLYDIR,
                MASK | moves,
                directory.as_raw_fd(),
                c".".as_ptr(),
            )
        };
        if done == 0 { Ok(()) } else { Err(last()) }
    }
}
