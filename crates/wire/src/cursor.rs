//! Bounded reading and writing of little- and big-endian fields.
//!
//! [`Cursor`] reads untrusted bytes: every step is checked, nothing panics, and a length in the data can only
//! narrow the range to read. [`Writer`] appends to a growing buffer. It can fill in a field later, once the
//! length in it is known.

/// The data ended before the field did, or a length pointed outside its structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message ends at byte {at}, before a field that needs it")]
pub struct Truncated {
    /// Offset in the cursor's own data at which the field would have begun.
    pub at: usize,
}

/// A reader over a byte slice that can never leave it.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

macro_rules! read_number {
    ($($name:ident, $ty:ty, $from:ident, $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        /// [`Truncated`] if fewer bytes are left.
        #[inline]
        pub fn $name(&mut self) -> Result<$ty, Truncated> {
            Ok(<$ty>::$from(self.array()?))
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// A reader at the start of `data`.
    #[inline]
    #[must_use]
    pub fn new(data: &'a [u8]) -> Self {
        Cursor { data, at: 0 }
    }

    /// Number of bytes read.
    #[inline]
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Number of bytes left.
    #[inline]
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.data.len() - self.at
    }

    /// The bytes that are left, without moving.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.data[self.at..]
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Truncated`] if fewer are left.
    #[inline]
    pub fn bytes(&mut self, len: usize) -> Result<&'a [u8], Truncated> {
        let end = self.at.checked_add(len).ok_or(Truncated { at: self.at })?;
        let found = self.data.get(self.at..end).ok_or(Truncated { at: self.at })?;
        self.at = end;
        Ok(found)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// [`Truncated`] if fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    /// Skips `len` bytes.
    ///
    /// # Errors
    /// [`Truncated`] if fewer are left.
    #[inline]
    pub fn skip(&mut self, len: usize) -> Result<(), Truncated> {
        self.bytes(len).map(|_| ())
    }

    /// A separate reader for the next `len` bytes. This one moves past them.
    ///
    /// # Errors
    /// [`Truncated`] if fewer are left.
    #[inline]
    pub fn sub(&mut self, len: usize) -> Result<Cursor<'a>, Truncated> {
        self.bytes(len).map(Cursor::new)
    }

    /// The `len` bytes at `offset` from the start of this cursor's data, independent of the reading position.
    ///
    /// # Errors
    /// [`Truncated`] if they are not all inside the data.
    #[inline]
    pub fn window(&self, offset: usize, len: usize) -> Result<&'a [u8], Truncated> {
        let end = offset.checked_add(len).ok_or(Truncated { at: offset })?;
        self.data.get(offset..end).ok_or(Truncated { at: offset })
    }

    read_number! {
        u8, u8, from_le_bytes, "One byte.";
        u16_le, u16, from_le_bytes, "A 16-bit little-endian number.";
        u32_le, u32, from_le_bytes, "A 32-bit little-endian number.";
        u64_le, u64, from_le_bytes, "A 64-bit little-endian number.";
        i64_le, i64, from_le_bytes, "A signed 64-bit little-endian number.";
        u128_le, u128, from_le_bytes, "A 128-bit little-endian number.";
        u16_be, u16, from_be_bytes, "A 16-bit big-endian number.";
        u32_be, u32, from_be_bytes, "A 32-bit big-endian number.";
        u64_be, u64, from_be_bytes, "A 64-bit big-endian number.";
    }
}

/// Appends fields to a buffer. Offsets count from the writer's start, so a codec need not know the bytes
/// before it.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    base: usize,
}

macro_rules! write_number {
    ($($name:ident, $patch:ident, $ty:ty, $to:ident;)*) => {$(
        #[doc = concat!("Appends a `", stringify!($ty), "`.")]
        #[inline]
        pub fn $name(&mut self, value: $ty) {
            self.out.extend_from_slice(&value.$to());
        }
        #[doc = concat!("Fills in a `", stringify!($ty), "` at `offset`, which must already be written.")]
        #[inline]
        pub fn $patch(&mut self, offset: usize, value: $ty) {
            let at = self.base + offset;
            self.out[at..at + size_of::<$ty>()].copy_from_slice(&value.$to());
        }
    )*};
}

impl<'a> Writer<'a> {
    /// A writer whose offset 0 is the present end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        let base = out.len();
        Writer { out, base }
    }

    /// Number of bytes written.
    #[inline]
    #[must_use]
    pub fn position(&self) -> usize {
        self.out.len() - self.base
    }

    /// Appends `bytes`.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends `count` zero bytes.
    #[inline]
    pub fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    /// Pads with zeros until the position is a multiple of `step`.
    #[inline]
    pub fn align(&mut self, step: usize) {
        let over = self.position() % step;
        if over != 0 {
            self.zeros(step - over);
        }
    }

    /// Removes everything after `position`, for an entry that turned out not to fit.
    #[inline]
    pub fn truncate(&mut self, position: usize) {
        self.out.truncate(self.base + position);
    }

    write_number! {
        u8, patch_u8, u8, to_le_bytes;
        u16_le, patch_u16_le, u16, to_le_bytes;
        u32_le, patch_u32_le, u32, to_le_bytes;
        u64_le, patch_u64_le, u64, to_le_bytes;
        i64_le, patch_i64_le, i64, to_le_bytes;
        u128_le, patch_u128_le, u128, to_le_bytes;
        u16_be, patch_u16_be, u16, to_be_bytes;
        u32_be, patch_u32_be, u32, to_be_bytes;
        u64_be, patch_u64_be, u64, to_be_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_never_leaves_its_data() {
        let mut c = Cursor::new(&[1, 2, 3]);
        assert_eq!(c.u16_le(), Ok(0x0201));
        assert_eq!(c.u16_le(), Err(Truncated { at: 2 }));
        assert_eq!(c.u8(), Ok(3));
        assert_eq!(c.bytes(usize::MAX), Err(Truncated { at: 3 }));
        assert_eq!(c.window(usize::MAX, 2), Err(Truncated { at: usize::MAX }));
    }

    #[test]
    fn a_writer_counts_from_where_it_began() {
        let mut out = vec![9];
        let mut w = Writer::new(&mut out);
        w.u32_be(7);
        w.u8(1);
        w.align(4);
        w.patch_u16_le(0, 0xbeef);
        assert_eq!(w.position(), 8);
        assert_eq!(out, [9, 0xef, 0xbe, 0, 7, 1, 0, 0, 0]);
    }
}
