//! An open file.

pub(crate) mod holes;
mod offload;

use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;
use nfs_wire::attr::{Attr, Fattr};
use nfs_wire::compound::CallWriter;
use nfs_wire::op::filehandle::PutArgs;
use nfs_wire::op::{Args, Res, close, commit, read, setattr, write};
use nfs_wire::types::{FileHandle, NfsTime, StableHow, Verifier};
use nfs_wire::{Malformed, op};

use super::attributes::Attributes;
use super::client_core::call::Request;
use super::compound_reply::{CompoundReply, result_of};
use super::link::Operations;
use super::opens::Open;
use crate::Error;
use crate::error::Result;
use crate::nfs::attributes::{attributes, read_attributes, settings};
use crate::nfs::client_core::ClientCore;
use crate::transport::Message;

/// An open file. Any number of its operations can be pending at once.
///
/// Dropping it does not close it on the server. It stays open there as long as the client lives, or until the
/// server restarts. Use [`ExportFile::close`] to close it.
///
/// It stays open over a restart of the server. If the server does not return it, all its operations fail with
/// [`Error::StateLost`], because others may have changed the file meanwhile. The user must open it again.
///
/// A restart loses data that was written [`StableHow::Unstable`] and not committed, even if the file stays
/// open. The verifiers of [`ExportFile::write`] and [`ExportFile::commit`] differ then, and so does
/// [`ExportFile::instance`].
#[derive(Debug)]
pub struct ExportFile {
    pub(super) client: Arc<ClientCore>,
    pub(super) open: Arc<Open>,
    attributes: Attributes,
}

impl Drop for ExportFile {
    fn drop(&mut self) {
        self.client.opens.remove(&self.open);
    }
}

/// The bytes of a READ, in the buffer in which they arrived.
#[derive(Debug)]
pub struct Data {
    pub(crate) message: Message,
    pub(crate) range: Range<usize>,
    /// Whether they reach the end of the file.
    pub eof: bool,
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.message.bytes()[self.range.clone()]
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The outcome of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The bytes that were written.
    pub count: u32,
    /// The level of stability.
    pub committed: StableHow,
    /// The write verifier. If COMMIT returns another one, unstable data may be lost.
    pub verifier: Verifier,
}

impl ExportFile {
    pub(crate) fn new(client: Arc<ClientCore>, open: Open, attributes: Attributes) -> ExportFile {
        let open = client.opens.enter(open);
        ExportFile { client, open, attributes }
    }

