//! Values in NDR, as type serialization version 1 stores them (MS-RPCE 2.2.6, C706 14).

use volume::security::Sid;
use wire::Cursor;

use super::buffers::text;
use super::{GroupAttributes, MAX_GROUPS, MAX_NAME};

/// A pointer to a string: the string follows later.
#[derive(Clone, Copy)]
pub(super) struct StringPointer {
    bytes: usize,
    is_there: bool,
}

/// A reader of a serialized structure.
pub(super) struct NdrReader<'a> {
    from: Cursor<'a>,
}

impl<'a> NdrReader<'a> {
    /// Begins with the headers and the pointer to the structure.
    // MS-RPCE 2.2.6.1, 2.2.6.2
    pub(super) fn new(bytes: &'a [u8]) -> Option<NdrReader<'a>> {
        const LITTLE_ENDIAN: u8 = 0x10;
        const HEADER: u16 = 8;
        let mut from = Cursor::new(bytes);
        let head = (from.u8().ok()?, from.u8().ok()?, from.u16_le().ok()?);
        if head != (1, LITTLE_ENDIAN, HEADER) {
            return None;
        }
        from.skip(4).ok()?;
        let length = from.u32_le().ok()? as usize;
        from.skip(4).ok()?;
        let mut reader = NdrReader { from: Cursor::new(from.rest().get(..length)?) };
        reader.pointer()?.then_some(reader)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.align(2)?;
        self.from.u16_le().ok()
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.align(4)?;
        self.from.u32_le().ok()
    }

    /// A FILETIME, which has the alignment of its two halves.
    pub(super) fn file_time(&mut self) -> Option<u64> {
        let low = self.u32()?;
        Some(u64::from(self.u32()?) << 32 | u64::from(low))
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.from.skip(bytes).ok()
    }

    /// Whether a pointer leads to a value.
    pub(super) fn pointer(&mut self) -> Option<bool> {
        Some(self.u32()? != 0)
    }

    /// The fixed part of an RPC_UNICODE_STRING (MS-DTYP 2.3.10).
    pub(super) fn string_pointer(&mut self) -> Option<StringPointer> {
        let (length, most) = (self.u16()?, self.u16()?);
        let is_there = self.pointer()?;
        let is_fine = length.is_multiple_of(2) && length <= most && (is_there || length == 0);
        is_fine.then_some(StringPointer { bytes: usize::from(length), is_there })
    }

    /// The characters of a string, a conformant and varying array.
    pub(super) fn string(&mut self, pointer: StringPointer) -> Option<String> {
        if !pointer.is_there {
            return Some(String::new());
        }
        let (most, offset, count) = (self.u32()?, self.u32()?, self.u32()?);
        let is_fine = offset == 0 && count <= most && count as usize == pointer.bytes / 2;
        if !is_fine || pointer.bytes / 2 > MAX_NAME {
            return None;
        }
        text(self.from.bytes(pointer.bytes).ok()?)
    }

    /// The number of entries of a conformant array, which was announced as `count`. Each takes `size` bytes
    /// at least.
    pub(super) fn array(&mut self, count: u32, size: usize) -> Option<usize> {
        let entries = self.u32()?;
        let fits = entries as usize <= MAX_GROUPS && entries as usize * size <= self.from.remaining();
        (entries == count && fits).then_some(entries as usize)
    }

    /// An array of GROUP_MEMBERSHIP (MS-PAC 2.2.2), if its pointer leads to one.
    pub(super) fn memberships(&mut self, is_there: bool, count: u32) -> Option<Vec<(u32, GroupAttributes)>> {
        if !is_there {
            return (count == 0).then(Vec::new);
        }
        let entries = self.array(count, 8)?;
        (0..entries).map(|_| Some((self.u32()?, GroupAttributes(self.u32()?)))).collect()
    }

    /// An RPC_SID (MS-DTYP 2.4.2.3).
    pub(super) fn sid(&mut self) -> Option<Sid> {
        let count = self.u32()? as usize;
        let sid = Sid::parse(&mut self.from).ok()?;
        (sid.subs().len() == count).then_some(sid)
    }

    fn align(&mut self, step: usize) -> Option<()> {
        let beyond = self.from.position() % step;
        if beyond == 0 { Some(()) } else { self.skip(step - beyond) }
    }
}
