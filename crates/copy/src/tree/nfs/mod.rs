//! Files of an export, in one session over several connections. The client itself connects again when it loses them.

mod beside;
mod holes;
mod inside;
mod links;

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use client::nfs::{
    Client, Creation, Directory, File as NfsFile, NfsStat, NfsTime, OpenOptions, Options as NfsOptions,
    StableHow,
};
use client::remote::{Attributes, Entry, Kind};
use client::{ChannelStatus, Url};
use nfs_wire::types::Verifier;
use tokio::sync::OnceCell;

use super::holes::Holes;
use crate::Keep;
use crate::beside::{Beside, Given};
use crate::error::{Doing, Done, Error, Fault};
use crate::name::{join, split};
use crate::plan::Access;
use crate::tree::facts::Fetched;
use crate::tree::like::Like;
use beside::Node;
pub(crate) use inside::Inside;

/// A directory of an export.
#[derive(Debug)]
pub(crate) struct Nfs {
    client: Client,
    /// That of the export itself.
    export: Directory,
    /// The way to the export.
    share: String,
    root: String,
    /// Directories that were found already, by their paths in the export.
    found: Mutex<HashMap<String, Directory>>,
    /// The export from which the server copies by itself.
    inside: OnceCell<Directory>,
    /// Whether files of the server can share storage, as long as nothing speaks against it.
    clones: Arc<AtomicBool>,
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct File {
    file: NfsFile,
    /// What the first WRITE was answered with: the server has lost nothing as long as it says the same.
    verifier: Mutex<Option<Verifier>>,
    /// The instance of the server that opened it: CLONE has no verifier (RFC 7862 15.13.2).
    instance: Option<u64>,
    /// Where it has holes.
    holes: Holes,
}

/// Permission bits of what is made where the source has none.
const FILE: u32 = 0o644;
const DIRECTORY: u32 = 0o755;
/// How long a server may take to take leave.
const PATIENCE: Duration = Duration::from_secs(10);

fn time(ns: i128) -> NfsTime {
    // Every side counts seconds, or less, in 64 bits.
    let seconds = ns.div_euclid(1_000_000_000) as i64;
    NfsTime { seconds, nseconds: ns.rem_euclid(1_000_000_000) as u32 }
}

/// The mode that is set with something that shall be like `like`.
fn mode(like: &Like) -> Option<u32> {
    // RFC 8881 6.4.1.1: setting a mode changes the list.
    like.mode.filter(|_| !like.has_list)
}

impl Nfs {
    pub(super) async fn open(remote: &Url, access: &Access) -> Result<Nfs, Error> {
        let address = (remote.host.as_str(), remote.port);
        let mut client = Client::connect(address, access.nfs.clone()).await;
        if client.as_ref().is_err_and(|error| error.nfs_status() == Some(NfsStat::MinorVersMismatch)) {
            // Without extended attributes and holes, then.
            client = Client::connect(address, NfsOptions { minor_version: 1, ..access.nfs.clone() }).await;
        }
        let client = client.doing(|| format!("connecting to {} port {}", remote.host, remote.port))?;
        let export = client.directory(&remote.share).await;
        let export =
            export.doing(|| format!("looking for the export /{} of {}", remote.share, remote.host))?;
        let (share, root, found) = (remote.share.clone(), remote.path.clone(), Mutex::default());
        let (inside, clones) = (OnceCell::new(), Arc::new(AtomicBool::new(true)));
        Ok(Nfs { client, export, share, root, found, inside, clones })
    }

    fn path(&self, path: &str) -> String {
        join(&self.root, path)
    }

    /// A directory by its path from the export on.
    async fn directory(&self, path: &str) -> Done<Directory> {
        if path.is_empty() {
            return Ok(self.export.clone());
        }
        let found = |this: &Nfs| this.found.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(found) = found(self) {
            return Ok(found);
        }
        let directory = self.export.directory(path).await?;
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(path.to_owned(), directory.clone());
        Ok(directory)
    }

