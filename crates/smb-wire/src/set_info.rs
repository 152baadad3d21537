//! SET_INFO: changes attributes of a file or a volume, a security descriptor or quotas (MS-SMB2 2.2.39 and
//! 2.2.40).

use crate::fscc::FileInfoClass;
use crate::id::FileId;
use crate::malformed::Malformed;
use crate::query_info::{InfoType, SecurityInformation};
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

/// SET_INFO request (MS-SMB2 2.2.39).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The kind of information.
    pub info_type: InfoType,
    /// The class of MS-FSCC 2.4 or 2.5.
    pub file_info_class: u8,
    /// [`SecurityInformation`] bits.
    pub additional_information: u32,
    /// The Open.
    pub file_id: FileId,
    /// The information.
    pub buffer: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request that sets a class of information about a file.
    #[must_use]
    pub fn of_file(class: FileInfoClass, file_id: FileId, buffer: &'a [u8]) -> Self {
        let (info_type, file_info_class) = (InfoType::File, class.0);
        Request { info_type, file_info_class, additional_information: 0, file_id, buffer }
    }

    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "SET_INFO request", 33)?;
        let info_type = InfoType::new(r.u8("InfoType")?);
        let file_info_class = r.u8("FileInfoClass")?;
        let length = r.u32("BufferLength")? as usize;
        let offset = r.u16("BufferOffset")?;
        r.skip(2, "Reserved")?;
        let additional_information = r.u32("AdditionalInformation")?;
        let file_id = r.file_id("FileId")?;
        let buffer = r.window(offset.into(), length, "BufferOffset")?;
        Ok(Request { info_type, file_info_class, additional_information, file_id, buffer })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(33);
        w.u8(self.info_type.get());
        w.u8(self.file_info_class);
        w.u32_le(self.buffer.len() as u32);
        w.u16_le(HEADER as u16 + 32);
        w.u16_le(0);
        w.u32_le(self.additional_information);
        self.file_id.write(&mut w);
        w.bytes(self.buffer);
    }

    /// The parts of the security descriptor to set, if it is such a request.
    #[must_use]
    pub fn security_information(&self) -> SecurityInformation {
        SecurityInformation::from_bits_retain(self.additional_information)
    }

    /// The bytes that count for the credit charge.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.buffer.len() as u32
    }
}

/// SET_INFO response (MS-SMB2 2.2.40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response;

impl Response {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if the body is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        FieldReader::body(message, "SET_INFO response", 2).map(|_| Response)
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        Writer::new(out).u16_le(2);
    }
}
