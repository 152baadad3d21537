//! The calls about a node's data.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use volume::{Extent, Failure, NodeKind, OpenHow, Patience, Result};
use wire::{FileRange, Source};

use crate::bytes::{MAX_OFFSET, is_cached, read_cached, write_all};
use crate::errno::{call, failure};
use crate::node::PosixNode;
use crate::open::{ALWAYS, open_below};
use crate::pool::{Descriptor, DescriptorGuard};
use crate::stat::stat_fd;
use crate::sys::{self, ProcPath};

/// Bytes that are copied or zeroed at once if the host cannot do it itself.
const CHUNK: usize = 256 * 1024;

impl PosixNode {
    /// The descriptor, if it may be used for reading data.
    fn readable(&self) -> Result<DescriptorGuard<'_>> {
        match self.kind {
            NodeKind::Directory => Err(Failure::IsADirectory),
            NodeKind::File if self.how >= OpenHow::Read => self.fd(),
            NodeKind::File => Err(Failure::Denied),
            _ => Err(Failure::Invalid),
        }
    }

    /// The descriptor, if it may be used for writing data.
    pub(crate) fn writable(&self) -> Result<DescriptorGuard<'_>> {
        let fd = self.readable()?;
        if self.how < OpenHow::ReadWrite {
            return Err(Failure::Denied);
        }
        if let Descriptor::Pooled(pooled) = &self.descriptor {
            pooled.note_write();
        }
        Ok(fd)
    }

    pub(crate) fn read_data(
        &self,
        at: u64,
        len: usize,
        out: &mut Vec<u8>,
        patience: Patience,
    ) -> Result<usize> {
        let fd = self.readable()?;
        let fd = fd.as_fd();
        if at > MAX_OFFSET || len == 0 {
            return Ok(0);
        }
        out.reserve(len);
        if patience == Patience::Cached && !self.shared.root.is_in_memory {
            return read_cached(fd, at, len, out);
        }
        let mut done = 0;
        while done < len {
            match sys::read_append(fd, at + done as u64, len - done, out, false) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    out.truncate(out.len() - done);
                    return Err(failure(errno));
                }
            }
        }
        Ok(done)
    }

    pub(crate) fn data_range(self: Arc<Self>, at: u64, len: usize) -> Result<Option<FileRange>> {
        let size = stat_fd(self.readable()?)?.size;
        let len = usize::try_from(size.saturating_sub(at)).unwrap_or(usize::MAX).min(len);
        // The ordinary read handles offsets behind the end.
        let file: Arc<dyn Source> = match &self.descriptor {
            Descriptor::Pooled(pooled) => pooled.file().map_err(failure)?,
            Descriptor::OfRoot => return Ok(None),
            Descriptor::Kept(_) => self,
        };
        let cached = len > 0 && file.is_cached(at, len);
        Ok(cached.then_some(FileRange { file, at, len }))
    }

    pub(crate) fn write_data(&self, at: u64, data: &[u8]) -> Result<()> {
        let fd = self.writable()?;
        self.grow_stream(at.saturating_add(data.len() as u64), || write_all(fd.as_fd(), at, data))
    }

    pub(crate) fn sync_data(&self, data_only: bool) -> Result<()> {
        let is_ceph = self.shared.file_systems.is_ceph(self.id.device);
        let sync = |fd: BorrowedFd<'_>| {
            if data_only || is_ceph {
                call(|| rustix::fs::fdatasync(fd))?;
            }
            if data_only { Ok(()) } else { call(|| rustix::fs::fsync(fd)) }
        };
        let own = self.fd()?;
        if let Descriptor::Pooled(pooled) = &self.descriptor {
            pooled.note_sync()?;
        }
        match self.kind {
            _ if !self.is_path => sync(own.as_fd()),
            NodeKind::File => {
                let path = ProcPath::of(&own);
                let flags = OFlags::RDONLY | (ALWAYS - OFlags::NOFOLLOW);
                sync(call(|| rustix::fs::open(path.as_c_str(), flags, Mode::empty()))?.as_fd())
            }
            NodeKind::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                sync(open_below(own.as_fd(), b".", flags, Mode::empty())?.as_fd())
            }
            // Other nodes have no data that needs to be synced.
            _ => Ok(()),
        }
    }

    pub(crate) fn allocate_data(&self, range: Range<u64>) -> Result<()> {
        let fd = self.writable()?;
        // Storage that is allocated behind a stream's end would count for nobody.
        if range.is_empty() || self.owner.is_some() {
            return Ok(());
        }
        call(|| rustix::fs::fallocate(&fd, FallocateFlags::KEEP_SIZE, range.start, range.end - range.start))
    }

    pub(crate) fn punch_data(&self, range: Range<u64>) -> Result<()> {
        let fd = self.writable()?;
        if range.is_empty() {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match call(|| rustix::fs::fallocate(&fd, flags, range.start, range.end - range.start)) {
            Err(Failure::NotSupported) => zero(fd.as_fd(), range),
            other => other,
        }
    }

    pub(crate) fn next_data_range(&self, from: u64) -> Result<Option<Range<u64>>> {
        let fd = self.readable()?;
        if from > MAX_OFFSET {
            return Ok(None);
        }
        let start = match rustix::fs::seek(&fd, SeekFrom::Data(from)) {
            Ok(start) => start,
            // Only a hole is left, or the offset is behind the end.
            Err(Errno::NXIO) => return Ok(None),
            // The file system has no holes: everything is data.
            Err(Errno::INVAL) => {
                let size = stat_fd(fd)?.size;
                return Ok((from < size).then_some(from..size));
            }
            Err(errno) => return Err(failure(errno)),
        };
        match rustix::fs::seek(&fd, SeekFrom::Hole(start)) {
            Ok(end) => Ok((start < end).then_some(start..end)),
            // The file was truncated in between.
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(failure(errno)),
        }
    }

    pub(crate) fn extents_from(&self, from: u64, max: usize) -> Result<(Vec<Extent>, bool)> {
        let fd = self.readable()?;
        let (mut all, mut at) = (Vec::new(), from);
        while at <= MAX_OFFSET {
            let found = call(|| sys::extents(fd.as_fd(), at))?;
            for extent in &found.extents {
                if all.len() == max {
                    return Ok((all, true));
                }
                all.push(*extent);
            }
            match found.extents.last() {
                Some(last) if !found.is_end && last.len > 0 => at = last.at.saturating_add(last.len),
                _ => break,
            }
        }
        Ok((all, false))
    }

    pub(crate) fn copy_data(&self, at: u64, to: &PosixNode, to_at: u64, len: u64) -> Result<u64> {
        let (from, into) = (self.readable()?, to.writable()?);
        let (from, into) = (from.as_fd(), into.as_fd());
        let (Some(_), Some(_)) = (at.checked_add(len), to_at.checked_add(len)) else {
            return Err(Failure::Invalid);
        };
        let source = stat_fd(from)?;
        // The present end counts: within one file the copy itself can move it.
        let len = len.min(source.size.saturating_sub(at));
        if source.id == stat_fd(into)?.id && at < to_at.saturating_add(len) && to_at < at.saturating_add(len)
        {
            return to
                .grow_stream(to_at.saturating_add(len), || copy_overlapping(from, at, into, to_at, len));
        }
        to.grow_stream(to_at.saturating_add(len), || copy_between(from, at, into, to_at, len))
    }

    pub(crate) fn clone_data(&self, at: u64, to: &PosixNode, to_at: u64, len: u64) -> Result<()> {
        let (from, into) = (self.readable()?, to.writable()?);
        let (from, into) = (from.as_fd(), into.as_fd());
        if len == 0 {
            // The host would read a length of zero as "everything to the end".
            return Ok(());
        }
        to.grow_stream(to_at.saturating_add(len), || call(|| sys::clone_range(from, at, into, to_at, len)))
    }
}

