//! The negotiate contexts of dialect 3.1.1 (MS-SMB2 2.2.3.1 and 2.2.4.1).
//!
//! [`Contexts`] is the list in a message, or the values for one. [`Context`] is one of its contexts.

use crate::list::WireList;
use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use crate::utf16::Utf16;
use std::fmt;
use wire::Writer;

const STRUCTURE: &str = "NEGOTIATE_CONTEXT";

wire_enum! {
    /// The type of a context (MS-SMB2 2.2.3.1).
    pub enum ContextType: u16 {
        PreauthIntegrity = 0x0001,
        Encryption = 0x0002,
        Compression = 0x0003,
        Netname = 0x0005,
        Transport = 0x0006,
        RdmaTransform = 0x0007,
        Signing = 0x0008,
        /// Reserved in MS-SMB2. Clients and servers with POSIX extensions use it.
        Posix = 0x0100,
    }
}

wire_enum! {
    /// A hash for pre-authentication integrity (MS-SMB2 2.2.3.1.1).
    pub enum HashAlgorithm: u16 {
        Sha512 = 0x0001,
    }
}

wire_enum! {
    /// A cipher (MS-SMB2 2.2.3.1.2).
    pub enum Cipher: u16 {
        Aes128Ccm = 0x0001,
        Aes128Gcm = 0x0002,
        Aes256Ccm = 0x0003,
        Aes256Gcm = 0x0004,
    }
}

wire_enum! {
    /// A compression algorithm (MS-SMB2 2.2.3.1.3).
    pub enum CompressionAlgorithm: u16 {
        None = 0x0000,
        Lznt1 = 0x0001,
        Lz77 = 0x0002,
        Lz77Huffman = 0x0003,
        PatternV1 = 0x0004,
        Lz4 = 0x0005,
    }
}

wire_flags! {
    /// Whether compression can be chained (MS-SMB2 2.2.3.1.3).
    pub struct CompressionFlags: u32 {
        CHAINED = 0x0000_0001,
    }
}

wire_flags! {
    /// The capabilities of the transport (MS-SMB2 2.2.3.1.5).
    pub struct TransportFlags: u32 {
        ACCEPT_TRANSPORT_LEVEL_SECURITY = 0x0000_0001,
    }
}

wire_enum! {
    /// A transform of data over RDMA (MS-SMB2 2.2.3.1.6).
    pub enum RdmaTransform: u16 {
        None = 0x0000,
        Encryption = 0x0001,
        Signing = 0x0002,
    }
}

wire_enum! {
    /// A signing algorithm (MS-SMB2 2.2.3.1.7).
    pub enum SigningAlgorithm: u16 {
        HmacSha256 = 0x0000,
        AesCmac = 0x0001,
        AesGmac = 0x0002,
    }
}

/// The GUID in the POSIX context: the version of the extensions that both sides use.
pub const POSIX_GUID: [u8; 16] =
    [0x93, 0xad, 0x25, 0x50, 0x9c, 0xb4, 0x11, 0xe7, 0xb4, 0x23, 0x83, 0xde, 0x96, 0x8b, 0xcd, 0x7c];

