//! Files of a share, in one session over several channels. A session that is lost with its last channel is begun anew
//! ([`Smb::revive`]). [`live`] is that session; [`lanes`] are further ones, for small
//! files; [`beside`] is what files have beside their data.

mod beside;
mod holes;
mod inside;
mod lanes;
mod links;
mod live;
mod reach;
mod together;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use client::remote::{Attributes, Directory, Entry, KEPT, MountOptions, file_time};
use client::smb::{OpenOptions, Settings, Tree};
use client::{ChannelStatus, Url};
pub(crate) use inside::Inside;
use smb_wire::create::{Access as Rights, CreateOptions, Disposition, FileInfo, ShareAccess};
use smb_wire::fscc::FileAttributes;
use smb_wire::{Guid, NtStatus, SmbCommand};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinHandle;

use super::holes::Holes;
use crate::beside::{Beside, Given};
use crate::error::{Done, Error, Fault};
use crate::name::{join, split};
use crate::plan::Access;
use crate::tree::carried::Carried;
use crate::tree::facts::Fetched;
use crate::tree::like::Like;
use crate::{Keep, name};
use lanes::Lanes;
use live::{Live, Order};
use reach::Reach;
use together::{Together, is_alive};

/// A directory of a share.
#[derive(Debug)]
pub(crate) struct Smb {
    remote: Url,
    access: Access,
    root: String,
    /// What was at the root when it was gone to, until somebody asks for it.
    found: Mutex<Option<client::Result<FileInfo>>>,
    live: RwLock<Arc<Live>>,
    lanes: Arc<Lanes>,
    /// Opens the lanes, where it was known from the beginning that they are wanted.
    ahead: Mutex<Option<JoinHandle<()>>>,
    /// How many channels there are to be.
    width: AtomicUsize,
    /// The session is begun anew by one for all.
    reviving: Together,
    /// Whether files of the server can share storage, as long as nothing speaks against it.
    clones: Arc<AtomicBool>,
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct File {
    file: client::smb::File,
    /// Where it has holes.
    holes: Holes,
    /// Whether it keeps them, once that has been asked for.
    keeps_holes: OnceCell<bool>,
    /// How far it reaches, or will when what is under way is done.
    reach: Reach,
}

/// How long it may take to get in again: to connect, to log on and to go to the share.
const ENTERING: Duration = Duration::from_secs(60);

/// Tells a directory without a name from a file that is being made.
const DIRECTORY: &[u8] = b"directory";

/// What is set with a file that shall be like `like`.
fn settings(like: &Like) -> Settings {
    let attributes = match like.attributes {
        Some(0) => FileAttributes::NORMAL.bits(),
        Some(bits) => bits,
        None => 0,
    };
    Settings { last_write_time: like.modified.map_or(0, file_time), attributes }
}

/// The same of a directory.
fn settings_of_directory(like: &Like) -> Settings {
    let bits = like.attributes.map_or(FileAttributes::empty(), |bits| {
        FileAttributes::from_bits_retain(bits) | FileAttributes::DIRECTORY
    });
    Settings { attributes: bits.bits(), ..settings(like) }
}

/// Whether a file like `like` lets nobody rename or delete it: it becomes so only when it has its name.
fn is_read_only(like: &Like) -> bool {
    like.attributes
        .is_some_and(|bits| FileAttributes::from_bits_retain(bits).contains(FileAttributes::READONLY))
}

/// Whether `refused` may have been said because something is read-only (MS-FSA 2.1.5.15.11 and 2.1.5.1.2.1).
fn may_be_read_only(refused: &client::Error) -> bool {
    [NtStatus::ACCESS_DENIED, NtStatus::CANNOT_DELETE].map(Some).contains(&refused.status())
}

/// Whether what was refused in one round trip may be done in two. Samba counts room in steps of 1 MiB and refuses a
/// CREATE that asks for some where less is left, although a small file may have room in it.
fn may_go_otherwise(refused: &client::Error) -> bool {
    let no_room = [NtStatus::DISK_FULL, NtStatus::QUOTA_EXCEEDED];
    match refused {
        client::Error::Status { command: SmbCommand::Create, status } => no_room.contains(status),
        _ => refused.status() == Some(NtStatus::OBJECT_NAME_COLLISION),
    }
}

/// Takes read-only from `path`, if it is that. Answers what gives it back.
async fn unlock(tree: &Tree, path: &str) -> Option<Settings> {
    let had = FileAttributes::from_bits_retain(tree.stat(path).await.ok()?.file_attributes) & KEPT;
    if !had.contains(FileAttributes::READONLY) {
        return None;
    }
    let with = |bits: FileAttributes| settings(&Like { attributes: Some(bits.bits()), ..Like::default() });
    tree.settle(path, with(had - FileAttributes::READONLY)).await.ok()?;
    Some(with(had))
}

/// Deletes `path`, also when it is read-only.
async fn delete(tree: &Tree, path: &str, how: &OpenOptions) -> client::Result<()> {
    let refused = match tree.touch(path, how).await {
        Err(error) if may_be_read_only(&error) => error,
        done => return done,
    };
    let Some(had) = unlock(tree, path).await else { return Err(refused) };
    let deleted = tree.touch(path, how).await;
    if deleted.is_err() {
        // It stays as it was, if that can be had.
        let _ = tree.settle(path, had).await;
    }
    deleted
}

/// Gives the open file `part` the name `path` and closes it, also when what has that name now is read-only.
async fn close_as(tree: &Tree, file: client::smb::File, part: &str, path: &str) -> client::Result<()> {
    let refused = match file.close_as(path).await {
        Err(error) if may_be_read_only(&error) => error,
        done => return done,
    };
    let Some(had) = unlock(tree, path).await else { return Err(refused) };
    let renamed = match tree.open(part, &moving()).await {
        Ok(file) => file.close_as(path).await,
        Err(error) => Err(error),
    };
    if renamed.is_err() {
        // It stays as it was, if that can be had.
        let _ = tree.settle(path, had).await;
    }
    renamed
}

/// How something is opened that gets another name.
fn moving() -> OpenOptions {
    OpenOptions { access: Rights::DELETE | Rights::READ_ATTRIBUTES, ..OpenOptions::read() }
}

/// How something is deleted: a link itself, and never what it leads to.
fn deleting() -> OpenOptions {
    let how = OpenOptions::delete();
    OpenOptions { options: how.options | CreateOptions::OPEN_REPARSE_POINT, ..how }
}

/// How a file is made: nobody else writes it meanwhile, another copy of the same least of all.
fn making(as_it_is: bool, keep: &Keep) -> OpenOptions {
    let disposition = if as_it_is { Disposition::OpenIf } else { Disposition::OverwriteIf };
    let how = OpenOptions::file(disposition);
    let share = ShareAccess::READ | ShareAccess::DELETE;
    OpenOptions { access: how.access | Rights::DELETE | changing(keep), share, ..how }
}

/// The rights that it takes to say who owns a file and who may do what with it.
fn changing(keep: &Keep) -> Rights {
    let mut rights = Rights::empty();
    rights.set(Rights::WRITE_DAC, keep.lists);
    rights.set(Rights::WRITE_OWNER, keep.owners);
    rights
}

/// A further session on its way.
type Beginning = Pin<Box<dyn Future<Output = Option<Live>> + Send>>;

/// What begins further sessions, each for a client of its own.
fn further<O: Fn() -> Order>(remote: &Url, access: &Access, order: O) -> impl Fn() -> Beginning + use<O> {
    let (remote, access) = (remote.clone(), access.clone());
    move || {
        let (remote, mut access, order) = (remote.clone(), access.clone(), order());
        access.smb.client_guid = Guid(auth::crypto::random());
        Box::pin(async move { Live::begin(&remote, &access, order).await.ok() })
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
        let (live, found) = Live::arrive(remote, access, Order::First(told)).await?;
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
            reviving: Together::default(),
            clones: Arc::new(AtomicBool::new(true)),
        })
    }

    fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn tree(&self) -> Tree {
        self.live().tree.clone()
    }

    fn path(&self, path: &str) -> String {
        match path.strip_prefix("../") {
            Some(beside) => join(split(&self.root).0, beside),
            None => join(&self.root, path),
        }
    }

    pub(super) fn unnamed(&self, path: &str) -> Option<String> {
        match path {
            "" if self.root.is_empty() => None,
            "" => Some(join("..", &name::part(split(&self.root).1, DIRECTORY))),
            _ => Some(join(split(path).0, &name::part(split(path).1, DIRECTORY))),
        }
    }

    pub(super) fn step_up(&mut self) -> Option<String> {
        let (above, name) = split(&self.root);
        let (above, name) = (above.to_owned(), name.to_owned());
        self.root = above;
        self.found = Mutex::default();
        (!name.is_empty()).then_some(name)
    }

    /// Begins a new session unless the one there is works. Whoever waits for that meanwhile gets what comes of it.
    pub(super) async fn revive(&self) -> Done<()> {
        self.reviving.once(|| self.begin_anew()).await
    }

    async fn begin_anew(&self) -> Done<()> {
        let lost = self.live();
        if is_alive(|| lost.tree.stat(""), || Carried::by(&lost.channels()).bytes).await {
            return Ok(());
        }
        let begin = Live::begin_in_place_of(Some(&lost), &self.remote, &self.access, Order::alone());
        let late = |_| Fault::Said("the server did not let us in again in time".to_owned());
        let live = tokio::time::timeout(ENTERING, begin).await.map_err(late)?;
        let live = Arc::new(live.map_err(|error| Fault::Said(error.to_string()))?);
        live.look_around();
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&live);
        // Fewer channels only make the copy slower.
        let _ = tokio::time::timeout(ENTERING, live.open_channels(self.width.load(Ordering::Relaxed))).await;
        Ok(())
    }

    /// Whether no channel is left.
    pub(super) fn is_lost(&self) -> bool {
        self.live().is_lost()
    }

    pub(super) async fn stat(&self, path: &str) -> Done<Attributes> {
        let found = match path {
            "" => self.found.lock().unwrap_or_else(PoisonError::into_inner).take(),
            _ => None,
        };
        let found = match found {
            Some(found) => found,
            None => self.tree().stat(&self.path(path)).await,
        };
        Ok(Attributes::from(&found?))
    }

    pub(super) async fn list(&self, path: &str) -> Done<Vec<Entry>> {
        Ok(Directory::smb(self.tree(), self.path(path), MountOptions::default()).list().await?)
    }

    pub(super) async fn make_directory(&self, path: &str, _like: &Like) -> Done<()> {
        Ok(self.tree().touch(&self.path(path), &OpenOptions::directory(Disposition::Create)).await?)
    }

    pub(super) async fn make_root(&self) -> Done<()> {
        if self.root.is_empty() {
            return Ok(());
        }
        let how = OpenOptions::directory(Disposition::OpenIf);
        match self.tree().touch(&self.root, &how).await.map_err(Fault::from) {
            Err(fault) if fault.is_missing() => self.make_above_root().await?,
            made => return made,
        }
        Ok(self.tree().touch(&self.root, &how).await?)
    }

    pub(super) async fn make_above_root(&self) -> Done<()> {
        let how = OpenOptions::directory(Disposition::OpenIf);
        for (end, _) in self.root.match_indices('/').filter(|(end, _)| *end > 0) {
            self.tree().touch(&self.root[..end], &how).await?;
        }
        Ok(())
    }

    pub(super) async fn rename_directory(&self, path: &str, new_path: &str, like: &Like) -> Done<bool> {
        let with = settings_of_directory(like);
        Ok(self.tree().rename(&self.path(path), &self.path(new_path), with).await?)
    }

    pub(super) async fn replace(&self, path: &str, new_path: &str) -> Done<()> {
        let (tree, path, new_path) = (self.tree(), self.path(path), self.path(new_path));
        let file = tree.open(&path, &moving()).await?;
        Ok(close_as(&tree, file, &path, &new_path).await?)
    }

    pub(super) async fn settle_directory(&self, path: &str, like: &Like) -> Done<()> {
        Ok(self.tree().settle(&self.path(path), settings_of_directory(like)).await?)
    }

    pub(super) async fn remove(&self, path: &str) -> Done<()> {
        Ok(delete(&self.tree(), &self.path(path), &deleting()).await?)
    }

    pub(super) async fn remove_directory(&self, path: &str) -> Done<()> {
        let how = deleting();
        let how = OpenOptions { options: how.options | CreateOptions::DIRECTORY_FILE, ..how };
        Ok(delete(&self.tree(), &self.path(path), &how).await?)
    }

    pub(super) async fn fetch(&self, path: &str, length: u32) -> Done<Fetched> {
        let lane = self.lanes.choose(self.tree());
        let fetched = lane.tree.fetch(&self.path(path), length, self.access.keep.streams).await;
        let client::smb::Fetched { data, info, has_streams } =
            self.lanes.end(lane, fetched.map_err(Fault::from))?;
        Ok(Fetched { content: Bytes::from_owner(data), facts: Attributes::from(&info), has_streams })
    }

    pub(super) async fn put(&self, path: &str, part: &str, content: &Bytes, like: &Like) -> Done<()> {
        let (lane, part, path) = (self.lanes.choose(self.tree()), self.path(part), self.path(path));
        // Without its time nobody takes it for done when it has its name and no more.
        let first = if is_read_only(like) { Settings::default() } else { settings(like) };
        let made = async {
            let file = lane.tree.stage(&part, &making(false, &Keep::default()), content, first).await?;
            close_as(&lane.tree, file, &part, &path).await?;
            match is_read_only(like) {
                true => lane.tree.settle(&path, settings(like)).await,
                false => Ok(()),
            }
        };
        let made = made.await;
        if made.as_ref().is_err_and(|error| !error.is_loss()) {
            // There may be none to remove; what counts is why it was not made.
            let _ = lane.tree.touch(&part, &OpenOptions::delete()).await;
        }
        self.lanes.end(lane, made.map_err(Fault::from))
    }

    /// Makes a file in one round trip where there is none, by way of `part` if there is to be such a thing. False when that
    /// cannot be, and nothing was done: there is one, or it is to be read-only, or the server may have room for it and none
    /// to promise.
    pub(super) async fn put_new(
        &self,
        path: &str,
        part: Option<&str>,
        content: &Bytes,
        like: &Like,
    ) -> Done<bool> {
        if is_read_only(like) {
            return Ok(false);
        }
        let lane = self.lanes.choose(self.tree());
        let (path, how, with) = (self.path(path), making(false, &Keep::default()), settings(like));
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

    pub(super) async fn open_file(&self, path: &str) -> Done<File> {
        Ok(File::new(self.tree().open(&self.path(path), &OpenOptions::read()).await?))
    }

    pub(super) async fn create(&self, part: &str, as_it_is: bool) -> Done<File> {
        Ok(File::new(self.tree().open(&self.path(part), &making(as_it_is, &self.access.keep)).await?))
    }

    pub(super) async fn finish(&self, file: File, part: &str, path: &str, like: &Like) -> Done<()> {
        let (tree, path) = (self.tree(), self.path(path));
        let keeps_holes = file.is_marked();
        let is_unsettled = is_read_only(like) || keeps_holes;
        // Without its time nobody takes it for done when it has its name and no more.
        let first = if is_unsettled { Settings::default() } else { settings(like) };
        if let Err(error) = file.file.settle(first).await {
            // What counts is why it was not settled.
            let _ = file.file.close().await;
            return Err(error.into());
        }
        close_as(&tree, file.file, &self.path(part), &path).await?;
        if keeps_holes {
            holes::settle(&tree, &path, like).await?;
        } else if is_read_only(like) {
            tree.settle(&path, settings(like)).await?;
        }
        Ok(())
    }

    pub(super) async fn beside(&self, path: &str, keep: &Keep) -> Done<Beside> {
        let directory =
            File::new(self.tree().open(&self.path(path), &OpenOptions::directory(Disposition::Open)).await?);
        let found = directory.beside(keep).await;
        directory.close().await?;
        found
    }

    pub(super) async fn set_beside(&self, path: &str, found: &Beside, keep: &Keep) -> Done<Given> {
        let how = OpenOptions::directory(Disposition::Open);
        let how = OpenOptions { access: how.access | Rights::WRITE_EA | changing(keep), ..how };
        let directory = File::new(self.tree().open(&self.path(path), &how).await?);
        let given = directory.set_beside(found, keep).await;
        directory.close().await?;
        given
    }

    pub(super) async fn open_stream(&self, path: &str, name: &str) -> Done<File> {
        let path = format!("{}:{name}", self.path(path));
        Ok(File::new(self.tree().open(&path, &OpenOptions::read()).await?))
    }

    pub(super) async fn create_stream(&self, path: &str, name: &str) -> Done<File> {
        let path = format!("{}:{name}", self.path(path));
        Ok(File::new(self.tree().open(&path, &OpenOptions::file(Disposition::OverwriteIf)).await?))
    }

    pub(super) fn max_io(&self) -> u32 {
        self.live().max_io
    }

    pub(super) async fn widen(&self, channels: usize) -> usize {
        self.width.store(channels, Ordering::Relaxed);
        self.live().open_channels(channels).await
    }

    pub(super) fn narrow(&self, channels: usize) {
        self.width.store(channels, Ordering::Relaxed);
        self.live().narrow(channels);
    }

    /// Opens further sessions for small files.
    pub(super) async fn split(&self) {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ahead) = ahead {
            // However it ended: what it has not opened is tried once more.
            let _ = ahead.await;
        }
        self.lanes.open(further(&self.remote, &self.access, Order::alone)).await;
    }

    pub(super) fn channels(&self) -> Vec<ChannelStatus> {
        let mut channels = self.live().channels();
        channels.extend(self.lanes.channels());
        channels
    }
}

