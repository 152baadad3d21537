//! Replies on their way out: gathered into one system call, freed as the socket takes them.

use std::collections::VecDeque;
use std::io::IoSlice;

use wire::{Frame, FramePool};

/// Slices handed to one call in the usual case, on the stack.
const USUAL: usize = 128;
/// Slices the host takes in one call (IOV_MAX).
const MOST: usize = 1024;
/// A queue that once grew beyond this many frames gives its memory back when it is empty.
const KEPT: usize = 512;

/// One connection's queue.
#[derive(Debug, Default)]
pub(crate) struct Sends {
    frames: VecDeque<Frame>,
    /// Bytes of the first frame that are sent already.
    sent: usize,
    /// Bytes not sent yet.
    bytes: usize,
}

impl Sends {
    /// Appends frames in their order.
    pub(crate) fn append(&mut self, frames: &mut Vec<Frame>) {
        for frame in frames.drain(..) {
            self.bytes += frame.len();
            self.frames.push_back(frame);
        }
    }

    /// Bytes not sent yet.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all is sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Calls `send` with everything that is queued (up to the host's bound) and how many bytes that is.
    pub(crate) fn gather<T>(&self, send: impl FnOnce(&[IoSlice<'_>], usize) -> T) -> T {
        let count = self.frames.len();
        if count <= USUAL {
            let mut slices = [IoSlice::new(&[]); USUAL];
            self.fill(&mut slices[..count]);
            send(&slices[..count], self.bytes)
        } else {
            let mut slices = vec![IoSlice::new(&[]); count.min(MOST)];
            self.fill(&mut slices);
            let bytes = slices.iter().map(|slice| slice.len()).sum();
            send(&slices, bytes)
        }
    }

    fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) {
        for (slice, frame) in slices.iter_mut().zip(&self.frames) {
            *slice = IoSlice::new(frame.bytes());
        }
        if let (Some(slice), Some(frame)) = (slices.first_mut(), self.frames.front()) {
            *slice = IoSlice::new(&frame.bytes()[self.sent..]);
        }
    }

    /// The socket took `count` bytes: frees the frames that are through.
    pub(crate) fn advance(&mut self, count: usize, pool: &mut FramePool) {
        self.bytes -= count;
        self.sent += count;
        while let Some(frame) = self.frames.front() {
            if self.sent < frame.len() {
                return;
            }
            self.sent -= frame.len();
            if let Some(frame) = self.frames.pop_front() {
                pool.give_back(frame);
            }
        }
        if self.frames.capacity() > KEPT {
            self.frames = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(lens: impl Iterator<Item = usize>) -> (Sends, Vec<u8>) {
        let mut sends = Sends::default();
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
                let took = sends.gather(|slices, bytes| {
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
        }
    }

    #[test]
    fn one_call_takes_no_more_slices_than_the_host() {
        let (sends, _) = queue((0..3000).map(|_| 1));
        let (slices, bytes) = sends.gather(|slices, bytes| (slices.len(), bytes));
        assert_eq!((slices, bytes), (MOST, MOST));
    }
}
