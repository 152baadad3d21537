//! Lists with entries that are linked by NextEntryOffset: one writer and one reader for all of them.

use super::BadBuffer;

/// The next entry does not fit into the reply. No part of it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the entry does not fit into the output buffer")]
pub struct Full;

/// Writes a list. Each entry begins with its NextEntryOffset, which is 0 in the last one.
///
/// There is padding between entries but not after the last one, as in all lists of MS-FSCC.
#[derive(Debug)]
pub struct Chain<'a> {
    out: &'a mut Vec<u8>,
    base: usize,
    limit: usize,
    align: usize,
    last: Option<usize>,
}

impl<'a> Chain<'a> {
    /// A list at the end of `out`, of at most `limit` bytes. Its entries are aligned to `align` bytes (a
    /// power of two).
    pub fn new(out: &'a mut Vec<u8>, limit: usize, align: usize) -> Self {
        debug_assert!(align.is_power_of_two());
        let base = out.len();
        Chain { out, base, limit, align, last: None }
    }

    /// Whether no entry has been written.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Bytes written.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len() - self.base
    }

    /// Bytes that are left for one more entry.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.start())
    }

    /// The position of the next entry.
    #[inline]
    fn start(&self) -> usize {
        if self.is_empty() { 0 } else { self.len().next_multiple_of(self.align) }
    }

    /// Begins an entry of exactly `len` bytes. Returns the buffer for it; its zero NextEntryOffset is
    /// already there.
    ///
    /// # Errors
    /// [`Full`] if the entry does not fit. Nothing is changed then.
    #[inline]
    pub fn begin(&mut self, len: usize) -> Result<&mut Vec<u8>, Full> {
        if len > self.room() {
            return Err(Full);
        }
        let start = self.start();
        self.out.resize(self.base + start, 0);
        if let Some(last) = self.last {
            let next = u32::try_from(start - last).unwrap_or(0);
            self.out[self.base + last..][..4].copy_from_slice(&next.to_le_bytes());
        }
        self.last = Some(start);
        Ok(self.out)
    }
}

/// The entries of a list from a peer, each from its NextEntryOffset to the next entry.
///
/// The iterator ends after an error. The length of the data bounds the number of entries.
#[derive(Debug, Clone)]
pub struct Entries<'a> {
    rest: Option<&'a [u8]>,
    align: u32,
}

/// Reads the list in `data` with entries aligned to `align` bytes. Empty data is an empty list.
#[must_use]
pub fn entries(data: &[u8], align: u32) -> Entries<'_> {
    Entries { rest: (!data.is_empty()).then_some(data), align }
}

impl<'a> Iterator for Entries<'a> {
    /// [`BadBuffer::Length`] if the data ends inside a NextEntryOffset or it points outside,
    /// [`BadBuffer::Value`] if it points to an unaligned position.
    type Item = Result<&'a [u8], BadBuffer>;

    fn next(&mut self) -> Option<Self::Item> {
        let data = self.rest.take()?;
        let Some(next) = data.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes)) else {
            return Some(Err(BadBuffer::Length));
        };
        if next == 0 {
            return Some(Ok(data));
        }
        if next % self.align != 0 {
            return Some(Err(BadBuffer::Value));
        }
        let Some((entry, rest)) = data.split_at_checked(next as usize) else {
            return Some(Err(BadBuffer::Length));
        };
        self.rest = Some(rest);
        Some(Ok(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_are_linked_and_padded_between_only() {
        let mut out = vec![0xAA];
        let mut chain = Chain::new(&mut out, 26, 8);
        chain.begin(5).unwrap().extend_from_slice(&[0, 0, 0, 0, 1]);
        assert_eq!(chain.room(), 18);
        chain.begin(6).unwrap().extend_from_slice(&[0, 0, 0, 0, 2, 2]);
        assert_eq!(chain.begin(11).err(), Some(Full));
        chain.begin(10).unwrap().extend_from_slice(&[0, 0, 0, 0, 3, 3, 3, 3, 3, 3]);
        assert_eq!(out, [0xAA, 8, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3]);
        let read: Vec<&[u8]> = entries(&out[1..], 8).map(Result::unwrap).collect();
        assert_eq!(read.iter().map(|e| e[4]).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn links_that_lead_astray_end_the_list() {
        let all = |data: &'static [u8]| entries(data, 4).collect::<Vec<_>>();
        assert_eq!(all(&[]), []);
        assert_eq!(all(&[0, 0]), [Err(BadBuffer::Length)]);
        assert_eq!(all(&[6, 0, 0, 0, 0, 0, 0, 0, 0, 0]), [Err(BadBuffer::Value)]);
        assert_eq!(all(&[8, 0, 0, 0]), [Err(BadBuffer::Length)]);
        assert_eq!(all(&[4, 0, 0, 0]), [Ok(&[4, 0, 0, 0][..]), Err(BadBuffer::Length)]);
    }

    proptest! {
        #[test]
        fn any_bytes_end(data in proptest::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(entries(&data, 4).count() <= data.len());
        }
    }
}
