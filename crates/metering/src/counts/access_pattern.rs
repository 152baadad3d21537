//! The access pattern of a connection or share: how many requests are for data or metadata, and how large
//! reads and writes are.

use std::sync::atomic::AtomicU64;

use super::one_writer::{add, get};
use super::transaction::TransactionKind;

/// Size classes: up to 512 bytes, then one for each power of two up to 8 MiB.
pub const SIZES: usize = 15;
const SMALLEST_LOG2: u32 = 9;

/// The most bytes of a size class. The last class also counts all larger sizes.
#[must_use]
pub const fn size_bound(bucket: usize) -> u64 {
    1 << (SMALLEST_LOG2 as usize + bucket)
}

#[inline]
fn bucket(bytes: u64) -> usize {
    let log2 = bytes.saturating_sub(1).checked_ilog2().map_or(0, |log2| log2 + 1);
    (log2.saturating_sub(SMALLEST_LOG2) as usize).min(SIZES - 1)
}

/// Counts requests by kind and size. Only one thread at a time adds to them.
#[derive(Debug, Default)]
pub struct AccessPatternCounters {
    operations: [AtomicU64; TransactionKind::COUNT],
    bytes: [AtomicU64; 2],
    sizes: [[AtomicU64; SIZES]; 2],
    turns: AtomicU64,
    at_once: AtomicU64,
    most_at_once: AtomicU64,
}

impl AccessPatternCounters {
    /// Counts a request with `data` bytes of data.
    #[inline]
    pub(super) fn note(&self, kind: TransactionKind, data: u64) {
        add(&self.operations[kind as usize], 1);
        let at = match kind {
            TransactionKind::Read => 0,
            TransactionKind::Write => 1,
            TransactionKind::Metadata | TransactionKind::Other => return,
        };
        add(&self.bytes[at], data);
        add(&self.sizes[at][bucket(data)], 1);
    }

    /// Counts that `requests` requests were in progress at once.
    #[inline]
    pub(super) fn note_depth(&self, requests: u64) {
        add(&self.turns, 1);
        add(&self.at_once, requests);
        if requests > get(&self.most_at_once) {
            self.most_at_once.store(requests, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The values counted until now.
    #[must_use]
    pub fn read(&self) -> AccessPattern {
        AccessPattern {
            operations: std::array::from_fn(|at| get(&self.operations[at])),
            bytes: std::array::from_fn(|at| get(&self.bytes[at])),
            sizes: std::array::from_fn(|kind| std::array::from_fn(|at| get(&self.sizes[kind][at]))),
            turns: get(&self.turns),
            at_once: get(&self.at_once),
            most_at_once: get(&self.most_at_once),
        }
    }
}

/// An access pattern that was read from its counters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessPattern {
    operations: [u64; TransactionKind::COUNT],
    /// Bytes that were read, and bytes that were written.
    pub bytes: [u64; 2],
    /// The number of reads, and of writes, in each size class ([`size_bound`]).
    pub sizes: [[u64; SIZES]; 2],
    /// The number of batches in which the requests in progress were counted.
    pub turns: u64,
    /// The sum of those counts.
    pub at_once: u64,
    /// The largest of those counts.
    pub most_at_once: u64,
}

impl AccessPattern {
    /// The number of transactions of a kind.
    #[must_use]
    pub fn operations(&self, kind: TransactionKind) -> u64 {
        self.operations[kind as usize]
    }

    /// Adds the values of another access pattern.
    pub fn add(&mut self, other: &AccessPattern) {
        let sum =
            |own: &mut [u64], more: &[u64]| own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        sum(&mut self.operations, &other.operations);
        sum(&mut self.bytes, &other.bytes);
        for (own, more) in self.sizes.iter_mut().zip(&other.sizes) {
            sum(own, more);
        }
        self.turns += other.turns;
        self.at_once += other.at_once;
        self.most_at_once = self.most_at_once.max(other.most_at_once);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_apart_by_powers_of_two() {
        for (bytes, at) in
            [(0, 0), (512, 0), (513, 1), (4096, 3), (4097, 4), (1 << 20, 11), (1 << 23, 14), (1 << 30, 14)]
        {
            assert_eq!(bucket(bytes), at, "{bytes}");
        }
        assert_eq!((size_bound(3), size_bound(SIZES - 1)), (4096, 8 << 20));
    }

    #[test]
    fn what_is_done_is_counted_by_its_kind() {
        let pattern = AccessPatternCounters::default();
        pattern.note(TransactionKind::Read, 4096);
        pattern.note(TransactionKind::Write, 100);
        pattern.note(TransactionKind::Metadata, 0);
        pattern.note_depth(3);
        pattern.note_depth(1);
        let mut read = pattern.read();
        read.add(&pattern.read());
        assert_eq!(
            (read.operations(TransactionKind::Read), read.operations(TransactionKind::Other), read.bytes),
            (2, 0, [8192, 200])
        );
        assert_eq!((read.sizes[0][3], read.sizes[1][0]), (2, 2));
        assert_eq!((read.turns, read.at_once, read.most_at_once), (4, 8, 3));
    }
}
