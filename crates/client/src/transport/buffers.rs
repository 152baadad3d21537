//! A pool of buffers for received messages. In the steady state nothing is allocated.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The sizes of pooled buffers, for small replies and for reads of 4 to 16 KiB, 64 KiB, 1 MiB and 8 MiB. Each
/// size leaves room for the headers around its round number.
const CLASSES: [usize; 5] = [1024, 17 * 1024, 65 * 1024, 1025 * 1024, 8193 * 1024];
/// The most buffers of each size that the pool holds.
const KEPT: [usize; 5] = [256, 256, 64, 16, 2];

/// A pool of buffers. They stay initialised over their whole length, so reading into them needs no clearing.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Mutex<[Vec<Vec<u8>>; CLASSES.len()]>,
}

impl Buffers {
    /// Returns a buffer of at least `len` bytes with arbitrary content.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let Some(class) = CLASSES.iter().position(|&size| len <= size) else {
            return vec![0; len];
        };
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner)[class].pop();
        kept.unwrap_or_else(|| vec![0; CLASSES[class]])
    }

    fn give_back(&self, buffer: Vec<u8>) {
        if let Some(class) = CLASSES.iter().position(|&size| size == buffer.len()) {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if free[class].len() < KEPT[class] {
                free[class].push(buffer);
            }
        }
    }
}

/// One message in a buffer. The buffer returns to its pool when the message is dropped.
#[derive(Debug)]
pub(crate) struct Message {
    buffer: Vec<u8>,
    range: Range<usize>,
    store: Arc<Buffers>,
}

impl Message {
    /// A message that lies in `range` of a buffer from `store`.
    pub(crate) fn new(buffer: Vec<u8>, range: Range<usize>, store: &Arc<Buffers>) -> Message {
        Message { buffer, range, store: Arc::clone(store) }
    }

    /// A message that is all of `buffer`, which belongs to no pool.
    pub(crate) fn own(buffer: Vec<u8>) -> Message {
        let range = 0..buffer.len();
        Message { buffer, range, store: Arc::default() }
    }

    /// A copy of `message`.
    pub(crate) fn copy(message: &[u8], store: &Arc<Buffers>) -> Message {
        let mut buffer = store.take(message.len());
        buffer[..message.len()].copy_from_slice(message);
        Message::new(buffer, 0..message.len(), store)
    }

    /// The message.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    /// The range of the message that `part`, a subslice of it, covers.
    pub(crate) fn range_of(&self, part: &[u8]) -> Range<usize> {
        let start = (part.as_ptr() as usize).wrapping_sub(self.bytes().as_ptr() as usize);
        if part.is_empty() { 0..0 } else { start..start + part.len() }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        self.store.give_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_message_gives_its_buffer_to_the_next_of_its_size() {
        let store = Arc::new(Buffers::default());
        let message = vec![9; 4096 + 80];
        let first = Message::copy(&message, &store);
        let pointer = first.buffer.as_ptr();
        assert_eq!(first.bytes(), message);
        assert_eq!(first.range_of(&first.bytes()[80..]), 80..4176);
        drop(first);
        let (small, fitting) = (store.take(100), store.take(16 * 1024));
        assert_ne!(small.as_ptr(), pointer);
        assert_eq!(fitting.as_ptr(), pointer);
    }
}
