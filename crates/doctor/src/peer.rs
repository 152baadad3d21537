//! A server as the examination sees it: sessions with several connections, and in each a directory with just the
//! operations that the runs need, over SMB or NFS.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use client::nfs::{self, Creation, StableHow};
use client::Bytes;
use client::smb::{ChannelOptions, Connection, Credentials, OpenOptions, Session, Tree};
use smb_wire::create::{CreateOptions, Disposition};
use smb_wire::fscc::FileAttributes;

/// Permission bits of what is made.
const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub(crate) enum How {
    Smb { options: client::smb::Options, who: Credentials },
    Nfs(nfs::Options),
}

/// A session.
#[derive(Debug)]
pub(crate) enum Line {
    Smb { connection: Connection, session: Session, tree: Tree },
    Nfs { client: nfs::Client, export: nfs::Directory },
}

/// A session of which it is asked how busy its connections are.
#[derive(Debug)]
pub(crate) enum Gauge {
    Smb(Session),
    Nfs(nfs::Client),
}

impl Gauge {
    /// Each connection by our end, and whether a request is under way on it.
    pub(crate) fn look(&self) -> Vec<(SocketAddr, bool)> {
        match self {
            Gauge::Smb(session) => session.channels().into_iter().map(|it| (it.local, it.is_busy)).collect(),
            Gauge::Nfs(client) => client.connections().into_iter().map(|it| (it.local, it.is_busy)).collect(),
        }
    }
}

/// A directory in a session. Copies share it.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    Smb(Tree, String),
    Nfs(nfs::Directory),
}

/// An open file.
#[derive(Debug)]
pub(crate) enum File {
    Smb(client::smb::File),
    Nfs(nfs::File),
}

/// What a directory holds.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) is_directory: bool,
}

type Result<T> = client::Result<T>;

