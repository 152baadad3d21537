//! Directories and the operations on names in them. Each operation is one COMPOUND, as far as the RFC allows
//! it.

pub(crate) mod links;
mod small_file;

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use nfs_wire::attr::{Attr, Fattr};
use nfs_wire::compound::CallWriter;
use nfs_wire::op::create::{self, CreateType};
use nfs_wire::op::filehandle::{GetResOk, PutArgs};
use nfs_wire::op::open::{self, Claim, CreateHow, OpenHow, ShareDeny};
use nfs_wire::op::write::ResOk as WriteResOk;
use nfs_wire::op::{Args, close, names, readdir};
use nfs_wire::types::{FileHandle, FileType, Identity, StableHow, StateId, StateOwner};
use nfs_wire::{NfsStat, op};

use super::attributes::{Attributes, WANTED};
use super::client_core::call::Request;
use super::compound_reply::{CompoundReply, Results, result_of};
use super::file::ExportFile;
use super::link::Operations;
use super::opens::Open;
use super::owners;
use crate::Error;
use crate::error::Result;
use crate::nfs::attributes::{attributes, read_attributes};
use crate::nfs::client_core::ClientCore;
use crate::nfs::opens::{Creation, OpenOptions};

/// A directory. Copies share it.
#[derive(Debug, Clone)]
pub struct ExportDirectory {
    pub(crate) client: Arc<ClientCore>,
    pub(super) handle: Arc<[u8]>,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name. No server is bound to UTF-8.
    pub name: Vec<u8>,
    /// Its attributes.
    pub attributes: Attributes,
}

/// The most bytes of a listing in one reply.
const LIST_STEP: u32 = 64 * 1024;
/// The operations around the lookups of a path: SEQUENCE, PUTFH, GETFH and GETATTR.
const AROUND: usize = 4;

impl ExportDirectory {
    /// The root of all exports of the server.
    pub(crate) async fn root(client: Arc<ClientCore>) -> Result<ExportDirectory> {
        let push = |writer: &mut CallWriter| {
            writer.push(&Args::PutRootFh).push(&Args::GetFh);
        };
        let answer = client.take_step("PUTROOTFH", &push).await?;
        let mut results = answer.results();
        result_of!(results, PutRootFh)?;
        let handle = handle(&mut results)?;
        Ok(ExportDirectory { client, handle })
    }

