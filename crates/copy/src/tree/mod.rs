//! A tree of files on one side of a copy. Paths are relative to the root of the copy. Their parts are divided
//! by `/`, and the empty path is the root.
//!
//! The operations that SMB, NFS and this host have in common are those of [`client::remote`]. The sides
//! ([`local`], [`smb`], [`nfs`]) add what only a copy needs: it sets times, bits and owners, it puts files
//! and links in place at once, and it has a server copy by itself.
//!
//! A new file gets a temporary name first and its final name when it is complete: with [`Tree::put`] if it
//! fits one piece, else with [`Tree::create`] and [`Tree::finish`]. Otherwise its directory has a temporary
//! name ([`Tree::staging_path`]).

mod file;
mod file_length;
mod holes;
pub(crate) mod links;
pub(crate) mod listing;
mod local;
mod nfs;
pub(crate) mod offload;
pub(crate) mod path_traffic;
mod smb;
pub(crate) mod target_attributes;

use bytes::Bytes;
use client::remote::{Attributes, Directory, Entry, MountOptions, OpenMode, RemoteSession};
use client::{ChannelStatus, Scheme, Url};
use tokio::task::JoinHandle;

use crate::PreservedParts;
use crate::error::{Error, Fault, FileResult};
use crate::plan::Access;
use crate::sidecar::{Sidecar, SidecarOutcome};
use crate::tree::listing::{Fetched, Listing, TargetName};
use crate::tree::path_traffic::PathTraffic;
use crate::tree::target_attributes::TargetAttributes;
pub(crate) use file::File;

/// One side of a copy.
#[derive(Debug)]
pub(crate) enum Tree {
    Local(local::Local),
    Smb(Box<smb::Smb>),
    Nfs(Box<nfs::Nfs>),
}

/// Calls the same method of each side.
macro_rules! of_side {
    ($self:expr, $side:ident => $call:expr) => {
        match $self {
            Tree::Local($side) => $call,
            Tree::Smb($side) => $call,
            Tree::Nfs($side) => $call,
        }
    };
}

impl Tree {
    /// Connects to `url`, over one connection if it is on a server.
    pub(crate) async fn open(url: &Url, access: &Access) -> Result<Tree, Error> {
        Tree::open_for(url, access, None).await
    }

    /// Does the same. The sessions of [`Tree::split`] are opened at the same time, as soon as `is_many` says
    /// that many small files will be copied.
    pub(crate) async fn open_for(
        url: &Url,
        access: &Access,
        is_many: Option<JoinHandle<bool>>,
    ) -> Result<Tree, Error> {
        Ok(match url.scheme {
            Scheme::Smb => Tree::Smb(Box::new(smb::Smb::open(url, access, is_many).await?)),
            Scheme::Nfs => Tree::Nfs(Box::new(nfs::Nfs::open(url, access).await?)),
            _ => Tree::Local(local::Local::new(url.path.as_ref())),
        })
    }

    /// The directory from which `path` is reached, and the path from there.
    fn locate(&self, path: &str, options: MountOptions) -> (Directory, String) {
        match self {
            Tree::Local(side) => (Directory::host_tree(side.root.clone(), options), path.to_owned()),
            Tree::Smb(side) => (Directory::smb(side.tree(), String::new(), options), side.path(path)),
            Tree::Nfs(side) => (side.export.with(options), side.path(path)),
        }
    }

    fn at(&self, path: &str) -> (Directory, String) {
        self.locate(path, MountOptions::default())
    }

    /// The same for a new file or directory, which will be made as `like` says.
    fn at_new(&self, path: &str, like: &TargetAttributes) -> (Directory, String) {
        // The umask of this process takes its part of the bits on this host.
        let (file, directory) = if let Tree::Local(_) = self { (0o666, 0o777) } else { (0o644, 0o755) };
        let (file_mode, dir_mode) = (like.first_mode(file), like.first_mode(directory));
        self.locate(path, MountOptions { file_mode, dir_mode, ..MountOptions::default() })
    }

    /// Whether names are those of a share, in which some characters have a meaning and case does not count.
    pub(crate) fn is_share(&self) -> bool {
        matches!(self, Tree::Smb(_))
    }

    /// Makes the parent of the root the new root, and returns the name of the old root in it.
    pub(crate) fn step_up(&mut self) -> FileResult<String> {
        let none = || Fault::Said("it has no name of its own".to_owned());
        of_side!(self, side => side.step_up()).ok_or_else(none)
    }

