//! What a load is done to: a directory of a share or export, whichever protocol leads there, with just the
//! operations that the workloads need.

mod nfs;
mod smb;

use client::{Bytes, Data, nfs as nfs_client};

use crate::error::Doing;
use crate::plan::Protocol;
use crate::report::{Channel, Security};
use crate::{Error, Plan};

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
}

/// A share or export. Copies share it.
#[derive(Debug, Clone)]
pub(crate) enum Share {
    Smb(smb::Share),
    Nfs(nfs::Share),
}

/// An open file.
#[derive(Debug)]
pub(crate) enum File {
    Smb(client::File),
    Nfs(nfs_client::File),
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
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        match self {
            Block::Smb(data) => data.len(),
            Block::Nfs(data) => data.len(),
        }
    }
}

impl Line {
    /// Connects as the plan says, and checks that what was asked for is what came of it.
    pub(crate) async fn open(plan: &Plan) -> Result<Line, Error> {
        match &plan.protocol {
            Protocol::Smb(wanted) => {
                let (line, share) = smb::Line::open(plan, wanted).await?;
                Ok(Line { session: Session::Smb(line), share: Share::Smb(share) })
            }
            Protocol::Nfs(options) => {
                let (client, share) = nfs::open(plan, options).await?;
                Ok(Line { session: Session::Nfs(client), share: Share::Nfs(share) })
            }
        }
    }

    /// Ends the session.
    pub(crate) async fn close(self) -> Result<(), Error> {
        match self.session {
            Session::Smb(line) => line.close().await,
            Session::Nfs(client) => client.close().await.doing(|| "ending the session".to_owned()),
        }
    }

    /// The connections of the session and what they have carried.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        match &self.session {
            Session::Smb(line) => line.channels(),
            Session::Nfs(client) => client.connections().into_iter().map(nfs::channel).collect(),
        }
    }

    /// What was negotiated.
    pub(crate) fn security(&self) -> Security {
        match &self.session {
            Session::Smb(line) => line.security(),
            Session::Nfs(_) => nfs::security(),
        }
    }
}

impl Share {
    /// Makes the directory `path`, unless it is there. The one above it is there.
    pub(crate) async fn make_directory(&self, path: &str) -> client::Result<()> {
        match self {
            Share::Smb(share) => share.make_directory(path).await,
            Share::Nfs(share) => share.make_directory(path).await,
        }
    }

    /// The directory `path`, in which names are to be worked on.
    pub(crate) async fn directory(&self, path: &str) -> client::Result<Share> {
        match self {
            Share::Smb(share) => Ok(Share::Smb(share.directory(path))),
            Share::Nfs(share) => share.directory(path).await.map(Share::Nfs),
        }
    }

    pub(crate) async fn open(&self, name: &str, how: How) -> client::Result<File> {
        match self {
            Share::Smb(share) => share.open(name, how).await.map(File::Smb),
            Share::Nfs(share) => share.open(name, how).await.map(File::Nfs),
        }
    }

    /// Opens a file and closes it, in one compound.
    pub(crate) async fn touch(&self, name: &str, how: How) -> client::Result<()> {
        match self {
            Share::Smb(share) => share.touch(name, how).await,
            Share::Nfs(share) => share.touch(name, how).await,
        }
    }

    /// Opens a file, writes `content` and closes it, in one compound.
    pub(crate) async fn put(&self, name: &str, how: How, content: &Bytes) -> client::Result<()> {
        match self {
            Share::Smb(share) => share.put(name, how, content).await,
            Share::Nfs(share) => share.put(name, how, content).await,
        }
    }

    /// Takes a name away; `compound` where the protocol has a choice.
    pub(crate) async fn delete(&self, name: &str, compound: bool) -> client::Result<()> {
        match self {
            Share::Smb(share) => share.delete(name, compound).await,
            Share::Nfs(share) => share.delete(name).await,
        }
    }

    /// Bytes of a file, by its name.
    pub(crate) async fn size_of(&self, name: &str) -> client::Result<u64> {
        match self {
            Share::Smb(share) => share.size_of(name).await,
            Share::Nfs(share) => share.size_of(name).await,
        }
    }

    /// The names in the directory, with the bytes of each.
    pub(crate) async fn list(&self) -> client::Result<Vec<(String, u64)>> {
        match self {
            Share::Smb(share) => share.list().await,
            Share::Nfs(share) => share.list().await,
        }
    }
}

impl File {
    /// Bytes that it had when it was opened.
    pub(crate) fn size(&self) -> u64 {
        match self {
            File::Smb(file) => file.info().end_of_file,
            File::Nfs(file) => file.attributes().size,
        }
    }

    pub(crate) async fn read(&self, offset: u64, length: u32) -> client::Result<Block> {
        match self {
            File::Smb(file) => file.read(offset, length).await.map(Block::Smb),
            File::Nfs(file) => file.read(offset, length).await.map(Block::Nfs),
        }
    }

    /// Writes without waiting for the store; answers how many bytes.
    pub(crate) async fn write(&self, offset: u64, content: &Bytes) -> client::Result<u32> {
        match self {
            File::Smb(file) => file.write(offset, content).await,
            File::Nfs(file) => {
                let stable = nfs_client::StableHow::Unstable;
                file.write(offset, content, stable).await.map(|written| written.count)
            }
        }
    }

    pub(crate) async fn close(self) -> client::Result<()> {
        match self {
            File::Smb(file) => file.close().await,
            File::Nfs(file) => file.close().await,
        }
    }
}
