//! Copies inside the server: COPY, and CLONE where files can share storage (RFC 7862 15.2, 15.13). One client
//! has both files open. No data crosses the network.

use nfs_wire::NfsStat;
use nfs_wire::compound::CallWriter;
use nfs_wire::op::{Args, OpNum, clone, copy};
use nfs_wire::types::Verifier;
use nfs_wire::xdr::List;

use super::ExportFile;
use crate::Error;
use crate::error::Result;
use crate::nfs::client_core::call::Request;
use crate::nfs::compound_reply::result_of;
use crate::nfs::link::Operations;

impl ExportFile {
    /// Makes the server copy up to `length` bytes from `at` in `source` to the same place in this file.
    /// Returns the number of copied bytes, and the verifier that [`ExportFile::commit`] returns as long as
    /// none of them is lost.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses, for example because it speaks NFSv4.1, or when it would
    /// copy asynchronously.
    pub async fn copy_from(&self, source: &ExportFile, at: u64, length: u64) -> Result<(u64, Verifier)> {
        let args = || copy::Args {
            src_stateid: source.open.argument(),
            dst_stateid: self.open.argument(),
            src_offset: at,
            dst_offset: at,
            count: length,
            consecutive: true,
            synchronous: true,
            source_server: List::of(&[]),
        };
        let push = |writer: &mut CallWriter| self.push_both(source, &Args::Copy(args()), writer);
        let request = Request { operations: Operations::of(&push), once: None };
        let answer = self.client.call_on([&source.open, &self.open], request).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, SaveFh)?;
        result_of!(results, PutFh)?;
        let refused = |status| Error::Refused { operation: OpNum::Copy, status };
        let response = match results.next()? {
            nfs_wire::op::Res::Copy(copy::Res::Ok(done)) => done.response,
            other => return Err(refused(other.status())),
        };
        // RFC 7862 15.2.3: a reply with an identifier means that the copy has only begun.
        match response.callback_id {
            None if response.count <= length => Ok((response.count, response.writeverf)),
            None => Err(Error::Protocol("the server has copied more than it was asked for")),
            Some(_) => Err(refused(NfsStat::OffloadNoReqs)),
        }
    }

    /// Makes `length` bytes at `at` share the storage of those of `source`.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses, for example because its file system cannot share storage.
    pub async fn share_storage_of(&self, source: &ExportFile, at: u64, length: u64) -> Result<()> {
        let args = || clone::Args {
            src_stateid: source.open.argument(),
            dst_stateid: self.open.argument(),
            src_offset: at,
            dst_offset: at,
            count: length,
        };
        let push = |writer: &mut CallWriter| self.push_both(source, &Args::Clone(args()), writer);
        let request = Request { operations: Operations::of(&push), once: None };
        let answer = self.client.call_on([&source.open, &self.open], request).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, SaveFh)?;
        result_of!(results, PutFh)?;
        match results.next()? {
            done if done.status().is_ok() => Ok(()),
            other => Err(Error::Refused { operation: OpNum::Clone, status: other.status() }),
        }
    }

    /// Writes `last` after the operations that make `source` the saved filehandle and this file the current
    /// one.
    fn push_both(&self, source: &ExportFile, last: &Args<'_>, writer: &mut CallWriter) {
        writer.push(&source.here()).push(&Args::SaveFh).push(&self.here()).push(last);
    }
}
