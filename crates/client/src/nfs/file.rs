//! An open file.

use std::ops::{Deref, Range};
use std::sync::Arc;

use bytes::Bytes;
use nfs_wire::attr::{Attr, Fattr};
use nfs_wire::compound::CallWriter;
use nfs_wire::op::filehandle::PutArgs;
use nfs_wire::op::{Args, Res, close, commit, read, setattr, write};
use nfs_wire::types::{FileHandle, NfsTime, StableHow, StateId, Verifier};
use nfs_wire::{Malformed, op};

use super::answer::result_of;
use super::attributes::Attributes;
use super::call::Request;
use super::client::Inner;
use super::directory::{attributes, read_attributes};
use super::link::Operations;
use super::whole::settings;
use crate::transport::Message;
use crate::{Error, Result};

/// A file that is open. All operations can be under way at once, in any number.
///
/// Dropping it does not close it on the server, where it stays open as long as the client lives; use
/// [`File::close`].
#[derive(Debug)]
pub struct File {
    pub(super) client: Arc<Inner>,
    pub(super) handle: Arc<[u8]>,
    pub(super) open: Open,
    attributes: Attributes,
}

/// An open of the server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Open {
    pub(crate) stateid: StateId,
    /// The open-owner, which has no other open.
    pub(crate) owner: u32,
}

/// The bytes that a READ brought, in the buffer in which they came.
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

/// What became of a WRITE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes that were written.
    pub count: u32,
    /// How safe they are.
    pub committed: StableHow,
    /// When COMMIT answers another one, what was written unsafely may be lost.
    pub verifier: Verifier,
}

impl File {
    pub(crate) fn new(client: Arc<Inner>, handle: Arc<[u8]>, open: Open, attributes: Attributes) -> File {
        File { client, handle, open, attributes }
    }

    /// What was known of it when it was opened.
    #[must_use]
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    pub(super) fn here(&self) -> Args<'_> {
        Args::PutFh(PutArgs { object: FileHandle(&self.handle) })
    }

    /// Reads up to `length` bytes at `offset`: fewer at the end of the file, and none behind it. A length above
    /// what the session has room for is cut to that.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn read(&self, offset: u64, length: u32) -> Result<Data> {
        let count = length.min(self.client.session()?.room.1);
        let args = read::Args { stateid: self.open.stateid, offset, count };
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&Args::Read(args));
        };
        let answer = self.client.ask(&push).await?;
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

    /// Writes `data` at `offset`, as safe as `stable` says; less than all of it when the session has not room
    /// for more. The data is not copied.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn write(&self, offset: u64, data: &Bytes, stable: StableHow) -> Result<Written> {
        let most = self.client.session()?.room.0 as usize;
        let data = if data.len() > most { &data.slice(..most) } else { data };
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here());
            writer.push_write_apart(self.open.stateid, offset, stable, data.len());
        };
        let request =
            Request { operations: Operations { payload: Some(data), ..Operations::of(&push) }, once: None };
        let answer = self.client.call(request).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let done: write::ResOk = result_of!(results, Write)?;
        if done.count as usize > data.len() {
            return Err(Malformed::new("WRITE4resok", "count").into());
        }
        Ok(Written { count: done.count, committed: done.committed, verifier: done.writeverf })
    }

    /// Writes all of `data` at `offset`, piece by piece. It is not synced.
    ///
    /// # Errors
    /// As [`File::write`]; [`Error::Protocol`] when the server writes nothing of a piece.
    pub async fn write_all(&self, offset: u64, data: &Bytes) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let rest = data.slice(done..);
            match self.write(offset + done as u64, &rest, StableHow::Unstable).await?.count {
                0 => return Err(Error::Protocol("a WRITE that wrote nothing and succeeded")),
                count => done += count as usize,
            }
        }
        Ok(())
    }

    /// Waits until everything that was written is on the server's store, and answers the verifier that tells
    /// whether any of it was lost before.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn commit(&self) -> Result<Verifier> {
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&Args::Commit(commit::Args { offset: 0, count: 0 }));
        };
        let answer = self.client.ask(&push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let done: commit::ResOk = result_of!(results, Commit)?;
        Ok(done.writeverf)
    }

    /// What is known of it now.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn stat(&self) -> Result<Attributes> {
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&attributes());
        };
        let answer = self.client.ask(&push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        read_attributes(&mut results)
    }

    /// Cuts or extends the file to `length` bytes.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn set_length(&self, length: u64) -> Result<()> {
        self.set(&[Attr::Size(length)]).await
    }

    /// Sets when its data was changed and permission bits, each where there is something to set.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn settle(&self, modified: Option<NfsTime>, mode: Option<u32>) -> Result<()> {
        self.set(&settings(modified, mode)).await
    }

    async fn set(&self, attributes: &[Attr<'_>]) -> Result<()> {
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(attributes, &mut room);
        let args = Args::SetAttr(setattr::Args { stateid: self.open.stateid, obj_attributes });
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&args);
        };
        let answer = self.client.ask(&push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        match results.next()? {
            Res::SetAttr(done) if done.status.is_ok() => Ok(()),
            other => Err(Error::Refused { operation: op::OpNum::SetAttr, status: other.status() }),
        }
    }

    /// Closes it.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn close(self) -> Result<()> {
        let args = close::Args { seqid: 0, open_stateid: self.open.stateid };
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&Args::Close(args));
        };
        let answer = self.client.change(1, &push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Close)?;
        self.client.owners.give_back(self.open.owner);
        Ok(())
    }
}
