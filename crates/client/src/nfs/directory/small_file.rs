//! Small files in one COMPOUND each. One is read, or written under a temporary name and then renamed to its
//! final name, so that nobody ever finds an incomplete file there. A COMPOUND ends at the first operation
//! that fails (RFC 8881 15.2).

use std::sync::Arc;

use bytes::Bytes;
use nfs_wire::attr::{Attr, Fattr};
use nfs_wire::compound::CallWriter;
use nfs_wire::op::write::ResOk as WriteResOk;
use nfs_wire::op::{self, Args, Res, getattr, names, open, read, setattr};
use nfs_wire::types::{NfsTime, StableHow, StateId};
use nfs_wire::{Malformed, NfsStat};

use super::{BorrowedOwner, CLOSE, ExportDirectory, handle, lookup};
use crate::Error;
use crate::error::Result;
use crate::nfs::attributes::{Attributes, attributes, read_attributes, settings};
use crate::nfs::client_core::call::Request;
use crate::nfs::compound_reply::{Results, result_of};
use crate::nfs::file::{Data, ExportFile};
use crate::nfs::link::Operations;
use crate::nfs::opens::{Creation, Open, OpenOptions};

/// Takes the result of SETATTR.
pub(crate) fn set(results: &mut Results<'_>) -> Result<()> {
    match results.next()? {
        Res::SetAttr(done) if done.status.is_ok() => Ok(()),
        other => Err(Error::Refused { operation: op::OpNum::SetAttr, status: other.status() }),
    }
}

impl ExportDirectory {
    /// Reads a file of at most `length` bytes, which one READ can carry. It also returns the attributes after
    /// the READ. It opens nothing.
    ///
    /// # Errors
    /// [`Error::Refused`] when the name does not exist or the file cannot be read.
    pub async fn fetch(&self, name: &str, length: u32) -> Result<(Data, Attributes)> {
        let count = length.min(self.client.session()?.room.1);
        let args = read::Args { stateid: StateId::ANONYMOUS, offset: 0, count };
        let answer = self.ask(&[lookup(name), Args::Read(args), attributes()]).await?;
        let (range, eof, known) = {
            let mut results = answer.results();
            result_of!(results, PutFh)?;
            result_of!(results, Lookup)?;
            let got: read::ResOk<'_> = result_of!(results, Read)?;
            if got.data.len() > count as usize {
                return Err(Malformed::new("READ4resok", "data").into());
            }
            let range = answer.range_of(got.data);
            (range, got.eof, read_attributes(&mut results)?)
        };
        let (message, range) = answer.into_part(range);
        Ok((Data { message, range, eof }, known))
    }

    /// Creates the file `staging` with the content `data`, which one WRITE must be able to carry, and renames
    /// it to `name`, replacing another file. The rename is only carried out when the file has its full
    /// length. The server has its data on stable storage by then, because nobody asks for that later.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses. `staging` may then be left. `name` is unchanged.
    pub async fn deliver(
        &self,
        staging: &str,
        name: &str,
        mode: u32,
        data: &Bytes,
        modified: Option<NfsTime>,
    ) -> Result<()> {
        let taken = BorrowedOwner::new(&self.client);
        let how = OpenOptions { read: false, write: true, creation: Creation::Anew(mode) };
        let [mut of_open, mut of_size, mut of_time] = [const { Vec::new() }; 3];
        let opening = self.open_args(staging, how, &taken.name, &mut of_open);
        let size = Fattr::of(&[Attr::Size(data.len() as u64)], &mut of_size);
        let verifying = Args::Verify(getattr::VerifyArgs { obj_attributes: size });
        let obj_attributes = Fattr::of(&settings(modified, None), &mut of_time);
        let setting = Args::SetAttr(setattr::Args { stateid: StateId::CURRENT, obj_attributes });
        let renaming = names::RenameArgs { oldname: staging.as_bytes(), newname: name.as_bytes() };
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&Args::SaveFh).push(&opening).push(&Args::GetFh);
            if !data.is_empty() {
                writer.push_write_apart(StateId::CURRENT, 0, StableHow::DataSync, data.len());
            }
            writer.push(&verifying);
            if modified.is_some() {
                writer.push(&setting);
            }
            writer.push(&CLOSE).push(&Args::RestoreFh).push(&Args::Rename(renaming));
        };
        let payload = (!data.is_empty()).then_some(data);
        let request = Request { operations: Operations { payload, ..Operations::of(&push) }, once: Some(2) };
        let answer = self.client.call(request).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, SaveFh)?;
        let opened: open::ResOk<'_> = result_of!(results, Open)?;
        let stateid = opened.stateid;
        let handle = handle(&mut results)?;
        let rest = (|| {
            if !data.is_empty() {
                // RFC 8881 18.32.3
                let written: WriteResOk = result_of!(results, Write)?;
                if written.committed == StableHow::Unstable {
                    return Err(Error::Protocol("a WRITE is less safe than was asked for"));
                }
            }
            result_of!(results, Verify)?;
            if modified.is_some() {
                set(&mut results)?;
            }
            result_of!(results, Close)
        })();
        if let Err(error) = rest {
            // The file is open. Only the result of its data matters.
            let open = Open::new(handle, taken.keep(), how, stateid, answer.instance);
            let file = ExportFile::new(Arc::clone(&self.client), open, Attributes::UNKNOWN);
            let _ = file.close().await;
            return Err(match error.nfs_status() {
                Some(NfsStat::NotSame) => Error::Protocol("a WRITE was done in part"),
                _ => error,
            });
        }
        result_of!(results, RestoreFh)?;
        result_of!(results, Rename).map(drop)
    }

    /// Renames `from` in this directory to `to`, replacing another file.
    ///
    /// # Errors
    /// [`Error::Refused`] when `from` does not exist, or `to` cannot be replaced.
    pub async fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renaming = names::RenameArgs { oldname: from.as_bytes(), newname: to.as_bytes() };
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&Args::SaveFh).push(&Args::Rename(renaming));
        };
        let answer = self.client.change(2, &push).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, SaveFh)?;
        result_of!(results, Rename).map(drop)
    }

    /// Sets the modification time and the permission bits of this directory, each unless it is none.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn settle(&self, modified: Option<NfsTime>, mode: Option<u32>) -> Result<()> {
        let mut room = Vec::new();
        let obj_attributes = Fattr::of(&settings(modified, mode), &mut room);
        let args = setattr::Args { stateid: StateId::ANONYMOUS, obj_attributes };
        let answer = self.ask(&[Args::SetAttr(args)]).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        set(&mut results)
    }
}
