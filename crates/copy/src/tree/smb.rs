//! Files of a share, in one session over several channels. A session that is lost with its last channel is begun anew
//! ([`Smb::revive`]).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use client::{ChannelOptions, Connection, OpenOptions, Session, Settings, Tree};
use smb_wire::create::{Access as Rights, CreateOptions, Disposition, FileInfo, ShareAccess};
use smb_wire::fscc::{FileAttributes, FileTime};

use super::{Facts, Kind, Listing, join, split};
use crate::Channel;
use crate::error::{Doing, Done, Error, Fault};
use crate::place::Remote;
use crate::plan::Access;

/// A directory of a share.
#[derive(Debug)]
pub(crate) struct Smb {
    remote: Remote,
    access: Access,
    root: String,
    live: RwLock<Arc<Live>>,
    /// How many channels there are to be.
    width: AtomicUsize,
    /// Held while the session is begun anew.
    reviving: tokio::sync::Mutex<()>,
}

/// A session as long as it lasts.
#[derive(Debug)]
struct Live {
    session: Session,
    tree: Tree,
    max_io: u32,
    /// Where further channels go, in turn.
    further: Vec<SocketAddr>,
}

/// A file that is open.
#[derive(Debug)]
pub(crate) struct File(client::File);

/// The most channels of a session.
const MOST_CHANNELS: usize = 16;
/// How long a server may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(10);

/// The attributes that are kept.
const KEPT: FileAttributes = FileAttributes::READONLY
    .union(FileAttributes::HIDDEN)
    .union(FileAttributes::SYSTEM)
    .union(FileAttributes::ARCHIVE);

fn facts_of(size: u64, allocated: u64, written: i64, attributes: u32) -> Facts {
    let bits = FileAttributes::from_bits_retain(attributes);
    let kind = if bits.contains(FileAttributes::REPARSE_POINT) {
        Kind::Other
    } else if bits.contains(FileAttributes::DIRECTORY) {
        Kind::Directory
    } else {
        Kind::File
    };
    Facts {
        kind,
        size: if kind == Kind::File { size } else { 0 },
        modified: FileTime(written).to_unix_ns(),
        sparse: bits.contains(FileAttributes::SPARSE_FILE) || allocated < size,
        mode: None,
        attributes: Some((bits & KEPT).bits()),
    }
}

fn facts(info: &FileInfo) -> Facts {
    facts_of(info.end_of_file, info.allocation_size, info.last_write_time as i64, info.file_attributes)
}

/// What is set with a file that shall be like `like`.
fn settings(like: &Facts) -> Settings {
    let attributes = match like.attributes {
        Some(0) => FileAttributes::NORMAL.bits(),
        Some(bits) => bits,
        None => 0,
    };
    Settings { last_write_time: FileTime::from_unix_ns(like.modified).0, attributes }
}

/// How a file is made: nobody else writes it meanwhile, another copy of the same least of all.
fn making(as_it_is: bool) -> OpenOptions {
    let disposition = if as_it_is { Disposition::OpenIf } else { Disposition::OverwriteIf };
    let how = OpenOptions::file(disposition);
    let share = ShareAccess::READ | ShareAccess::DELETE;
    OpenOptions { access: how.access | Rights::DELETE, share, ..how }
}

