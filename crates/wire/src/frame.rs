//! Reply frames: contiguous buffers with room at the front, which come from a pool and return to it.
//!
//! A reply is built back to front. The body is appended (file data straight from the page cache), then
//! headers are written into the room before it, and then the reply is signed or encrypted in place. Nothing
//! is joined or copied later, because a further copy of the data would cost processor time in each read. A
//! reply that is neither signed nor encrypted may end with a [`FileRange`], which the transport sends without
//! copying it.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::limits::HEADROOM;

/// A regular file of the host. A frame can end with a piece of it.
pub trait Source: Send + Sync {
    /// The file, open for reading.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Whether `len` bytes from offset `at` are in memory, as far as can be told without waiting.
    fn is_cached(&self, at: u64, len: usize) -> bool;
}

/// The last bytes of a frame, which are read from a file when they are sent. Their number was announced, so
/// zeros replace bytes that the file has lost by then.
#[derive(Clone)]
pub struct FileRange {
    /// The file.
    pub file: Arc<dyn Source>,
    /// The offset of the first byte in the file.
    pub at: u64,
    /// The number of bytes.
    pub len: usize,
}

impl fmt::Debug for FileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRange").field("at", &self.at).field("len", &self.len).finish_non_exhaustive()
    }
}

/// A reply to be sent: `HEADROOM` bytes of room, then the appended bytes, then optionally a piece of a file.
#[derive(Debug, Default)]
pub struct Frame {
    data: Vec<u8>,
    start: usize,
    attached: Option<FileRange>,
}

impl Frame {
    /// An empty frame that can take `capacity` bytes without growing.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Frame {
        Frame::over(Vec::with_capacity(HEADROOM + capacity))
    }

    fn over(mut data: Vec<u8>) -> Frame {
        data.clear();
        data.resize(HEADROOM, 0);
        Frame { data, start: HEADROOM, attached: None }
    }

    /// The bytes that were appended and prepended so far. They are sent before the attached piece.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start..]
    }

    /// The same bytes, to fill in headers, sign or encrypt.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.data[self.start..]
    }

    /// Length of [`Frame::bytes`] and of the attached piece.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len() - self.start + self.attached.as_ref().map_or(0, |range| range.len)
    }

    /// Bytes of memory that the frame uses, even if few of them are filled. An attached piece is in its file
    /// and does not count.
    #[inline]
    #[must_use]
    pub fn held(&self) -> usize {
        self.data.capacity() + size_of::<Frame>()
    }

    /// Ends the frame with a piece of a file. Nothing can be appended after that, and the frame is not signed
    /// or encrypted.
    pub fn attach(&mut self, range: FileRange) {
        self.attached = Some(range);
    }

    /// The attached piece, which follows [`Frame::bytes`].
    #[inline]
    #[must_use]
    pub fn attached(&self) -> Option<&FileRange> {
        self.attached.as_ref()
    }

    /// Removes the part of the attached piece after the first `len` bytes of the frame, and returns it. None
    /// if no such part exists.
    pub fn detach(&mut self, len: usize) -> Option<FileRange> {
        let kept = len.checked_sub(self.data.len() - self.start)?;
        let range = self.attached.as_mut().filter(|range| kept < range.len)?;
        let rest =
            FileRange { file: Arc::clone(&range.file), at: range.at + kept as u64, len: range.len - kept };
        range.len = kept;
        Some(rest)
    }

    /// Whether the frame is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The buffer, to append to. The caller may only append, and remove what it has appended.
    #[inline]
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Shortens [`Frame::bytes`] to `len` bytes, and removes the attached piece.
    pub fn truncate(&mut self, len: usize) {
        self.attached = None;
        self.data.truncate(self.start + len);
    }

    /// Extends the frame by `count` bytes at the front, and returns them to be filled.
    ///
    /// # Panics
    /// If more than `HEADROOM` bytes are prepended in all, which is a bug in the caller.
    #[inline]
    pub fn prepend(&mut self, count: usize) -> &mut [u8] {
        self.start = self.start.checked_sub(count).expect("headers fit into the headroom");
        &mut self.data[self.start..self.start + count]
    }
}

