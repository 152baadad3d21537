//! XDR (RFC 4506): reading and writing of every value. All fields are big-endian and fill whole words of four
//! bytes.
//!
//! [`Encode`] appends to a buffer. [`Decode`] reads from a bounded [`Cursor`] and borrows variable-length
//! data. Padding is written as zeros and ignored when read, as Linux does.

use std::fmt;

use crate::Malformed;
use wire::Cursor;

/// A value that can be written.
pub trait Encode {
    /// Appends the value.
    fn encode(&self, out: &mut Vec<u8>);
}

/// A value that can be read. `'d` is the lifetime of the message that it borrows from.
pub trait Decode<'d>: Sized {
    /// Reads the value.
    ///
    /// # Errors
    /// [`Malformed`] if the message ends too early or a field has an invalid value.
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed>;
}

/// Number of padding bytes after `len` bytes of data.
#[inline]
#[must_use]
pub const fn padding(len: usize) -> usize {
    len.wrapping_neg() % 4
}

/// Appends variable-length opaque data: its length, the data, its padding.
#[inline]
pub fn put_opaque(data: &[u8], out: &mut Vec<u8>) {
    (data.len() as u32).encode(out);
    put_fixed(data, out);
}

/// Appends fixed-length opaque data with its padding.
#[inline]
pub fn put_fixed(data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(data);
    pad(data.len(), out);
}

/// Appends the padding after `len` bytes of data.
#[inline]
pub fn pad(len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 3][..padding(len)]);
}

/// Reads variable-length opaque data of at most `max` bytes.
///
/// # Errors
/// [`Malformed`] if the data is longer, or the message ends within it or its padding.
#[inline]
pub fn opaque<'d>(r: &mut Cursor<'d>, max: usize) -> Result<&'d [u8], Malformed> {
    let len = r.u32_be()? as usize;
    if len > max {
        return Err(Malformed::nameless("length"));
    }
    let data = r.bytes(len)?;
    r.skip(padding(len))?;
    Ok(data)
}

macro_rules! numbers {
    ($($ty:ty, $read:ident;)*) => {$(
        impl Encode for $ty {
            #[inline]
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
        }
        impl Decode<'_> for $ty {
            #[inline]
            fn decode(r: &mut Cursor<'_>) -> Result<Self, Malformed> {
                Ok(r.$read()? as $ty)
            }
        }
    )*};
}

numbers! {
    u32, u32_be;
    i32, u32_be;
    u64, u64_be;
    i64, u64_be;
}

impl Encode for bool {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        u32::from(*self).encode(out);
    }
}

impl Decode<'_> for bool {
    // RFC 4506 4.4
    #[inline]
    fn decode(r: &mut Cursor<'_>) -> Result<Self, Malformed> {
        match r.u32_be()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed::nameless("bool")),
        }
    }
}

impl Encode for () {
    #[inline]
    fn encode(&self, _: &mut Vec<u8>) {}
}

impl Decode<'_> for () {
    #[inline]
    fn decode(_: &mut Cursor<'_>) -> Result<Self, Malformed> {
        Ok(())
    }
}

impl Encode for &[u8] {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_opaque(self, out);
    }
}

impl<'d> Decode<'d> for &'d [u8] {
    #[inline]
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        opaque(r, usize::MAX)
    }
}

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        put_fixed(self, out);
    }
}

impl<const N: usize> Decode<'_> for [u8; N] {
    #[inline]
    fn decode(r: &mut Cursor<'_>) -> Result<Self, Malformed> {
        let data = r.array()?;
        r.skip(padding(N))?;
        Ok(data)
    }
}

/// An array of at most one element, which XDR uses for optional values.
impl<T: Encode> Encode for Option<T> {
    #[inline]
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl<'d, T: Decode<'d>> Decode<'d> for Option<T> {
    #[inline]
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        if bool::decode(r)? { T::decode(r).map(Some) } else { Ok(None) }
    }
}

/// A variable-length array: either encoded in a message, or a slice of values to be written. The elements of
/// an encoded one were checked when it was read.
#[derive(Clone, Copy)]
pub struct List<'a, T>(ListRepr<'a, T>);

