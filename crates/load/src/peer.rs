//! What a load is done to: a directory of a share or export, whichever protocol leads there, with just the
//! operations that the workloads need.

mod local;
mod nfs;
mod null;
mod smb;

use client::{Bytes, nfs as nfs_client};
use client::smb::Data;
pub(crate) use local::ALIGNMENT;

use crate::channel::{Channel, Security};
use crate::error::{Doing, Failure};
use crate::plan::Protocol;
use crate::{Error, Plan};

type Result<T> = std::result::Result<T, Failure>;

/// A session with a server, and the share in it.
#[derive(Debug)]
pub(crate) struct Line {
    session: Session,
    pub(crate) share: Share,
}

#[derive(Debug)]
enum Session {
    Smb(smb::Line),
    Nfs(client::nfs::Client),
    Local,
    Null(null::Tasks),
}

/// A share or export. Copies share it.
#[derive(Debug, Clone)]
pub(crate) enum Share {
    Smb(smb::Share),
    Nfs(nfs::Share),
    Local(local::Share),
    Null(null::Share),
}

/// An open file.
#[derive(Debug)]
pub(crate) enum File {
    Smb(client::smb::File),
    /// The flag is how each write waits.
    Nfs(nfs_client::File, nfs_client::StableHow),
    Local(local::File),
    Null(null::Share),
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// It is there, to be read.
    Read,
    /// It is there, to be read and written.
    Write,
    /// To be read and written, and made if it is missing.
    Make,
    /// It is not there, and is made to be written.
    New,
    /// It is made, or emptied, to be written.
    Anew,
}

/// What was read.
#[derive(Debug)]
pub(crate) enum Block {
    Smb(Data),
    Nfs(nfs_client::Data),
    /// So many bytes; they lie in a buffer that is not handed out.
    Local(usize),
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        match self {
            Block::Smb(data) => data.len(),
            Block::Nfs(data) => data.len(),
            Block::Local(length) => *length,
        }
    }
}

impl Line {
    /// Connects as the plan says, and checks that what was asked for is what came of it.
    pub(crate) async fn open(plan: &Plan) -> std::result::Result<Line, Error> {
        match &plan.protocol {
            Protocol::Smb(wanted) => {
                let (line, share) = smb::Line::open(plan, wanted).await?;
                Ok(Line { session: Session::Smb(line), share: Share::Smb(share) })
            }
            Protocol::Nfs(options) => {
                let (client, share) = nfs::open(plan, options).await?;
                Ok(Line { session: Session::Nfs(client), share: Share::Nfs(share) })
            }
            Protocol::Null => {
                let (tasks, share) = null::open(plan).await?;
                Ok(Line { session: Session::Null(tasks), share: Share::Null(share) })
            }
            Protocol::Local => {
                Ok(Line { session: Session::Local, share: Share::Local(local::Share::new(plan)) })
            }
        }
    }

    /// Ends the session.
    pub(crate) async fn close(self) -> std::result::Result<(), Error> {
        match self.session {
            Session::Smb(line) => line.close().await,
            Session::Nfs(client) => client.close().await.doing(|| "ending the session".to_owned()),
            Session::Local => Ok(()),
            Session::Null(tasks) => {
                drop(tasks);
                Ok(())
            }
        }
    }

    /// The connections of the session and what they have carried.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        let channels = match &self.session {
            Session::Smb(line) => line.channels(),
            Session::Nfs(client) => client.connections(),
            Session::Local | Session::Null(_) => Vec::new(),
        };
        channels.into_iter().map(Channel::from).collect()
    }

    /// What was negotiated.
    pub(crate) fn security(&self) -> Security {
        match &self.session {
            Session::Smb(line) => line.security(),
            Session::Nfs(_) => nfs::security(),
            Session::Local => local::security(),
            Session::Null(_) => null::security(),
        }
    }
}

impl Share {
    /// Makes the directory `path`, unless it is there. The one above it is there.
    pub(crate) async fn make_directory(&self, path: &str) -> Result<()> {
        match self {
            Share::Smb(share) => Ok(share.make_directory(path).await?),
            Share::Nfs(share) => Ok(share.make_directory(path).await?),
            Share::Local(share) => Ok(share.make_directory(path)?),
            Share::Null(_) => Ok(()),
        }
    }