/// Sizes of pooled buffers without headroom: small replies, then reads of up to 16 KiB, 64 KiB, 1 and 8 MiB.
const CLASSES: [usize; 5] =
    [1024, 16 * 1024 + 512, 64 * 1024 + 512, 1024 * 1024 + 512, 8 * 1024 * 1024 + 512];
/// Buffers that are kept for each class: one batch of small replies, and only a few large ones.
const KEPT: [usize; 5] = [128, 64, 16, 8, 1];

/// A worker's pool of buffers, so that the steady state allocates nothing.
#[derive(Debug, Default)]
pub struct FramePool {
    free: [Vec<Vec<u8>>; CLASSES.len()],
}

impl FramePool {
    /// A frame that can take `capacity` bytes without growing.
    #[inline]
    pub fn take(&mut self, capacity: usize) -> Frame {
        match CLASSES.iter().position(|&size| capacity <= size) {
            Some(class) => match self.free[class].pop() {
                Some(data) => Frame::over(data),
                None => Frame::with_capacity(CLASSES[class]),
            },
            None => Frame::with_capacity(capacity),
        }
    }

    /// Returns a frame that was sent.
    #[inline]
    pub fn give_back(&mut self, frame: Frame) {
        let capacity = frame.data.capacity().saturating_sub(HEADROOM);
        // The largest class that the buffer can serve. A buffer that has grown far beyond it is freed.
        if let Some(class) = CLASSES.iter().rposition(|&size| size <= capacity)
            && capacity <= CLASSES[class] * 4
            && self.free[class].len() < KEPT[class]
        {
            self.free[class].push(frame.data);
        }
    }

    /// Moves `frame` into a smaller buffer if it leaves most of its own unused. Refusals, short replies and
    /// the heads of file pieces began with room for all of the data.
    pub fn fit(&mut self, frame: &mut Frame) {
        let (len, held) = (frame.data.len(), frame.data.capacity());
        if held <= CLASSES[0] + HEADROOM || len > held / 4 {
            return;
        }
        let needed = len.saturating_sub(HEADROOM);
        if CLASSES.iter().find(|&&size| needed <= size).is_none_or(|&size| size > held / 2) {
            return;
        }
        let mut fitting = self.take(needed);
        fitting.data.clear();
        fitting.data.extend_from_slice(&frame.data);
        fitting.start = frame.start;
        fitting.attached = frame.attached.take();
        self.give_back(std::mem::replace(frame, fitting));
    }

    /// Frees all buffers, because the worker has been idle.
    pub fn clear(&mut self) {
        self.free = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_written_in_front_of_the_body() {
        let mut pool = FramePool::default();
        let mut frame = pool.take(10);
        frame.tail().extend_from_slice(b"body");
        frame.prepend(2).copy_from_slice(b"h:");
        assert_eq!(frame.bytes(), b"h:body");
        pool.give_back(frame);
        let again = pool.take(10);
        assert!(again.is_empty());
    }

    #[test]
    fn a_short_answer_does_not_keep_a_large_buffer() {
        let mut pool = FramePool::default();
        let mut frame = pool.take(1 << 20);
        frame.tail().extend_from_slice(b"refused");
        frame.prepend(2).copy_from_slice(b"h:");
        pool.fit(&mut frame);
        assert_eq!(frame.bytes(), b"h:refused");
        assert!(frame.held() < 2048, "{}", frame.held());
        frame.prepend(HEADROOM - 2);
        // A buffer that is used stays as it is.
        let mut full = pool.take(1 << 20);
        full.tail().resize(600_000, 1);
        let pointer = full.data.as_ptr();
        pool.fit(&mut full);
        assert_eq!(full.data.as_ptr(), pointer);
    }

    #[test]
    fn a_buffer_serves_the_class_it_came_from() {
        let mut pool = FramePool::default();
        let frame = pool.take(5000);
        let kept = frame.data.as_ptr();
        pool.give_back(frame);
        assert_ne!(pool.take(100).data.as_ptr(), kept);
        assert_eq!(pool.take(16 * 1024).data.as_ptr(), kept);
    }
}