impl File {
    fn new(file: client::smb::File) -> File {
        let reach = Reach::new(file.info().end_of_file);
        File { file, holes: Holes::default(), keeps_holes: OnceCell::new(), reach }
    }

    pub(super) async fn read(&self, offset: u64, length: u32) -> Done<Bytes> {
        let data = self.file.read(offset, length).await?;
        Ok(Bytes::from_owner(data))
    }

    pub(super) async fn write(&self, offset: u64, data: &Bytes) -> Done<u32> {
        self.reach.note(offset + data.len() as u64).await;
        Ok(self.file.write(offset, data).await?)
    }

    pub(super) fn opened(&self) -> Attributes {
        Attributes::from(self.file.info())
    }

    pub(super) async fn facts(&self) -> Done<Attributes> {
        Ok(Attributes::from(&self.file.stat().await?))
    }

    pub(super) async fn set_length(&self, length: u64) -> Done<()> {
        self.reach.set(length, async || Ok(self.file.set_length(length).await?)).await
    }

    pub(super) async fn sync(&self) -> Done<()> {
        Ok(self.file.flush().await?)
    }

    pub(super) async fn close(self) -> Done<()> {
        Ok(self.file.close().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_deleted_itself() {
        let options = CreateOptions::OPEN_REPARSE_POINT | CreateOptions::DELETE_ON_CLOSE;
        assert_eq!(deleting().options, options, "a link is deleted itself");
    }
}
