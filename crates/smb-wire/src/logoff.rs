//! LOGOFF: ends a session (MS-SMB2 2.2.7 and 2.2.8).

use crate::malformed::Malformed;
use crate::reader::FieldReader;
use wire::Writer;

/// LOGOFF request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request;

impl Request {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if the body is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        FieldReader::body(message, "LOGOFF request", 4).map(|_| Request)
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(4);
        w.u16_le(0);
    }

    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }
}

/// LOGOFF response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response;

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if the body is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        FieldReader::body(message, "LOGOFF response", 4).map(|_| Response)
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(4);
        w.u16_le(0);
    }
}
