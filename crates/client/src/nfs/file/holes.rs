//! Where a file has data, and where holes (RFC 7862 15.11).

use nfs_wire::NfsStat;
use nfs_wire::compound::CallWriter;
use nfs_wire::op::seek::{self, ContentType};
use nfs_wire::op::{Args, OpNum, Res};

use super::File;
use crate::Error;
use crate::error::Result;
use crate::nfs::answer::result_of;
use crate::nfs::inner::establish::OPERATIONS;

/// The most offsets that one COMPOUND asks about: SEQUENCE and PUTFH go in front.
pub const SEEKS: usize = OPERATIONS as usize - 2;

impl File {
    /// Where the first data lies at or behind each of `offsets`, which ascend and are at most [`SEEKS`], in one round trip;
    /// none where only a hole is left. There may be fewer answers than offsets, but one.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses: with NFS4ERR_OP_ILLEGAL or NFS4ERR_NOTSUPP where the version, the server or
    /// its file system cannot tell.
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
                // What comes behind the first is asked for once more, and says why then.
                _ if !found.is_empty() => break,
                other => return Err(Error::Refused { operation: OpNum::Seek, status: other.status() }),
            }
        }
        if found.is_empty() { Err(Error::Protocol("no answer to a SEEK")) } else { Ok(found) }
    }
}
