//! Data with holes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::{Failure, Result};

/// Bytes of a block, the unit of storage.
pub(super) const BLOCK: usize = 4096;
const STEP: u64 = BLOCK as u64;
/// The largest offset, as on a host.
const MAX: u64 = i64::MAX as u64;

/// Bytes in blocks. Only the blocks that were written exist.
#[derive(Debug, Default)]
pub(super) struct Sparse {
    size: u64,
    blocks: BTreeMap<u64, Box<[u8; BLOCK]>>,
}

impl Sparse {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn allocated(&self) -> u64 {
        self.blocks.len() as u64 * STEP
    }

    /// Appends up to `len` bytes from `at` to `out`, and returns their number.
    pub(super) fn read(&self, at: u64, len: usize, out: &mut Vec<u8>) -> usize {
        let end = at.saturating_add(len as u64).min(self.size);
        let mut now = at;
        while now < end {
            let within = (now % STEP) as usize;
            let count = ((STEP - now % STEP).min(end - now)) as usize;
            match self.blocks.get(&(now / STEP)) {
                Some(block) => out.extend_from_slice(&block[within..within + count]),
                None => out.resize(out.len() + count, 0),
            }
            now += count as u64;
        }
        end.saturating_sub(at) as usize
    }

    pub(super) fn write(&mut self, at: u64, mut data: &[u8]) -> Result<()> {
        let end = at.checked_add(data.len() as u64).filter(|end| *end <= MAX).ok_or(Failure::TooLarge)?;
        if data.is_empty() {
            return Ok(());
        }
        let mut now = at;
        while !data.is_empty() {
            let within = (now % STEP) as usize;
            let (front, rest) = data.split_at(data.len().min(BLOCK - within));
            self.block(now / STEP)[within..within + front.len()].copy_from_slice(front);
            now += front.len() as u64;
            data = rest;
        }
        self.size = self.size.max(end);
        Ok(())
    }

    pub(super) fn set_size(&mut self, size: u64) -> Result<()> {
        if size > MAX {
            return Err(Failure::Invalid);
        }
        if size < self.size {
            // The removed bytes must read as zeros when the file grows again.
            self.punch(size..self.size.next_multiple_of(STEP));
        }
        self.size = size;
        Ok(())
    }

    pub(super) fn allocate(&mut self, range: Range<u64>) -> Result<()> {
        if range.end > MAX {
            return Err(Failure::TooLarge);
        }
        // As much as a disk might have.
        if range.end.saturating_sub(range.start) > 1 << 30 {
            return Err(Failure::NoSpace);
        }
        for number in range.start / STEP..range.end.div_ceil(STEP) {
            self.block(number);
        }
        Ok(())
    }

    pub(super) fn punch(&mut self, range: Range<u64>) {
        let numbers = range.start / STEP..range.end.div_ceil(STEP);
        let touched: Vec<u64> = self.blocks.range(numbers).map(|(number, _)| *number).collect();
        for number in touched {
            let (start, end) = (number * STEP, number * STEP + STEP);
            if range.start <= start && end <= range.end {
                self.blocks.remove(&number);
            } else {
                let from = range.start.max(start) - start;
                let to = range.end.min(end) - start;
                self.block(number)[from as usize..to as usize].fill(0);
            }
        }
    }

    pub(super) fn next_data(&self, from: u64) -> Option<Range<u64>> {
        let (&first, _) = self.blocks.range(from / STEP..).next()?;
        let start = from.max(first * STEP);
        let mut end = first + 1;
        while self.blocks.contains_key(&end) {
            end += 1;
        }
        let end = (end * STEP).min(self.size);
        (start < end).then_some(start..end)
    }

    fn block(&mut self, number: u64) -> &mut [u8; BLOCK] {
        self.blocks.entry(number).or_insert_with(|| Box::new([0; BLOCK]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &Sparse, at: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::new();
        assert_eq!(data.read(at, len, &mut out), out.len());
        out
    }

    #[test]
    fn holes_read_as_zeros_and_ranges_are_found() {
        let mut data = Sparse::default();
        data.write(3 * STEP + 1, b"abc").unwrap();
        assert_eq!((data.size(), data.allocated()), (3 * STEP + 4, STEP));
        assert_eq!(read(&data, 3 * STEP - 1, 10), b"\0\0abc");
        assert_eq!(data.next_data(0), Some(3 * STEP..3 * STEP + 4));
        assert_eq!(data.next_data(3 * STEP + 4), None);
        data.punch(0..3 * STEP + 2);
        assert_eq!(read(&data, 3 * STEP, 9), b"\0\0bc");
        data.set_size(3 * STEP + 3).unwrap();
        data.set_size(3 * STEP + 4).unwrap();
        assert_eq!(read(&data, 3 * STEP, 9), b"\0\0b\0");
    }

    #[test]
    fn offsets_end_where_a_hosts_do() {
        let mut data = Sparse::default();
        assert_eq!(data.write(MAX, b"x"), Err(Failure::TooLarge));
        assert_eq!(data.write(u64::MAX, b"x"), Err(Failure::TooLarge));
        data.write(MAX - 1, b"x").unwrap();
        assert_eq!(read(&data, MAX - 1, 5), b"x");
        assert_eq!(data.set_size(u64::MAX), Err(Failure::Invalid));
    }
}
