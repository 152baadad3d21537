//! Copies inside the server: FSCTL_SRV_COPYCHUNK_WRITE, and FSCTL_DUPLICATE_EXTENTS_TO_FILE where files can
//! share storage (MS-SMB2 3.3.5.15.6, MS-FSCC 2.3.7). Source and target are open in one session. No data
//! crosses the network.

use smb_wire::fscc::fsctl::DuplicateExtents;
use smb_wire::ioctl::body::{
    ResumeKey, SrvCopychunk, SrvCopychunkCopy, SrvCopychunkResponse, SrvRequestResumeKey,
};
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::{NtStatus, WireList};

use crate::Error;
use crate::error::Result;
use crate::smb::File;

/// The bytes of one chunk, a size that every server accepts (MS-SMB2 3.3.3).
const CHUNK: u64 = 1024 * 1024;
/// The chunks of one request, a number that every server accepts.
const CHUNKS: usize = 16;
/// The most bytes of one [`File::copy_from`].
pub const COPIED_AT_ONCE: u64 = CHUNK * CHUNKS as u64;

/// The key by which a server knows a file as the source of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopySource(ResumeKey);

impl File {
    /// Requests the key by which the server knows this file as a source of copies, as long as it is open.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses, for example because it does not copy files.
    pub async fn copy_source(&self) -> Result<CopySource> {
        let reply = self.control(CtlCode::SrvRequestResumeKey, &[], 32).await?.success()?;
        let output = ioctl::Response::parse(reply.message())?.output;
        Ok(CopySource(SrvRequestResumeKey::parse(output)?.resume_key))
    }

    /// Makes the server copy `length` bytes, [`COPIED_AT_ONCE`] at most, from `at` in `source` to the same
    /// place in this file.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. [`Error::Protocol`] when it has copied less.
    pub async fn copy_from(&self, source: CopySource, at: u64, length: u64) -> Result<()> {
        let end = at.saturating_add(length);
        let chunk = |number: u64| {
            let at = at + number * CHUNK;
            SrvCopychunk { source_offset: at, target_offset: at, length: CHUNK.min(end - at) as u32 }
        };
        let chunks: Vec<SrvCopychunk> = (0..length.div_ceil(CHUNK)).map(chunk).collect();
        let mut input = Vec::new();
        SrvCopychunkCopy { source_key: source.0, chunks: WireList::Values(&chunks) }.write(&mut input);
        let reply = self.control(CtlCode::SrvCopychunkWrite, &input, 12).await?.success()?;
        let done = SrvCopychunkResponse::parse(ioctl::Response::parse(reply.message())?.output)?;
        match u64::from(done.total_bytes_written) == length {
            true => Ok(()),
            false => Err(Error::Protocol("the server has copied less than it was asked for")),
        }
    }

    /// Makes `length` bytes at `at` share the storage of those of `source`, which is open in the same
    /// session. This file must already be that long.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses, for example because its file system cannot share storage.
    pub async fn share_storage_of(&self, source: &File, at: u64, length: u64) -> Result<()> {
        let beyond =
            |_| Error::Status { command: smb_wire::SmbCommand::Ioctl, status: NtStatus::INVALID_PARAMETER };
        let (offset, byte_count) =
            (i64::try_from(at).map_err(beyond)?, i64::try_from(length).map_err(beyond)?);
        let asked = DuplicateExtents {
            source_file_id: source.id,
            source_file_offset: offset,
            target_file_offset: offset,
            byte_count,
        };
        let mut input = Vec::new();
        asked.write(&mut input);
        self.control(CtlCode::DuplicateExtentsToFile, &input, 0).await?.success().map(drop)
    }
}
