//! FLUSH: writes the cached data of a file to stable storage (MS-SMB2 2.2.17 and 2.2.18).

use crate::id::FileId;
use crate::malformed::Malformed;
use crate::reader::FieldReader;
use wire::Writer;

/// FLUSH request (MS-SMB2 2.2.17).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// With 0xffff, a server for macOS waits for the disk itself (AAPL full sync). Otherwise it is zero.
    pub reserved1: u16,
    /// The Open.
    pub file_id: FileId,
}

impl Request {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "FLUSH request", 24)?;
        let reserved1 = r.u16("Reserved1")?;
        r.skip(4, "Reserved2")?;
        Ok(Request { reserved1, file_id: r.file_id("FileId")? })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(24);
        w.u16_le(self.reserved1);
        w.u32_le(0);
        self.file_id.write(&mut w);
    }

    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }
}

/// FLUSH response (MS-SMB2 2.2.18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response;

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if the body is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        FieldReader::body(message, "FLUSH response", 4).map(|_| Response)
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(4);
        w.u16_le(0);
    }
}