#[derive(Clone, Copy)]
enum ListRepr<'a, T> {
    Wire { count: usize, bytes: &'a [u8] },
    Values(&'a [T]),
}

impl<'a, T> List<'a, T> {
    /// A list without elements.
    pub const EMPTY: Self = List(ListRepr::Values(&[]));

    /// A list of values to be written.
    #[must_use]
    pub const fn of(values: &'a [T]) -> Self {
        List(ListRepr::Values(values))
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            ListRepr::Wire { count, .. } => count,
            ListRepr::Values(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, T: Decode<'a> + Copy> List<'a, T> {
    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = T> + Clone + use<'a, T> {
        let (wire, values): (_, &'a [T]) = match self.0 {
            ListRepr::Wire { bytes, .. } => (Cursor::new(bytes), &[]),
            ListRepr::Values(values) => (Cursor::new(&[]), values),
        };
        Elements { wire, left: self.len() - values.len(), values }
    }
}

/// The iterator of [`List::iter`].
#[derive(Clone)]
struct Elements<'a, T> {
    wire: Cursor<'a>,
    left: usize,
    values: &'a [T],
}

impl<'a, T: Decode<'a> + Copy> Iterator for Elements<'a, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if let Some((first, rest)) = self.values.split_first() {
            self.values = rest;
            return Some(*first);
        }
        self.left = self.left.checked_sub(1)?;
        T::decode(&mut self.wire).ok()
    }
}

impl<T: Encode> Encode for List<'_, T> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u32).encode(out);
        match self.0 {
            ListRepr::Wire { bytes, .. } => out.extend_from_slice(bytes),
            ListRepr::Values(values) => values.iter().for_each(|value| value.encode(out)),
        }
    }
}

impl<'d, T: Decode<'d>> Decode<'d> for List<'d, T> {
    fn decode(r: &mut Cursor<'d>) -> Result<Self, Malformed> {
        let count = r.u32_be()? as usize;
        if count > crate::limits::MAX_LIST {
            return Err(Malformed::nameless("count"));
        }
        let all = r.rest();
        let begin = r.position();
        for _ in 0..count {
            T::decode(r)?;
        }
        Ok(List(ListRepr::Wire { count, bytes: &all[..r.position() - begin] }))
    }
}

impl<'a, T: Decode<'a> + Copy + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a, T: Decode<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: Decode<'a> + Copy + Eq> Eq for List<'a, T> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: &impl Encode) -> Vec<u8> {
        let mut out = Vec::new();
        value.encode(&mut out);
        out
    }

    // RFC 4506 4.10: length, data, zeros up to a multiple of four.
    #[test]
    fn opaque_data_is_padded_with_zeros_and_read_whatever_the_padding_is() {
        assert_eq!(bytes(&&b"abcde"[..]), *b"\0\0\0\x05abcde\0\0\0");
        let mut r = Cursor::new(b"\0\0\0\x05abcde\x01\x02\x03!");
        assert_eq!(<&[u8]>::decode(&mut r), Ok(&b"abcde"[..]));
        assert_eq!(r.rest(), b"!");
        assert!(<&[u8]>::decode(&mut Cursor::new(b"\0\0\0\x05abcde\0\0")).is_err());
        assert!(opaque(&mut Cursor::new(b"\0\0\0\x05abcde\0\0\0"), 4).is_err());
    }

    #[test]
    fn a_list_is_checked_as_it_is_read_and_read_again_lazily() {
        let names: [&[u8]; 3] = [b"a", b"", b"four"];
        let wire = bytes(&List::of(&names));
        let mut r = Cursor::new(&wire);
        let list = List::<&[u8]>::decode(&mut r).expect("a list");
        assert_eq!(r.remaining(), 0);
        assert_eq!(list.iter().collect::<Vec<_>>(), names);
        assert_eq!(list, List::of(&names));
        for len in 0..wire.len() {
            assert!(List::<&[u8]>::decode(&mut Cursor::new(&wire[..len])).is_err(), "{len}");
        }
    }

    #[test]
    fn a_count_beyond_the_limit_is_refused_before_it_is_counted() {
        let mut r = Cursor::new(&[0xff; 4]);
        assert!(List::<()>::decode(&mut r).is_err());
        assert!(bool::decode(&mut Cursor::new(&[0, 0, 0, 2])).is_err());
    }
}