/// Only for a node whose descriptor stays open. Others are sent from a `pool::OpenFile`.
impl Source for PosixNode {
    fn fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            Descriptor::Kept(fd) => fd.as_fd(),
            Descriptor::OfRoot | Descriptor::Pooled(_) => self.shared.root.fd.as_fd(),
        }
    }

    fn is_cached(&self, at: u64, len: usize) -> bool {
        self.shared.root.is_in_memory || is_cached(Source::fd(self), at, len)
    }
}

/// Writes zeros if the host cannot punch holes. It never writes behind the end.
fn zero(fd: BorrowedFd<'_>, range: Range<u64>) -> Result<()> {
    let end = range.end.min(stat_fd(fd)?.size);
    let zeros = vec![0; CHUNK];
    let mut at = range.start;
    while at < end {
        let step = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        write_all(fd, at, &zeros[..step])?;
        at += step as u64;
    }
    Ok(())
}

/// Copies between two files, or between ranges of one file that do not overlap, by the host's fastest
/// method.
fn copy_between(from: BorrowedFd<'_>, at: u64, into: BorrowedFd<'_>, to_at: u64, len: u64) -> Result<u64> {
    let (mut read_at, mut write_at, mut done) = (at, to_at, 0);
    while done < len {
        let step = usize::try_from(len - done).unwrap_or(usize::MAX).min(1 << 30);
        let copied = rustix::fs::copy_file_range(from, Some(&mut read_at), into, Some(&mut write_at), step);
        match copied {
            Ok(0) => break,
            Ok(copied) => done += copied as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                return Ok(done + copy_buffered(from, at + done, into, to_at + done, len - done)?);
            }
            Err(errno) => return Err(failure(errno)),
        }
    }
    Ok(done)
}

/// Copies through memory from the front.
fn copy_buffered(from: BorrowedFd<'_>, at: u64, into: BorrowedFd<'_>, to_at: u64, len: u64) -> Result<u64> {
    let mut buffer = Vec::with_capacity(CHUNK);
    let mut done = 0;
    while done < len {
        buffer.clear();
        let step = usize::try_from(len - done).unwrap_or(CHUNK).min(CHUNK);
        match sys::read_append(from, at + done, step, &mut buffer, false) {
            Ok(0) => break,
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(failure(errno)),
        }
        write_all(into, to_at + done, &buffer)?;
        done += buffer.len() as u64;
    }
    Ok(done)
}

/// Copies within one file between ranges that overlap. It starts at the end that the copy does not
/// overwrite.
fn copy_overlapping(
    from: BorrowedFd<'_>,
    at: u64,
    into: BorrowedFd<'_>,
    to_at: u64,
    len: u64,
) -> Result<u64> {
    if to_at <= at {
        return copy_buffered(from, at, into, to_at, len);
    }
    let mut left = len;
    while left > 0 {
        let step = left.min(CHUNK as u64);
        left -= step;
        copy_whole(from, at + left, into, to_at + left, step)?;
    }
    Ok(len)
}

/// Copies one chunk. All of it must be read before the first byte is written.
fn copy_whole(from: BorrowedFd<'_>, at: u64, into: BorrowedFd<'_>, to_at: u64, len: u64) -> Result<()> {
    let len = usize::try_from(len).map_err(|_| Failure::Invalid)?;
    let mut buffer = Vec::with_capacity(len);
    while buffer.len() < len {
        match sys::read_append(from, at + buffer.len() as u64, len - buffer.len(), &mut buffer, false) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(failure(errno)),
        }
    }
    write_all(into, to_at, &buffer)
}
