//! Names as they stand in a message: UTF-16, little-endian, not necessarily well formed.
//!
//! [`Utf16`] borrows the bytes and hands out code units or characters; how unpaired surrogates become a
//! name of the host is the server's decision.

use std::borrow::Cow;
use std::fmt;

/// A view of UTF-16LE text inside a frame. Its length in bytes is even.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Utf16<'a>(&'a [u8]);

impl<'a> Utf16<'a> {
    /// No text.
    pub const EMPTY: Utf16<'static> = Utf16(&[]);

    /// A view of `bytes`, or `None` when their number is odd.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.len().is_multiple_of(2).then_some(Utf16(bytes))
    }

    /// The bytes as they stand in the message.
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
        self.0
            .chunks_exact(2)
            .map(|pair| u16::from_le_bytes([pair[0], pair[1]]))
    }

    /// The characters in order; an unpaired surrogate is an error that carries its code unit.
    pub fn chars(&self) -> impl Iterator<Item = Result<char, std::char::DecodeUtf16Error>> + use<'a> {
        char::decode_utf16(self.units())
    }

    /// The text, or `None` when it has an unpaired surrogate.
    #[must_use]
    pub fn to_string_exact(&self) -> Option<String> {
        self.chars().collect::<Result<_, _>>().ok()
    }

    /// The text with U+FFFD in the place of unpaired surrogates, for logs and messages.
    #[must_use]
    pub fn to_string_lossy(&self) -> String {
        self.chars()
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    }

    /// Appends the text to `out` as WTF-8: UTF-8, with unpaired surrogates as three bytes each. Nothing is
    /// lost, and well-formed text becomes plain UTF-8.
    pub fn push_wtf8(&self, out: &mut Vec<u8>) {
        let mut buffer = [0; 4];
        for c in self.chars() {
            match c {
                Ok(c) => out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes()),
                Err(error) => {
                    let unit = error.unpaired_surrogate();
                    let [high, low] = unit.to_be_bytes();
                    out.push(0xe0 | (high >> 4));
                    out.push(0x80 | ((high & 0x0f) << 2) | (low >> 6));
                    out.push(0x80 | (low & 0x3f));
                }
            }
        }
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
        self.chars()
            .try_for_each(|c| fmt::Write::write_char(f, c.unwrap_or(char::REPLACEMENT_CHARACTER)))
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

/// Appends `name`, which is WTF-8, in UTF-16LE. Bytes that are neither UTF-8 nor the three bytes of a
/// surrogate become U+FFFD; answers whether all of the name was carried over.
pub fn push_from_wtf8(name: &[u8], out: &mut Vec<u8>) -> bool {
    let mut exact = true;
    let mut rest = name;
    while !rest.is_empty() {
        let (valid, bad) = match std::str::from_utf8(rest) {
            Ok(text) => (text, 0),
            Err(error) => {
                let valid = String::from_utf8_lossy(&rest[..error.valid_up_to()]);
                let Cow::Borrowed(text) = valid else { return false };
                (
                    text,
                    error.error_len().unwrap_or(rest.len() - error.valid_up_to()),
                )
            }
        };
        push(valid, out);
        rest = &rest[valid.len()..];
        if bad == 0 {
            continue;
        }
        match *rest {
            [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] => {
                let unit = 0xd000 | (u16::from(second & 0x3f) << 6) | u16::from(third & 0x3f);
                out.extend_from_slice(&unit.to_le_bytes());
                rest = &rest[3..];
            }
            _ => {
                exact = false;
                push("\u{fffd}", out);
                rest = &rest[bad..];
            }
        }
    }
    exact
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn surrogates_survive_the_way_through_wtf8() {
        let lone_high = [0x41, 0x00, 0x3d, 0xd8, 0x42, 0x00];
        let view = Utf16::new(&lone_high).unwrap();
        assert_eq!(view.to_string_exact(), None);
        assert_eq!(view.to_string_lossy(), "A\u{fffd}B");
        let mut wtf8 = Vec::new();
        view.push_wtf8(&mut wtf8);
        assert_eq!(wtf8, [0x41, 0xed, 0xa0, 0xbd, 0x42]);
        let mut back = Vec::new();
        assert!(push_from_wtf8(&wtf8, &mut back));
        assert_eq!(back, lone_high);
    }

    #[test]
    fn text_stops_at_a_zero_unit_on_request() {
        let bytes = encode("ab\0c");
        assert_eq!(Utf16::new(&bytes).unwrap().until_nul(), "ab");
        assert_eq!(Utf16::new(&bytes[..3]), None);
    }

    proptest! {
        #[test]
        fn any_units_survive_wtf8(units in proptest::collection::vec(any::<u16>(), 0..40)) {
            let bytes: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
            let mut wtf8 = Vec::new();
            Utf16::new(&bytes).unwrap().push_wtf8(&mut wtf8);
            let mut back = Vec::new();
            prop_assert!(push_from_wtf8(&wtf8, &mut back));
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn any_bytes_become_some_units(name in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            push_from_wtf8(&name, &mut out);
            prop_assert!(Utf16::new(&out).is_some());
        }
    }
}
