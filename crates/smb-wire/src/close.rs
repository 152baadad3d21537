//! CLOSE: ends an Open (MS-SMB2 2.2.15 and 2.2.16).

use crate::create::FileInfo;
use crate::id::FileId;
use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::reader::FieldReader;
use wire::Writer;

wire_flags! {
    /// Flags of request and response (MS-SMB2 2.2.15).
    pub struct CloseFlags: u16 {
        /// The response has the attributes.
        POSTQUERY_ATTRIB = 0x0001,
    }
}

/// CLOSE request (MS-SMB2 2.2.15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Whether the response should have the attributes.
    pub flags: CloseFlags,
    /// The Open.
    pub file_id: FileId,
}

impl Request {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "CLOSE request", 24)?;
        let flags = CloseFlags::from_bits_retain(r.u16("Flags")?);
        r.skip(4, "Reserved")?;
        Ok(Request { flags, file_id: r.file_id("FileId")? })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(24);
        w.u16_le(self.flags.bits());
        w.u32_le(0);
        self.file_id.write(&mut w);
    }

    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }
}

/// CLOSE response (MS-SMB2 2.2.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response {
    /// The attributes, if the request asked for them.
    pub info: Option<FileInfo>,
}

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "CLOSE response", 60)?;
        let flags = CloseFlags::from_bits_retain(r.u16("Flags")?);
        r.skip(4, "Reserved")?;
        let info = FileInfo::read(&mut r)?;
        Ok(Response { info: flags.contains(CloseFlags::POSTQUERY_ATTRIB).then_some(info) })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flags = if self.info.is_some() { CloseFlags::POSTQUERY_ATTRIB } else { CloseFlags::empty() };
        let mut w = Writer::new(out);
        w.u16_le(60);
        w.u16_le(flags.bits());
        w.u32_le(0);
        self.info.unwrap_or_default().write(&mut w);
    }
}
