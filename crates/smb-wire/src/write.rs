//! WRITE: writes bytes to a file or pipe (MS-SMB2 2.2.21 and 2.2.22).

use crate::id::FileId;
use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::read::Channel;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

/// The size of the fields before the data of a request, in bytes.
pub const REQUEST_FIXED: usize = 48;

/// The size of the body of a response, in bytes.
pub const RESPONSE_FIXED: usize = 16;

wire_flags! {
    /// Flags of a request (MS-SMB2 2.2.21).
    pub struct WriteFlags: u32 {
        WRITE_THROUGH = 0x0000_0001,
        WRITE_UNBUFFERED = 0x0000_0002,
    }
}

/// WRITE request (MS-SMB2 2.2.21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The offset in the file.
    pub offset: u64,
    /// The Open.
    pub file_id: FileId,
    /// The path of the data.
    pub channel: Channel,
    /// Bytes that are sent over the channel.
    pub remaining_bytes: u32,
    /// The description of the channel. It is empty if `channel` is none or it would be outside the message.
    /// That is not an error, since dialects before 3.0 ignore the channel.
    pub channel_info: &'a [u8],
    /// Hints and write-through.
    pub flags: WriteFlags,
    /// The data.
    pub data: &'a [u8],
}

impl<'a> Request<'a> {
    /// A plain write from the frame.
    #[must_use]
    pub fn new(file_id: FileId, offset: u64, data: &'a [u8]) -> Self {
        Request {
            offset,
            file_id,
            channel: Channel::None,
            remaining_bytes: 0,
            channel_info: &[],
            flags: WriteFlags::empty(),
            data,
        }
    }

    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    #[inline]
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "WRITE request", 49)?;
        let data_offset = r.u16("DataOffset")?;
        let length = r.u32("Length")?;
        let offset = r.u64("Offset")?;
        let file_id = r.file_id("FileId")?;
        let channel = Channel::new(r.u32("Channel")?);
        let remaining_bytes = r.u32("RemainingBytes")?;
        let info_offset = r.u16("WriteChannelInfoOffset")?;
        let info_length = r.u16("WriteChannelInfoLength")?;
        let flags = WriteFlags::from_bits_retain(r.u32("Flags")?);
        // MS-SMB2 3.3.5.13
        if channel == Channel::None && data_offset > 0x100 {
            return Err(r.wrong("DataOffset"));
        }
        let channel_info = match channel {
            Channel::None => &[],
            _ => {
                r.window(info_offset.into(), info_length.into(), "WriteChannelInfoOffset").unwrap_or_default()
            }
        };
        let data = r.window(data_offset.into(), length as usize, "DataOffset")?;
        Ok(Request { offset, file_id, channel, remaining_bytes, channel_info, flags, data })
    }

    /// Appends the body, with a copy of the data.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        self.fixed(&mut w, self.data.len() as u32);
        w.bytes(self.channel_info);
        w.bytes(self.data);
        if self.channel_info.is_empty() && self.data.is_empty() {
            // The variable part has at least one byte.
            w.u8(0);
        }
    }

    /// Appends only the fixed fields, for `data_length` bytes that the caller appends. It is not for a
    /// request with channel information.
    pub fn write_fixed(&self, out: &mut Vec<u8>, data_length: u32) {
        self.fixed(&mut Writer::new(out), data_length);
    }

    fn fixed(&self, w: &mut Writer<'_>, data_length: u32) {
        let info = HEADER + REQUEST_FIXED;
        w.u16_le(49);
        w.u16_le((info + self.channel_info.len()) as u16);
        w.u32_le(data_length);
        w.u64_le(self.offset);
        self.file_id.write(w);
        w.u32_le(self.channel.get());
        w.u32_le(self.remaining_bytes);
        w.u16_le(if self.channel_info.is_empty() { 0 } else { info as u16 });
        w.u16_le(self.channel_info.len() as u16);
        w.u32_le(self.flags.bits());
    }

    /// The bytes that count for the credit charge.
    #[inline]
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.data.len().max(self.channel_info.len()) as u32
    }
}

/// WRITE response (MS-SMB2 2.2.22).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The number of written bytes.
    pub count: u32,
}

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "WRITE response", 17)?;
        r.skip(2, "Reserved")?;
        Ok(Response { count: r.u32("Count")? })
    }

    /// Writes the whole body.
    #[inline]
    pub fn write_fixed(&self, buffer: &mut [u8; RESPONSE_FIXED]) {
        *buffer = [0; RESPONSE_FIXED];
        buffer[0] = 17;
        buffer[4..8].copy_from_slice(&self.count.to_le_bytes());
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = [0; RESPONSE_FIXED];
        self.write_fixed(&mut body);
        out.extend_from_slice(&body);
    }
}