    /// The directory `path`, in which names are to be worked on.
    pub(crate) async fn directory(&self, path: &str) -> Result<Share> {
        match self {
            Share::Smb(share) => Ok(Share::Smb(share.directory(path))),
            Share::Nfs(share) => Ok(Share::Nfs(share.directory(path).await?)),
            Share::Local(share) => Ok(Share::Local(share.directory(path)?)),
            Share::Null(share) => Ok(Share::Null(share.clone())),
        }
    }

    pub(crate) async fn open(&self, name: &str, how: How) -> Result<File> {
        match self {
            Share::Smb(share) => Ok(File::Smb(share.open(name, how).await?)),
            Share::Nfs(share) => Ok(File::Nfs(share.open(name, how).await?, share.stable())),
            Share::Local(share) => Ok(File::Local(share.open(name, how)?)),
            Share::Null(share) => Ok(File::Null(share.clone())),
        }
    }

    /// Opens a file and closes it, in one compound.
    pub(crate) async fn touch(&self, name: &str, how: How) -> Result<()> {
        match self {
            Share::Smb(share) => Ok(share.touch(name, how).await?),
            Share::Nfs(share) => Ok(share.touch(name, how).await?),
            Share::Local(share) => Ok(share.touch(name, how)?),
            Share::Null(_) => Err(null::only_reads().into()),
        }
    }

    /// Opens a file, writes `content` and closes it, in one compound.
    pub(crate) async fn put(&self, name: &str, how: How, content: &Bytes) -> Result<()> {
        match self {
            Share::Smb(share) => Ok(share.put(name, how, content).await?),
            Share::Nfs(share) => Ok(share.put(name, how, content).await?),
            Share::Local(share) => Ok(share.put(name, how, content)?),
            Share::Null(_) => Err(null::only_reads().into()),
        }
    }

    /// Takes a name away; `compound` where the protocol has a choice.
    pub(crate) async fn delete(&self, name: &str, compound: bool) -> Result<()> {
        match self {
            Share::Smb(share) => Ok(share.delete(name, compound).await?),
            Share::Nfs(share) => Ok(share.delete(name).await?),
            Share::Local(share) => Ok(share.delete(name)?),
            Share::Null(_) => Err(null::only_reads().into()),
        }
    }

    /// Bytes of a file, by its name.
    pub(crate) async fn size_of(&self, name: &str) -> Result<u64> {
        match self {
            Share::Smb(share) => Ok(share.size_of(name).await?),
            Share::Nfs(share) => Ok(share.size_of(name).await?),
            Share::Local(share) => Ok(share.size_of(name)?),
            Share::Null(_) => Err(null::only_reads().into()),
        }
    }

    /// The names in the directory, with the bytes of each.
    pub(crate) async fn list(&self) -> Result<Vec<(String, u64)>> {
        match self {
            Share::Smb(share) => Ok(share.list().await?),
            Share::Nfs(share) => Ok(share.list().await?),
            Share::Local(share) => Ok(share.list()?),
            Share::Null(_) => Err(null::only_reads().into()),
        }
    }
}

impl File {
    /// Bytes that it had when it was opened.
    pub(crate) fn size(&self) -> u64 {
        match self {
            File::Smb(file) => file.info().end_of_file,
            File::Nfs(file, _) => file.attributes().size,
            File::Local(file) => file.size(),
            // It has whatever is asked for.
            File::Null(_) => u64::MAX,
        }
    }

    pub(crate) async fn read(&self, offset: u64, length: u32) -> Result<Block> {
        match self {
            File::Smb(file) => Ok(Block::Smb(file.read(offset, length).await?)),
            File::Nfs(file, _) => Ok(Block::Nfs(file.read(offset, length).await?)),
            File::Local(file) => Ok(Block::Local(file.read(offset, length)?)),
            File::Null(share) => Ok(Block::Local(share.read(offset, length).await?)),
        }
    }

    /// Writes, and waits for the store where the plan says so; answers how many bytes.
    pub(crate) async fn write(&self, offset: u64, content: &Bytes) -> Result<u32> {
        match self {
            File::Smb(file) => Ok(file.write(offset, content).await?),
            File::Nfs(file, stable) => Ok(file.write(offset, content, *stable).await?.count),
            File::Local(file) => Ok(file.write(offset, content)?),
            File::Null(_) => Err(null::only_reads().into()),
        }
    }

    pub(crate) async fn close(self) -> Result<()> {
        match self {
            File::Smb(file) => Ok(file.close().await?),
            File::Nfs(file, _) => Ok(file.close().await?),
            File::Local(_) | File::Null(_) => Ok(()),
        }
    }
}
