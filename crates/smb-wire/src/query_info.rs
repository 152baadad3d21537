//! QUERY_INFO: queries attributes of a file or a volume, a security descriptor or quotas (MS-SMB2 2.2.37 and
//! 2.2.38).

use crate::id::FileId;
use crate::macros::{wire_enum, wire_flags};
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use wire::Writer;

pub use crate::output::Response;

wire_enum! {
    /// The kind of information (MS-SMB2 2.2.37).
    pub enum InfoType: u8 {
        File = 0x01,
        Filesystem = 0x02,
        Security = 0x03,
        Quota = 0x04,
    }
}

wire_flags! {
    /// Parts of a security descriptor (MS-SMB2 2.2.37, AdditionalInformation).
    pub struct SecurityInformation: u32 {
        OWNER = 0x0000_0001,
        GROUP = 0x0000_0002,
        DACL = 0x0000_0004,
        SACL = 0x0000_0008,
        LABEL = 0x0000_0010,
        ATTRIBUTE = 0x0000_0020,
        SCOPE = 0x0000_0040,
        BACKUP = 0x0001_0000,
    }
}

wire_flags! {
    /// Flags of a query for extended attributes (MS-SMB2 2.2.37).
    pub struct QueryInfoFlags: u32 {
        RESTART_SCAN = 0x0000_0001,
        RETURN_SINGLE_ENTRY = 0x0000_0002,
        INDEX_SPECIFIED = 0x0000_0004,
    }
}

/// QUERY_INFO request (MS-SMB2 2.2.37).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The kind of information.
    pub info_type: InfoType,
    /// The class of MS-FSCC 2.4 or 2.5.
    pub file_info_class: u8,
    /// The most bytes of the response.
    pub output_buffer_length: u32,
    /// [`SecurityInformation`] bits, or the index of an extended attribute.
    pub additional_information: u32,
    /// Flags of a query for extended attributes.
    pub flags: QueryInfoFlags,
    /// The Open.
    pub file_id: FileId,
    /// The requested extended attributes or quotas.
    pub input_buffer: &'a [u8],
}

impl<'a> Request<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "QUERY_INFO request", 41)?;
        let info_type = InfoType::new(r.u8("InfoType")?);
        let file_info_class = r.u8("FileInfoClass")?;
        let output_buffer_length = r.u32("OutputBufferLength")?;
        let offset = r.u16("InputBufferOffset")?;
        r.skip(2, "Reserved")?;
        let length = r.u32("InputBufferLength")? as usize;
        let additional_information = r.u32("AdditionalInformation")?;
        let flags = QueryInfoFlags::from_bits_retain(r.u32("Flags")?);
        let file_id = r.file_id("FileId")?;
        let input_buffer = r.window(offset.into(), length, "InputBufferOffset")?;
        Ok(Request {
            info_type,
            file_info_class,
            output_buffer_length,
            additional_information,
            flags,
            file_id,
            input_buffer,
        })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(41);
        w.u8(self.info_type.get());
        w.u8(self.file_info_class);
        w.u32_le(self.output_buffer_length);
        w.u16_le(if self.input_buffer.is_empty() { 0 } else { HEADER as u16 + 40 });
        w.u16_le(0);
        w.u32_le(self.input_buffer.len() as u32);
        w.u32_le(self.additional_information);
        w.u32_le(self.flags.bits());
        self.file_id.write(&mut w);
        // The variable part has at least one byte.
        w.bytes(if self.input_buffer.is_empty() { &[0] } else { self.input_buffer });
    }

    /// The requested parts of the security descriptor, if it is such a query.
    #[must_use]
    pub fn security_information(&self) -> SecurityInformation {
        SecurityInformation::from_bits_retain(self.additional_information)
    }

    /// The bytes that count for the credit charge.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.output_buffer_length.max(self.input_buffer.len() as u32)
    }
}

/// The input buffer of a quota query (MS-SMB2 2.2.37.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryQuotaInfo<'a> {
    /// Whether to return only one entry.
    pub return_single: bool,
    /// Whether to begin at the first entry.
    pub restart_scan: bool,
    /// The requested entries.
    pub sids: QuotaSids<'a>,
}

/// The requested quota entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuotaSids<'a> {
    /// All entries.
    All,
    /// Those of a FILE_GET_QUOTA_INFORMATION list (MS-FSCC 2.4.41.1).
    List(&'a [u8]),
    /// Those from this SID on.
    From(&'a [u8]),
}

impl<'a> QueryQuotaInfo<'a> {
    /// Parses the input buffer of a quota query.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or points outside, or both forms of SIDs are present.
    pub fn parse(buffer: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(buffer, "SMB2_QUERY_QUOTA_INFO");
        let return_single = r.u8("ReturnSingle")? != 0;
        let restart_scan = r.u8("RestartScan")? != 0;
        r.skip(2, "Reserved")?;
        let list_length = r.u32("SidListLength")? as usize;
        let start_length = r.u32("StartSidLength")? as usize;
        let start_offset = r.u32("StartSidOffset")? as usize;
        let sids = FieldReader::new(r.rest(), "SMB2_QUERY_QUOTA_INFO");
        let sids = match (list_length, start_length) {
            (0, 0) => QuotaSids::All,
            (_, 0) => QuotaSids::List(sids.window(0, list_length, "SidListLength")?),
            (0, _) => QuotaSids::From(sids.window(start_offset, start_length, "StartSidOffset")?),
            _ => return Err(sids.wrong("StartSidLength")),
        };
        Ok(QueryQuotaInfo { return_single, restart_scan, sids })
    }

    /// Appends the structure.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (list, start): (&[u8], &[u8]) = match self.sids {
            QuotaSids::All => (&[], &[]),
            QuotaSids::List(list) => (list, &[]),
            QuotaSids::From(sid) => (&[], sid),
        };
        let mut w = Writer::new(out);
        w.u8(self.return_single.into());
        w.u8(self.restart_scan.into());
        w.u16_le(0);
        w.u32_le(list.len() as u32);
        w.u32_le(start.len() as u32);
        w.u32_le(0);
        w.bytes(list);
        w.bytes(start);
    }
}
