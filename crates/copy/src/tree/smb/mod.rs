//! Files of a share, in one session over several channels: what a copy needs beside the operations of
//! [`client::remote`].
//!
//! A session that has lost its last channel is replaced ([`Smb::revive`]). [`reconnecting`] is the session,
//! and [`lanes`] are further ones for small files.

pub(super) mod holes;
mod lanes;
mod links;
pub(super) mod offload;
mod reconnecting;
mod shared_task;
pub(super) mod sidecar;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use client::Url;
use client::remote::{Attributes, Directory, KEPT, MountOptions, RemoteFile, RemoteSession, file_time};
use client::smb::{OpenOptions, Settings, Tree};
use smb_wire::create::{Access as Rights, Disposition, FileInfo, ShareAccess};
use smb_wire::fscc::FileAttributes;
use smb_wire::{Guid, NtStatus, SmbCommand};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Error, Fault, FileResult};
use crate::name::{join, split};
use crate::plan::Access;
use crate::sidecar::{Sidecar, SidecarOutcome};
use crate::tree::File;
use crate::tree::listing::Fetched;
use crate::tree::path_traffic::PathTraffic;
use crate::tree::target_attributes::TargetAttributes;
use crate::{PreservedParts, name};
use lanes::Lanes;
use reconnecting::{Order, ReconnectingSession};
use shared_task::{SharedTask, is_alive};
use sidecar::SmbNode;

/// A directory of a share.
#[derive(Debug)]
pub(crate) struct Smb {
    remote: Url,
    access: Access,
    root: String,
    /// The result of the first query of the root, until it is taken.
    found: Mutex<Option<client::Result<FileInfo>>>,
    live: RwLock<Arc<ReconnectingSession>>,
    pub(super) lanes: Arc<Lanes>,
    /// The task that opens the lanes, if the need was known from the beginning.
    ahead: Mutex<Option<JoinHandle<()>>>,
    /// The intended number of channels.
    width: AtomicUsize,
    /// Replaces the session once for all who need it.
    reviving: SharedTask,
    /// Whether files of the server can share storage, as far as is known.
    clones: Arc<AtomicBool>,
}

/// The time limit of a new session: to connect, to log on and to connect the share.
const ENTERING: Duration = Duration::from_secs(60);

/// Tells a staged directory from a file with a temporary name.
const DIRECTORY: &[u8] = b"directory";

/// The settings of a file that shall be like `like`.
fn settings(like: &TargetAttributes) -> Settings {
    let attributes = match like.attributes {
        Some(0) => FileAttributes::NORMAL.bits(),
        Some(bits) => bits,
        None => 0,
    };
    Settings { last_write_time: like.modified.map_or(0, file_time), attributes }
}

/// The settings of a directory that shall be like `like`.
fn settings_of_directory(like: &TargetAttributes) -> Settings {
    let bits = like.attributes.map_or(FileAttributes::empty(), |bits| {
        FileAttributes::from_bits_retain(bits) | FileAttributes::DIRECTORY
    });
    Settings { attributes: bits.bits(), ..settings(like) }
}

/// Whether a file like `like` cannot be renamed or deleted. It becomes read-only only when it has its name.
fn is_read_only(like: &TargetAttributes) -> bool {
    like.attributes
        .is_some_and(|bits| FileAttributes::from_bits_retain(bits).contains(FileAttributes::READONLY))
}

/// Whether a read-only attribute may be the reason of `refused` (MS-FSA 2.1.5.15.11 and 2.1.5.1.2.1).
fn may_be_read_only(refused: &client::Error) -> bool {
    [NtStatus::ACCESS_DENIED, NtStatus::CANNOT_DELETE].map(Some).contains(&refused.status())
}

/// Whether an operation refused in one round trip may succeed in two. Samba counts space in steps of 1 MiB
/// and refuses a CREATE that asks for space when less is left, although a small file may fit.
fn may_go_otherwise(refused: &client::Error) -> bool {
    let no_room = [NtStatus::DISK_FULL, NtStatus::QUOTA_EXCEEDED];
    match refused {
        client::Error::Status { command: SmbCommand::Create, status } => no_room.contains(status),
        _ => refused.status() == Some(NtStatus::OBJECT_NAME_COLLISION),
    }
}

/// Removes the read-only attribute of `path`. Returns the settings to restore it, or none if `path` does not
/// have it.
async fn unlock(tree: &Tree, path: &str) -> Option<Settings> {
    let had = FileAttributes::from_bits_retain(tree.stat(path).await.ok()?.file_attributes) & KEPT;
    if !had.contains(FileAttributes::READONLY) {
        return None;
    }
    let with = |bits: FileAttributes| {
        settings(&TargetAttributes { attributes: Some(bits.bits()), ..TargetAttributes::default() })
    };
    tree.settle(path, with(had - FileAttributes::READONLY)).await.ok()?;
    Some(with(had))
}

