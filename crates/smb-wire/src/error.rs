//! The ERROR response, which replaces the body of a failed request's response (MS-SMB2 2.2.2).
//!
//! [`Response`] has the data of one error, inside an error context if the dialect is 3.1.1. The form of the
//! data depends on the status: [`SymbolicLink`], four bytes of [`Response::buffer_too_small`], or no data.

use crate::header::{Header, SmbCommand};
use crate::macros::wire_enum;
use crate::malformed::Malformed;
use crate::reader::{FieldReader, HEADER};
use crate::status::NtStatus;
use crate::utf16::Utf16;
use wire::Writer;

wire_enum! {
    /// The kind of an error context (MS-SMB2 2.2.2.1).
    pub enum ErrorId: u32 {
        Default = 0x0000_0000,
        ShareRedirect = 0x7264_5253,
    }
}

/// ERROR response (MS-SMB2 2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Response<'a> {
    /// The number of error contexts in the data, or zero for plain data (before 3.1.1).
    pub error_context_count: u8,
    /// The data: error contexts, or the data of one error.
    pub error_data: &'a [u8],
}

/// The body of an error without data: nine bytes. The last one only fills the variable part.
pub const EMPTY: [u8; 9] = [9, 0, 0, 0, 0, 0, 0, 0, 0];

/// Whether `message`, a response from its header on, has this body instead of its command's own (MS-SMB2
/// 3.3.4.4). An interim response, with STATUS_PENDING, has it too.
///
/// # Errors
/// [`Malformed`] if the header or the structure size after it is incomplete.
pub fn stands_in(message: &[u8]) -> Result<bool, Malformed> {
    let header = Header::parse(message)?;
    let mut r = FieldReader::new(message, "ERROR response");
    r.skip(HEADER, "header")?;
    let size = r.u16("StructureSize")?;
    if size != 9 {
        return Ok(false);
    }
    // Bodies of these commands have a structure size of nine too, so the status decides.
    Ok(match (header.command(), header.status()) {
        (_, NtStatus::PENDING) => true,
        (SmbCommand::SessionSetup, NtStatus::MORE_PROCESSING_REQUIRED) => false,
        (SmbCommand::QueryInfo, NtStatus::BUFFER_OVERFLOW) => false,
        (SmbCommand::SessionSetup | SmbCommand::QueryDirectory | SmbCommand::QueryInfo, status) => {
            !status.is_success()
        }
        // STATUS_NOTIFY_ENUM_DIR comes with an empty buffer or as an error. Both have the same layout,
        // except that an error has its count of contexts in the place of the offset.
        (SmbCommand::ChangeNotify, status) => !status.is_success() || r.u16("OutputBufferOffset")? == 0,
        _ => true,
    })
}

