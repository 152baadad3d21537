//! TREE_CONNECT: connects to one share (MS-SMB2 2.2.9 and 2.2.10).

use crate::create::Access;
use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use crate::utf16::Utf16;
use wire::Writer;

wire_flags! {
    /// Flags of a request (MS-SMB2 2.2.9). They have a meaning in 3.1.1 only.
    pub struct RequestFlags: u16 {
        CLUSTER_RECONNECT = 0x0001,
        REDIRECT_TO_OWNER = 0x0002,
        /// The buffer begins with the extension of MS-SMB2 2.2.9.1.
        EXTENSION_PRESENT = 0x0004,
    }
}

wire_enum! {
    /// The type of a share (MS-SMB2 2.2.10).
    pub enum ShareType: u8 {
        Disk = 0x01,
        Pipe = 0x02,
        Print = 0x03,
    }
}

wire_flags! {
    /// Properties of a share (MS-SMB2 2.2.10). The caching mode has two bits: no bit is manual caching, and
    /// both bits are no caching.
    pub struct ShareFlags: u32 {
        DFS = 0x0000_0001,
        DFS_ROOT = 0x0000_0002,
        AUTO_CACHING = 0x0000_0010,
        VDO_CACHING = 0x0000_0020,
        NO_CACHING = 0x0000_0030,
        RESTRICT_EXCLUSIVE_OPENS = 0x0000_0100,
        FORCE_SHARED_DELETE = 0x0000_0200,
        ALLOW_NAMESPACE_CACHING = 0x0000_0400,
        ACCESS_BASED_DIRECTORY_ENUM = 0x0000_0800,
        FORCE_LEVELII_OPLOCK = 0x0000_1000,
        ENABLE_HASH_V1 = 0x0000_2000,
        ENABLE_HASH_V2 = 0x0000_4000,
        ENCRYPT_DATA = 0x0000_8000,
        IDENTITY_REMOTING = 0x0004_0000,
        COMPRESS_DATA = 0x0010_0000,
        ISOLATED_TRANSPORT = 0x0020_0000,
    }
}

wire_flags! {
    /// Capabilities of a share (MS-SMB2 2.2.10).
    pub struct ShareCapabilities: u32 {
        DFS = 0x0000_0008,
        CONTINUOUS_AVAILABILITY = 0x0000_0010,
        SCALEOUT = 0x0000_0020,
        CLUSTER = 0x0000_0040,
        ASYMMETRIC = 0x0000_0080,
        REDIRECT_TO_OWNER = 0x0000_0100,
    }
}

/// TREE_CONNECT request (MS-SMB2 2.2.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Flags as they came. Before 3.1.1 they must be ignored.
    pub flags: RequestFlags,
    /// `\\server\share`.
    pub path: Utf16<'a>,
    /// The contexts of the extension, if it is present.
    pub contexts: Contexts<'a>,
}

impl<'a> Request<'a> {
    /// A request without the extension.
    #[must_use]
    pub fn new(path: Utf16<'a>) -> Self {
        Request { flags: RequestFlags::empty(), path, contexts: Contexts::EMPTY }
    }