/// Does `again` without the read-only attribute of `path`, which may be the reason why the server has
/// `refused`.
async fn without_read_only(
    tree: &Tree,
    path: &str,
    refused: client::Error,
    again: impl AsyncFnOnce() -> client::Result<()>,
) -> client::Result<()> {
    let Some(had) = unlock(tree, path).await else { return Err(refused) };
    let done = again().await;
    if done.is_err() {
        // It gets the attribute back, if possible.
        let _ = tree.settle(path, had).await;
    }
    done
}

/// Deletes a file, a link itself or an empty directory, even if it is read-only.
async fn remove(tree: &Tree, path: &str, is_directory: bool) -> client::Result<()> {
    let share = Directory::smb(tree.clone(), String::new(), MountOptions::default());
    let removing = async || match is_directory {
        true => share.remove_directory(path).await,
        false => share.remove(path).await,
    };
    match removing().await {
        Err(refused) if may_be_read_only(&refused) => without_read_only(tree, path, refused, removing).await,
        done => done,
    }
}

/// Renames the open file `part` to `path` and closes it, even if an existing file `path` is read-only.
async fn close_as(tree: &Tree, file: client::smb::File, part: &str, path: &str) -> client::Result<()> {
    let again = async || tree.open(part, &moving()).await?.close_as(path).await;
    match file.close_as(path).await {
        Err(refused) if may_be_read_only(&refused) => without_read_only(tree, path, refused, again).await,
        done => done,
    }
}

/// The options of an open that is renamed.
fn moving() -> OpenOptions {
    OpenOptions { access: Rights::DELETE | Rights::READ_ATTRIBUTES, ..OpenOptions::read() }
}

/// The options of a new file. Nobody else writes to it meanwhile, least of all another copy of the same file.
fn making(as_it_is: bool, keep: &PreservedParts) -> OpenOptions {
    let disposition = if as_it_is { Disposition::OpenIf } else { Disposition::OverwriteIf };
    let how = OpenOptions::file(disposition);
    let share = ShareAccess::READ | ShareAccess::DELETE;
    OpenOptions { access: how.access | Rights::DELETE | changing(keep), share, ..how }
}

/// The rights that are needed to set the owner and the access list.
fn changing(keep: &PreservedParts) -> Rights {
    let mut rights = Rights::empty();
    rights.set(Rights::WRITE_DAC, keep.lists);
    rights.set(Rights::WRITE_OWNER, keep.owners);
    rights
}

/// The future of a further session.
type Beginning = Pin<Box<dyn Future<Output = Option<ReconnectingSession>> + Send>>;

/// Returns a function that begins further sessions, each with a ClientGuid of its own.
fn further<O: Fn() -> Order>(remote: &Url, access: &Access, order: O) -> impl Fn() -> Beginning + use<O> {
    let (remote, access) = (remote.clone(), access.clone());
    move || {
        let (remote, mut access, order) = (remote.clone(), access.clone(), order());
        access.smb.client_guid = Guid(auth::crypto::random());
        Box::pin(async move { ReconnectingSession::begin(&remote, &access, order).await.ok() })
    }
}

impl Smb {
    pub(super) async fn open(
        remote: &Url,
        access: &Access,
        is_many: Option<JoinHandle<bool>>,
    ) -> Result<Smb, Error> {
        let (told, first) = watch::channel(false);
        let lanes = Arc::new(Lanes::default());
        let ahead = is_many.map(|is_many| {
            let (lanes, begin) =
                (Arc::clone(&lanes), further(remote, access, move || Order::Behind(first.clone())));
            tokio::spawn(async move {
                if is_many.await.unwrap_or(false) {
                    lanes.open(begin).await;
                }
            })
        });
        let (live, found) = ReconnectingSession::arrive(remote, access, Order::First(told)).await?;
        live.look_around();
        let live = RwLock::new(Arc::new(live));
        let (remote, access, root) = (remote.clone(), access.clone(), remote.path.clone());
        Ok(Smb {
            remote,
            access,
            root,
            found: Mutex::new(Some(found)),
            live,
            lanes,
            ahead: Mutex::new(ahead),
            width: AtomicUsize::new(1),
            reviving: SharedTask::default(),
            clones: Arc::new(AtomicBool::new(true)),
        })
    }

    pub(super) fn session(&self) -> RemoteSession {
        self.live().session.clone()
    }

