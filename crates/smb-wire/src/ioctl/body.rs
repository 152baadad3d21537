//! The buffers of the control codes that MS-SMB2 defines (MS-SMB2 2.2.31 and 2.2.32).
//!
//! Each has `parse` for the buffer and `write`, which appends it.

use crate::id::Guid;
use crate::list::{Element, WireList};
use crate::malformed::Malformed;
use crate::negotiate::{Capabilities, Dialect, SecurityMode};
use crate::reader::FieldReader;
use wire::Writer;

/// The key of a server-side copy's source: 24 bytes that only the server understands.
pub type ResumeKey = [u8; 24];

/// Input of FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE (MS-SMB2 2.2.31.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrvCopychunkCopy<'a> {
    /// The source.
    pub source_key: ResumeKey,
    /// The ranges in the order of the copy.
    pub chunks: WireList<'a, SrvCopychunk>,
}

/// One range of a server-side copy (MS-SMB2 2.2.31.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrvCopychunk {
    /// The offset in the source.
    pub source_offset: u64,
    /// The offset in the target.
    pub target_offset: u64,
    /// The number of bytes.
    pub length: u32,
}

impl Element for SrvCopychunk {
    const SIZE: usize = 24;

    fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(raw)
        };
        SrvCopychunk { source_offset: number(0), target_offset: number(8), length: number(16) as u32 }
    }

    fn write(&self, w: &mut Writer<'_>) {
        w.u64_le(self.source_offset);
        w.u64_le(self.target_offset);
        w.u32_le(self.length);
        w.u32_le(0);
    }
}

impl<'a> SrvCopychunkCopy<'a> {
    /// Parses the input.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or there are fewer chunks than stated.
    pub fn parse(input: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(input, "SRV_COPYCHUNK_COPY");
        let source_key = r.array("SourceKey")?;
        let count = r.u32("ChunkCount")? as usize;
        r.skip(4, "Reserved")?;
        let length = count.checked_mul(SrvCopychunk::SIZE).ok_or(r.wrong("ChunkCount"))?;
        Ok(SrvCopychunkCopy { source_key, chunks: WireList::Wire(r.bytes(length, "Chunks")?) })
    }

    /// Appends the input.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.bytes(&self.source_key);
        w.u32_le(self.chunks.len() as u32);
        w.u32_le(0);
        self.chunks.write(&mut w);
    }
}

/// Output of FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE (MS-SMB2 2.2.32.1). With
/// STATUS_INVALID_PARAMETER it has the server's limits instead: chunks, bytes of one chunk, total bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SrvCopychunkResponse {
    /// Chunks that were written.
    pub chunks_written: u32,
    /// Bytes of the last chunk, if it was written in part.
    pub chunk_bytes_written: u32,
    /// The total number of bytes.
    pub total_bytes_written: u32,
}

impl SrvCopychunkResponse {
    /// Parses the output.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(output: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(output, "SRV_COPYCHUNK_RESPONSE");
        Ok(SrvCopychunkResponse {
            chunks_written: r.u32("ChunksWritten")?,
            chunk_bytes_written: r.u32("ChunkBytesWritten")?,
            total_bytes_written: r.u32("TotalBytesWritten")?,
        })
    }

    /// Appends the output.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u32_le(self.chunks_written);
        w.u32_le(self.chunk_bytes_written);
        w.u32_le(self.total_bytes_written);
    }
}

/// Output of FSCTL_SRV_REQUEST_RESUME_KEY (MS-SMB2 2.2.32.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrvRequestResumeKey {
    /// The key.
    pub resume_key: ResumeKey,
}

impl SrvRequestResumeKey {
    /// Parses the output.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(output: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(output, "SRV_REQUEST_RESUME_KEY");
        let resume_key = r.array("ResumeKey")?;
        r.u32("ContextLength")?;
        Ok(SrvRequestResumeKey { resume_key })
    }

    /// Appends the output with the four bytes of empty context that Windows sends and clients expect.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.bytes(&self.resume_key);
        w.u64_le(0);
    }
}

