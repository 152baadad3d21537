//! Finds the data and the holes of a file (RFC 7862 15.11).

use nfs_wire::NfsStat;
use nfs_wire::compound::CallWriter;
use nfs_wire::op::seek::{self, ContentType};
use nfs_wire::op::{Args, OpNum, Res};

use super::ExportFile;
use crate::Error;
use crate::error::Result;
use crate::nfs::client_core::establish::OPERATIONS;
use crate::nfs::compound_reply::result_of;

/// The most offsets of one COMPOUND. SEQUENCE and PUTFH precede them.
pub const SEEKS: usize = OPERATIONS as usize - 2;

impl ExportFile {
    /// Finds the first data at or after each of `offsets`, in one round trip. The offsets must ascend, and
    /// there may be at most [`SEEKS`]. A result is none if only a hole follows. There may be fewer results
    /// than offsets, but at least one.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses. It is NFS4ERR_OP_ILLEGAL or NFS4ERR_NOTSUPP if the
    /// version, the server or its file system cannot tell.
    pub async fn data_from(&self, offsets: &[u64]) -> Result<Vec<Option<u64>>> {
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here());
            for offset in offsets.iter().take(SEEKS) {
                let (stateid, offset, what) = (self.open.argument(), *offset, ContentType::Data);
                writer.push(&Args::Seek(seek::Args { stateid, offset, what }));
            }
        };
        let answer = self.ask(&push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let mut found = Vec::new();
        for offset in offsets.iter().take(answer.count().saturating_sub(1)) {
            match results.next()? {
                Res::Seek(Ok(at)) if !at.eof => found.push(Some(at.offset.max(*offset))),
                // RFC 7862 15.11.3
                Res::Seek(Ok(_) | Err(NfsStat::NxIo)) => found.push(None),
                // The caller asks for the results after the first again, and gets the error then.
                _ if !found.is_empty() => break,
                other => return Err(Error::Refused { operation: OpNum::Seek, status: other.status() }),
            }
        }
        if found.is_empty() { Err(Error::Protocol("no answer to a SEEK")) } else { Ok(found) }
    }
}