    /// The directory of a path from the beginning of the copy on, and the name in it.
    async fn place<'a>(&self, path: &'a str) -> Done<(Directory, &'a str)> {
        let (above, name) = split(path);
        Ok((self.directory(&self.path(above)).await?, name))
    }

    pub(super) fn step_up(&mut self) -> Option<String> {
        let (above, name) = split(&self.root);
        let (above, name) = (above.to_owned(), name.to_owned());
        self.root = above;
        (!name.is_empty()).then_some(name)
    }

    pub(super) async fn stat(&self, path: &str) -> Done<Attributes> {
        let whole = self.path(path);
        if whole.is_empty() {
            let (kind, mode) = (Kind::Directory, None);
            let node = None;
            return Ok(Attributes {
                kind,
                may_be_listed: true,
                size: 0,
                modified: 0,
                node,
                sparse: false,
                mode,
                attributes: None,
            });
        }
        let (above, name) = split(&whole);
        Ok(Attributes::from(&self.directory(above).await?.stat(name).await?))
    }

    pub(super) async fn list(&self, path: &str) -> Done<Vec<Entry>> {
        Ok(self.directory(&self.path(path)).await?.list().await?.into_iter().map(Entry::from).collect())
    }

    pub(super) async fn make_directory(&self, path: &str, like: &Like) -> Done<()> {
        let (directory, name) = self.place(path).await?;
        Ok(directory.make_directory(name, like.first_mode(DIRECTORY)).await?)
    }

    pub(super) async fn make_root(&self) -> Done<()> {
        let mut above = String::new();
        for name in self.root.split('/').filter(|name| !name.is_empty()) {
            let made = self.directory(&above).await?.make_directory(name, DIRECTORY).await;
            match made.map_err(Fault::from) {
                Err(fault) if !fault.is_taken() => return Err(fault),
                _ => above = join(&above, name),
            }
        }
        Ok(())
    }

    pub(super) async fn settle_directory(&self, path: &str, like: &Like) -> Done<()> {
        let directory = self.directory(&self.path(path)).await?;
        Ok(directory.settle(like.modified.map(time), mode(like)).await?)
    }

    pub(super) async fn remove(&self, path: &str) -> Done<()> {
        let (directory, name) = self.place(path).await?;
        Ok(directory.remove(name).await?)
    }