    /// Whether the server has restarted and not returned the open.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.open.stateid().is_err()
    }

    /// The instance of the server at which it is open. It changes when the server has restarted and returned
    /// the open. Results without a verifier, such as that of [`ExportFile::share_storage_of`], may be lost
    /// then if they were not committed before.
    ///
    /// # Errors
    /// [`Error::StateLost`].
    pub fn instance(&self) -> Result<u64> {
        self.open.instance()
    }

    /// Its attributes when it was opened.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    pub(super) fn here(&self) -> Args<'_> {
        Args::PutFh(PutArgs { object: FileHandle(&self.open.handle) })
    }

    /// Sends operations on this open. Each may be carried out twice.
    pub(super) async fn ask(&self, push: &(dyn Fn(&mut CallWriter) + Sync)) -> Result<CompoundReply> {
        self.call(Request { operations: Operations::of(push), once: None }).await
    }

    async fn call(&self, request: Request<'_>) -> Result<CompoundReply> {
        self.client.call_on([&self.open], request).await
    }

    /// Reads up to `length` bytes at `offset`. There are fewer at the end of the file, and none after it. A
    /// length above the session's limit is cut to the limit.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn read(&self, offset: u64, length: u32) -> Result<Data> {
        let count = length.min(self.client.session()?.room.1);
        let push = |writer: &mut CallWriter| {
            let args = read::Args { stateid: self.open.argument(), offset, count };
            writer.push(&self.here()).push(&Args::Read(args));
        };
        let answer = self.ask(&push).await?;
        let (range, eof) = {
            let mut results = answer.results();
            result_of!(results, PutFh)?;
            let got: read::ResOk<'_> = result_of!(results, Read)?;
            if got.data.len() > count as usize {
                return Err(Malformed::new("READ4resok", "data").into());
            }
            (answer.range_of(got.data), got.eof)
        };
        let (message, range) = answer.into_part(range);
        Ok(Data { message, range, eof })
    }

    /// Writes `data` at `offset` with the stability `stable`. It writes less than all of it if the session's
    /// limit is lower. The data is not copied.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn write(&self, offset: u64, data: &Bytes, stable: StableHow) -> Result<Written> {
        let most = self.client.session()?.room.0 as usize;
        let data = if data.len() > most { &data.slice(..most) } else { data };
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here());
            writer.push_write_apart(self.open.argument(), offset, stable, data.len());
        };
        let request =
            Request { operations: Operations { payload: Some(data), ..Operations::of(&push) }, once: None };
        let answer = self.call(request).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let done: write::ResOk = result_of!(results, Write)?;
        if done.count as usize > data.len() {
            return Err(Malformed::new("WRITE4resok", "count").into());
        }
        Ok(Written { count: done.count, committed: done.committed, verifier: done.writeverf })
    }

    /// Writes all of `data` at `offset`, in pieces, without a sync. The verifier is the one that
    /// [`ExportFile::commit`] returns as long as none of the data is lost. It is none if all data is on
    /// stable storage already.
    ///
    /// # Errors
    /// The errors of [`ExportFile::write`], [`Error::UnstableLost`] when the server restarts between two
    /// pieces, and [`Error::Protocol`] when it writes nothing of a piece.
    pub async fn write_all(&self, offset: u64, data: &Bytes) -> Result<Option<Verifier>> {
        let (mut done, mut verifier) = (0, None);
        while done < data.len() {
            let rest = data.slice(done..);
            let written = self.write(offset + done as u64, &rest, StableHow::Unstable).await?;
            if written.count == 0 {
                return Err(Error::Protocol("a WRITE that wrote nothing and succeeded"));
            }
            // RFC 8881 18.32.3
            if written.committed == StableHow::Unstable
                && *verifier.get_or_insert(written.verifier) != written.verifier
            {
                return Err(Error::UnstableLost);
            }
            done += written.count as usize;
        }
        Ok(verifier)
    }

    /// Writes and syncs all of `data` at the beginning of the file.
    pub(super) async fn write_whole(&self, data: &Bytes) -> Result<()> {
        match self.write_all(0, data).await? {
            Some(verifier) if self.commit().await? != verifier => Err(Error::UnstableLost),
            _ => Ok(()),
        }
    }

    /// Waits until all written data is on the server's stable storage. Returns the verifier that tells
    /// whether any of it was lost before.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn commit(&self) -> Result<Verifier> {
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&Args::Commit(commit::Args { offset: 0, count: 0 }));
        };
        let answer = self.ask(&push).await?;
        // COMMIT has no stateid, so the server does not tell whether the open is lost.
        self.open.stateid()?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let done: commit::ResOk = result_of!(results, Commit)?;
        Ok(done.writeverf)
    }

    /// Queries its present attributes.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn stat(&self) -> Result<Attributes> {
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&attributes());
        };
        let answer = self.ask(&push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        read_attributes(&mut results)
    }

    /// Sets the size of the file to `length` bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn set_length(&self, length: u64) -> Result<()> {
        self.set(&[Attr::Size(length)]).await
    }

    /// Sets the modification time and the permission bits, each unless it is none.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn settle(&self, modified: Option<NfsTime>, mode: Option<u32>) -> Result<()> {
        self.set(&settings(modified, mode)).await
    }

    async fn set(&self, attributes: &[Attr<'_>]) -> Result<()> {
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(attributes, &mut room);
        let push = |writer: &mut CallWriter| {
            let args = setattr::Args { stateid: self.open.argument(), obj_attributes };
            writer.push(&self.here()).push(&Args::SetAttr(args));
        };
        let answer = self.ask(&push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        match results.next()? {
            Res::SetAttr(done) if done.status.is_ok() => Ok(()),
            other => Err(Error::Refused { operation: op::OpNum::SetAttr, status: other.status() }),
        }
    }

    /// Closes the open.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn close(self) -> Result<()> {
        let closed = self.close_open().await;
        // The server has no state of an open that it has not returned.
        if matches!(closed, Ok(()) | Err(Error::StateLost { .. })) {
            self.client.opens.remove(&self.open);
            self.client.owners.give_back(self.open.owner);
        }
        closed
    }

    async fn close_open(&self) -> Result<()> {
        let push = |writer: &mut CallWriter| {
            let args = close::Args { seqid: 0, open_stateid: self.open.argument() };
            writer.push(&self.here()).push(&Args::Close(args));
        };
        let answer = self.call(Request { operations: Operations::of(&push), once: Some(1) }).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Close).map(drop)
    }
}
