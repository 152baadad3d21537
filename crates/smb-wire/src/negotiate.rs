//! NEGOTIATE: dialect and capabilities of a connection (MS-SMB2 2.2.3 and 2.2.4).
//!
//! The contexts of dialect 3.1.1 are in [`context`].

use crate::id::Guid;
use crate::list::WireList;
use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

pub mod context;

pub use context::{
    Cipher, CompressionAlgorithm, CompressionFlags, Context, ContextType, Contexts, HashAlgorithm,
    RdmaTransform, SigningAlgorithm, TransportFlags,
};

wire_enum! {
    /// A dialect revision (MS-SMB2 2.2.3). Compare with [`Dialect::get`] for order.
    pub enum Dialect: u16 {
        Smb202 = 0x0202,
        Smb210 = 0x0210,
        Smb300 = 0x0300,
        Smb302 = 0x0302,
        Smb311 = 0x0311,
        /// The response to a multi-protocol negotiate that offers "SMB 2.???".
        Wildcard = 0x02ff,
    }
}

impl Dialect {
    /// The names of the dialects, with the oldest first.
    pub const NAMES: &'static [(&'static str, Dialect)] = &[
        ("2.0.2", Dialect::Smb202),
        ("2.1", Dialect::Smb210),
        ("3.0", Dialect::Smb300),
        ("3.0.2", Dialect::Smb302),
        ("3.1.1", Dialect::Smb311),
    ];

    /// Its name, such as `3.1.1`, if it is known.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::NAMES.iter().find(|(_, dialect)| *dialect == self).map(|(name, _)| *name)
    }

    /// The dialect with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Dialect> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, dialect)| *dialect)
    }

    /// Whether the dialect belongs to the SMB 3.x family.
    #[inline]
    #[must_use]
    pub const fn is_smb3(self) -> bool {
        self.get() >= 0x0300
    }
}

wire_flags! {
    /// Whether a side supports or requires signatures (MS-SMB2 2.2.3).
    pub struct SecurityMode: u16 {
        SIGNING_ENABLED = 0x0001,
        SIGNING_REQUIRED = 0x0002,
    }
}

wire_flags! {
    /// The capabilities of a side (MS-SMB2 2.2.3, SMB2_GLOBAL_CAP).
    pub struct Capabilities: u32 {
        DFS = 0x0000_0001,
        LEASING = 0x0000_0002,
        LARGE_MTU = 0x0000_0004,
        MULTI_CHANNEL = 0x0000_0008,
        PERSISTENT_HANDLES = 0x0000_0010,
        DIRECTORY_LEASING = 0x0000_0020,
        ENCRYPTION = 0x0000_0040,
        NOTIFICATIONS = 0x0000_0080,
    }
}

/// NEGOTIATE request (MS-SMB2 2.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Whether the client requires signing.
    pub security_mode: SecurityMode,
    /// The client's capabilities (3.x).
    pub capabilities: Capabilities,
    /// The client's id, which is the same on all its connections.
    pub client_guid: Guid,
    /// The offered dialects.
    pub dialects: WireList<'a, Dialect>,
    /// The negotiate contexts, if 3.1.1 is offered.
    pub contexts: Contexts<'a>,
}

impl<'a> Request<'a> {
    /// Parses a message from its header on. The contexts are checked when they are read.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside, or there is no dialect.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "NEGOTIATE request", 36)?;
        let dialect_count = r.u16("DialectCount")?;
        let security_mode = SecurityMode::from_bits_retain(r.u16("SecurityMode")?);
        r.skip(2, "Reserved")?;
        let capabilities = Capabilities::from_bits_retain(r.u32("Capabilities")?);
        let client_guid = r.guid("ClientGuid")?;
        let context_offset = r.u32("NegotiateContextOffset")?;
        let context_count = r.u16("NegotiateContextCount")?;
        r.skip(2, "Reserved2")?;
        // MS-SMB2 3.3.5.4
        if dialect_count == 0 {
            return Err(r.wrong("DialectCount"));
        }
        let dialects = WireList::Wire(r.bytes(usize::from(dialect_count) * 2, "Dialects")?);
        let contexts = if dialects.contains(Dialect::Smb311) {
            Contexts::at(message, context_offset, context_count)?
        } else {
            Contexts::EMPTY
        };
        Ok(Request { security_mode, capabilities, client_guid, dialects, contexts })
    }

    /// Appends the body. Contexts are written only if 3.1.1 is among the dialects.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(36);
        w.u16_le(self.dialects.len() as u16);
        w.u16_le(self.security_mode.bits());
        w.u16_le(0);
        w.u32_le(self.capabilities.bits());
        w.bytes(&self.client_guid.0);
        w.u64_le(0);
        self.dialects.write(&mut w);
        if self.dialects.contains(Dialect::Smb311) {
            w.align(8);
            w.patch_u32_le(28, (HEADER + w.position()) as u32);
            let count = self.contexts.write(&mut w);
            w.patch_u16_le(32, count);
        }
    }

    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }
}