    pub(super) async fn remove_directory(&self, path: &str) -> Done<()> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.path(path));
        self.remove(path).await
    }

    pub(super) async fn fetch(&self, path: &str, length: u32) -> Done<Fetched> {
        let (directory, name) = self.place(path).await?;
        let (data, known) = directory.fetch(name, length).await?;
        Ok(Fetched { content: Bytes::from_owner(data), facts: Attributes::from(&known), has_streams: false })
    }

    pub(super) async fn put(&self, path: &str, part: &str, content: &Bytes, like: &Like) -> Done<()> {
        let (directory, name) = self.place(path).await?;
        let part = split(part).1;
        let mode = like.mode.unwrap_or(FILE);
        let made = directory.deliver(part, name, mode, content, like.modified.map(time)).await;
        if made.as_ref().is_err_and(|error| !error.is_loss()) {
            // There may be none to remove; what counts is why it was not made.
            let _ = directory.remove(part).await;
        }
        Ok(made?)
    }

    pub(super) async fn open_file(&self, path: &str) -> Done<File> {
        let (directory, name) = self.place(path).await?;
        Ok(File::new(directory.open(name, &OpenOptions::read()).await?))
    }

    pub(super) async fn create(&self, part: &str, as_it_is: bool, like: &Like) -> Done<File> {
        let (directory, name) = self.place(part).await?;
        let mode = like.first_mode(FILE);
        let creation = if as_it_is { Creation::IfMissing(mode) } else { Creation::Anew(mode) };
        Ok(File::new(directory.open(name, &OpenOptions::write(creation)).await?))
    }

    pub(super) async fn finish(&self, file: File, part: &str, path: &str, like: &Like) -> Done<()> {
        let settled = file.file.settle(like.modified.map(time), mode(like)).await;
        file.file.close().await?;
        settled?;
        let (directory, name) = self.place(path).await?;
        Ok(directory.rename(split(part).1, name).await?)
    }

    pub(super) async fn beside(&self, path: &str, keep: &Keep) -> Done<Beside> {
        Node::Directory(&self.directory(&self.path(path)).await?).beside(keep).await
    }

    pub(super) async fn set_beside(&self, path: &str, found: &Beside, keep: &Keep) -> Done<Given> {
        let directory = self.directory(&self.path(path)).await?;
        Node::Directory(&directory).set_beside(found, keep).await
    }

    pub(super) fn max_io(&self) -> u32 {
        self.client.max_io()
    }

    pub(super) async fn widen(&self, channels: usize) -> usize {
        // One that cannot be had makes the copy slower, and no worse.
        let had = self.client.connections().len();
        self.client.widen(channels).await.unwrap_or_else(|_| self.client.connections().len().max(had))
    }

    pub(super) fn narrow(&self, channels: usize) {
        self.client.narrow(channels);
    }

    pub(super) fn channels(&self) -> Vec<ChannelStatus> {
        self.client.connections()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.client.connections().is_empty()
    }

    pub(super) async fn close(&self) {
        // A server that is gone needs no farewell.
        let _ = tokio::time::timeout(PATIENCE, self.client.clone().close()).await;
    }
}

impl File {
    fn new(file: NfsFile) -> File {
        let instance = file.instance().ok();
        File { file, verifier: Mutex::default(), instance, holes: Holes::default() }
    }

    pub(super) async fn read(&self, offset: u64, length: u32) -> Done<Bytes> {
        let first = self.file.read(offset, length).await?;
        if first.len() == length as usize || first.eof || first.is_empty() {
            return Ok(Bytes::from_owner(first));
        }
        // A server may answer less than it was asked for.
        let mut whole = first.to_vec();
        while whole.len() < length as usize {
            let done = whole.len();
            let more = self.file.read(offset + done as u64, length - done as u32).await?;
            whole.extend_from_slice(&more);
            if more.eof || more.is_empty() {
                break;
            }
        }
        Ok(whole.into())
    }

    pub(super) async fn write(&self, offset: u64, data: &Bytes) -> Done<u32> {
        let written = self.file.write(offset, data, StableHow::Unstable).await?;
        self.hold_against(written.verifier)?;
        Ok(written.count)
    }

    /// Whether the server still has all that was written before.
    fn hold_against(&self, verifier: Verifier) -> Done<()> {
        let mut first = self.verifier.lock().unwrap_or_else(PoisonError::into_inner);
        // RFC 8881 18.32.3
        match *first.get_or_insert(verifier) == verifier {
            true => Ok(()),
            false => Err(Fault::Restarted),
        }
    }

    pub(super) async fn beside(&self, keep: &Keep) -> Done<Beside> {
        Node::File(&self.file).beside(keep).await
    }

    pub(super) async fn set_beside(&self, found: &Beside, keep: &Keep) -> Done<Given> {
        Node::File(&self.file).set_beside(found, keep).await
    }

    pub(super) async fn facts(&self) -> Done<Attributes> {
        Ok(Attributes::from(&self.file.stat().await?))
    }

    pub(super) async fn set_length(&self, length: u64) -> Done<()> {
        Ok(self.file.set_length(length).await?)
    }

    pub(super) async fn commit(&self) -> Done<()> {
        let verifier = self.file.commit().await?;
        match self.instance == Some(self.file.instance()?) {
            true => self.hold_against(verifier),
            false => Err(Fault::Restarted),
        }
    }

    pub(super) async fn close(self) -> Done<()> {
        Ok(self.file.close().await?)
    }
}
