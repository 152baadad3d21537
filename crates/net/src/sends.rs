//! Replies to be sent: gathered into one system call, and freed as the socket takes them. A piece of a file
//! at the end of a reply is a call of its own.

use std::collections::VecDeque;
use std::io::IoSlice;

use wire::{FileRange, Frame, FramePool, Source};

/// The number of slices of a common call, which are on the stack.
const USUAL: usize = 128;
/// The most slices in one call (IOV_MAX).
const MOST: usize = 1024;
/// A queue that once grew beyond this many frames frees its memory when it is empty.
const KEPT: usize = 512;

/// The data of the next sending call.
pub(crate) enum Piece<'a> {
    /// Buffers with this many bytes in all. With `more` the next piece follows at once.
    Buffers { slices: &'a [IoSlice<'a>], bytes: usize, more: bool },
    /// `len` bytes of a file from offset `at`.
    File { file: &'a dyn Source, at: u64, len: usize },
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that are sent already.
    sent: usize,
    /// Bytes not sent yet.
    bytes: usize,
    /// Bytes of memory that the frames take.
    memory: usize,
    /// Bytes that the socket has taken since the connection began.
    taken: u64,
    /// Whether the bytes before the first frame are being read from their file.
    away: bool,
    /// Whether the socket did not take everything that was offered, so that some of it has waited here.
    held: bool,
}

