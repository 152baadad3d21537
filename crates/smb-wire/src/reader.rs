//! A [`Cursor`] with the name of its structure, for its errors.

use crate::id::{FileId, Guid};
use crate::malformed::Malformed;
use crate::utf16::Utf16;
use wire::Cursor;

/// The size of the SMB2 header, after which every body begins.
pub(crate) const HEADER: usize = 64;

/// Reads one structure. Offsets count from the start of its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldReader<'a> {
    cursor: Cursor<'a>,
    structure: &'static str,
    /// The lowest offset of variable data: the end of the fixed fields.
    variable_from: usize,
}

macro_rules! numbers {
    ($($name:ident, $read:ident, $ty:ty;)*) => {$(
        #[inline]
        pub(crate) fn $name(&mut self, field: &'static str) -> Result<$ty, Malformed> {
            self.cursor.$read().map_err(|_| Malformed::new(self.structure, field))
        }
    )*};
}

impl<'a> FieldReader<'a> {
    /// A reader for a structure without a size field.
    #[inline]
    pub(crate) fn new(data: &'a [u8], structure: &'static str) -> Self {
        FieldReader { cursor: Cursor::new(data), structure, variable_from: 0 }
    }

    /// A reader for the body of `message`, which begins with its header. It checks StructureSize. The lowest
    /// bit of that only says that variable data follows.
    #[inline]
    pub(crate) fn body(message: &'a [u8], structure: &'static str, size: u16) -> Result<Self, Malformed> {
        let mut reader = FieldReader::new(message, structure);
        reader.variable_from = HEADER + usize::from(size & !1);
        if message.len() < reader.variable_from {
            return Err(reader.wrong("length"));
        }
        reader.skip(HEADER, "header")?;
        if reader.u16("StructureSize")? != size {
            return Err(reader.wrong("StructureSize"));
        }
        Ok(reader)
    }

    /// Sets the lowest offset of variable data.
    #[inline]
    pub(crate) fn variable_from(mut self, offset: usize) -> Self {
        self.variable_from = offset;
        self
    }

    /// An error about `field` of this structure.
    #[inline]
    pub(crate) fn wrong(&self, field: &'static str) -> Malformed {
        Malformed::new(self.structure, field)
    }

    numbers! {
        u8, u8, u8;
        u16, u16_le, u16;
        u32, u32_le, u32;
        u64, u64_le, u64;
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        self.cursor.array().map_err(|_| self.wrong(field))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        self.cursor.bytes(len).map_err(|_| self.wrong(field))
    }

    #[inline]
    pub(crate) fn skip(&mut self, len: usize, field: &'static str) -> Result<(), Malformed> {
        self.bytes(len, field).map(|_| ())
    }

    #[inline]
    pub(crate) fn guid(&mut self, field: &'static str) -> Result<Guid, Malformed> {
        self.array(field).map(Guid)
    }

    #[inline]
    pub(crate) fn file_id(&mut self, field: &'static str) -> Result<FileId, Malformed> {
        Ok(FileId { persistent: self.u64(field)?, volatile: self.u64(field)? })
    }

    #[inline]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.cursor.rest()
    }

    /// Variable data of `len` bytes at `offset`. If the length is zero, the offset is ignored, since peers
    /// put any value there, such as zero or the end of the fixed part.
    #[inline]
    pub(crate) fn window(
        &self,
        offset: usize,
        len: usize,
        field: &'static str,
    ) -> Result<&'a [u8], Malformed> {
        if len == 0 {
            return Ok(&[]);
        }
        if offset < self.variable_from {
            return Err(self.wrong(field));
        }
        self.cursor.window(offset, len).map_err(|_| self.wrong(field))
    }

    /// A UTF-16 name of `len` bytes at `offset`. An odd length is an error.
    #[inline]
    pub(crate) fn name(
        &self,
        offset: usize,
        len: usize,
        field: &'static str,
    ) -> Result<Utf16<'a>, Malformed> {
        Utf16::new(self.window(offset, len, field)?).ok_or(self.wrong(field))
    }
}