    pub(crate) fn here(&self) -> Args<'_> {
        Args::PutFh(PutArgs { object: FileHandle(&self.handle) })
    }

    /// Sends `more` for this directory. Each operation may be carried out twice.
    pub(crate) async fn ask(&self, more: &[Args<'_>]) -> Result<CompoundReply> {
        self.client.ask(&|writer| self.push(more, writer)).await
    }

    /// Sends `more` for this directory. The first operation is carried out once only.
    pub(crate) async fn change(&self, more: &[Args<'_>]) -> Result<CompoundReply> {
        self.client.change(1, &|writer| self.push(more, writer)).await
    }

    fn push(&self, more: &[Args<'_>], writer: &mut CallWriter) {
        writer.push(&self.here());
        for operation in more {
            writer.push(operation);
        }
    }

    /// Finds a directory below this one by its path. Empty names between slashes are ignored.
    ///
    /// # Errors
    /// [`Error::Refused`] when it does not exist, or its path leads over a symbolic link.
    pub async fn directory(&self, path: &str) -> Result<ExportDirectory> {
        self.find(path, None).await
    }

    /// Does the same as [`ExportDirectory::directory`]. A `step` on the way to an export must be answered in
    /// time.
    pub(crate) async fn find(&self, path: &str, step: Option<&'static str>) -> Result<ExportDirectory> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let mut at = self.clone();
        // RFC 8881 18.36.3
        let at_once = self.client.session()?.operations.saturating_sub(AROUND).max(1);
        for names in names.chunks(at_once) {
            let lookups = names.iter().map(|name| lookup(name));
            let all: Vec<_> = lookups.chain([Args::GetFh, attributes()]).collect();
            let answer = match step {
                Some(step) => at.client.take_step(step, &|writer| at.push(&all, writer)).await?,
                None => at.ask(&all).await?,
            };
            let mut results = answer.results();
            result_of!(results, PutFh)?;
            for _ in names {
                result_of!(results, Lookup)?;
            }
            let handle = handle(&mut results)?;
            let status = match read_attributes(&mut results)?.kind {
                FileType::Dir => None,
                FileType::Lnk => Some(NfsStat::Symlink),
                _ => Some(NfsStat::NotDir),
            };
            if let Some(status) = status {
                return Err(Error::Refused { operation: op::OpNum::Lookup, status });
            }
            at.handle = handle;
        }
        Ok(at)
    }

    /// Creates a directory in this one.
    ///
    /// # Errors
    /// [`Error::Refused`], with NFS4ERR_EXIST when the name exists.
    pub async fn make_directory(&self, name: &str, mode: u32) -> Result<()> {
        let mut room = Vec::new();
        let createattrs = Fattr::of(&[Attr::Mode(mode)], &mut room);
        let args = create::Args { objtype: CreateType::Dir, objname: name.as_bytes(), createattrs };
        let answer = self.change(&[Args::Create(args)]).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Create).map(drop)
    }

    /// Queries the attributes of `name`.
    ///
    /// # Errors
    /// [`Error::Refused`] when the name does not exist.
    pub async fn stat(&self, name: &str) -> Result<Attributes> {
        let answer = self.ask(&[lookup(name), attributes()]).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Lookup)?;
        read_attributes(&mut results)
    }

    /// Queries the attributes of the directory itself.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn known(&self) -> Result<Attributes> {
        let answer = self.ask(&[attributes()]).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        read_attributes(&mut results)
    }

    /// Removes `name`.
    ///
    /// # Errors
    /// [`Error::Refused`] when the name does not exist, or it is a directory that is not empty.
    pub async fn remove(&self, name: &str) -> Result<()> {
        let answer = self.change(&[Args::Remove(names::RemoveArgs { target: name.as_bytes() })]).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Remove).map(drop)
    }

    /// Opens a file in this directory.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn open(&self, name: &str, how: &OpenOptions) -> Result<ExportFile> {
        let taken = BorrowedOwner::new(&self.client);
        let room = &mut Vec::new();
        let open = self.open_args(name, *how, &taken.name, room);
        let more = [open, Args::GetFh, attributes()];
        let push = |writer: &mut CallWriter| self.push(&more, writer);
        let request = Request {
            operations: Operations::of(&push),
            // Any other OPEN by an owner of its own can be repeated, and gives the same result.
            once: matches!(how.creation, Creation::Always(_)).then_some(1),
        };
        let answer = self.client.call(request).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let opened: open::ResOk<'_> = result_of!(results, Open)?;
        let handle = handle(&mut results)?;
        let attributes = read_attributes(&mut results)?;
        let open = Open::new(handle, taken.keep(), *how, opened.stateid, answer.instance);
        let file = ExportFile::new(Arc::clone(&self.client), open, attributes);
        if let Some(responder) = self.client.responder.as_ref().filter(|_| !file.is_lost()) {
            responder.hold(&opened.delegation, &file.open.handle);
        }
        Ok(file)
    }

    /// Opens a file and closes it again in one COMPOUND.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses.
    pub async fn touch(&self, name: &str, how: &OpenOptions) -> Result<()> {
        let taken = BorrowedOwner::new(&self.client);
        let room = &mut Vec::new();
        let more = [self.open_args(name, *how, &taken.name, room), CLOSE];
        let answer = self.change(&more).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        result_of!(results, Open)?;
        result_of!(results, Close)?;
        Ok(())
    }

    /// Opens a file, writes `data` at its beginning and closes it again, in one COMPOUND if the server can.
    /// Content that takes one WRITE is not synced.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses, [`Error::UnstableLost`] when it restarts meanwhile,
    /// [`Error::Protocol`] when it wrote less.
    pub async fn put(&self, name: &str, how: &OpenOptions, data: &Bytes) -> Result<()> {
        if data.len() > self.client.session()?.room.0 as usize {
            let file = self.open(name, how).await?;
            let written = file.write_whole(data).await;
            let closed = file.close().await;
            return written.and(closed);
        }
        let taken = BorrowedOwner::new(&self.client);
        let room = &mut Vec::new();
        let open = self.open_args(name, *how, &taken.name, room);
        let push = |writer: &mut CallWriter| {
            writer.push(&self.here()).push(&open).push(&Args::GetFh);
            writer.push_write_apart(StateId::CURRENT, 0, StableHow::Unstable, data.len()).push(&CLOSE);
        };
        let request = Request {
            operations: Operations { payload: Some(data), ..Operations::of(&push) },
            once: Some(1),
        };
        let answer = self.client.call(request).await?;
        let mut results = answer.results();
        result_of!(results, PutFh)?;
        let opened: open::ResOk<'_> = result_of!(results, Open)?;
        let stateid = opened.stateid;
        let handle = handle(&mut results)?;
        let written: Result<WriteResOk> = result_of!(results, Write);
        let whole = match written {
            Ok(written) => written.count as usize == data.len() && result_of!(results, Close).is_ok(),
            Err(_) => false,
        };
        if whole {
            return Ok(());
        }
        // The file is open. The rest is done step by step.
        let open = Open::new(handle, taken.keep(), *how, stateid, answer.instance);
        let file = ExportFile::new(Arc::clone(&self.client), open, Attributes::UNKNOWN);
        let written = file.write_whole(data).await;
        let closed = file.close().await;
        written.and(closed)
    }

    pub(crate) fn open_args<'a>(
        &self,
        name: &'a str,
        how: OpenOptions,
        owner: &'a [u8],
        room: &'a mut Vec<u8>,
    ) -> Args<'a> {
        let openhow = match how.creation {
            Creation::Never => OpenHow::NoCreate,
            Creation::IfMissing(mode) => {
                OpenHow::Create(CreateHow::Unchecked(Fattr::of(&[Attr::Mode(mode)], room)))
            }
            Creation::Always(mode) => {
                OpenHow::Create(CreateHow::Guarded(Fattr::of(&[Attr::Mode(mode)], room)))
            }
            Creation::Anew(mode) => {
                let attributes = [Attr::Size(0), Attr::Mode(mode)];
                OpenHow::Create(CreateHow::Unchecked(Fattr::of(&attributes, room)))
            }
        };
        Args::Open(open::Args {
            seqid: 0,
            share_access: how.access(self.client.responder.is_some()),
            share_deny: ShareDeny::empty(),
            owner: StateOwner { clientid: 0, owner: Identity(owner) },
            openhow,
            claim: Claim::Null(name.as_bytes()),
        })
    }

    /// Lists all entries, in the server's order, without those for this directory and its parent.
    ///
    /// # Errors
    /// [`Error::Refused`] when the server refuses. [`Error::Protocol`] when the listing returns to an earlier
    /// place.
    pub async fn list(&self) -> Result<Vec<DirectoryEntry>> {
        let maxcount = LIST_STEP.min(self.client.session()?.room.1);
        let mut entries = Vec::new();
        let (mut cookie, mut cookieverf) = (0, [0; 8]);
        // RFC 8881 18.23.3: a cookie stands for one place in the directory.
        let mut asked = HashSet::new();
        loop {
            let args =
                readdir::Args { cookie, cookieverf, dircount: maxcount / 4, maxcount, attr_request: WANTED };
            let answer = self.ask(&[Args::ReadDir(args)]).await?;
            let mut results = answer.results();
            result_of!(results, PutFh)?;
            let listed: readdir::ResOk<'_> = result_of!(results, ReadDir)?;
            asked.insert(cookie);
            for entry in listed.entries.iter() {
                let attributes = Attributes::read(&entry.attrs)?;
                entries.push(DirectoryEntry { name: entry.name.to_vec(), attributes });
                cookie = entry.cookie;
            }
            if listed.eof {
                return Ok(entries);
            }
            if asked.contains(&cookie) {
                return Err(Error::Protocol("a listing that does not go on"));
            }
            cookieverf = listed.cookieverf;
        }
    }
}

