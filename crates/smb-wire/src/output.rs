//! The common response of QUERY_DIRECTORY, CHANGE_NOTIFY and QUERY_INFO: one buffer (MS-SMB2 2.2.34, 2.2.36
//! and 2.2.38).

use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

/// The size of the fields before the buffer, in bytes.
pub const RESPONSE_FIXED: usize = 8;

/// A response with one buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response<'a> {
    /// The buffer.
    pub output_buffer: &'a [u8],
}

impl<'a> Response<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "response with a buffer", 9)?;
        let offset = r.u16("OutputBufferOffset")?;
        let length = r.u32("OutputBufferLength")? as usize;
        Ok(Response { output_buffer: r.window(offset.into(), length, "OutputBufferOffset")? })
    }

    /// Fills in the fields of a response whose `length` bytes follow them.
    #[inline]
    pub fn write_fixed(buffer: &mut [u8; RESPONSE_FIXED], length: u32) {
        *buffer = [9, 0, (HEADER + RESPONSE_FIXED) as u8, 0, 0, 0, 0, 0];
        buffer[4..].copy_from_slice(&length.to_le_bytes());
    }

    /// Appends the body, with a copy of the buffer.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(9);
        w.u16_le((HEADER + RESPONSE_FIXED) as u16);
        w.u32_le(self.output_buffer.len() as u32);
        w.bytes(self.output_buffer);
    }
}