/// NEGOTIATE response (MS-SMB2 2.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// Whether the server requires signing.
    pub security_mode: SecurityMode,
    /// The chosen dialect.
    pub dialect_revision: Dialect,
    /// The server's id.
    pub server_guid: Guid,
    /// The server's capabilities.
    pub capabilities: Capabilities,
    /// The largest buffer of QUERY_INFO, QUERY_DIRECTORY, SET_INFO and CHANGE_NOTIFY, in bytes.
    pub max_transact_size: u32,
    /// The largest READ, in bytes.
    pub max_read_size: u32,
    /// The largest WRITE, in bytes.
    pub max_write_size: u32,
    /// The server's time, as a FILETIME.
    pub system_time: u64,
    /// The server's start time as a FILETIME. It is usually zero.
    pub server_start_time: u64,
    /// The first security token of the server.
    pub security_buffer: &'a [u8],
    /// The negotiate contexts of 3.1.1.
    pub contexts: Contexts<'a>,
}

impl<'a> Response<'a> {
    /// Parses a message from its header on. The contexts are checked when they are read.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "NEGOTIATE response", 65)?;
        let security_mode = SecurityMode::from_bits_retain(r.u16("SecurityMode")?);
        let dialect_revision = Dialect::new(r.u16("DialectRevision")?);
        let context_count = r.u16("NegotiateContextCount")?;
        let server_guid = r.guid("ServerGuid")?;
        let capabilities = Capabilities::from_bits_retain(r.u32("Capabilities")?);
        let max_transact_size = r.u32("MaxTransactSize")?;
        let max_read_size = r.u32("MaxReadSize")?;
        let max_write_size = r.u32("MaxWriteSize")?;
        let system_time = r.u64("SystemTime")?;
        let server_start_time = r.u64("ServerStartTime")?;
        let offset = r.u16("SecurityBufferOffset")?;
        let length = r.u16("SecurityBufferLength")?;
        let context_offset = r.u32("NegotiateContextOffset")?;
        let security_buffer = r.window(offset.into(), length.into(), "SecurityBufferOffset")?;
        let contexts = if dialect_revision == Dialect::Smb311 {
            Contexts::at(message, context_offset, context_count)?
        } else {
            Contexts::EMPTY
        };
        Ok(Response {
            security_mode,
            dialect_revision,
            server_guid,
            capabilities,
            max_transact_size,
            max_read_size,
            max_write_size,
            system_time,
            server_start_time,
            security_buffer,
            contexts,
        })
    }

    /// Appends the body. Contexts are written only in dialect 3.1.1. A token of more than 65,535 bytes is
    /// cut.
    pub fn write(&self, out: &mut Vec<u8>) {
        let token = &self.security_buffer[..self.security_buffer.len().min(usize::from(u16::MAX))];
        let mut w = Writer::new(out);
        w.u16_le(65);
        w.u16_le(self.security_mode.bits());
        w.u16_le(self.dialect_revision.get());
        w.u16_le(0);
        w.bytes(&self.server_guid.0);
        w.u32_le(self.capabilities.bits());
        w.u32_le(self.max_transact_size);
        w.u32_le(self.max_read_size);
        w.u32_le(self.max_write_size);
        w.u64_le(self.system_time);
        w.u64_le(self.server_start_time);
        w.u16_le(HEADER as u16 + 64);
        w.u16_le(token.len() as u16);
        w.u32_le(0);
        w.bytes(token);
        if self.dialect_revision == Dialect::Smb311 {
            w.align(8);
            w.patch_u32_le(60, (HEADER + w.position()) as u32);
            let count = self.contexts.write(&mut w);
            w.patch_u16_le(6, count);
        }
    }
}