/// Closes the open of the same COMPOUND.
pub(crate) const CLOSE: Args<'static> = Args::Close(close::Args { seqid: 0, open_stateid: StateId::CURRENT });

pub(crate) fn lookup(name: &str) -> Args<'_> {
    Args::Lookup(names::LookupArgs { objname: name.as_bytes() })
}

/// Takes the result of GETFH.
pub(crate) fn handle(results: &mut Results<'_>) -> Result<Arc<[u8]>> {
    let got: GetResOk<'_> = result_of!(results, GetFh)?;
    Ok(got.object.0.into())
}

/// An open-owner during an OPEN. It is returned unless the file stays open.
pub(crate) struct BorrowedOwner<'a> {
    client: &'a ClientCore,
    owner: Option<u32>,
    pub(crate) name: [u8; 4],
}

impl BorrowedOwner<'_> {
    pub(crate) fn new(client: &ClientCore) -> BorrowedOwner<'_> {
        let owner = client.owners.take();
        BorrowedOwner { client, owner: Some(owner), name: owners::name(owner) }
    }

    pub(crate) fn keep(mut self) -> u32 {
        self.owner.take().unwrap_or_default()
    }
}

impl Drop for BorrowedOwner<'_> {
    fn drop(&mut self) {
        if let Some(owner) = self.owner {
            self.client.owners.give_back(owner);
        }
    }
}
