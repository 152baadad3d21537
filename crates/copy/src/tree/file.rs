//! An open file of a side, with what a copy must know while it writes to it or looks for its holes.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use client::Error;
use client::remote::{Attributes, RemoteFile, local};
use nfs_wire::types::Verifier;
use smb_wire::fscc::FileAttributes;
use tokio::sync::OnceCell;

use super::file_length::FileLength;
use super::holes::Holes;
use super::{local as host, nfs, smb};
use crate::PreservedParts;
use crate::error::{Fault, FileResult};
use crate::sidecar::{Sidecar, SidecarOutcome};

/// An open file.
#[derive(Debug)]
pub(crate) struct File {
    pub(super) file: RemoteFile,
    /// Its holes, as far as the server has told.
    holes: Holes,
    /// Whether a share keeps its holes, once that has been requested.
    keeps_holes: OnceCell<bool>,
    /// Its length, or the length after the pending writes.
    pub(super) length: FileLength,
    /// The verifier of the first WRITE to an export. The server has lost nothing as long as it stays the
    /// same.
    verifier: Mutex<Option<Verifier>>,
    /// The instance of the NFS server that opened it. CLONE has no verifier (RFC 7862 15.13.2).
    instance: Option<u64>,
}

impl File {
    pub(super) fn new(file: RemoteFile) -> File {
        let instance = if let RemoteFile::Nfs(file, _) = &file { file.instance().ok() } else { None };
        File {
            length: FileLength::new(file.size()),
            file,
            holes: Holes::default(),
            keeps_holes: OnceCell::new(),
            verifier: Mutex::default(),
            instance,
        }
    }

    /// Reads up to `length` bytes at `offset`. There are fewer only at the end.
    pub(crate) async fn read(&self, offset: u64, length: u32) -> FileResult<Bytes> {
        Ok(self.file.read_all(offset, length).await?)
    }

    /// Writes all of `data` at `offset`.
    pub(crate) async fn write(&self, offset: u64, data: &Bytes) -> FileResult<()> {
        self.length.note(offset + data.len() as u64).await;
        match self.file.write_all(offset, data).await? {
            Some(verifier) => self.compare(verifier),
            None => Ok(()),
        }
    }

    /// Fails if the server may have lost earlier writes.
    pub(super) fn compare(&self, verifier: Verifier) -> FileResult<()> {
        let mut first = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        // RFC 8881 18.32.3
        match *first.get_or_insert(verifier) == verifier {
            true => Ok(()),
            false => Err(Error::UnstableLost.into()),
        }
    }

    /// The first byte at or after `offset` that is not in a hole, as far as that can be known. A server is
    /// asked about many pieces of `piece` bytes at once, so offsets should be whole pieces apart.
    pub(crate) async fn data_from(&self, offset: u64, piece: u64) -> FileResult<u64> {
        match &self.file {
            RemoteFile::Local(file) => host::data_from(file, offset).await,
            RemoteFile::Smb(file) => smb::holes::data_from(file, &self.holes, offset).await,
            RemoteFile::Nfs(file, _) => nfs::holes::data_from(file, &self.holes, offset, piece).await,
        }
    }

    /// Requests that holes are kept. Returns whether unwritten ranges read as zeros. A share whose file
    /// system has no holes does not promise that.
    pub(crate) async fn keeps_holes(&self) -> FileResult<bool> {
        // This host and NFS need no request.
        let RemoteFile::Smb(file) = &self.file else { return Ok(true) };
        let ask = || async {
            match file.set_sparse().await.map_err(Fault::from) {
                Ok(()) => Ok(true),
                Err(fault) if fault.is_interruption() => Err(fault),
                Err(_) => Ok(false),
            }
        };
        self.keeps_holes.get_or_try_init(ask).await.copied()
    }

    /// Whether a file of a share is marked as sparse, by this copy or by the broken one that it continues.
    pub(super) fn is_marked_sparse(&self) -> bool {
        let RemoteFile::Smb(file) = &self.file else { return false };
        let was_marked = file.info().file_attributes & FileAttributes::SPARSE_FILE.bits() != 0;
        was_marked || self.keeps_holes.get() == Some(&true)
    }

    /// Its attributes when it was opened.
    pub(crate) fn opened(&self) -> Attributes {
        self.file.opened()
    }

    /// Its present attributes.
    pub(crate) async fn attributes(&self) -> FileResult<Attributes> {
        Ok(self.file.stat().await?)
    }

    /// Reads its sidecar data.
    pub(crate) async fn sidecar(&self, keep: &PreservedParts) -> FileResult<Sidecar> {
        match &self.file {
            RemoteFile::Local(file) => {
                let (file, keep) = (file.file().clone(), *keep);
                Ok(local::in_pool(move || host::sidecar::read(&file, &keep)).await?)
            }
            RemoteFile::Smb(file) => smb::sidecar::SmbNode(file).read(keep).await,
            RemoteFile::Nfs(file, _) => nfs::sidecar::NfsNode::File(file).read(keep).await,
        }
    }

    /// Sets its sidecar data.
    pub(crate) async fn set_sidecar(
        &self,
        sidecar: &Sidecar,
        keep: &PreservedParts,
    ) -> FileResult<SidecarOutcome> {
        match &self.file {
            RemoteFile::Local(file) => {
                let (file, sidecar, keep) = (file.file().clone(), sidecar.clone(), *keep);
                Ok(local::in_pool(move || host::sidecar::write(&file, &sidecar, &keep)).await?)
            }
            RemoteFile::Smb(file) => smb::sidecar::SmbNode(file).write(sidecar, keep).await,
            RemoteFile::Nfs(file, _) => nfs::sidecar::NfsNode::File(file).write(sidecar, keep).await,
        }
    }

    pub(crate) async fn set_length(&self, length: u64) -> FileResult<()> {
        self.length.set(length, async || Ok(self.file.set_length(length).await?)).await
    }

    /// Whether written data may be lost until [`File::settle_data`] has succeeded.
    pub(crate) fn may_lose(&self) -> bool {
        // RFC 8881 18.32.3
        matches!(self.file, RemoteFile::Nfs(..))
    }

    /// Commits the written data, if the protocol requires it. With `sync` it waits for stable storage in any
    /// case.
    pub(crate) async fn settle_data(&self, sync: bool) -> FileResult<()> {
        match &self.file {
            RemoteFile::Local(file) if sync => {
                let file = file.file().clone();
                Ok(local::in_pool(move || file.sync_all()).await?)
            }
            RemoteFile::Smb(file) if sync => Ok(file.flush().await?),
            RemoteFile::Nfs(file, _) => {
                let verifier = file.commit().await?;
                match self.instance == Some(file.instance()?) {
                    true => self.compare(verifier),
                    false => Err(Error::UnstableLost.into()),
                }
            }
            RemoteFile::Local(_) | RemoteFile::Smb(_) => Ok(()),
        }
    }

    pub(crate) async fn close(self) -> FileResult<()> {
        Ok(self.file.close().await?)
    }
}