/// Input of FSCTL_LMR_REQUEST_RESILIENCY (MS-SMB2 2.2.31.3). There is no output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkResiliencyRequest {
    /// How long the Open is kept after a disconnect, in milliseconds.
    pub timeout: u32,
}

impl NetworkResiliencyRequest {
    /// Parses the input.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(input: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(input, "NETWORK_RESILIENCY_REQUEST");
        let timeout = r.u32("Timeout")?;
        r.skip(4, "Reserved")?;
        Ok(NetworkResiliencyRequest { timeout })
    }

    /// Appends the input.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u32_le(self.timeout);
        w.u32_le(0);
    }
}

/// Input of FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 2.2.31.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidateNegotiateInfoRequest<'a> {
    /// The capabilities that the client sent.
    pub capabilities: Capabilities,
    /// The ClientGuid that it sent.
    pub guid: Guid,
    /// The security mode that it sent.
    pub security_mode: SecurityMode,
    /// The dialects that it offered.
    pub dialects: WireList<'a, Dialect>,
}

impl<'a> ValidateNegotiateInfoRequest<'a> {
    /// Parses the input.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing or there are fewer dialects than stated.
    pub fn parse(input: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(input, "VALIDATE_NEGOTIATE_INFO request");
        let capabilities = Capabilities::from_bits_retain(r.u32("Capabilities")?);
        let guid = r.guid("Guid")?;
        let security_mode = SecurityMode::from_bits_retain(r.u16("SecurityMode")?);
        let count = usize::from(r.u16("DialectCount")?);
        let dialects = WireList::Wire(r.bytes(count * 2, "Dialects")?);
        Ok(ValidateNegotiateInfoRequest { capabilities, guid, security_mode, dialects })
    }

    /// Appends the input.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u32_le(self.capabilities.bits());
        w.bytes(&self.guid.0);
        w.u16_le(self.security_mode.bits());
        w.u16_le(self.dialects.len() as u16);
        self.dialects.write(&mut w);
    }
}

/// Output of FSCTL_VALIDATE_NEGOTIATE_INFO (MS-SMB2 2.2.32.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValidateNegotiateInfoResponse {
    /// The capabilities that the server sent.
    pub capabilities: Capabilities,
    /// The ServerGuid.
    pub guid: Guid,
    /// The security mode that the server sent.
    pub security_mode: SecurityMode,
    /// The dialect in use.
    pub dialect: Dialect,
}

impl ValidateNegotiateInfoResponse {
    /// Parses the output.
    ///
    /// # Errors
    /// [`Malformed`] if a field is missing.
    pub fn parse(output: &[u8]) -> Result<Self, Malformed> {
        let mut r = FieldReader::new(output, "VALIDATE_NEGOTIATE_INFO response");
        Ok(ValidateNegotiateInfoResponse {
            capabilities: Capabilities::from_bits_retain(r.u32("Capabilities")?),
            guid: r.guid("Guid")?,
            security_mode: SecurityMode::from_bits_retain(r.u16("SecurityMode")?),
            dialect: Dialect::new(r.u16("Dialect")?),
        })
    }

    /// Appends the output.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut w = Writer::new(out);
        w.u32_le(self.capabilities.bits());
        w.bytes(&self.guid.0);
        w.u16_le(self.security_mode.bits());
        w.u16_le(self.dialect.get());
    }
}

/// Output of FSCTL_SRV_ENUMERATE_SNAPSHOTS (MS-SMB2 2.2.32.2) for a share without snapshots.
pub fn write_no_snapshots(out: &mut Vec<u8>) {
    let mut w = Writer::new(out);
    w.zeros(8);
    // The array is empty, but two zero characters still mark its end.
    w.u32_le(2);
    w.zeros(4);
}
