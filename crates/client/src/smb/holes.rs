//! Holes of files: finding them, and marking a file as sparse.

use std::ops::Range as Bytes;

use smb_wire::fscc::fsctl::{Range, read_ranges};
use smb_wire::ioctl::{self, CtlCode};
use smb_wire::{Malformed, NtStatus, SmbCommand};

use crate::Error;
use crate::error::Result;
use crate::smb::link::FrameRequest;
use crate::smb::{File, Reply};

/// The room for ranges, in bytes. It costs one credit.
const ROOM: u32 = 64 * 1024;

/// The allocated ranges of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocated {
    /// The ranges in order. All other bytes up to `known` are holes.
    pub ranges: Vec<Bytes<u64>>,
    /// The end of the known part: the end of the query, or less when there was no room for more.
    pub known: u64,
}

impl File {
    /// Marks the file as sparse, so that unwritten ranges take no space, if the server supports it.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses, for example because its file system has no holes.
    pub async fn set_sparse(&self) -> Result<()> {
        // MS-FSCC 2.3.83: an FSCTL without a body sets the mark.
        self.control(CtlCode::SetSparse, &[], 0).await?.success().map(drop)
    }

    /// Queries the ranges of data in `bytes`, which must end no later than the file.
    ///
    /// # Errors
    /// [`Error::Status`] when the server refuses. Samba answers [`NtStatus::BUFFER_TOO_SMALL`] when the query
    /// must be smaller.
    pub async fn allocated(&self, bytes: Bytes<u64>) -> Result<Allocated> {
        let mut input = Vec::with_capacity(Range::SIZE);
        let asked =
            Range { file_offset: bytes.start as i64, length: bytes.end.saturating_sub(bytes.start) as i64 };
        asked.write(&mut input);
        let room = ROOM.min(self.tree.limits().2);
        let reply = self.control(CtlCode::QueryAllocatedRanges, &input, room).await?;
        // MS-FSCC 2.3.54: there are more ranges.
        let is_all = reply.status() != NtStatus::BUFFER_OVERFLOW;
        let reply = if is_all { reply.success()? } else { reply };
        let wrong = || Malformed::new("QUERY_ALLOCATED_RANGES reply", "range");
        let mut ranges: Vec<Bytes<u64>> = Vec::new();
        for range in read_ranges(ioctl::Response::parse(reply.message())?.output) {
            let (start, length) = range.checked().map_err(|_| wrong())?;
            let last = ranges.last().map_or(0, |last| last.end);
            if start < last {
                return Err(wrong().into());
            }
            ranges.push(start..start + length);
        }
        let known = match (is_all, ranges.last()) {
            (true, _) => bytes.end,
            (false, Some(last)) => last.end,
            (false, None) => return Err(Error::Protocol("more ranges, and none of them")),
        };
        Ok(Allocated { ranges, known })
    }

    /// Sends one FSCTL and returns the reply, whatever its status.
    pub(crate) async fn control(&self, code: CtlCode, input: &[u8], room: u32) -> Result<Reply> {
        let request = ioctl::Request::fsctl(code, self.id, input, room);
        let body = |out: &mut Vec<u8>| request.write(out);
        let part = FrameRequest { command: SmbCommand::Ioctl, payload: request.payload_len(), body: &body };
        let [reply] = self.tree.call([part]).await?.replies;
        Ok(reply)
    }
}
