//! Copies inside a server that both sides are at: no data comes to this host (MS-SMB2 3.3.5.15.6, RFC 7862 15.2).
//!
//! Source and target must be open in one session there, that of the target; so the source is opened in it once more.

use client::remote::Attributes;

use super::{File, Tree, nfs, smb};
use crate::error::{Done, Fault};

/// Bytes that a server is asked to copy at once.
pub(crate) const AT_ONCE: u64 = client::smb::COPIED_AT_ONCE;

/// A file of the source that is open at the target's session.
#[derive(Debug)]
pub(crate) enum Inside {
    Smb(smb::Inside),
    Nfs(nfs::Inside),
}

impl Tree {
    /// Whether this target and `source` are at one server, which knows our user as the same.
    pub(crate) fn is_at_server_of(&self, source: &Tree) -> bool {
        match (self, source) {
            (Tree::Smb(this), Tree::Smb(source)) => this.is_at_server_of(source),
            (Tree::Nfs(this), Tree::Nfs(source)) => this.is_at_server_of(source),
            _ => false,
        }
    }

    /// Whether the session of this target finds the very directory in which the copy begins at `source`. Two servers may
    /// give themselves the same name, as machines do that were made from one image.
    pub(crate) async fn has_root_of(&self, source: &Tree) -> Done<bool> {
        match (self, source) {
            (Tree::Smb(this), Tree::Smb(source)) => this.has_root_of(source).await,
            (Tree::Nfs(this), Tree::Nfs(source)) => this.has_root_of(source).await,
            _ => Ok(false),
        }
    }

    /// Opens the file `path` of `source` in the session of this target.
    pub(crate) async fn open_inside(&self, source: &Tree, path: &str) -> Done<Inside> {
        match (self, source) {
            (Tree::Smb(this), Tree::Smb(source)) => Ok(Inside::Smb(this.open_inside(source, path).await?)),
            (Tree::Nfs(this), Tree::Nfs(source)) => Ok(Inside::Nfs(this.open_inside(source, path).await?)),
            _ => Err(Fault::Said("the two sides are not at one server".to_owned())),
        }
    }
}

impl Inside {
    /// Has the server copy `length` bytes at `at` to the same place in `writer`.
    pub(crate) async fn copy(&self, writer: &File, at: u64, length: u64) -> Done<()> {
        match (self, writer) {
            (Inside::Smb(source), File::Smb(writer)) => source.copy(writer, at, length).await,
            (Inside::Nfs(source), File::Nfs(writer)) => source.copy(writer, at, length).await,
            _ => Err(Fault::Said("a file of the other side".to_owned())),
        }
    }

    /// What was known of it when it was opened.
    pub(crate) async fn opened(&self) -> Done<Attributes> {
        match self {
            Inside::Smb(source) => Ok(source.opened()),
            Inside::Nfs(source) => source.facts().await,
        }
    }

    /// What is known of it now.
    pub(crate) async fn facts(&self) -> Done<Attributes> {
        match self {
            Inside::Smb(source) => source.facts().await,
            Inside::Nfs(source) => source.facts().await,
        }
    }

    pub(crate) async fn close(self) -> Done<()> {
        match self {
            Inside::Smb(source) => source.close().await,
            Inside::Nfs(source) => source.close().await,
        }
    }
}
