//! Copies inside a server that both sides use. No data comes to this host (MS-SMB2 3.3.5.15.6, RFC 7862
//! 15.2).
//!
//! Source and target must be open in one session there, the target's. So the source is opened in it once
//! more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::remote::{Attributes, RemoteFile};
use client::smb::CopySource;

use super::{File, Tree, smb};
use crate::error::{Fault, FileResult};

/// The bytes that a server copies with one request.
pub(crate) const AT_ONCE: u64 = client::smb::COPIED_AT_ONCE;

/// A file of the source that is open in the target's session.
#[derive(Debug)]
pub(crate) struct OffloadSource {
    pub(super) file: RemoteFile,
    /// The key of a file of a share.
    pub(super) key: Option<CopySource>,
    /// Whether files of the server can share storage, as far as is known.
    pub(super) clones: Arc<AtomicBool>,
}

impl Tree {
    /// Whether this target and `source` are on one server, which knows our user as the same.
    pub(crate) fn is_at_server_of(&self, source: &Tree) -> bool {
        match (self, source) {
            (Tree::Smb(this), Tree::Smb(source)) => this.is_at_server_of(source),
            (Tree::Nfs(this), Tree::Nfs(source)) => this.is_at_server_of(source),
            _ => false,
        }
    }

    /// Whether the session of this target finds the very root of `source`. Two servers may state the same
    /// identity, for example machines that were made from one image.
    pub(crate) async fn has_root_of(&self, source: &Tree) -> FileResult<bool> {
        match (self, source) {
            (Tree::Smb(this), Tree::Smb(source)) => this.has_root_of(source).await,
            (Tree::Nfs(this), Tree::Nfs(source)) => this.has_root_of(source).await,
            _ => Ok(false),
        }
    }

    /// Opens the file `path` of `source` in the session of this target.
    pub(crate) async fn open_offload(&self, source: &Tree, path: &str) -> FileResult<OffloadSource> {
        match (self, source) {
            (Tree::Smb(this), Tree::Smb(source)) => this.open_offload(source, path).await,
            (Tree::Nfs(this), Tree::Nfs(source)) => this.open_offload(source, path).await,
            _ => Err(Fault::Said("the two sides are not at one server".to_owned())),
        }
    }
}

impl OffloadSource {
    /// Makes the server copy `length` bytes at `at` to the same place in `writer`.
    pub(crate) async fn copy(&self, writer: &File, at: u64, length: u64) -> FileResult<()> {
        match (&self.file, self.key, &writer.file) {
            (RemoteFile::Smb(source), Some(key), RemoteFile::Smb(target)) => {
                if smb::offload::clone(self, source, writer, target, at, length).await? {
                    return Ok(());
                }
                writer.length.note(at + length).await;
                Ok(target.copy_from(key, at, length).await?)
            }
            (RemoteFile::Nfs(source, _), _, RemoteFile::Nfs(target, _)) => {
                if self.can_clone() {
                    match target.share_storage_of(source, at, length).await.map_err(Fault::from) {
                        Ok(()) => return Ok(()),
                        Err(fault) if fault.is_interruption() => return Err(fault),
                        Err(_) => self.cannot_clone(),
                    }
                }
                let mut done = 0;
                while done < length {
                    let (count, verifier) = target.copy_from(source, at + done, length - done).await?;
                    writer.compare(verifier)?;
                    if count == 0 {
                        return Err(Fault::Changed);
                    }
                    done += count;
                }
                Ok(())
            }
            _ => Err(Fault::Said("a file of the other side".to_owned())),
        }
    }

    pub(super) fn can_clone(&self) -> bool {
        self.clones.load(Ordering::Relaxed)
    }

    pub(super) fn cannot_clone(&self) {
        self.clones.store(false, Ordering::Relaxed);
    }

    /// Its attributes when it was opened.
    pub(crate) fn opened(&self) -> Attributes {
        self.file.opened()
    }

    /// Its present attributes.
    pub(crate) async fn attributes(&self) -> FileResult<Attributes> {
        Ok(self.file.stat().await?)
    }

    pub(crate) async fn close(self) -> FileResult<()> {
        Ok(self.file.close().await?)
    }
}