impl Live {
    async fn begin(remote: &Remote, access: &Access) -> Result<Live, Error> {
        let address = (remote.host.as_str(), remote.port);
        let connection = Connection::connect(address, &remote.host, &access.smb)
            .await
            .doing(|| format!("connecting to {} port {}", remote.host, remote.port))?;
        let wanted = access.credentials.as_ref();
        let wanted = wanted.ok_or_else(|| Error::new("logging on", "there is no password"))?;
        let session = Session::log_on(&connection, wanted, access.encrypt)
            .await
            .doing(|| format!("logging on to {} as {}", remote.host, remote.user))?;
        // The addresses are asked for now: later that would wait behind what is being copied.
        let (tree, further) = tokio::join!(session.connect(&remote.share), session.addresses(MOST_CHANNELS));
        let tree = tree.doing(|| format!("connecting to the share {} of {}", remote.share, remote.host))?;
        let negotiated = connection.negotiated();
        let max_io = negotiated.max_read_size.min(negotiated.max_write_size);
        let first = session.channels().first().map(|it| it.peer);
        // An interface that says nothing of several queues takes several connections all the same.
        let further = further.ok().filter(|it| !it.is_empty()).unwrap_or(first.into_iter().collect());
        Ok(Live { session, tree, max_io, further })
    }
}

impl Live {
    /// Gives the session as many channels as it can have, and answers how many there are. Fewer only make the copy slower,
    /// so nothing is said; the report shows them.
    async fn open_channels(&self, channels: usize) -> usize {
        if channels > self.session.channels().len() {
            let options =
                ChannelOptions { channels, addresses: self.further.clone(), ..ChannelOptions::default() };
            let _ = self.session.open_channels(&options).await;
        }
        self.session.channels().len()
    }
}

impl Smb {
    pub(super) async fn open(remote: &Remote, access: &Access) -> Result<Smb, Error> {
        let live = RwLock::new(Arc::new(Live::begin(remote, access).await?));
        let (remote, access, root) = (remote.clone(), access.clone(), remote.path.clone());
        Ok(Smb {
            remote,
            access,
            root,
            live,
            width: AtomicUsize::new(1),
            reviving: tokio::sync::Mutex::default(),
        })
    }

