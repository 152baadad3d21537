//! The receive buffers of a worker: some of one size that all its connections share, and some of fitting size
//! for records that arrive in parts.
//!
//! A connection holds a buffer only while it has bytes that it could not hand over yet. An idle connection
//! therefore holds none. All buffers keep their whole length initialised, so a buffer can be reused without
//! zeroing.

/// Bytes of the shared receive buffer: a whole batch of small requests, or thirty writes of 4 KiB.
pub(crate) const WINDOW: usize = 128 * 1024;
/// Sizes of the buffers for partial records. Each is twice the one before.
const SMALLEST: usize = 4 * 1024;
/// Extra bytes of each size, since a payload of a round size comes with headers.
const HEADERS: usize = 4 * 1024;
/// Number of those sizes: 4 KiB to 16 MiB, which is above the largest message.
const SIZES: usize = 13;
/// Bytes of unused partial-record buffers that are kept for each size (at least one buffer up to 8 MiB).
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// The most unused buffers that are kept for each size.
const KEPT: usize = 16;
/// Unused shared receive buffers that are kept. More than one is in use only while batches run on the pool.
const KEPT_WINDOWS: usize = 4;

/// The unused buffers of a worker.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    windows: Vec<Vec<u8>>,
    parts: [Vec<Vec<u8>>; SIZES],
}

/// The smallest class that holds `len` bytes.
fn class(len: usize) -> usize {
    let units = len.saturating_sub(HEADERS).div_ceil(SMALLEST).max(1).next_power_of_two();
    (units.trailing_zeros() as usize).min(SIZES - 1)
}

/// Bytes of a buffer of `class`.
fn size(class: usize) -> usize {
    (SMALLEST << class) + HEADERS
}

impl Buffers {
    /// A shared receive buffer of [`WINDOW`] bytes.
    pub(crate) fn window(&mut self) -> Vec<u8> {
        self.windows.pop().unwrap_or_else(|| vec![0; WINDOW])
    }

    /// A buffer of at least `len` bytes for a record that arrives in parts. None if the host has no memory.
    pub(crate) fn part(&mut self, len: usize) -> Option<Vec<u8>> {
        let class = class(len);
        self.parts[class].pop().or_else(|| zeroed(size(class).max(len)))
    }

    /// Takes a shared buffer back.
    pub(crate) fn give_window(&mut self, buffer: Vec<u8>) {
        if buffer.len() == WINDOW && self.windows.len() < KEPT_WINDOWS {
            self.windows.push(buffer);
        }
    }

    /// Takes the buffer of a partial record back.
    pub(crate) fn give_part(&mut self, buffer: Vec<u8>) {
        let class = class(buffer.len());
        let kept = &mut self.parts[class];
        let fits = kept.len() < KEPT && (kept.len() + 1) * (SMALLEST << class) <= KEPT_BYTES;
        if fits && buffer.len() == size(class) {
            kept.push(buffer);
        }
    }

    /// Frees all unused buffers, because the worker has been idle.
    pub(crate) fn clear(&mut self) {
        *self = Buffers::default();
    }
}

/// A buffer of zeros. The host provides untouched memory, so a large buffer costs only the pages that are
/// received into. `vec![0; len]` does the same, but ends the process if there is no memory.
fn zeroed(len: usize) -> Option<Vec<u8>> {
    if len == 0 {
        return Some(Vec::new());
    }
    let layout = std::alloc::Layout::array::<u8>(len).ok()?;
    // SAFETY: the layout has a size, which is not zero.
    #[allow(unsafe_code)]
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: the global allocator gave `start` for exactly `len` bytes with the alignment of bytes, and all
    // of them are zero.
    #[allow(unsafe_code)]
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_for_the_size_it_has() {
        let mut buffers = Buffers::default();
        // Among them writes of round sizes with their headers, up to the largest.
        for len in [1, 4096, 8193, 70_000, (64 << 10) + 112, (1 << 20) + 112, (8 << 20) + 240] {
            let part = buffers.part(len).expect("memory");
            assert!(part.len() >= len && part.len() < (2 * len).max(3 * SMALLEST), "{len}: {}", part.len());
            let pointer = part.as_ptr();
            buffers.give_part(part);
            let again = buffers.part(len).expect("memory");
            assert_eq!(again.as_ptr(), pointer, "{len}");
            buffers.give_part(again);
        }
        assert!(buffers.part(wire::limits::MAX_MESSAGE).expect("memory").len() >= wire::limits::MAX_MESSAGE);
    }

    #[test]
    fn a_round_payload_with_headers_does_not_take_twice_its_size() {
        for payload in [64 << 10, 1 << 20, 8 << 20] {
            assert_eq!(size(class(payload + 240)), payload + HEADERS);
        }
    }

    #[test]
    fn memory_that_is_not_there_is_no_end_of_the_process() {
        assert!(zeroed(usize::MAX / 4).is_none());
        assert!(
            zeroed(1 << 20)
                .is_some_and(|bytes| bytes.len() == 1 << 20 && bytes.iter().all(|byte| *byte == 0))
        );
    }

    #[test]
    fn what_stays_in_store_is_bounded() {
        let mut buffers = Buffers::default();
        let taken: Vec<_> = (0..40).filter_map(|_| buffers.part(1 << 20)).collect();
        for part in taken {
            buffers.give_part(part);
        }
        let kept = buffers.parts.iter().flatten().count();
        assert_eq!(kept, KEPT_BYTES >> 20);
    }
}
