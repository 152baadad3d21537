//! A worker's receive buffers: one size that all its connections share in turn, and right-sized ones for
//! records that come in parts.
//!
//! A connection holds one only while it has bytes that it could not hand over yet, so an idle connection
//! holds none. All buffers keep their whole length initialised, so reuse costs no zeroing.

/// Bytes of the shared receive buffer: a whole batch of small requests, or thirty writes of 4 KiB.
pub(crate) const WINDOW: usize = 128 * 1024;
/// Sizes of buffers for partial records, doubling from the first.
const SMALLEST: usize = 4 * 1024;
/// Number of those sizes: 4 KiB to 16 MiB, which is above the largest message.
const SIZES: usize = 13;
/// Bytes of partial-record buffers that stay in store for each size (at least one buffer up to 8 MiB).
const KEPT_BYTES: usize = 8 * 1024 * 1024;
/// Buffers that stay in store for each size at most.
const KEPT: usize = 16;
/// Shared receive buffers that stay in store; more than one is in use only while batches are away.
const KEPT_WINDOWS: usize = 4;

/// The store.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    windows: Vec<Vec<u8>>,
    parts: [Vec<Vec<u8>>; SIZES],
}

fn class(len: usize) -> usize {
    let units = len.div_ceil(SMALLEST).max(1).next_power_of_two();
    (units.trailing_zeros() as usize).min(SIZES - 1)
}

impl Buffers {
    /// A shared receive buffer of [`WINDOW`] bytes.
    pub(crate) fn window(&mut self) -> Vec<u8> {
        self.windows.pop().unwrap_or_else(|| vec![0; WINDOW])
    }

    /// A buffer of at least `len` bytes for a record that comes in parts.
    pub(crate) fn part(&mut self, len: usize) -> Vec<u8> {
        let class = class(len);
        // `vec![0; n]` of a large size is untouched memory of the host: it costs what is received into it.
        self.parts[class].pop().unwrap_or_else(|| vec![0; (SMALLEST << class).max(len)])
    }

    /// Takes a shared buffer back.
    pub(crate) fn give_window(&mut self, buffer: Vec<u8>) {
        if buffer.len() == WINDOW && self.windows.len() < KEPT_WINDOWS {
            self.windows.push(buffer);
        }
    }

    /// Takes a partial record's buffer back.
    pub(crate) fn give_part(&mut self, buffer: Vec<u8>) {
        let class = class(buffer.len());
        let kept = &mut self.parts[class];
        if buffer.len() == SMALLEST << class
            && kept.len() < KEPT
            && (kept.len() + 1) * buffer.len() <= KEPT_BYTES
        {
            kept.push(buffer);
        }
    }

    /// Lets go of everything, for a worker that has been idle.
    pub(crate) fn clear(&mut self) {
        *self = Buffers::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_for_the_size_it_has() {
        let mut buffers = Buffers::default();
        for len in [1, 4096, 4097, 70_000, 1 << 20, wire::limits::MAX_MESSAGE] {
            let part = buffers.part(len);
            assert!(part.len() >= len && part.len() < (2 * len).max(8192), "{len}: {}", part.len());
            let place = part.as_ptr();
            let stays = part.len() <= KEPT_BYTES;
            buffers.give_part(part);
            if stays {
                let again = buffers.part(len);
                assert_eq!(again.as_ptr(), place, "{len}");
            }
        }
    }

    #[test]
    fn what_stays_in_store_is_bounded() {
        let mut buffers = Buffers::default();
        let taken: Vec<_> = (0..40).map(|_| buffers.part(1 << 20)).collect();
        for part in taken {
            buffers.give_part(part);
        }
        let kept: usize = buffers.parts.iter().flatten().map(Vec::len).sum();
        assert_eq!(kept, KEPT_BYTES);
    }
}
