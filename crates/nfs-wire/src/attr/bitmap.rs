//! bitmap4: sets of small numbers, mostly of attributes.

use std::fmt;

use crate::Malformed;
use crate::limits::MAX_BITMAP_WORDS;
use crate::xdr::{Decode, Encode};
use wire::Cursor;

/// Words of a bitmap that are kept. No number that is defined today needs more.
pub const WORDS: usize = 3;

/// A set of numbers below 96. It remembers whether a message named higher ones, but not which: see
/// [`Bitmap::beyond`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Bitmap {
    words: [u32; WORDS],
    beyond: bool,
}

impl Bitmap {
    /// The empty set.
    pub const EMPTY: Bitmap = Bitmap { words: [0; WORDS], beyond: false };

    /// The set of `numbers`, without those that are too high.
    #[must_use]
    pub const fn of(numbers: &[u32]) -> Bitmap {
        let mut set = Bitmap::EMPTY;
        let mut at = 0;
        while at < numbers.len() {
            if numbers[at] < WORDS as u32 * 32 {
                set.words[numbers[at] as usize / 32] |= 1 << (numbers[at] % 32);
            }
            at += 1;
        }
        set
    }

    /// The set with these words, lowest numbers first.
    #[must_use]
    pub const fn from_words(words: [u32; WORDS]) -> Bitmap {
        Bitmap { words, beyond: false }
    }

    /// The words, lowest numbers first.
    #[must_use]
    pub const fn words(&self) -> [u32; WORDS] {
        self.words
    }

    /// Whether the message named numbers that are too high to be kept. They are not written again.
    #[must_use]
    pub const fn beyond(&self) -> bool {
        self.beyond
    }

    /// Whether the set is empty and the message named no other numbers either.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.beyond && self.words[0] == 0 && self.words[1] == 0 && self.words[2] == 0
    }

    /// Whether `number` is in the set.
    #[inline]
    #[must_use]
    pub const fn has(&self, number: u32) -> bool {
        number < WORDS as u32 * 32 && self.words[number as usize / 32] >> (number % 32) & 1 == 1
    }

    /// Adds `number` to the set, unless it is too high.
    #[inline]
    pub fn insert(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 32) {
            *word |= 1 << (number % 32);
        }
    }

    /// Removes `number` from the set.
    #[inline]
    pub fn remove(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 32) {
            *word &= !(1 << (number % 32));
        }
    }

    /// The numbers in both sets.
    #[inline]
    #[must_use]
    pub const fn and(&self, other: &Bitmap) -> Bitmap {
        let (a, b) = (self.words, other.words);
        Bitmap { words: [a[0] & b[0], a[1] & b[1], a[2] & b[2]], beyond: false }
    }

    /// The numbers in either set.
    #[inline]
    #[must_use]
    pub const fn or(&self, other: &Bitmap) -> Bitmap {
        let (a, b) = (self.words, other.words);
        Bitmap { words: [a[0] | b[0], a[1] | b[1], a[2] | b[2]], beyond: self.beyond || other.beyond }
    }

    /// The numbers in this set and not in `other`. Empty if `other` contains all of this set.
    #[inline]
    #[must_use]
    pub const fn without(&self, other: &Bitmap) -> Bitmap {
        let (a, b) = (self.words, other.words);
        Bitmap { words: [a[0] & !b[0], a[1] & !b[1], a[2] & !b[2]], beyond: self.beyond }
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let mut words = self.words;
        std::iter::from_fn(move || {
            let at = words.iter().position(|word| *word != 0)?;
            let bit = words[at].trailing_zeros();
            words[at] &= words[at] - 1;
            Some(at as u32 * 32 + bit)
        })
    }

    /// Number of words to write: up to the last one that is not zero.
    pub(crate) fn significant(&self) -> usize {
        self.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1)
    }
}

impl Encode for Bitmap {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        let count = self.significant();
        (count as u32).encode(out);
        self.words[..count].iter().for_each(|word| word.encode(out));
    }
}

impl Decode<'_> for Bitmap {
    #[inline]
    fn decode(r: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let count = r.u32_be()? as usize;
        if count > MAX_BITMAP_WORDS {
            return Err(Malformed::nameless("bitmap4"));
        }
        let mut set = Bitmap::EMPTY;
        for at in 0..count {
            let word = r.u32_be()?;
            match set.words.get_mut(at) {
                Some(slot) => *slot = word,
                None => set.beyond |= word != 0,
            }
        }
        Ok(set)
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()?;
        if self.beyond { f.write_str("+") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_in_words_of_thirty_two_and_trailing_zero_words_are_not_written() {
        let mut out = Vec::new();
        Bitmap::of(&[0, 4, 33, 4000]).encode(&mut out);
        assert_eq!(out, [0, 0, 0, 2, 0, 0, 0, 0x11, 0, 0, 0, 2]);
        let set = Bitmap::decode(&mut Cursor::new(&out)).expect("a bitmap");
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 4, 33]);
        assert!(set.has(33) && !set.has(32) && !set.has(4000) && !set.beyond());
    }

    #[test]
    fn numbers_beyond_what_is_kept_are_told_of() {
        let message = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        let set = Bitmap::decode(&mut Cursor::new(&message)).expect("a bitmap");
        assert!(set.beyond() && !set.is_empty() && set.iter().next().is_none());
        assert!(Bitmap::decode(&mut Cursor::new(&[0, 0, 1, 0])).is_err());
    }
}