impl SendQueue {
    /// Appends frames in their order.
    pub(crate) fn append(&mut self, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            self.bytes += frame.len();
            self.memory += frame.held();
            self.frames.push_back(frame);
        }
    }

    /// Bytes not sent yet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that wait here. Whole buffers count, even if a reply uses little of them.
    pub(crate) fn held(&self) -> usize {
        self.memory
    }

    /// Bytes that the socket has taken since the connection began.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// The position in the stream of all replies of the next one to be appended.
    pub(crate) fn end(&self) -> u64 {
        self.taken + self.bytes as u64
    }

    /// Whether all is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty() && !self.away
    }

    /// Whether there is something to send now.
    pub(crate) fn is_ready(&self) -> bool {
        !self.frames.is_empty() && !self.away
    }

    /// Notes that the socket takes no more for now.
    pub(crate) fn mark_blocked(&mut self) {
        self.held = true;
    }

    /// Calls `send` with the data to be sent next. That is everything in the queue up to the first piece of a
    /// file and up to the host's bound, or that piece. The queue must [be ready](SendQueue::is_ready).
    pub(crate) fn gather<T>(&self, send: impl FnOnce(Piece<'_>) -> T) -> T {
        if let Some((file, at, len)) = self.file() {
            return send(Piece::File { file, at, len });
        }
        let attached = self.frames.iter().position(|frame| frame.attached().is_some());
        let count = attached.map_or(self.frames.len(), |at| at + 1);
        let more = attached.is_some() && count <= MOST;
        if count <= USUAL {
            let mut slices = [IoSlice::new(&[]); USUAL];
            let bytes = self.fill(&mut slices[..count]);
            send(Piece::Buffers { slices: &slices[..count], bytes, more })
        } else {
            let mut slices = vec![IoSlice::new(&[]); count.min(MOST)];
            let bytes = self.fill(&mut slices);
            send(Piece::Buffers { slices: &slices, bytes, more })
        }
    }

    /// The rest of a piece of a file, if that comes next.
    fn file(&self) -> Option<(&dyn Source, u64, usize)> {
        let front = self.frames.front()?;
        let range = front.attached()?;
        let done = self.sent.checked_sub(front.bytes().len())?;
        (done < range.len).then(|| (&*range.file, range.at + done as u64, range.len - done))
    }

    fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut bytes = 0;
        let mut skip = self.sent;
        for (slice, frame) in slices.iter_mut().zip(&self.frames) {
            *slice = IoSlice::new(&frame.bytes()[std::mem::take(&mut skip)..]);
            bytes += slice.len();
        }
        bytes
    }

    /// Removes the `count` bytes that the socket took, and frees the frames that are complete.
    pub(crate) fn advance(&mut self, count: usize, pool: &mut FramePool) {
        self.bytes -= count;
        self.taken += count as u64;
        self.sent += count;
        while let Some(frame) = self.frames.front() {
            if self.sent < frame.len() {
                return;
            }
            self.sent -= frame.len();
            if let Some(frame) = self.frames.pop_front() {
                self.memory -= frame.held();
                pool.give_back(frame);
            }
        }
        self.held = false;
        if self.frames.capacity() > KEPT {
            self.frames = VecDeque::new();
        }
    }

    /// Whether the piece of a file that comes next has waited here, and is no longer in the host's page
    /// cache.
    pub(crate) fn left_page_cache(&self) -> bool {
        self.held && self.file().is_some_and(|(file, at, len)| !file.is_cached(at, len))
    }

    /// Takes out the rest of the piece of a file that comes next, to be read in another way. Everything waits
    /// until [`SendQueue::put_back`] brings the bytes.
    pub(crate) fn take_file(&mut self, pool: &mut FramePool) -> Option<FileRange> {
        let rest = self.frames.front_mut()?.detach(self.sent)?;
        self.advance(0, pool);
        self.away = true;
        Some(rest)
    }

    /// Takes in the bytes of that piece.
    pub(crate) fn put_back(&mut self, bytes: Frame) {
        self.away = false;
        self.memory += bytes.held();
        self.frames.push_front(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
    use std::sync::Arc;

    use super::*;

    fn queue(lens: impl Iterator<Item = usize>) -> (SendQueue, Vec<u8>) {
        let mut sends = SendQueue::default();
        let mut expected = Vec::new();
        let mut frames = Vec::new();
        for (number, len) in lens.enumerate() {
            let mut frame = Frame::with_capacity(len);
            let body: Vec<u8> = (0..len).map(|at| (at * 7 + number) as u8).collect();
            frame.tail().extend_from_slice(&body);
            expected.extend_from_slice(&body);
            frames.push(frame);
        }
        sends.append(&mut frames);
        (sends, expected)
    }

    #[test]
    fn any_cut_of_the_writes_gives_the_same_bytes() {
        for step in [1, 2, 3, 5, 7, 100, 10_000] {
            let (mut sends, expected) = queue((0..300).map(|n| n % 11));
            let mut pool = FramePool::default();
            let mut seen = Vec::new();
            while !sends.is_empty() {
                let took = sends.gather(|piece| {
                    let Piece::Buffers { slices, bytes, more: false } = piece else {
                        panic!("no files here")
                    };
                    let flat: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                    assert_eq!(flat.len(), bytes);
                    let took = step.min(bytes);
                    seen.extend_from_slice(&flat[..took]);
                    took
                });
                sends.advance(took, &mut pool);
            }
            assert_eq!(seen, expected, "step {step}");
            assert_eq!(sends.bytes(), 0);
            assert_eq!((sends.taken(), sends.end()), (expected.len() as u64, expected.len() as u64));
        }
    }

    /// A file whose bytes are known from their offsets.
    struct PatternFile(OwnedFd);

    impl Source for PatternFile {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn is_cached(&self, at: u64, _len: usize) -> bool {
            at.is_multiple_of(2)
        }
    }

    #[test]
    fn any_cut_of_pieces_of_files_gives_the_same_bytes_however_they_are_got() {
        let fd =
            rustix::fs::memfd_create("known", rustix::fs::MemfdFlags::CLOEXEC).expect("a file in memory");
        let known: Vec<u8> = (0..5000).map(|at| (at * 13) as u8).collect();
        assert_eq!(rustix::io::write(&fd, &known), Ok(5000));
        let file: Arc<dyn Source> = Arc::new(PatternFile(fd));
        for step in [1, 3, 50, 1000, 100_000] {
            let (mut sends, mut expected) = queue([5, 9].into_iter());
            for (at, len) in [(0, 10), (70, 1), (4000, 1000), (4990, 30), (6000, 5)] {
                let mut frame = Frame::with_capacity(3);
                frame.tail().extend_from_slice(b"abc");
                frame.attach(FileRange { file: Arc::clone(&file), at, len });
                sends.append(&mut vec![frame]);
                let data = (at as usize..at as usize + len).map(|at| known.get(at).copied().unwrap_or(0));
                expected.extend(b"abc".iter().copied().chain(data));
            }
            let (mut pool, mut seen, mut fetched) = (FramePool::default(), Vec::new(), 0);
            assert_eq!(sends.bytes(), expected.len());
            while !sends.is_empty() {
                assert!(sends.is_ready());
                let faded = sends.left_page_cache();
                let took = sends.gather(|piece| match piece {
                    Piece::Buffers { slices, bytes, .. } => {
                        let flat: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
                        assert_eq!(flat.len(), bytes);
                        seen.extend_from_slice(&flat[..step.min(bytes)]);
                        step.min(bytes)
                    }
                    Piece::File { file, at, len } => {
                        let mut room = vec![0; step.min(len)];
                        let count =
                            if faded { 0 } else { rustix::io::pread(file.fd(), &mut room, at).unwrap() };
                        seen.extend_from_slice(&room[..count]);
                        count
                    }
                });
                if took > 0 {
                    sends.advance(took, &mut pool);
                    sends.mark_blocked();
                    continue;
                }
                let rest = sends.take_file(&mut pool).expect("a piece of a file comes next");
                assert!(!sends.is_empty() && !sends.is_ready());
                sends.put_back(crate::files::read(&rest).expect("it can be read"));
                fetched += 1;
            }
            assert_eq!(seen, expected, "step {step}");
            assert_eq!(sends.bytes(), 0);
            assert!(fetched > 1, "step {step}");
        }
    }

    #[test]
    fn what_is_held_is_whole_buffers_and_nothing_at_the_end() {
        let (mut pool, mut sends) = (FramePool::default(), SendQueue::default());
        let mut frames: Vec<Frame> = (0..100).map(|_| pool.take(60)).collect();
        frames.iter_mut().for_each(|frame| frame.tail().extend_from_slice(&[7; 60]));
        sends.append(&mut frames);
        assert_eq!(sends.bytes(), 6000);
        assert!(sends.held() >= 100 * 1152, "{}", sends.held());
        sends.advance(5999, &mut pool);
        assert!((1152..2304).contains(&sends.held()), "{}", sends.held());
        sends.advance(1, &mut pool);
        assert_eq!(sends.held(), 0);
    }

    #[test]
    fn one_call_takes_no_more_slices_than_the_host() {
        let (sends, _) = queue((0..3000).map(|_| 1));
        let (slices, bytes) = sends.gather(|piece| match piece {
            Piece::Buffers { slices, bytes, .. } => (slices.len(), bytes),
            Piece::File { .. } => (0, 0),
        });
        assert_eq!((slices, bytes), (MOST, MOST));
    }
}
