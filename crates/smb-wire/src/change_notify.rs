//! CHANGE_NOTIFY: waits for changes in a directory (MS-SMB2 2.2.35 and 2.2.36).

use crate::id::FileId;
use crate::macros::wire_flags;
use crate::malformed::Malformed;
use crate::reader::FieldReader;
use wire::Writer;

pub use crate::output::Response;

wire_flags! {
    /// Flags of a request (MS-SMB2 2.2.35).
    pub struct ChangeNotifyFlags: u16 {
        /// Includes all levels below the directory.
        WATCH_TREE = 0x0001,
    }
}

wire_flags! {
    /// The kinds of changes to report (MS-SMB2 2.2.35).
    pub struct CompletionFilter: u32 {
        FILE_NAME = 0x0000_0001,
        DIR_NAME = 0x0000_0002,
        ATTRIBUTES = 0x0000_0004,
        SIZE = 0x0000_0008,
        LAST_WRITE = 0x0000_0010,
        LAST_ACCESS = 0x0000_0020,
        CREATION = 0x0000_0040,
        EA = 0x0000_0080,
        SECURITY = 0x0000_0100,
        STREAM_NAME = 0x0000_0200,
        STREAM_SIZE = 0x0000_0400,
        STREAM_WRITE = 0x0000_0800,
    }
}

/// CHANGE_NOTIFY request (MS-SMB2 2.2.35).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Whether the whole tree is watched.
    pub flags: ChangeNotifyFlags,
    /// The most bytes of the response.
    pub output_buffer_length: u32,
    /// The Open of the directory.
    pub file_id: FileId,
    /// The kinds of changes to report.
    pub completion_filter: CompletionFilter,
}

impl Request {
    /// Parses a message from its header on.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(message: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::body(message, "CHANGE_NOTIFY request", 32)?;
        Ok(Request {
            flags: ChangeNotifyFlags::from_bits_retain(r.u16("Flags")?),
            output_buffer_length: r.u32("OutputBufferLength")?,
            file_id: r.file_id("FileId")?,
            completion_filter: CompletionFilter::from_bits_retain(r.u32("CompletionFilter")?),
        })
    }

    /// Appends the body.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u16_le(32);
        w.u16_le(self.flags.bits());
        w.u32_le(self.output_buffer_length);
        self.file_id.write(&mut w);
        w.u32_le(self.completion_filter.bits());
        w.u32_le(0);
    }

    /// The bytes that count for the credit charge.
    #[must_use]
    pub fn payload_len(&self) -> u32 {
        self.output_buffer_length
    }
}
