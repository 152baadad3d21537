//! Names as they are in a message: UTF-16, little-endian, not necessarily well formed.
//!
//! [`Utf16`] borrows the bytes and returns code units or characters. [`crate::fscc::names`] converts names
//! to those of the host and back.

use std::fmt;

/// A view of UTF-16LE text inside a frame. Its length in bytes is even.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Utf16<'a>(&'a [u8]);

impl<'a> Utf16<'a> {
    /// No text.
    pub const EMPTY: Utf16<'static> = Utf16(&[]);

    /// A view of `bytes`, or `None` if their number is odd.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.len().is_multiple_of(2).then_some(Utf16(bytes))
    }

    /// The bytes of the message.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The number of 16-bit code units.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 2
    }

    /// Whether there is no text.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The code units in order.
    #[inline]
    pub fn units(&self) -> impl DoubleEndedIterator<Item = u16> + ExactSizeIterator + Clone + use<'a> {
        self.0.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
    }

    /// The characters in order. An unpaired surrogate is an error with its code unit.
    pub fn chars(&self) -> impl Iterator<Item = Result<char, std::char::DecodeUtf16Error>> + use<'a> {
        char::decode_utf16(self.units())
    }

    /// The text, or `None` if it has an unpaired surrogate.
    #[must_use]
    pub fn to_string_exact(&self) -> Option<String> {
        self.chars().collect::<Result<_, _>>().ok()
    }

    /// The text with U+FFFD instead of unpaired surrogates, for logs and messages.
    #[must_use]
    pub fn to_string_lossy(&self) -> String {
        self.chars().map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }

    /// The text up to its first zero code unit, or all of it.
    #[must_use]
    pub fn until_nul(&self) -> Utf16<'a> {
        let end = self.units().position(|unit| unit == 0).unwrap_or(self.len());
        Utf16(&self.0[..end * 2])
    }
}

impl PartialEq<str> for Utf16<'_> {
    fn eq(&self, other: &str) -> bool {
        self.units().eq(other.encode_utf16())
    }
}

impl PartialEq<&str> for Utf16<'_> {
    fn eq(&self, other: &&str) -> bool {
        self == *other
    }
}

impl fmt::Display for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|c| fmt::Write::write_char(f, c.unwrap_or(char::REPLACEMENT_CHARACTER)))
    }
}

impl fmt::Debug for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string_lossy())
    }
}

/// The bytes of `text` in UTF-16LE, without a terminator.
#[must_use]
pub fn encode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() * 2);
    push(text, &mut out);
    out
}

/// Appends `text` in UTF-16LE, without a terminator.
pub fn push(text: &str, out: &mut Vec<u8>) {
    out.extend(text.encode_utf16().flat_map(u16::to_le_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpaired_surrogate_is_kept_as_a_unit_and_refused_as_text() {
        let lone_high = [0x41, 0x00, 0x3d, 0xd8, 0x42, 0x00];
        let view = Utf16::new(&lone_high).unwrap();
        assert_eq!(view.to_string_exact(), None);
        assert_eq!(view.to_string_lossy(), "A\u{fffd}B");
        assert!(view.units().eq([0x41, 0xd83d, 0x42]));
        let pair = [0x3d, 0xd8, 0x00, 0xde];
        assert_eq!(Utf16::new(&pair).unwrap(), "\u{1f600}");
        assert_eq!(encode("\u{1f600}"), pair);
    }

    #[test]
    fn text_stops_at_a_zero_unit_on_request() {
        let bytes = encode("ab\0c");
        assert_eq!(Utf16::new(&bytes).unwrap().until_nul(), "ab");
        assert_eq!(Utf16::new(&bytes[..3]), None);
    }
}
