//! TREE_DISCONNECT: disconnects from a share (MS-SMB2 2.2.11 and 2.2.12).

use crate::malformed::Malformed;
use crate::reader::FieldReader;
use wire::Writer;

/// TREE_DISCONNECT request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Request;

impl Request {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if the body is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        FieldReader::body(message, "TREE_DISCONNECT request", 4).map(|_| Request)
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

/// TREE_DISCONNECT response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response;

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if the body is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        FieldReader::body(message, "TREE_DISCONNECT response", 4).map(|_| Response)
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(4);
        w.u16_le(0);
    }
}