    /// Parses a message from its header on. The flags and `is_311`, the dialect of the connection, say
    /// whether the extension is present.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8], is_311: bool) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "TREE_CONNECT request", 9)?;
        let flags = RequestFlags::from_bits_retain(r.u16("Flags")?);
        let offset = r.u16("PathOffset")?;
        let length = r.u16("PathLength")?;
        if !(is_311 && flags.contains(RequestFlags::EXTENSION_PRESENT)) {
            let path = r.name(offset.into(), length.into(), "PathOffset")?;
            return Ok(Request { flags, path, contexts: Contexts::EMPTY });
        }
        let context_offset = r.u32("TreeConnectContextOffset")? as usize;
        let count = r.u16("TreeConnectContextCount")?;
        r.skip(10, "Reserved")?;
        let r = r.variable_from(HEADER + 8 + 16);
        let path = r.name(offset.into(), length.into(), "PathOffset")?;
        // MS-SMB2 2.2.9.1 counts this offset from the request, not from the header before it.
        let at = HEADER.saturating_add(context_offset);
        let bytes = if count == 0 { Some(&[][..]) } else { message.get(at..) };
        let bytes = bytes.ok_or(r.wrong("TreeConnectContextOffset"))?;
        Ok(Request { flags, path, contexts: Contexts { bytes, count } })
    }

    /// Appends the body, with the extension if the flags say so.
    pub fn write(&self, out: &mut Vec<u8>) {
        let extended = self.flags.contains(RequestFlags::EXTENSION_PRESENT);
        let mut w = Writer::new(out);
        w.u16_le(9);
        w.u16_le(self.flags.bits());
        w.u16_le((HEADER + if extended { 24 } else { 8 }) as u16);
        w.u16_le(self.path.as_bytes().len() as u16);
        if extended {
            w.u32_le(0);
            w.u16_le(self.contexts.count);
            w.zeros(10);
        }
        w.bytes(self.path.as_bytes());
        if extended && self.contexts.count > 0 {
            w.align(8);
            w.patch_u32_le(8, w.position() as u32);
            w.bytes(self.contexts.bytes);
        }
    }

    /// The bytes that count for the credit charge: none.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        0
    }

    /// The name of the share: the part after the last backslash of the path.
    #[must_use]
    pub fn share(&self) -> Utf16<'a> {
        let start = self.path.units().rposition(|unit| unit == u16::from(b'\\')).map_or(0, |at| at + 1);
        Utf16::new(&self.path.as_bytes()[start * 2..]).unwrap_or_default()
    }
}

/// The contexts of a request's extension (MS-SMB2 2.2.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contexts<'a> {
    /// The bytes from the first context on.
    pub bytes: &'a [u8],
    /// The stated number of contexts.
    pub count: u16,
}

/// The type of the only defined context. It has the identity of a user.
pub const REMOTED_IDENTITY: u16 = 0x0001;

impl<'a> Contexts<'a> {
    /// No contexts.
    pub const EMPTY: Contexts<'static> = Contexts { bytes: &[], count: 0 };

    /// Type and data of each context. The iterator ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<(u16, &'a [u8]), Malformed>> + use<'a> {
        let (bytes, mut left, mut at) = (self.bytes, self.count, 0usize);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let read = || {
                let mut r = FieldReader::new(bytes.get(at..).unwrap_or_default(), "TREE_CONNECT_CONTEXT");
                let context_type = r.u16("ContextType")?;
                let length = usize::from(r.u16("DataLength")?);
                r.skip(4, "Reserved")?;
                Ok((context_type, r.bytes(length, "DataLength")?))
            };
            let found = read();
            match &found {
                Ok((_, data)) => at += (8 + data.len()).next_multiple_of(8),
                Err(_) => left = 0,
            }
            Some(found)
        })
    }
}

/// TREE_CONNECT response (MS-SMB2 2.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The type of the share.
    pub share_type: ShareType,
    /// Its properties.
    pub share_flags: ShareFlags,
    /// Its capabilities.
    pub capabilities: ShareCapabilities,
    /// The most access that the share's permissions allow to the user.
    pub maximal_access: Access,
}

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "TREE_CONNECT response", 16)?;
        let share_type = ShareType::new(r.u8("ShareType")?);
        r.skip(1, "Reserved")?;
        Ok(Response {
            share_type,
            share_flags: ShareFlags::from_bits_retain(r.u32("ShareFlags")?),
            capabilities: ShareCapabilities::from_bits_retain(r.u32("Capabilities")?),
            maximal_access: Access::from_bits_retain(r.u32("MaximalAccess")?),
        })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(16);
        w.u8(self.share_type.get());
        w.u8(0);
        w.u32_le(self.share_flags.bits());
        w.u32_le(self.capabilities.bits());
        w.u32_le(self.maximal_access.bits());
    }
}