/// Joins parts of a path, either of which may be empty.
pub(crate) fn join(directory: &str, name: &str) -> String {
    match (directory, name) {
        ("", one) | (one, "") => one.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

impl Line {
    /// The addresses of the connections that carry it, ours first.
    pub(crate) fn connections(&self) -> Vec<(SocketAddr, SocketAddr)> {
        match self {
            Line::Smb { session, .. } => {
                session.channels().into_iter().map(|it| (it.local, it.peer)).collect()
            }
            Line::Nfs { client, .. } => {
                client.connections().into_iter().map(|it| (it.local, it.peer)).collect()
            }
        }
    }

    /// What tells which of its connections are busy.
    pub(crate) fn gauge(&self) -> Gauge {
        match self {
            Line::Smb { session, .. } => Gauge::Smb(session.clone()),
            Line::Nfs { client, .. } => Gauge::Nfs(client.clone()),
        }
    }

    /// Has `count` connections if the server allows it, further ones by `ways` (SMB); answers how many there are, and why
    /// not more.
    pub(crate) async fn widen(&self, count: usize, ways: &[SocketAddr]) -> (usize, Option<String>) {
        let had = self.connections().len();
        if had >= count {
            return (had, None);
        }
        let failure = match self {
            Line::Smb { session, .. } => {
                let addresses = ways.to_vec();
                // What our client would leave alone the clients of others use: Windows and Linux use them all.
                let options =
                    ChannelOptions { channels: count, addresses, use_all: true, ..ChannelOptions::default() };
                match session.open_channels(&options).await {
                    Ok(opened) => opened.failure.map(|why| why.to_string()),
                    Err(why) => Some(why.to_string()),
                }
            }
            Line::Nfs { client, .. } => client.widen(count).await.err().map(|why| why.to_string()),
        };
        (self.connections().len(), failure)
    }

    /// Gives up all connections but `count`.
    pub(crate) fn narrow(&self, count: usize) {
        match self {
            Line::Smb { session, .. } => session.narrow(count),
            Line::Nfs { client, .. } => client.narrow(count),
        }
    }

    /// The largest READ and WRITE.
    pub(crate) fn max_io(&self) -> u32 {
        match self {
            Line::Smb { connection, .. } => {
                let negotiated = connection.negotiated();
                negotiated.max_read_size.min(negotiated.max_write_size)
            }
            Line::Nfs { client, .. } => client.max_io(),
        }
    }

    /// Asks for an answer that costs the server nothing.
    pub(crate) async fn echo(&self) -> Result<()> {
        match self {
            Line::Smb { connection, .. } => connection.echo().await,
            Line::Nfs { client, .. } => client.echo().await,
        }
    }

    /// The directory `path` of the share.
    pub(crate) async fn place(&self, path: &str) -> Result<Place> {
        match self {
            Line::Smb { tree, .. } => Ok(Place::Smb(tree.clone(), path.to_owned())),
            Line::Nfs { export, .. } => Ok(Place::Nfs(export.directory(path).await?)),
        }
    }

    /// Logs off, if the server hears it in time.
    pub(crate) async fn close(self, patience: Duration) {
        let farewell = async {
            match self {
                Line::Smb { session, .. } => session.log_off().await,
                Line::Nfs { client, .. } => client.close().await,
            }
        };
        // A server that is gone needs none.
        let _ = tokio::time::timeout(patience, farewell).await;
    }
}

impl Place {
    pub(crate) async fn make_directory(&self, name: &str) -> Result<()> {
        match self {
            Place::Smb(tree, base) => {
                let how = OpenOptions::directory(Disposition::Create);
                tree.open(&join(base, name), &how).await?.close().await
            }
            Place::Nfs(directory) => directory.make_directory(name, DIRECTORY).await,
        }
    }

    pub(crate) async fn below(&self, name: &str) -> Result<Place> {
        match self {
            Place::Smb(tree, base) => Ok(Place::Smb(tree.clone(), join(base, name))),
            Place::Nfs(directory) => Ok(Place::Nfs(directory.directory(name).await?)),
        }
    }

    pub(crate) async fn remove_directory(&self, name: &str) -> Result<()> {
        match self {
            Place::Smb(tree, base) => {
                let plain = OpenOptions::delete();
                let options = plain.options | CreateOptions::DIRECTORY_FILE;
                tree.touch(&join(base, name), &OpenOptions { options, ..plain }).await
            }
            Place::Nfs(directory) => directory.remove(name).await,
        }
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<()> {
        match self {
            Place::Smb(tree, base) => tree.touch(&join(base, name), &OpenOptions::delete()).await,
            Place::Nfs(directory) => directory.remove(name).await,
        }
    }

    /// Opens a file, to be written when `write`; then it is made if it is missing.
    pub(crate) async fn open(&self, name: &str, write: bool) -> Result<File> {
        match self {
            Place::Smb(tree, base) => {
                let how = if write { OpenOptions::file(Disposition::OpenIf) } else { OpenOptions::read() };
                Ok(File::Smb(tree.open(&join(base, name), &how).await?))
            }
            Place::Nfs(directory) => {
                let making = nfs::OpenOptions::write(Creation::IfMissing(FILE));
                let how = if write { making } else { nfs::OpenOptions::read() };
                Ok(File::Nfs(directory.open(name, &how).await?))
            }
        }
    }

    /// Makes an empty file and closes it.
    pub(crate) async fn create(&self, name: &str) -> Result<()> {
        self.open(name, true).await?.close().await
    }

    /// Opens a file and closes it; when it was open.
    pub(crate) async fn open_and_close(&self, name: &str) -> Result<Instant> {
        let file = self.open(name, false).await?;
        let opened = Instant::now();
        file.close().await?;
        Ok(opened)
    }

    /// Makes a file with `content`, in as few round trips as the protocol needs.
    pub(crate) async fn put(&self, name: &str, content: &Bytes) -> Result<()> {
        match self {
            Place::Smb(tree, base) => {
                tree.put(&join(base, name), &OpenOptions::file(Disposition::OverwriteIf), content).await
            }
            Place::Nfs(directory) => {
                directory.put(name, &nfs::OpenOptions::write(Creation::Anew(FILE)), content).await
            }
        }
    }

    pub(crate) async fn stat(&self, name: &str) -> Result<()> {
        match self {
            Place::Smb(tree, base) => tree.stat(&join(base, name)).await.map(drop),
            Place::Nfs(directory) => directory.stat(name).await.map(drop),
        }
    }

    /// When the file was changed, in milliseconds since 1970 by the server's clock.
    pub(crate) async fn modified_ms(&self, name: &str) -> Result<i64> {
        match self {
            Place::Smb(tree, base) => {
                Ok(crate::protocol::unix_ms(tree.stat(&join(base, name)).await?.last_write_time))
            }
            Place::Nfs(directory) => {
                let time = directory.stat(name).await?.modified;
                Ok(time.seconds * 1000 + i64::from(time.nseconds) / 1_000_000)
            }
        }
    }

    pub(crate) async fn list(&self) -> Result<Vec<Entry>> {
        match self {
            Place::Smb(tree, base) => {
                let directory = tree.open(base, &OpenOptions::directory(Disposition::Open)).await?;
                let listed = directory.list("*").await;
                directory.close().await?;
                let entry = |it: client::smb::DirectoryEntry| Entry {
                    is_directory: it.entry.file_attributes.contains(FileAttributes::DIRECTORY),
                    size: it.entry.end_of_file,
                    name: it.name,
                };
                Ok(listed?.into_iter().map(entry).collect())
            }
            Place::Nfs(directory) => {
                let entry = |it: nfs::DirectoryEntry| Entry {
                    name: String::from_utf8_lossy(&it.name).into_owned(),
                    size: it.attributes.size,
                    is_directory: it.attributes.kind == nfs::FileType::Dir,
                };
                Ok(directory.list().await?.into_iter().map(entry).collect())
            }
        }
    }
}

impl File {
    /// Bytes that came.
    pub(crate) async fn read(&self, offset: u64, length: u32) -> Result<usize> {
        match self {
            File::Smb(file) => Ok(file.read(offset, length).await?.len()),
            File::Nfs(file) => Ok(file.read(offset, length).await?.len()),
        }
    }

    /// Bytes that were written.
    pub(crate) async fn write(&self, offset: u64, data: &Bytes) -> Result<usize> {
        match self {
            File::Smb(file) => Ok(file.write(offset, data).await? as usize),
            File::Nfs(file) => Ok(file.write(offset, data, StableHow::Unstable).await?.count as usize),
        }
    }

    pub(crate) async fn close(self) -> Result<()> {
        match self {
            File::Smb(file) => file.close().await,
            File::Nfs(file) => file.close().await,
        }
    }
}