    fn live(&self) -> Arc<Live> {
        Arc::clone(&self.live.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn tree(&self) -> Tree {
        self.live().tree.clone()
    }

    fn path(&self, path: &str) -> String {
        join(&self.root, path)
    }

    pub(super) fn step_up(&mut self) -> Option<String> {
        let (above, name) = split(&self.root);
        let (above, name) = (above.to_owned(), name.to_owned());
        self.root = above;
        (!name.is_empty()).then_some(name)
    }

    /// Begins a new session unless the one there is works.
    pub(super) async fn revive(&self) -> Done<()> {
        let _one = self.reviving.lock().await;
        let tree = self.tree();
        if let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, tree.stat("")).await {
            return Ok(());
        }
        let live = Live::begin(&self.remote, &self.access).await;
        let live = live.map_err(|error| Fault::Said(error.to_string()))?;
        live.open_channels(self.width.load(Ordering::Relaxed)).await;
        *self.live.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
        Ok(())
    }

    pub(super) async fn stat(&self, path: &str) -> Done<Facts> {
        Ok(facts(&self.tree().stat(&self.path(path)).await?))
    }

    pub(super) async fn list(&self, path: &str) -> Done<Listing> {
        let how = OpenOptions::directory(Disposition::Open);
        let directory = self.tree().open(&self.path(path), &how).await?;
        let listed = directory.list("*").await;
        directory.close().await?;
        let mut listing = Listing::default();
        for found in listed? {
            let it = &found.entry;
            let facts =
                facts_of(it.end_of_file, it.allocation_size, it.last_write_time.0, it.file_attributes.bits());
            listing.add(found.name.as_bytes(), facts);
        }
        Ok(listing)
    }

    pub(super) async fn make_directory(&self, path: &str) -> Done<()> {
        Ok(self.tree().touch(&self.path(path), &OpenOptions::directory(Disposition::Create)).await?)
    }

    pub(super) async fn make_root(&self) -> Done<()> {
        let how = OpenOptions::directory(Disposition::OpenIf);
        let ends = self.root.match_indices('/').map(|(at, _)| at).chain([self.root.len()]);
        for end in ends.filter(|end| *end > 0) {
            self.tree().touch(&self.root[..end], &how).await?;
        }
        Ok(())
    }

    pub(super) async fn settle_directory(&self, path: &str, like: &Facts) -> Done<()> {
        let how = OpenOptions {
            access: Rights::WRITE_ATTRIBUTES | Rights::READ_ATTRIBUTES | Rights::SYNCHRONIZE,
            ..OpenOptions::directory(Disposition::Open)
        };
        let directory = self.tree().open(&self.path(path), &how).await?;
        let settled = directory.settle(Settings { attributes: 0, ..settings(like) }).await;
        directory.close().await?;
        Ok(settled?)
    }

    pub(super) async fn remove(&self, path: &str) -> Done<()> {
        Ok(self.tree().touch(&self.path(path), &OpenOptions::delete()).await?)
    }

    pub(super) async fn remove_directory(&self, path: &str) -> Done<()> {
        let how = OpenOptions::delete();
        let how = OpenOptions { options: how.options | CreateOptions::DIRECTORY_FILE, ..how };
        Ok(self.tree().touch(&self.path(path), &how).await?)
    }

    pub(super) async fn fetch(&self, path: &str, length: u32) -> Done<(Bytes, Facts)> {
        let (data, info) = self.tree().fetch(&self.path(path), length).await?;
        Ok((Bytes::from_owner(data), facts(&info)))
    }

    pub(super) async fn put(&self, path: &str, part: &str, content: &Bytes, like: &Facts) -> Done<()> {
        let (tree, part) = (self.tree(), self.path(part));
        let made = match tree.stage(&part, &making(false), content, settings(like)).await {
            Ok(file) => file.close_as(&self.path(path)).await,
            Err(error) => Err(error),
        };
        if made.as_ref().is_err_and(|error| !error.is_loss()) {
            // There may be none to remove; what counts is why it was not made.
            let _ = tree.touch(&part, &OpenOptions::delete()).await;
        }
        Ok(made?)
    }

    pub(super) async fn open_file(&self, path: &str) -> Done<File> {
        Ok(File(self.tree().open(&self.path(path), &OpenOptions::read()).await?))
    }

    pub(super) async fn create(&self, part: &str, as_it_is: bool) -> Done<File> {
        Ok(File(self.tree().open(&self.path(part), &making(as_it_is)).await?))
    }

    pub(super) async fn finish(&self, file: File, path: &str, like: &Facts) -> Done<()> {
        if let Err(error) = file.0.settle(settings(like)).await {
            // What counts is why it was not settled.
            let _ = file.0.close().await;
            return Err(error.into());
        }
        Ok(file.0.close_as(&self.path(path)).await?)
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
        self.live().session.narrow(channels);
    }

    pub(super) fn channels(&self) -> Vec<Channel> {
        let channels = self.live().session.channels();
        let channel = |it: &client::ChannelStatus| Channel {
            local: it.local,
            peer: it.peer,
            requests: it.requests,
            bytes: it.bytes,
        };
        channels.iter().map(channel).collect()
    }

    pub(super) async fn close(&self) {
        // A server that is gone needs no farewell.
        let _ = tokio::time::timeout(PATIENCE, self.live().session.clone().log_off()).await;
    }
}

impl File {
    pub(super) async fn read(&self, offset: u64, length: u32) -> Done<Bytes> {
        let data = self.0.read(offset, length).await?;
        Ok(Bytes::from_owner(data))
    }

    pub(super) async fn write(&self, offset: u64, data: &Bytes) -> Done<u32> {
        Ok(self.0.write(offset, data).await?)
    }

    pub(super) async fn facts(&self) -> Done<Facts> {
        Ok(facts(&self.0.stat().await?))
    }

    pub(super) async fn set_length(&self, length: u64) -> Done<()> {
        Ok(self.0.set_length(length).await?)
    }

    pub(super) async fn sync(&self) -> Done<()> {
        Ok(self.0.flush().await?)
    }

    pub(super) async fn close(self) -> Done<()> {
        Ok(self.0.close().await?)
    }
}
