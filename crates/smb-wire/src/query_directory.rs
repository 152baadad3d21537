//! QUERY_DIRECTORY: reads entries of a directory (MS-SMB2 2.2.33 and 2.2.34).

use crate::id::FileId;
use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use crate::utf16::Utf16;
use wire::Writer;

pub use crate::output::Response;

wire_flags! {
    /// Flags of a request (MS-SMB2 2.2.33).
    pub struct QueryDirectoryFlags: u8 {
        RESTART_SCANS = 0x01,
        RETURN_SINGLE_ENTRY = 0x02,
        INDEX_SPECIFIED = 0x04,
        REOPEN = 0x10,
    }
}

/// QUERY_DIRECTORY request (MS-SMB2 2.2.33).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The form of the entries: a class of MS-FSCC 2.4, or 0x64 for POSIX.
    pub file_information_class: u8,
    /// The start of the listing, and the number of entries.
    pub flags: QueryDirectoryFlags,
    /// The start of the listing, if the flags say so.
    pub file_index: u32,
    /// The Open of the directory.
    pub file_id: FileId,
    /// The search pattern.
    pub file_name: Utf16<'a>,
    /// The most bytes of the response.
    pub output_buffer_length: u32,
}

impl<'a> Request<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "QUERY_DIRECTORY request", 33)?;
        let file_information_class = r.u8("FileInformationClass")?;
        let flags = QueryDirectoryFlags::from_bits_retain(r.u8("Flags")?);
        let file_index = r.u32("FileIndex")?;
        let file_id = r.file_id("FileId")?;
        let offset = r.u16("FileNameOffset")?;
        let length = r.u16("FileNameLength")?;
        let output_buffer_length = r.u32("OutputBufferLength")?;
        let file_name = r.name(offset.into(), length.into(), "FileNameOffset")?;
        Ok(Request { file_information_class, flags, file_index, file_id, file_name, output_buffer_length })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(33);
        w.u8(self.file_information_class);
        w.u8(self.flags.bits());
        w.u32_le(self.file_index);
        self.file_id.write(&mut w);
        w.u16_le(if self.file_name.is_empty() { 0 } else { HEADER as u16 + 32 });
        w.u16_le(self.file_name.as_bytes().len() as u16);
        w.u32_le(self.output_buffer_length);
        // The variable part has at least one byte.
        w.bytes(if self.file_name.is_empty() { &[0] } else { self.file_name.as_bytes() });
    }

    /// The bytes that count for the credit charge.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.output_buffer_length.max(self.file_name.as_bytes().len() as u32)
    }
}
