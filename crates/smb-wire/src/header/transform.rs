//! The header of a sealed frame (MS-SMB2 2.2.41), and the first fields of a compressed one (2.2.42).

use crate::malformed::Malformed;
use crate::reader::FieldReader;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The size of the transform header, in bytes.
pub const SIZE: usize = 52;

/// The first four bytes of a sealed frame.
pub const PROTOCOL_ID: [u8; 4] = *b"\xfdSMB";

/// The first four bytes of a compressed frame.
pub const COMPRESSION_PROTOCOL_ID: [u8; 4] = *b"\xfcSMB";

/// The offset of the seal's associated data in the header: the part after the signature (MS-SMB2 3.1.4.3).
pub const ASSOCIATED_DATA_OFFSET: usize = 20;

/// The 52 bytes before a sealed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct TransformHeader {
    protocol_id: [u8; 4],
    signature: [u8; 16],
    nonce: [u8; 16],
    original_message_size: U32,
    reserved: U16,
    flags: U16,
    session_id: U64,
}

const _: () = assert!(size_of::<TransformHeader>() == SIZE);

impl TransformHeader {
    /// Flags in 3.1.1, EncryptionAlgorithm before it. The value 1 means a sealed frame in both.
    pub const ENCRYPTED: u16 = 0x0001;

    /// A header for `original_message_size` bytes of session `session_id`, without nonce and signature.
    #[must_use]
    pub fn new(session_id: u64, original_message_size: u32) -> Self {
        TransformHeader {
            protocol_id: PROTOCOL_ID,
            signature: [0; 16],
            nonce: [0; 16],
            original_message_size: U32::new(original_message_size),
            reserved: U16::ZERO,
            flags: U16::new(Self::ENCRYPTED),
            session_id: U64::new(session_id),
        }
    }

    /// The header at the start of `frame`, and the sealed bytes after it.
    ///
    /// # Errors
    /// [`Malformed`] if the frame is too short, is not sealed, is marked as not encrypted, or has a wrong
    /// OriginalMessageSize.
    pub fn parse(frame: &[u8]) -> Result<(&TransformHeader, &[u8]), Malformed> {
        let wrong = |field| Malformed::new("SMB2 TRANSFORM_HEADER", field);
        let (header, sealed) = TransformHeader::ref_from_prefix(frame).map_err(|_| wrong("length"))?;
        if header.protocol_id != PROTOCOL_ID {
            return Err(wrong("ProtocolId"));
        }
        // MS-SMB2 3.3.5.2.1.1
        if header.flags.get() != Self::ENCRYPTED {
            return Err(wrong("Flags"));
        }
        if sealed.len() != header.original_message_size.get() as usize {
            return Err(wrong("OriginalMessageSize"));
        }
        Ok((header, sealed))
    }

    /// Writes the header into 52 bytes of a frame.
    #[inline]
    pub fn write(&self, header_bytes: &mut [u8; SIZE]) {
        header_bytes.copy_from_slice(self.as_bytes());
    }

    /// The authentication tag.
    #[inline]
    #[must_use]
    pub fn signature(&self) -> &[u8; 16] {
        &self.signature
    }

    /// The nonce field. GCM uses its first 12 bytes, CCM its first 11.
    #[inline]
    #[must_use]
    pub fn nonce(&self) -> &[u8; 16] {
        &self.nonce
    }

    /// The size of the message before sealing, in bytes.
    #[inline]
    #[must_use]
    pub fn original_message_size(&self) -> u32 {
        self.original_message_size.get()
    }

    /// The session whose keys seal the message.
    #[inline]
    #[must_use]
    pub fn session_id(&self) -> u64 {
        self.session_id.get()
    }

    /// The part of the header that the seal covers too.
    #[inline]
    #[must_use]
    pub fn associated_data(&self) -> &[u8] {
        &self.as_bytes()[ASSOCIATED_DATA_OFFSET..]
    }

    /// Sets the authentication tag.
    #[inline]
    pub fn set_signature(&mut self, signature: [u8; 16]) {
        self.signature = signature;
    }

    /// Sets the nonce field. The bytes that the cipher does not use must be zero.
    #[inline]
    pub fn set_nonce(&mut self, nonce: [u8; 16]) {
        self.nonce = nonce;
    }
}

/// The first fields of both forms of the compression header. They are enough to refuse the frame and to log
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompressionHeader {
    /// The size of the segment before compression, in bytes.
    pub original_compressed_segment_size: u32,
    /// The algorithm (of the first payload, in the chained form).
    pub compression_algorithm: crate::negotiate::CompressionAlgorithm,
    /// 0x0001 for the chained form.
    pub flags: u16,
}

impl CompressionHeader {
    /// The header at the start of `frame`.
    ///
    /// # Errors
    /// [`Malformed`] if the frame is too short or is not compressed.
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(frame, "SMB2 COMPRESSION_TRANSFORM_HEADER");
        if r.array::<4>("ProtocolId")? != COMPRESSION_PROTOCOL_ID {
            return Err(r.wrong("ProtocolId"));
        }
        Ok(CompressionHeader {
            original_compressed_segment_size: r.u32("OriginalCompressedSegmentSize")?,
            compression_algorithm: r.u16("CompressionAlgorithm")?.into(),
            flags: r.u16("Flags")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_frame_must_be_as_long_as_it_says() {
        let mut frame = vec![0; SIZE];
        TransformHeader::new(0x1122, 3).write(frame.first_chunk_mut().unwrap());
        frame.extend([1, 2, 3]);
        let (header, sealed) = TransformHeader::parse(&frame).unwrap();
        assert_eq!((header.session_id(), sealed), (0x1122, &[1, 2, 3][..]));
        assert_eq!(header.associated_data().len(), 32);
        frame.push(4);
        assert_eq!(TransformHeader::parse(&frame).unwrap_err().field, "OriginalMessageSize");
        frame.pop();
        frame[42] = 0;
        assert_eq!(TransformHeader::parse(&frame).unwrap_err().field, "Flags");
    }

    #[test]
    fn a_compressed_frame_is_recognised() {
        let frame = *b"\xfcSMB\x70\0\0\0\x02\0\x01\0\x10\0\0\0";
        let header = CompressionHeader::parse(&frame).unwrap();
        assert_eq!(header.original_compressed_segment_size, 0x70);
        assert_eq!(header.compression_algorithm, crate::negotiate::CompressionAlgorithm::Lz77);
        assert_eq!(header.flags, 1);
    }
}
