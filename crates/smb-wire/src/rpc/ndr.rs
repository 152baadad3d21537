//! NDR 2.0, little-endian: the encoding of a call's arguments and results in its stub.
//!
//! Values are aligned to their size from the start of the stub. A pointer is a number, or 0 for null. Its
//! target follows after the structure. The callers of [`StubReader`] and [`Writer`] keep that order by hand,
//! next to the structures' sections.

use super::sid;
use crate::Utf16;
use wire::{Cursor, Truncated};

/// The stub does not match its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the arguments of the call cannot be read")]
pub struct BadStub;

impl From<Truncated> for BadStub {
    fn from(_: Truncated) -> Self {
        BadStub
    }
}

/// Reads a stub.
#[derive(Debug, Clone)]
pub struct StubReader<'a> {
    cursor: Cursor<'a>,
}

/// The fixed part of an RPC_UNICODE_STRING. Its characters come later if there is a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringHead {
    /// Bytes in use.
    pub length: u16,
    /// Whether characters follow.
    pub is_some: bool,
}

impl<'a> StubReader<'a> {
    /// A reader at the start of `stub`.
    #[must_use]
    pub fn new(stub: &'a [u8]) -> Self {
        StubReader { cursor: Cursor::new(stub) }
    }

    fn align(&mut self, step: usize) -> Result<(), BadStub> {
        let over = self.cursor.position() % step;
        if over != 0 {
            self.cursor.skip(step - over)?;
        }
        Ok(())
    }

    /// A 16-bit number.
    ///
    /// # Errors
    /// [`BadStub`] if the stub ends first. That applies to all functions.
    pub fn u16(&mut self) -> Result<u16, BadStub> {
        self.align(2)?;
        Ok(u16::from_le_bytes(self.cursor.array()?))
    }

    /// A 32-bit number.
    ///
    /// # Errors
    /// [`BadStub`]
    pub fn u32(&mut self) -> Result<u32, BadStub> {
        self.align(4)?;
        Ok(self.cursor.u32_le()?)
    }

    /// A pointer: whether it is not null.
    ///
    /// # Errors
    /// [`BadStub`]
    pub fn pointer(&mut self) -> Result<bool, BadStub> {
        Ok(self.u32()? != 0)
    }

    /// A context handle.
    ///
    /// # Errors
    /// [`BadStub`]
    pub fn handle(&mut self) -> Result<[u8; 20], BadStub> {
        self.align(4)?;
        Ok(self.cursor.array()?)
    }

    /// A string of 16-bit units with a final zero (`[string] wchar_t *`), without that zero.
    ///
    /// # Errors
    /// [`BadStub`] if its counts do not match.
    pub fn string(&mut self) -> Result<Utf16<'a>, BadStub> {
        self.varying().map(|text| text.until_nul())
    }

    /// A pointer to a [`StubReader::string`], with the string.
    ///
    /// # Errors
    /// [`BadStub`]
    pub fn unique_string(&mut self) -> Result<Option<Utf16<'a>>, BadStub> {
        if self.pointer()? { self.string().map(Some) } else { Ok(None) }
    }

    /// A conformant varying array of 16-bit units.
    fn varying(&mut self) -> Result<Utf16<'a>, BadStub> {
        let max = self.u32()?;
        let offset = self.u32()?;
        let actual = self.u32()?;
        if offset != 0 || actual > max {
            return Err(BadStub);
        }
        let bytes = (actual as usize).checked_mul(2).ok_or(BadStub)?;
        Utf16::new(self.cursor.bytes(bytes)?).ok_or(BadStub)
    }

    /// The fixed part of an RPC_UNICODE_STRING.
    ///
    /// # Errors
    /// [`BadStub`] if its lengths do not match.
    pub fn string_head(&mut self) -> Result<StringHead, BadStub> {
        self.align(4)?;
        let length = self.u16()?;
        let max = self.u16()?;
        let is_some = self.pointer()?;
        let is_whole = length % 2 == 0 && length <= max && (is_some || length == 0);
        if is_whole { Ok(StringHead { length, is_some }) } else { Err(BadStub) }
    }

    /// The characters of an RPC_UNICODE_STRING.
    ///
    /// # Errors
    /// [`BadStub`] if their number does not match the head.
    pub fn string_body(&mut self, head: StringHead) -> Result<Utf16<'a>, BadStub> {
        if !head.is_some {
            return Ok(Utf16::EMPTY);
        }
        let text = self.varying()?;
        if text.as_bytes().len() == usize::from(head.length) { Ok(text) } else { Err(BadStub) }
    }

    /// An RPC_SID behind a pointer.
    ///
    /// # Errors
    /// [`BadStub`] if its counts do not match.
    pub fn sid(&mut self) -> Result<&'a [u8], BadStub> {
        let count = self.u32()? as usize;
        if count > sid::MAX_SUBAUTHORITIES {
            return Err(BadStub);
        }
        let bytes = self.cursor.bytes(8 + 4 * count)?;
        if sid::is_sid(bytes) { Ok(bytes) } else { Err(BadStub) }
    }

    /// The number of remaining bytes. Each element of an array takes some of them.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.cursor.remaining()
    }
}