    /// The attributes of `path`, if it exists.
    pub(crate) async fn stat(&self, path: &str) -> FileResult<Option<Attributes>> {
        let known = match self {
            Tree::Smb(side) if path.is_empty() => side.take_found(),
            Tree::Nfs(side) if side.path(path).is_empty() => Some(Ok(nfs::EXPORT)),
            _ => None,
        };
        let known = match known {
            Some(known) => known,
            None => {
                let (directory, path) = self.at(path);
                directory.stat(&path).await
            }
        };
        match known {
            Ok(attributes) => Ok(Some(attributes)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the directory `path`.
    pub(crate) async fn list(&self, path: &str) -> FileResult<Listing> {
        let (directory, path) = self.at(path);
        let mut listing = Listing::default();
        for Entry { name, attributes } in directory.list_at(&path).await? {
            listing.add(&name, attributes);
        }
        Ok(listing)
    }

    /// Creates the directory `path`, which will be made as `like` says. Returns false if it exists, which is
    /// as good.
    pub(crate) async fn make_directory(&self, path: &str, like: &TargetAttributes) -> FileResult<bool> {
        let (directory, path) = self.at_new(path, like);
        match directory.make_directory(&path, false).await {
            Err(error) if error.is_taken() => Ok(false),
            made => Ok(made.map(|()| true)?),
        }
    }

    /// Creates the root, and the missing directories above it.
    pub(crate) async fn make_root(&self) -> FileResult<()> {
        let (directory, root) = self.at("");
        Ok(directory.make_directories(&root).await?)
    }

    /// The path of the directory `path` until it gets its name, if a late name makes small files in it
    /// faster. A path beside the root begins with `../`.
    pub(crate) fn staging_path(&self, path: &str) -> Option<String> {
        match self {
            Tree::Smb(side) => side.staging_path(path),
            Tree::Local(_) | Tree::Nfs(_) => None,
        }
    }

    fn share(&self) -> FileResult<&smb::Smb> {
        match self {
            Tree::Smb(side) => Ok(side),
            Tree::Local(_) | Tree::Nfs(_) => Err(Fault::no_share()),
        }
    }

    /// Creates the missing directories above the root.
    pub(crate) async fn make_above_root(&self) -> FileResult<()> {
        self.share()?.make_above_root().await
    }

    /// Renames the directory `path` to `new_path`, which must not exist, and makes it as `like` says. Returns
    /// false if only the former was done.
    pub(crate) async fn rename_directory(
        &self,
        path: &str,
        new_path: &str,
        like: &TargetAttributes,
    ) -> FileResult<bool> {
        self.share()?.rename_directory(path, new_path, like).await
    }

    /// Renames the file `path` to `new_path`, replacing another file.
    pub(crate) async fn replace(&self, path: &str, new_path: &str) -> FileResult<()> {
        self.share()?.replace(path, new_path).await
    }

    /// Makes the directory `path` as `like` says.
    pub(crate) async fn settle_directory(&self, path: &str, like: &TargetAttributes) -> FileResult<()> {
        of_side!(self, side => side.settle_directory(path, like).await)
    }

    /// Removes a file.
    pub(crate) async fn remove(&self, path: &str) -> FileResult<()> {
        if let Tree::Smb(side) = self {
            return side.remove(path, false).await;
        }
        let (directory, path) = self.at(path);
        Ok(directory.remove(&path).await?)
    }

    /// Removes an empty directory.
    pub(crate) async fn remove_directory(&self, path: &str) -> FileResult<()> {
        if let Tree::Smb(side) = self {
            return side.remove(path, true).await;
        }
        let (directory, path) = self.at(path);
        Ok(directory.remove_directory(&path).await?)
    }

    /// Reads all of a file of `size` bytes. A file that has grown returns a byte more.
    pub(crate) async fn fetch(&self, path: &str, size: u64) -> FileResult<Fetched> {
        of_side!(self, side => side.fetch(path, size as u32 + 1).await)
    }

    /// Creates the file `path` with `content` under the name `part` first, as `like` says.
    pub(crate) async fn put(
        &self,
        path: &str,
        part: &str,
        content: &Bytes,
        like: &TargetAttributes,
        spot: TargetName,
    ) -> FileResult<()> {
        if let Tree::Smb(side) = self {
            let is_done = match spot {
                TargetName::Taken => false,
                TargetName::Free => side.put_new(path, Some(part), content, like).await?,
                TargetName::Unseen => side.put_new(path, None, content, like).await?,
            };
            if is_done {
                return Ok(());
            }
        }
        of_side!(self, side => side.put(path, part, content, like).await)
    }

    /// Opens a file to read.
    pub(crate) async fn open_file(&self, path: &str) -> FileResult<File> {
        let (directory, path) = self.at(path);
        Ok(File::new(directory.open(&path, OpenMode::Read).await?))
    }

    /// Opens `part` to write, with the content that it has. It will be made as `like` says.
    pub(crate) async fn create(&self, part: &str, like: &TargetAttributes) -> FileResult<File> {
        if let Tree::Smb(side) = self {
            return side.create(part).await;
        }
        let (directory, part) = self.at_new(part, like);
        Ok(File::new(directory.open(&part, OpenMode::Make).await?))
    }

    /// Makes the open file `part` as `like` says, and renames it to `path`.
    pub(crate) async fn finish(
        &self,
        file: File,
        part: &str,
        path: &str,
        like: &TargetAttributes,
    ) -> FileResult<()> {
        of_side!(self, side => side.finish(file, part, path, like).await)
    }

    /// Reads the sidecar data of the directory `path`.
    pub(crate) async fn sidecar(&self, path: &str, keep: &PreservedParts) -> FileResult<Sidecar> {
        of_side!(self, side => side.sidecar(path, keep).await)
    }

    /// Sets the sidecar data of the directory `path`.
    pub(crate) async fn set_sidecar(
        &self,
        path: &str,
        sidecar: &Sidecar,
        keep: &PreservedParts,
    ) -> FileResult<SidecarOutcome> {
        of_side!(self, side => side.set_sidecar(path, sidecar, keep).await)
    }

    /// Opens the named stream `name` of a file or directory to read.
    pub(crate) async fn open_stream(&self, path: &str, name: &str) -> FileResult<File> {
        self.share().map_err(|_| Fault::no_streams())?.open_stream(path, name).await
    }

    /// Creates the named stream `name` of a file or directory, empty.
    pub(crate) async fn create_stream(&self, path: &str, name: &str) -> FileResult<File> {
        self.share().map_err(|_| Fault::no_streams())?.create_stream(path, name).await
    }

    /// Tries to reach a server again that may be gone.
    pub(crate) async fn revive(&self) -> FileResult<()> {
        match self {
            Tree::Smb(side) => side.revive().await,
            // An NFS client reconnects by itself, for as long as its options say.
            Tree::Local(_) | Tree::Nfs(_) => Ok(()),
        }
    }

    fn session(&self) -> RemoteSession {
        match self {
            Tree::Local(_) => RemoteSession::Local,
            Tree::Smb(side) => side.session(),
            Tree::Nfs(side) => side.session.clone(),
        }
    }

    /// Whether no connection to the server is left.
    pub(crate) fn is_lost(&self) -> bool {
        !matches!(self, Tree::Local(_)) && self.session().channels().is_empty()
    }

    /// The most bytes of one READ or WRITE.
    pub(crate) fn max_io(&self) -> u32 {
        self.session().max_io()
    }

    /// Opens connections to the server until there are `channels`, or the server refuses more. Returns their
    /// number, which is zero for this host. A refused connection only makes the copy slower.
    pub(crate) async fn widen(&self, channels: usize) -> usize {
        match self {
            Tree::Smb(side) => side.widen(channels).await,
            Tree::Local(_) | Tree::Nfs(_) => self.session().widen(channels, &[]).await.0,
        }
    }

    /// Opens further sessions if they make many small files faster.
    pub(crate) async fn split(&self) {
        // One NFS session is as good as several.
        if let Tree::Smb(side) = self {
            side.split().await;
        }
    }

    /// Closes all connections but `channels`.
    pub(crate) fn narrow(&self, channels: usize) {
        if let Tree::Smb(side) = self {
            side.set_width(channels);
        }
        self.session().narrow(channels);
    }

    /// The connections to the server with their counters.
    pub(crate) fn channels(&self) -> Vec<ChannelStatus> {
        let mut channels = self.session().channels();
        if let Tree::Smb(side) = self {
            channels.extend(side.lanes.channels());
        }
        channels
    }

    /// The bytes that the connections to the server have carried.
    pub(crate) fn carried(&self) -> PathTraffic {
        PathTraffic::by(&self.channels())
    }

    /// Leaves the server.
    pub(crate) async fn close(&self) {
        // Over SMB all opens are closed, and a session ends with its last connection. A logoff would only
        // take time.
        if let Tree::Nfs(_) = self {
            // A server that is gone needs no farewell.
            let _ = tokio::time::timeout(nfs::FAREWELL, self.session().close()).await;
        }
    }
}
