//! Writing fattr4 in place, for GETATTR and for each entry of READDIR.

use crate::attr::{Attr, Bitmap};
use crate::xdr::Encode;

/// A fattr4 that is being written. The mask comes first, so the attributes must be known at the beginning. An
/// attribute that turns out to have no value is left out, and the mask is corrected at the end.
#[derive(Debug)]
pub struct AttrWriter<'a> {
    out: &'a mut Vec<u8>,
    wanted: Bitmap,
    put: Bitmap,
    /// The lowest number that may come next.
    next: u32,
    /// The position of the mask's words.
    mask_at: usize,
    /// Number of words of the mask.
    words: usize,
}

impl<'a> AttrWriter<'a> {
    /// Begins a fattr4 at the end of `out`, with the attributes of `wanted` or fewer.
    #[must_use]
    pub fn begin(out: &'a mut Vec<u8>, wanted: Bitmap) -> Self {
        wanted.encode(out);
        let words = wanted.significant();
        let mask_at = out.len() - words * 4;
        0u32.encode(out);
        AttrWriter { out, wanted, put: Bitmap::EMPTY, next: 0, mask_at, words }
    }

    /// The announced attributes.
    #[must_use]
    pub fn wanted(&self) -> Bitmap {
        self.wanted
    }

    /// Appends an attribute. They must be in ascending order of their numbers. An attribute that was not
    /// announced, or is out of order, is left out.
    pub fn put(&mut self, attribute: &Attr<'_>) {
        let number = attribute.number().get();
        let in_order = number >= self.next;
        debug_assert!(in_order, "{attribute:?} comes too late");
        if in_order && self.wanted.has(number) {
            self.put.insert(number);
            self.next = number + 1;
            attribute.encode(self.out);
        }
    }

    /// Fills in the length, and the mask of the attributes that were written.
    pub fn finish(self) {
        let values_at = self.mask_at + self.words * 4;
        let words = self.put.words();
        for (at, word) in words[..self.words].iter().enumerate() {
            let word_at = self.mask_at + at * 4;
            self.out[word_at..word_at + 4].copy_from_slice(&word.to_be_bytes());
        }
        // Every value fills whole words, so there is no padding.
        let len = (self.out.len() - values_at - 4) as u32;
        self.out[values_at..values_at + 4].copy_from_slice(&len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{AttrError, AttrNum, Fattr};
    use crate::types::FileType;
    use crate::xdr::Decode;
    use wire::Cursor;

    #[test]
    fn what_is_not_put_is_not_in_the_mask() {
        let wanted = Bitmap::of(&[AttrNum::Type.get(), AttrNum::Size.get(), AttrNum::Mode.get()]);
        let mut out = vec![7];
        let mut writer = AttrWriter::begin(&mut out, wanted);
        writer.put(&Attr::Type(FileType::Reg));
        writer.put(&Attr::Change(3));
        writer.put(&Attr::Size(9));
        writer.finish();
        let mut r = Cursor::new(&out[1..]);
        let read = Fattr::decode(&mut r).expect("fattr4");
        assert_eq!(r.remaining(), 0);
        let attributes: Vec<_> = read.iter().collect();
        assert_eq!(attributes, [Ok(Attr::Type(FileType::Reg)), Ok(Attr::Size(9))]);
    }

    #[test]
    fn unknown_numbers_and_bytes_left_over_are_errors_that_end_the_sequence() {
        let unknown = Fattr { mask: Bitmap::of(&[95]), values: &[0; 8] };
        assert_eq!(unknown.iter().collect::<Vec<_>>(), [Err(AttrError::Unknown(95))]);
        let longer = Fattr { mask: Bitmap::of(&[33]), values: &[0; 8] };
        assert!(matches!(longer.iter().nth(1), Some(Err(AttrError::Malformed(_)))));
        let shorter = Fattr { mask: Bitmap::of(&[33, 35]), values: &[0; 4] };
        assert_eq!(shorter.iter().filter(Result::is_err).count(), 1);
    }
}