/// One negotiate context with its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context<'a> {
    /// SMB2_PREAUTH_INTEGRITY_CAPABILITIES.
    PreauthIntegrity {
        /// The offered hashes, or the chosen one.
        hash_algorithms: WireList<'a, HashAlgorithm>,
        /// Random bytes.
        salt: &'a [u8],
    },
    /// SMB2_ENCRYPTION_CAPABILITIES: ciphers in order of preference, or the chosen one.
    Encryption(WireList<'a, Cipher>),
    /// SMB2_COMPRESSION_CAPABILITIES.
    Compression {
        /// Whether compression can be chained.
        flags: CompressionFlags,
        /// The algorithms in order of preference.
        algorithms: WireList<'a, CompressionAlgorithm>,
    },
    /// SMB2_NETNAME_NEGOTIATE_CONTEXT_ID: the server name that the client connects to.
    Netname(Utf16<'a>),
    /// SMB2_TRANSPORT_CAPABILITIES.
    Transport(TransportFlags),
    /// SMB2_RDMA_TRANSFORM_CAPABILITIES.
    RdmaTransform(WireList<'a, RdmaTransform>),
    /// SMB2_SIGNING_CAPABILITIES: algorithms in order of preference, or the chosen one.
    Signing(WireList<'a, SigningAlgorithm>),
    /// The POSIX extensions. The data is [`POSIX_GUID`] if both sides use the same version.
    Posix(&'a [u8]),
    /// A context to be ignored: its type is unknown, or its data is invalid and not needed.
    Unknown {
        /// Its type.
        context_type: u16,
        /// Its data.
        data: &'a [u8],
    },
}

impl<'a> Context<'a> {
    /// The type of the context.
    #[must_use]
    pub fn context_type(&self) -> ContextType {
        match *self {
            Context::PreauthIntegrity { .. } => ContextType::PreauthIntegrity,
            Context::Encryption(_) => ContextType::Encryption,
            Context::Compression { .. } => ContextType::Compression,
            Context::Netname(_) => ContextType::Netname,
            Context::Transport(_) => ContextType::Transport,
            Context::RdmaTransform(_) => ContextType::RdmaTransform,
            Context::Signing(_) => ContextType::Signing,
            Context::Posix(_) => ContextType::Posix,
            Context::Unknown { context_type, .. } => ContextType::new(context_type),
        }
    }

    /// Parses the data of a context of type `context_type`. A server must ignore contexts of features that
    /// it does not support. If the data of such a context is malformed, it becomes [`Context::Unknown`] with
    /// that type.
    ///
    /// # Errors
    /// [`Malformed`] if a list is longer than the data, or is empty although MS-SMB2 requires an element.
    // MS-SMB2 3.3.5.4
    pub fn parse(context_type: ContextType, data: &'a [u8]) -> Result<Self, Malformed> {
        let is_optional = matches!(
            context_type,
            ContextType::Compression
                | ContextType::Netname
                | ContextType::Transport
                | ContextType::RdmaTransform
        );
        match Context::parse_strictly(context_type, data) {
            Err(_) if is_optional => Ok(Context::Unknown { context_type: context_type.get(), data }),
            parsed => parsed,
        }
    }

    fn parse_strictly(context_type: ContextType, data: &'a [u8]) -> Result<Self, Malformed> {
        match context_type {
            ContextType::PreauthIntegrity => {
                let mut r = FieldReader::new(data, "SMB2_PREAUTH_INTEGRITY_CAPABILITIES");
                let count = r.u16("HashAlgorithmCount")?;
                let salt_length = r.u16("SaltLength")?;
                // MS-SMB2 3.3.5.4
                if count == 0 {
                    return Err(r.wrong("HashAlgorithmCount"));
                }
                let hash_algorithms = WireList::Wire(r.bytes(usize::from(count) * 2, "HashAlgorithms")?);
                let salt = r.bytes(salt_length.into(), "Salt")?;
                Ok(Context::PreauthIntegrity { hash_algorithms, salt })
            }
            ContextType::Encryption => {
                let mut r = FieldReader::new(data, "SMB2_ENCRYPTION_CAPABILITIES");
                Ok(Context::Encryption(ids(&mut r, "CipherCount", "Ciphers", 0)?))
            }
            ContextType::Compression => {
                let mut r = FieldReader::new(data, "SMB2_COMPRESSION_CAPABILITIES");
                let count = r.u16("CompressionAlgorithmCount")?;
                r.skip(2, "Padding")?;
                let flags = CompressionFlags::from_bits_retain(r.u32("Flags")?);
                // MS-SMB2 3.3.5.4
                if count == 0 {
                    return Err(r.wrong("CompressionAlgorithmCount"));
                }
                let algorithms = WireList::Wire(r.bytes(usize::from(count) * 2, "CompressionAlgorithms")?);
                Ok(Context::Compression { flags, algorithms })
            }
            ContextType::Netname => {
                let name = Utf16::new(data).ok_or(Malformed::new(STRUCTURE, "NetName"))?;
                Ok(Context::Netname(name))
            }
            ContextType::Transport => {
                let mut r = FieldReader::new(data, "SMB2_TRANSPORT_CAPABILITIES");
                Ok(Context::Transport(TransportFlags::from_bits_retain(r.u32("Flags")?)))
            }
            ContextType::RdmaTransform => {
                let mut r = FieldReader::new(data, "SMB2_RDMA_TRANSFORM_CAPABILITIES");
                Ok(Context::RdmaTransform(ids(&mut r, "TransformCount", "RDMATransformIds", 6)?))
            }
            ContextType::Signing => {
                let mut r = FieldReader::new(data, "SMB2_SIGNING_CAPABILITIES");
                Ok(Context::Signing(ids(&mut r, "SigningAlgorithmCount", "SigningAlgorithms", 0)?))
            }
            ContextType::Posix => Ok(Context::Posix(data)),
            ContextType::Unknown(context_type) => Ok(Context::Unknown { context_type, data }),
        }
    }

    fn write_data(&self, w: &mut Writer<'_>) {
        match self {
            Context::PreauthIntegrity { hash_algorithms, salt } => {
                w.u16_le(hash_algorithms.len() as u16);
                w.u16_le(salt.len() as u16);
                hash_algorithms.write(w);
                w.bytes(salt);
            }
            Context::Encryption(ciphers) => {
                w.u16_le(ciphers.len() as u16);
                ciphers.write(w);
            }
            Context::Compression { flags, algorithms } => {
                w.u16_le(algorithms.len() as u16);
                w.u16_le(0);
                w.u32_le(flags.bits());
                algorithms.write(w);
            }
            Context::Netname(name) => w.bytes(name.as_bytes()),
            Context::Transport(flags) => w.u32_le(flags.bits()),
            Context::RdmaTransform(transforms) => {
                w.u16_le(transforms.len() as u16);
                w.zeros(6);
                transforms.write(w);
            }
            Context::Signing(algorithms) => {
                w.u16_le(algorithms.len() as u16);
                algorithms.write(w);
            }
            Context::Posix(data) | Context::Unknown { data, .. } => w.bytes(data),
        }
    }
}

/// A 16-bit count, `skip` reserved bytes and that many 16-bit ids. An empty list is an error.
fn ids<'a, T>(
    r: &mut FieldReader<'a>,
    count_field: &'static str,
    list_field: &'static str,
    skip: usize,
) -> Result<WireList<'a, T>, Malformed> {
    let count = r.u16(count_field)?;
    r.skip(skip, "Reserved")?;
    // MS-SMB2 3.3.5.4
    if count == 0 {
        return Err(r.wrong(count_field));
    }
    Ok(WireList::Wire(r.bytes(usize::from(count) * 2, list_field)?))
}

/// The list of contexts of a message.
#[derive(Clone, Copy)]
pub enum Contexts<'a> {
    /// The bytes in a message.
    Wire {
        /// The bytes from the first context to the end of the message.
        bytes: &'a [u8],
        /// The stated number of contexts.
        count: u16,
    },
    /// The values to write.
    Values(&'a [Context<'a>]),
}

