//! What a load is done to: a directory of [`client::remote`], whichever protocol leads there, or the null server.

mod null;
mod open;

use std::io;
use std::sync::Arc;

use client::Bytes;
use client::remote::{self, Directory, OpenMode};

use crate::channel::{Channel, Security};
use crate::error::Doing;
use crate::plan::Protocol;
use crate::{Error, Plan};

/// A session with a server, and the share in it.
#[derive(Debug)]
pub(crate) struct Line {
    session: Session,
    pub(crate) share: Share,
}

#[derive(Debug)]
enum Session {
    Remote(remote::RemoteSession),
    Null { _tasks: null::Tasks },
}

/// A directory. Copies share it.
#[derive(Debug, Clone)]
pub(crate) enum Share {
    Remote(Directory),
    Null(null::Share),
}

/// An open file.
#[derive(Debug)]
pub(crate) enum File {
    Remote(remote::RemoteFile),
    Null(null::Share),
}

impl Line {
    /// Connects as the plan says, and checks that what was asked for is what came of it.
    pub(crate) async fn open(plan: &Plan) -> Result<Line, Error> {
        let session = match &plan.protocol {
            Protocol::Smb(wanted) => open::smb(plan, wanted).await?,
            Protocol::Nfs(options) => open::nfs(plan, options).await?,
            Protocol::Local => remote::RemoteSession::Local,
            Protocol::Null { host, port } => {
                let (tasks, share) = null::open(host, *port, plan.block).await?;
                return Ok(Line { session: Session::Null { _tasks: tasks }, share: Share::Null(share) });
            }
        };
        let share = Share::Remote(session.root(open::mount_options(plan)));
        Ok(Line { session: Session::Remote(session), share })
    }

    /// Ends the session.
    pub(crate) async fn close(self) -> Result<(), Error> {
        match self.session {
            Session::Remote(session) => session.close().await.doing(|| "ending the session".to_owned()),
            Session::Null { .. } => Ok(()),
        }
    }

    /// The connections of the session and what they have carried.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        match &self.session {
            Session::Remote(session) => session.channels().into_iter().map(Channel::from).collect(),
            Session::Null { .. } => Vec::new(),
        }
    }

    /// What was negotiated.
    pub(crate) fn security(&self) -> Security {
        match &self.session {
            Session::Remote(session) => open::security(session),
            Session::Null { .. } => Security::none("null", "1"),
        }
    }
}

impl Share {
    /// The directory with all that can be done in it.
    pub(crate) fn files(&self) -> Result<&Directory, Error> {
        match self {
            Share::Remote(directory) => Ok(directory),
            Share::Null(_) => Err(Error::Usage(null::ONLY_READS.to_owned())),
        }
    }

    /// The directory `path`, in which names are to be worked on.
    pub(crate) async fn directory(&self, path: &str) -> client::Result<Share> {
        match self {
            Share::Remote(directory) => Ok(Share::Remote(directory.directory(path).await?)),
            Share::Null(share) => Ok(Share::Null(share.clone())),
        }
    }

    pub(crate) async fn open(&self, path: &str, mode: OpenMode) -> client::Result<File> {
        match self {
            Share::Remote(directory) => Ok(File::Remote(directory.open(path, mode).await?)),
            Share::Null(share) => Ok(File::Null(share.clone())),
        }
    }
}

/// What this host says, as an operation fails with it.
fn of_host(why: io::Error) -> client::Error {
    client::Error::Local(Arc::new(why))
}

impl File {
    /// Bytes that it had when it was opened.
    pub(crate) fn size(&self) -> u64 {
        match self {
            File::Remote(file) => file.size(),
            // It has whatever is asked for.
            File::Null(_) => u64::MAX,
        }
    }

    /// Reads; answers how many bytes came.
    pub(crate) async fn read(&self, offset: u64, length: u32) -> client::Result<usize> {
        match self {
            File::Remote(file) => Ok(file.read(offset, length).await?),
            File::Null(share) => share.read(offset, length).await.map_err(of_host),
        }
    }

    /// Writes, and waits for the store where the plan says so; answers how many bytes.
    pub(crate) async fn write(&self, offset: u64, content: &Bytes) -> client::Result<u32> {
        match self {
            File::Remote(file) => file.write(offset, content).await,
            File::Null(_) => Err(of_host(io::Error::other(null::ONLY_READS))),
        }
    }

    pub(crate) async fn close(self) -> client::Result<()> {
        match self {
            File::Remote(file) => file.close().await,
            File::Null(_) => Ok(()),
        }
    }
}