impl<'a> Response<'a> {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or the data is longer than the message.
    pub fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "ERROR response", 9)?;
        let error_context_count = r.u8("ErrorContextCount")?;
        r.skip(1, "Reserved")?;
        let length = r.u32("ByteCount")? as usize;
        Ok(Response { error_context_count, error_data: r.bytes(length, "ErrorData")? })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.error_data.is_empty() {
            out.extend_from_slice(&EMPTY);
            return;
        }
        let mut w = Writer::new(out);
        w.u16_le(9);
        w.u8(self.error_context_count);
        w.u8(0);
        w.u32_le(self.error_data.len() as u32);
        w.bytes(self.error_data);
    }

    /// Appends the body of an error. `fill` appends its data. `is_311` wraps the data in one error context.
    pub fn write_with(out: &mut Vec<u8>, is_311: bool, id: ErrorId, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&EMPTY[..8]);
        if is_311 {
            // MS-SMB2 2.2.2.1
            out[start + 2] = 1;
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&id.get().to_le_bytes());
            let data = out.len();
            fill(out);
            let length = (out.len() - data) as u32;
            out[data - 8..data - 4].copy_from_slice(&length.to_le_bytes());
        } else {
            fill(out);
        }
        let length = (out.len() - start - 8) as u32;
        out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    }

    /// Appends the body of STATUS_BUFFER_TOO_SMALL with the required number of bytes.
    pub fn buffer_too_small(out: &mut Vec<u8>, is_311: bool, required: u32) {
        // MS-SMB2 2.2.2.2
        let data = required.to_le_bytes();
        Self::write_with(out, is_311, ErrorId::Default, |out| out.extend_from_slice(&data));
    }

    /// Appends the body of STATUS_STOPPED_ON_SYMLINK.
    pub fn symbolic_link(out: &mut Vec<u8>, is_311: bool, link: &SymbolicLink<'_>) {
        Self::write_with(out, is_311, ErrorId::Default, |out| link.write(out));
    }

    /// The identifier and data of each error, with or without contexts. The iterator ends after an error.
    pub fn errors(&self) -> impl Iterator<Item = Result<(ErrorId, &'a [u8]), Malformed>> + use<'a> {
        let (data, wrapped) = (self.error_data, self.error_context_count > 0);
        let mut left = if wrapped { self.error_context_count } else { u8::from(!data.is_empty()) };
        let mut at = 0usize;
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            if !wrapped {
                return Some(Ok((ErrorId::Default, data)));
            }
            let read = || {
                let mut r = FieldReader::new(data.get(at..).unwrap_or_default(), "SMB2 ERROR Context");
                let length = r.u32("ErrorDataLength")? as usize;
                let id = ErrorId::new(r.u32("ErrorId")?);
                Ok((id, r.bytes(length, "ErrorContextData")?))
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

/// The target of a symbolic link on the path to a file (MS-SMB2 2.2.2.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolicLink<'a> {
    /// The number of bytes of the path after the link.
    pub unparsed_path_length: u16,
    /// The target for programs.
    pub substitute_name: Utf16<'a>,
    /// The target for display.
    pub print_name: Utf16<'a>,
    /// Whether the target is relative to the directory of the link.
    pub is_relative: bool,
}

const SYMLINK: &str = "Symbolic Link Error Response";
const SYMLINK_ERROR_TAG: u32 = 0x4c4d_5953;
const REPARSE_TAG_SYMLINK: u32 = 0xa000_000c;
const SYMLINK_FLAG_RELATIVE: u32 = 0x0000_0001;
const SYMLINK_FIXED: usize = 28;

impl<'a> SymbolicLink<'a> {
    /// Parses the data of an error.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing, a tag is wrong or a name points outside.
    pub fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(data, SYMLINK);
        let length = r.u32("SymLinkLength")? as usize;
        if length > data.len() - 4 || length < SYMLINK_FIXED - 4 {
            return Err(r.wrong("SymLinkLength"));
        }
        if r.u32("SymLinkErrorTag")? != SYMLINK_ERROR_TAG {
            return Err(r.wrong("SymLinkErrorTag"));
        }
        if r.u32("ReparseTag")? != REPARSE_TAG_SYMLINK {
            return Err(r.wrong("ReparseTag"));
        }
        r.skip(2, "ReparseDataLength")?;
        let unparsed_path_length = r.u16("UnparsedPathLength")?;
        let substitute = (r.u16("SubstituteNameOffset")?, r.u16("SubstituteNameLength")?);
        let print = (r.u16("PrintNameOffset")?, r.u16("PrintNameLength")?);
        let flags = r.u32("Flags")?;
        let path = FieldReader::new(&data[SYMLINK_FIXED..4 + length], SYMLINK);
        Ok(SymbolicLink {
            unparsed_path_length,
            substitute_name: path.name(substitute.0.into(), substitute.1.into(), "SubstituteNameOffset")?,
            print_name: path.name(print.0.into(), print.1.into(), "PrintNameOffset")?,
            is_relative: flags & SYMLINK_FLAG_RELATIVE != 0,
        })
    }

    /// Appends the data of the error.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (substitute, print) = (self.substitute_name.as_bytes(), self.print_name.as_bytes());
        let path_length = substitute.len() + print.len();
        let mut w = Writer::new(out);
        w.u32_le((SYMLINK_FIXED - 4 + path_length) as u32);
        w.u32_le(SYMLINK_ERROR_TAG);
        w.u32_le(REPARSE_TAG_SYMLINK);
        w.u16_le((12 + path_length) as u16);
        w.u16_le(self.unparsed_path_length);
        w.u16_le(0);
        w.u16_le(substitute.len() as u16);
        w.u16_le(substitute.len() as u16);
        w.u16_le(print.len() as u16);
        w.u32_le(if self.is_relative { SYMLINK_FLAG_RELATIVE } else { 0 });
        w.bytes(substitute);
        w.bytes(print);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utf16;

    /// The example of MS-SMB2 2.2.2.2.1.1: `ProtocolDocs` in `\\MachX\ShareY\Public` leads to
    /// `..\DonHall\Documents\PDocs`, and the client opens `\DailyDocs\[MS-SMB].doc` below it.
    #[test]
    fn the_relative_link_of_the_specification() {
        let target = utf16::encode(r"..\DonHall\Documents\PDocs");
        let unparsed = utf16::encode(r"\DailyDocs\[MS-SMB].doc");
        let target = Utf16::new(&target).unwrap();
        let link = SymbolicLink {
            unparsed_path_length: unparsed.len() as u16,
            substitute_name: target,
            print_name: target,
            is_relative: true,
        };
        let mut out = Vec::new();
        link.write(&mut out);
        assert_eq!(&out[4..12], b"SYML\x0c\0\0\xa0");
        assert_eq!(out[14..16], [0x2e, 0]);
        assert_eq!(out[16..20], [0, 0, 0x34, 0]);
        assert_eq!(u32::from_le_bytes([out[0], out[1], out[2], out[3]]) as usize, out.len() - 4);
        assert_eq!(u16::from_le_bytes([out[12], out[13]]) as usize, out.len() - 16);
        assert_eq!(SymbolicLink::parse(&out), Ok(link));
        out[0] += 1;
        assert_eq!(SymbolicLink::parse(&out).unwrap_err().field, "SymLinkLength");
    }

    #[test]
    fn an_error_context_is_put_around_the_data_in_311() {
        let mut plain = Vec::new();
        Response::buffer_too_small(&mut plain, false, 0x1234);
        assert_eq!(plain, [9, 0, 0, 0, 4, 0, 0, 0, 0x34, 0x12, 0, 0]);
        let mut wrapped = Vec::new();
        Response::buffer_too_small(&mut wrapped, true, 0x1234);
        assert_eq!(wrapped, [9, 0, 1, 0, 12, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0x34, 0x12, 0, 0]);
    }
}