impl<'a> Contexts<'a> {
    /// No contexts.
    pub const EMPTY: Contexts<'static> = Contexts::Values(&[]);

    /// The list that begins at `offset` of `message`.
    pub(super) fn at(message: &'a [u8], offset: u32, count: u16) -> Result<Self, Malformed> {
        if count == 0 {
            return Ok(Contexts::Wire { bytes: &[], count });
        }
        let wrong = Malformed::new("NEGOTIATE", "NegotiateContextOffset");
        let offset = usize::try_from(offset).map_err(|_| wrong)?;
        // MS-SMB2 2.2.3
        if offset < HEADER || !offset.is_multiple_of(8) {
            return Err(wrong);
        }
        let bytes = message.get(offset..).ok_or(wrong)?;
        Ok(Contexts::Wire { bytes, count })
    }

    /// The number of contexts, without a parse.
    #[must_use]
    pub fn count(&self) -> usize {
        match self {
            Contexts::Wire { count, .. } => usize::from(*count),
            Contexts::Values(values) => values.len(),
        }
    }

    /// The contexts in order. The iterator ends after an error.
    #[must_use]
    pub fn iter(&self) -> Iter<'a> {
        Iter { list: *self, index: 0, at: 0 }
    }

    /// Appends all contexts, each on a boundary of eight bytes. Returns their number.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> u16 {
        let mut count = 0;
        for context in self.iter().map_while(Result::ok) {
            w.align(8);
            let start = w.position();
            w.u16_le(context.context_type().get());
            w.u16_le(0);
            w.u32_le(0);
            context.write_data(w);
            w.patch_u16_le(start + 2, (w.position() - start - 8) as u16);
            count += 1;
        }
        count
    }
}

impl fmt::Debug for Contexts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq for Contexts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Contexts<'_> {}

/// Reads the contexts of a [`Contexts`].
#[derive(Clone)]
pub struct Iter<'a> {
    list: Contexts<'a>,
    index: usize,
    at: usize,
}

impl<'a> Iter<'a> {
    fn read(&mut self, bytes: &'a [u8]) -> Result<Context<'a>, Malformed> {
        let rest = bytes.get(self.at..).ok_or(Malformed::new(STRUCTURE, "NegotiateContextCount"))?;
        let mut r = FieldReader::new(rest, STRUCTURE);
        let context_type = ContextType::new(r.u16("ContextType")?);
        let length = usize::from(r.u16("DataLength")?);
        r.skip(4, "Reserved")?;
        let data = r.bytes(length, "DataLength")?;
        self.at += (8 + length).next_multiple_of(8);
        Context::parse(context_type, data)
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<Context<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.index >= self.list.count() {
            return None;
        }
        self.index += 1;
        match self.list {
            Contexts::Values(values) => Some(Ok(values[self.index - 1])),
            Contexts::Wire { bytes, count } => {
                let read = self.read(bytes);
                if read.is_err() {
                    self.index = usize::from(count);
                }
                Some(read)
            }
        }
    }
}