    fn live(&self) -> Arc<ReconnectingSession> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn tree(&self) -> Tree {
        self.live().tree.clone()
    }

    pub(super) fn path(&self, path: &str) -> String {
        match path.strip_prefix("../") {
            Some(beside) => join(split(&self.root).0, beside),
            None => join(&self.root, path),
        }
    }

    pub(super) fn staging_path(&self, path: &str) -> Option<String> {
        match path {
            "" if self.root.is_empty() => None,
            "" => Some(join("..", &name::part(split(&self.root).1, DIRECTORY))),
            _ => Some(join(split(path).0, &name::part(split(path).1, DIRECTORY))),
        }
    }

    pub(super) fn step_up(&mut self) -> Option<String> {
        self.found = Mutex::default();
        name::step_up(&mut self.root)
    }

    /// Replaces the session unless it works. All waiters get the same result.
    pub(super) async fn revive(&self) -> FileResult<()> {
        self.reviving.once(|| self.begin_anew()).await
    }

    async fn begin_anew(&self) -> FileResult<()> {
        let lost = self.live();
        if is_alive(|| lost.tree.stat(""), || PathTraffic::by(&lost.session.channels()).bytes).await {
            return Ok(());
        }
        let begin =
            ReconnectingSession::begin_in_place_of(Some(&lost), &self.remote, &self.access, Order::alone());
        let late = |_| Fault::Said("the server did not let us in again in time".to_owned());
        let live = tokio::time::timeout(ENTERING, begin).await.map_err(late)?;
        let live = Arc::new(live.map_err(|error| Fault::Said(error.to_string()))?);
        live.look_around();
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&live);
        // Fewer channels only make the copy slower.
        let _ = tokio::time::timeout(ENTERING, live.open_channels(self.width.load(Ordering::Relaxed))).await;
        Ok(())
    }

    /// The result of the first query of the root, if it was not taken yet.
    pub(super) fn take_found(&self) -> Option<client::Result<Attributes>> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        found.map(|found| found.map(|info| Attributes::from(&info)))
    }

    pub(super) async fn make_above_root(&self) -> FileResult<()> {
        let share = Directory::smb(self.tree(), String::new(), MountOptions::default());
        Ok(share.make_directories(split(&self.root).0).await?)
    }

    pub(super) async fn rename_directory(
        &self,
        path: &str,
        new_path: &str,
        like: &TargetAttributes,
    ) -> FileResult<bool> {
        let with = settings_of_directory(like);
        Ok(self.tree().rename(&self.path(path), &self.path(new_path), with).await?)
    }

    pub(super) async fn replace(&self, path: &str, new_path: &str) -> FileResult<()> {
        let (tree, path, new_path) = (self.tree(), self.path(path), self.path(new_path));
        let file = tree.open(&path, &moving()).await?;
        Ok(close_as(&tree, file, &path, &new_path).await?)
    }

    pub(super) async fn settle_directory(&self, path: &str, like: &TargetAttributes) -> FileResult<()> {
        Ok(self.tree().settle(&self.path(path), settings_of_directory(like)).await?)
    }

    pub(super) async fn remove(&self, path: &str, is_directory: bool) -> FileResult<()> {
        Ok(remove(&self.tree(), &self.path(path), is_directory).await?)
    }

    pub(super) async fn fetch(&self, path: &str, length: u32) -> FileResult<Fetched> {
        let lane = self.lanes.choose(self.tree());
        let fetched = lane.tree.fetch(&self.path(path), length, self.access.keep.streams).await;
        let client::smb::Fetched { data, info, has_streams } =
            self.lanes.end(lane, fetched.map_err(Fault::from))?;
        Ok(Fetched { content: Bytes::from_owner(data), attributes: Attributes::from(&info), has_streams })
    }

    pub(super) async fn put(
        &self,
        path: &str,
        part: &str,
        content: &Bytes,
        like: &TargetAttributes,
    ) -> FileResult<()> {
        let (lane, part, path) = (self.lanes.choose(self.tree()), self.path(part), self.path(path));
        // Without its time nobody takes it for complete when it has nothing more than its name.
        let first = if is_read_only(like) { Settings::default() } else { settings(like) };
        let made = async {
            let file =
                lane.tree.stage(&part, &making(false, &PreservedParts::default()), content, first).await?;
            close_as(&lane.tree, file, &part, &path).await?;
            match is_read_only(like) {
                true => lane.tree.settle(&path, settings(like)).await,
                false => Ok(()),
            }
        };
        let made = made.await;
        if made.as_ref().is_err_and(|error| !error.is_loss()) {
            // There may be none to remove. The caller gets the first error.
            let _ = lane.tree.touch(&part, &OpenOptions::delete()).await;
        }
        self.lanes.end(lane, made.map_err(Fault::from))
    }

    /// Creates a new file in one round trip, under the name `part` first if there is one. Returns false if
    /// that is not possible and nothing was done: the file exists, or it shall be read-only, or the server
    /// may have space for it but cannot reserve any.
    pub(super) async fn put_new(
        &self,
        path: &str,
        part: Option<&str>,
        content: &Bytes,
        like: &TargetAttributes,
    ) -> FileResult<bool> {
        if is_read_only(like) {
            return Ok(false);
        }
        let lane = self.lanes.choose(self.tree());
        let (path, how, with) = (self.path(path), making(false, &PreservedParts::default()), settings(like));
        let made = match part {
            Some(part) => lane.tree.deliver(&self.path(part), &path, &how, content, with).await,
            None => {
                let how = OpenOptions { disposition: Disposition::Create, ..how };
                lane.tree.make_whole(&path, &how, content, with).await
            }
        };
        let goes_otherwise = made.as_ref().is_err_and(may_go_otherwise);
        let made = if goes_otherwise { Ok(()) } else { made };
        self.lanes.end(lane, made.map_err(Fault::from)).map(|()| !goes_otherwise)
    }

    pub(super) async fn create(&self, part: &str) -> FileResult<File> {
        let file = self.tree().open(&self.path(part), &making(true, &self.access.keep)).await?;
        Ok(File::new(RemoteFile::Smb(file)))
    }

    pub(super) async fn finish(
        &self,
        file: File,
        part: &str,
        path: &str,
        like: &TargetAttributes,
    ) -> FileResult<()> {
        let (tree, path) = (self.tree(), self.path(path));
        let keeps_holes = file.is_marked_sparse();
        let RemoteFile::Smb(file) = file.file else { return Err(Fault::other_side()) };
        let is_unsettled = is_read_only(like) || keeps_holes;
        // Without its time nobody takes it for complete when it has nothing more than its name.
        let first = if is_unsettled { Settings::default() } else { settings(like) };
        if let Err(error) = file.settle(first).await {
            // The caller gets the first error.
            let _ = file.close().await;
            return Err(error.into());
        }
        close_as(&tree, file, &self.path(part), &path).await?;
        if keeps_holes {
            holes::settle(&tree, &path, like).await?;
        } else if is_read_only(like) {
            tree.settle(&path, settings(like)).await?;
        }
        Ok(())
    }

    pub(super) async fn sidecar(&self, path: &str, keep: &PreservedParts) -> FileResult<Sidecar> {
        let how = OpenOptions::directory(Disposition::Open);
        let directory = self.tree().open(&self.path(path), &how).await?;
        let found = SmbNode(&directory).read(keep).await;
        directory.close().await?;
        found
    }

    pub(super) async fn set_sidecar(
        &self,
        path: &str,
        found: &Sidecar,
        keep: &PreservedParts,
    ) -> FileResult<SidecarOutcome> {
        let how = OpenOptions::directory(Disposition::Open);
        let how = OpenOptions { access: how.access | Rights::WRITE_EA | changing(keep), ..how };
        let directory = self.tree().open(&self.path(path), &how).await?;
        let outcome = SmbNode(&directory).write(found, keep).await;
        directory.close().await?;
        outcome
    }

    async fn stream(&self, path: &str, name: &str, how: &OpenOptions) -> FileResult<File> {
        let path = format!("{}:{name}", self.path(path));
        Ok(File::new(RemoteFile::Smb(self.tree().open(&path, how).await?)))
    }

    pub(super) async fn open_stream(&self, path: &str, name: &str) -> FileResult<File> {
        self.stream(path, name, &OpenOptions::read()).await
    }

    pub(super) async fn create_stream(&self, path: &str, name: &str) -> FileResult<File> {
        self.stream(path, name, &OpenOptions::file(Disposition::OverwriteIf)).await
    }

    pub(super) async fn widen(&self, channels: usize) -> usize {
        self.width.store(channels, Ordering::Relaxed);
        self.live().open_channels(channels).await
    }

    pub(super) fn set_width(&self, channels: usize) {
        self.width.store(channels, Ordering::Relaxed);
    }

    /// Opens further sessions for small files.
    pub(super) async fn split(&self) {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ahead) = ahead {
            // Sessions that it could not open are tried once more.
            let _ = ahead.await;
        }
        self.lanes.open(further(&self.remote, &self.access, Order::alone)).await;
    }
}
