//! SESSION_SETUP: transports the security tokens of a log-on or of a binding (MS-SMB2 2.2.5 and 2.2.6).

use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::negotiate::{Capabilities, SecurityMode};
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

wire_flags! {
    /// Flags of a request (MS-SMB2 2.2.5).
    pub struct RequestFlags: u8 {
        /// Binds an existing session to this connection.
        BINDING = 0x01,
    }
}

wire_flags! {
    /// The kind of the new session (MS-SMB2 2.2.6).
    pub struct SessionFlags: u16 {
        IS_GUEST = 0x0001,
        IS_NULL = 0x0002,
        /// The server requires encryption on this session.
        ENCRYPT_DATA = 0x0004,
    }
}

/// SESSION_SETUP request (MS-SMB2 2.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whether the request binds a session.
    pub flags: RequestFlags,
    /// Whether the client requires signing. Only the low byte is sent.
    pub security_mode: SecurityMode,
    /// Only [`Capabilities::DFS`] has a meaning.
    pub capabilities: Capabilities,
    /// A lost session of the same user to end, or zero.
    pub previous_session_id: u64,
    /// The security token.
    pub security_buffer: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "SESSION_SETUP request", 25)?;
        let flags = RequestFlags::from_bits_retain(r.u8("Flags")?);
        let security_mode = SecurityMode::from_bits_retain(u16::from(r.u8("SecurityMode")?));
        let capabilities = Capabilities::from_bits_retain(r.u32("Capabilities")?);
        r.skip(4, "Channel")?;
        let offset = r.u16("SecurityBufferOffset")?;
        let length = r.u16("SecurityBufferLength")?;
        let previous_session_id = r.u64("PreviousSessionId")?;
        let security_buffer = r.window(offset.into(), length.into(), "SecurityBufferOffset")?;
        Ok(Request { flags, security_mode, capabilities, previous_session_id, security_buffer })
    }

    /// Appends the body. A token of more than 65,535 bytes is cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        let token = short(self.security_buffer);
        let mut w = Writer::new(out);
        w.u16_le(25);
        w.u8(self.flags.bits());
        w.u8(self.security_mode.bits() as u8);
        w.u32_le(self.capabilities.bits());
        w.u32_le(0);
        w.u16_le(HEADER as u16 + 24);
        w.u16_le(token.len() as u16);
        w.u64_le(self.previous_session_id);
        w.bytes(token);
    }

    /// The bytes that count for the credit charge.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.security_buffer.len() as u32
    }
}

/// SESSION_SETUP response (MS-SMB2 2.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The kind of session.
    pub session_flags: SessionFlags,
    /// The security token.
    pub security_buffer: &'a [u8],
}

impl<'a> Response<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "SESSION_SETUP response", 9)?;
        let session_flags = SessionFlags::from_bits_retain(r.u16("SessionFlags")?);
        let offset = r.u16("SecurityBufferOffset")?;
        let length = r.u16("SecurityBufferLength")?;
        let security_buffer = r.window(offset.into(), length.into(), "SecurityBufferOffset")?;
        Ok(Response { session_flags, security_buffer })
    }

    /// Appends the body. A token of more than 65,535 bytes is cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        let token = short(self.security_buffer);
        let mut w = Writer::new(out);
        w.u16_le(9);
        w.u16_le(self.session_flags.bits());
        w.u16_le(HEADER as u16 + 8);
        w.u16_le(token.len() as u16);
        w.bytes(token);
    }
}

/// The part of a token that a 16-bit length can describe.
fn short(token: &[u8]) -> &[u8] {
    &token[..token.len().min(usize::from(u16::MAX))]
}
