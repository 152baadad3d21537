//! READ: reads bytes of a file or pipe (MS-SMB2 2.2.19 and 2.2.20).
//!
//! On the hot path the data is already in the frame. [`Response::write_fixed`] then writes the
//! [`RESPONSE_FIXED`] bytes before it.

use crate::id::FileId;
use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

/// The size of the fields before the data of a response, in bytes.
pub const RESPONSE_FIXED: usize = 16;

wire_enum! {
    /// The path of the data (MS-SMB2 2.2.19 and 2.2.21).
    pub enum Channel: u32 {
        None = 0x0000_0000,
        RdmaV1 = 0x0000_0001,
        RdmaV1Invalidate = 0x0000_0002,
        RdmaTransform = 0x0000_0003,
    }
}

wire_flags! {
    /// Flags of a request (MS-SMB2 2.2.19).
    pub struct RequestFlags: u8 {
        READ_UNBUFFERED = 0x01,
        REQUEST_COMPRESSED = 0x02,
    }
}

/// READ request (MS-SMB2 2.2.19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The offset from the response's header where the client prefers the data.
    pub padding: u8,
    /// Hints.
    pub flags: RequestFlags,
    /// The number of bytes to read.
    pub length: u32,
    /// The offset in the file.
    pub offset: u64,
    /// The Open.
    pub file_id: FileId,
    /// A read of fewer bytes fails (END_OF_FILE).
    pub minimum_count: u32,
    /// The path of the data.
    pub channel: Channel,
    /// Bytes to read over the channel.
    pub remaining_bytes: u32,
    /// The description of the channel. It is empty if `channel` is none or it would be outside the message.
    /// That is not an error, since dialects before 3.0 ignore the channel.
    pub channel_info: &'a [u8],
}

impl<'a> Request<'a> {
    /// A plain read into the frame.
    #[must_use]
    pub fn new(file_id: FileId, offset: u64, length: u32) -> Self {
        Request {
            padding: (HEADER + RESPONSE_FIXED) as u8,
            flags: RequestFlags::empty(),
            length,
            offset,
            file_id,
            minimum_count: 0,
            channel: Channel::None,
            remaining_bytes: 0,
            channel_info: &[],
        }
    }

    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "READ request", 49)?;
        let padding = r.u8("Padding")?;
        let flags = RequestFlags::from_bits_retain(r.u8("Flags")?);
        let length = r.u32("Length")?;
        let offset = r.u64("Offset")?;
        let file_id = r.file_id("FileId")?;
        let minimum_count = r.u32("MinimumCount")?;
        let channel = Channel::new(r.u32("Channel")?);
        let remaining_bytes = r.u32("RemainingBytes")?;
        let info_offset = r.u16("ReadChannelInfoOffset")?;
        let info_length = r.u16("ReadChannelInfoLength")?;
        let channel_info = match channel {
            Channel::None => &[],
            _ => {
                r.window(info_offset.into(), info_length.into(), "ReadChannelInfoOffset").unwrap_or_default()
            }
        };
        Ok(Request {
            padding,
            flags,
            length,
            offset,
            file_id,
            minimum_count,
            channel,
            remaining_bytes,
            channel_info,
        })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(49);
        w.u8(self.padding);
        w.u8(self.flags.bits());
        w.u32_le(self.length);
        w.u64_le(self.offset);
        self.file_id.write(&mut w);
        w.u32_le(self.minimum_count);
        w.u32_le(self.channel.get());
        w.u32_le(self.remaining_bytes);
        let info = if self.channel_info.is_empty() { 0 } else { HEADER as u16 + 48 };
        w.u16_le(info);
        w.u16_le(self.channel_info.len() as u16);
        // The variable part has at least one byte.
        w.bytes(if self.channel_info.is_empty() { &[0] } else { self.channel_info });
    }

    /// The bytes that count for the credit charge.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.length.max(self.channel_info.len() as u32)
    }
}

/// READ response (MS-SMB2 2.2.20).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// Bytes sent over the channel of the request. It is zero in a plain read.
    pub data_remaining: u32,
    /// 0x00000001 if the data is an RDMA transform (3.1.1).
    pub flags: u32,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> Response<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "READ response", 17)?;
        let data_offset = r.u8("DataOffset")?;
        r.skip(1, "Reserved")?;
        let data_length = r.u32("DataLength")?;
        let data_remaining = r.u32("DataRemaining")?;
        let flags = r.u32("Flags")?;
        let data = r.window(data_offset.into(), data_length as usize, "DataOffset")?;
        Ok(Response { data_remaining, flags, data })
    }

    /// Writes the fields of a plain read. `data_length` bytes follow them.
    #[inline]
    pub fn write_fixed(buffer: &mut [u8; RESPONSE_FIXED], data_length: u32) {
        Response::write_fixed_padded(buffer, data_length, 0);
    }

    /// Writes the same fields with `padding` bytes between them and the data.
    #[inline]
    pub fn write_fixed_padded(buffer: &mut [u8; RESPONSE_FIXED], data_length: u32, padding: u8) {
        *buffer = [0; RESPONSE_FIXED];
        buffer[0] = 17;
        buffer[2] = ((HEADER + RESPONSE_FIXED) as u8).saturating_add(padding);
        buffer[4..8].copy_from_slice(&data_length.to_le_bytes());
    }

    /// Appends the body, with a copy of the data.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(17);
        w.u8((HEADER + RESPONSE_FIXED) as u8);
        w.u8(0);
        w.u32_le(self.data.len() as u32);
        w.u32_le(self.data_remaining);
        w.u32_le(self.flags);
        w.bytes(self.data);
    }
}
