//! Files of an export, in one session over several connections: what a copy needs beside the operations of
//! [`client::remote`]. The client itself reconnects when it loses connections.

pub(super) mod holes;
mod links;
mod offload;
pub(super) mod sidecar;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use client::Url;
use client::nfs::{Client, ExportDirectory, NfsStat, NfsTime, Options as NfsOptions};
use client::remote::{Attributes, Directory, Kind, MountOptions, RemoteFile, RemoteSession};
use tokio::sync::OnceCell;

use crate::PreservedParts;
use crate::error::{Error, ErrorContext, Fault, FileResult};
use crate::name::{join, split};
use crate::plan::Access;
use crate::sidecar::{Sidecar, SidecarOutcome};
use crate::tree::File;
use crate::tree::listing::Fetched;
use crate::tree::target_attributes::TargetAttributes;
use sidecar::NfsNode;

/// A directory of an export.
#[derive(Debug)]
pub(crate) struct Nfs {
    client: Client,
    pub(super) session: RemoteSession,
    /// The directory of the export itself.
    pub(super) export: Directory,
    /// The path to the export.
    share: String,
    root: String,
    /// The source's export in this session, from which the server copies by itself.
    source_export: OnceCell<Directory>,
    /// Whether files of the server can share storage, as far as is known.
    clones: Arc<AtomicBool>,
}

/// The attributes of the export itself, which has no name in it. Its times and bits are not copied.
pub(super) const EXPORT: Attributes = Attributes {
    kind: Kind::Directory,
    may_be_listed: true,
    size: 0,
    modified: 0,
    node: None,
    sparse: false,
    mode: None,
    attributes: None,
};

/// The time for which the end of the session is waited for.
pub(super) const FAREWELL: Duration = Duration::from_secs(10);

fn time(ns: i128) -> NfsTime {
    // Every side counts seconds, or less, in 64 bits.
    let seconds = ns.div_euclid(1_000_000_000) as i64;
    NfsTime { seconds, nseconds: ns.rem_euclid(1_000_000_000) as u32 }
}

/// The mode to set with an object that shall be like `like`.
fn mode(like: &TargetAttributes) -> Option<u32> {
    // RFC 8881 6.4.1.1: setting a mode changes the list.
    like.mode.filter(|_| !like.has_list)
}

impl Nfs {
    pub(super) async fn open(remote: &Url, access: &Access) -> Result<Nfs, Error> {
        let address = (remote.host.as_str(), remote.port);
        let mut client = Client::connect(address, access.nfs.clone()).await;
        if client.as_ref().is_err_and(|error| error.nfs_status() == Some(NfsStat::MinorVersMismatch)) {
            // The copy then has no extended attributes and no holes.
            client = Client::connect(address, NfsOptions { minor_version: 1, ..access.nfs.clone() }).await;
        }
        let client = client.doing(|| format!("connecting to {} port {}", remote.host, remote.port))?;
        let export = client.directory(&remote.share).await;
        let export =
            export.doing(|| format!("looking for the export /{} of {}", remote.share, remote.host))?;
        Ok(Nfs {
            client: client.clone(),
            export: Directory::nfs(export.clone(), MountOptions::default()),
            session: RemoteSession::Nfs { client, export },
            share: remote.share.clone(),
            root: remote.path.clone(),
            source_export: OnceCell::new(),
            clones: Arc::new(AtomicBool::new(true)),
        })
    }

    pub(super) fn path(&self, path: &str) -> String {
        join(&self.root, path)
    }

    /// A directory by its path from the root of the copy.
    async fn directory(&self, path: &str) -> FileResult<ExportDirectory> {
        Ok(self.export.export_directory(&self.path(path)).await?)
    }

    /// The directory of `path`, and the name in it.
    async fn parent<'a>(&self, path: &'a str) -> FileResult<(ExportDirectory, &'a str)> {
        let (above, name) = split(path);
        Ok((self.directory(above).await?, name))
    }

    pub(super) fn step_up(&mut self) -> Option<String> {
        crate::name::step_up(&mut self.root)
    }

    pub(super) async fn settle_directory(&self, path: &str, like: &TargetAttributes) -> FileResult<()> {
        Ok(self.directory(path).await?.settle(like.modified.map(time), mode(like)).await?)
    }

    pub(super) async fn fetch(&self, path: &str, length: u32) -> FileResult<Fetched> {
        let (directory, name) = self.parent(path).await?;
        let (data, known) = directory.fetch(name, length).await?;
        Ok(Fetched {
            content: Bytes::from_owner(data),
            attributes: Attributes::from(&known),
            has_streams: false,
        })
    }

    pub(super) async fn put(
        &self,
        path: &str,
        part: &str,
        content: &Bytes,
        like: &TargetAttributes,
    ) -> FileResult<()> {
        let (directory, name) = self.parent(path).await?;
        let part = split(part).1;
        let mode = like.mode.unwrap_or(0o644);
        let made = directory.deliver(part, name, mode, content, like.modified.map(time)).await;
        if made.as_ref().is_err_and(|error| !error.is_loss()) {
            // There may be none to remove. The caller gets the first error.
            let _ = directory.remove(part).await;
        }
        Ok(made?)
    }

    pub(super) async fn finish(
        &self,
        file: File,
        part: &str,
        path: &str,
        like: &TargetAttributes,
    ) -> FileResult<()> {
        let RemoteFile::Nfs(file, _) = file.file else { return Err(Fault::other_side()) };
        let settled = file.settle(like.modified.map(time), mode(like)).await;
        file.close().await?;
        settled?;
        let (directory, name) = self.parent(path).await?;
        Ok(directory.rename(split(part).1, name).await?)
    }

    pub(super) async fn sidecar(&self, path: &str, keep: &PreservedParts) -> FileResult<Sidecar> {
        NfsNode::Directory(&self.directory(path).await?).read(keep).await
    }

    pub(super) async fn set_sidecar(
        &self,
        path: &str,
        sidecar: &Sidecar,
        keep: &PreservedParts,
    ) -> FileResult<SidecarOutcome> {
        NfsNode::Directory(&self.directory(path).await?).write(sidecar, keep).await
    }
}