/// Writes a stub.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
    pointers: u32,
}

impl Writer {
    fn align(&mut self, step: usize) {
        self.out.resize(self.out.len().next_multiple_of(step), 0);
    }

    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// A 16-bit number.
    pub fn u16(&mut self, value: u16) {
        self.align(2);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// A 32-bit number.
    pub fn u32(&mut self, value: u32) {
        self.align(4);
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes without alignment.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A context handle.
    pub fn handle(&mut self, handle: &[u8; 20]) {
        self.align(4);
        self.out.extend_from_slice(handle);
    }

    /// A pointer that is not null. Its target must be written later.
    pub fn pointer(&mut self) {
        self.pointers += 1;
        let referent = 0x0002_0000 + 4 * (self.pointers - 1);
        self.u32(referent);
    }

    /// A null pointer.
    pub fn null(&mut self) {
        self.u32(0);
    }

    /// A string of 16-bit units with a final zero (`[string] wchar_t *`).
    pub fn string(&mut self, text: &str) {
        let units = text.encode_utf16().count() as u32 + 1;
        self.u32(units);
        self.u32(0);
        self.u32(units);
        self.units(text);
        self.u16(0);
    }

    /// The fixed part of an RPC_UNICODE_STRING that points to `text`.
    pub fn string_head(&mut self, text: &str) {
        // A name that is too long for the length field is cut, here and in the body.
        let bytes = fitting(text).encode_utf16().count() as u16 * 2;
        self.align(4);
        self.u16(bytes);
        self.u16(bytes);
        self.pointer();
    }

    /// The characters of an RPC_UNICODE_STRING.
    pub fn string_body(&mut self, text: &str) {
        let text = fitting(text);
        let units = text.encode_utf16().count() as u32;
        self.u32(units);
        self.u32(0);
        self.u32(units);
        self.units(text);
    }

    fn units(&mut self, text: &str) {
        crate::utf16::push(text, &mut self.out);
    }

    /// An RPC_SID behind a pointer.
    pub fn sid(&mut self, sid: &[u8]) {
        self.u32((sid.len().saturating_sub(8) / 4) as u32);
        self.bytes(sid);
    }

    /// Bytes written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing has been written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// The stub.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}

/// The part of `text` that an RPC_UNICODE_STRING can hold. Names here are far shorter.
fn fitting(text: &str) -> &str {
    const MOST: usize = 0x3FFF;
    text.get(..MOST.min(text.len())).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fscc::testing::hex;
    use proptest::prelude::*;

    #[test]
    fn strings_end_with_a_zero_and_numbers_are_aligned() {
        let mut w = Writer::default();
        w.u16(1);
        w.pointer();
        w.string("ab");
        w.u32(7);
        let bytes = w.into_bytes();
        assert_eq!(bytes, hex("0100 0000 00000200 03000000 00000000 03000000 610062000000 0000 07000000"));
        let mut r = StubReader::new(&bytes);
        assert_eq!(r.u16(), Ok(1));
        assert_eq!(r.unique_string().unwrap().unwrap(), "ab");
        assert_eq!(r.u32(), Ok(7));
        assert_eq!(r.u32(), Err(BadStub));
    }

    #[test]
    fn counted_strings_and_sids_come_back() {
        let everyone = hex("01 01 000000000001 00000000");
        let mut w = Writer::default();
        w.string_head("é");
        w.string_body("é");
        w.sid(&everyone);
        let bytes = w.into_bytes();
        let mut r = StubReader::new(&bytes);
        let head = r.string_head().unwrap();
        assert_eq!(r.string_body(head).unwrap(), "é");
        assert_eq!(r.sid(), Ok(&everyone[..]));
    }

    #[test]
    fn counts_that_disagree_are_refused() {
        let string = |text: &str| StubReader::new(&hex(text)).string().map(|t| t.len());
        assert_eq!(string("01000000 01000000 01000000 6100"), Err(BadStub));
        assert_eq!(string("01000000 00000000 02000000 61006200"), Err(BadStub));
        assert_eq!(string("ffffffff 00000000 ffffffff 6100"), Err(BadStub));
        let head = |text: &str| StubReader::new(&hex(text)).string_head();
        assert_eq!(head("0300 0400 01000000"), Err(BadStub));
        assert_eq!(head("0400 0200 01000000"), Err(BadStub));
        assert_eq!(head("0200 0200 00000000"), Err(BadStub));
        let sid = |text: &str| StubReader::new(&hex(text)).sid().map(<[u8]>::len);
        assert_eq!(sid("02000000 01 01 000000000001 00000000 00000000"), Err(BadStub));
        assert_eq!(sid("ffffffff 01 ff 000000000001"), Err(BadStub));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(data in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = StubReader::new(&data).unique_string();
            let _ = StubReader::new(&data).sid();
            let mut r = StubReader::new(&data);
            let _ = r.string_head().and_then(|head| r.string_body(head));
        }
    }
}
