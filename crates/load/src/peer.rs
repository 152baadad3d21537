//! The peer of a load: a directory of [`client::remote`] over any protocol, or the null server.

mod null;
mod open;

use std::io;
use std::sync::Arc;

use client::Bytes;
use client::remote::{self, Directory, OpenMode};

use crate::channel::{Channel, Security};
use crate::error::ErrorContext;
use crate::plan::Protocol;
use crate::{Error, Plan};

/// A session with a target, and the directory in it.
#[derive(Debug)]
pub(crate) struct TargetSession {
    session: Session,
    pub(crate) share: TargetDirectory,
}

#[derive(Debug)]
enum Session {
    Remote(remote::RemoteSession),
    Null { _tasks: null::Tasks },
}

/// A directory. All clones share it.
#[derive(Debug, Clone)]
pub(crate) enum TargetDirectory {
    Remote(Directory),
    Null(null::NullDirectory),
}

/// An open file.
#[derive(Debug)]
pub(crate) enum File {
    Remote(remote::RemoteFile),
    Null(null::NullDirectory),
}

impl TargetSession {
    /// Connects as the plan requires, and checks that the negotiated options are the requested ones.
    pub(crate) async fn open(plan: &Plan) -> Result<TargetSession, Error> {
        let session = match &plan.protocol {
            Protocol::Smb(wanted) => open::smb(plan, wanted).await?,
            Protocol::Nfs(options) => open::nfs(plan, options).await?,
            Protocol::Local => remote::RemoteSession::Local,
            Protocol::Null { host, port } => {
                let (tasks, share) = null::open(host, *port, plan.block).await?;
                return Ok(TargetSession {
                    session: Session::Null { _tasks: tasks },
                    share: TargetDirectory::Null(share),
                });
            }
        };
        let share = TargetDirectory::Remote(session.root(open::mount_options(plan)));
        Ok(TargetSession { session: Session::Remote(session), share })
    }

    /// Ends the session.
    pub(crate) async fn close(self) -> Result<(), Error> {
        match self.session {
            Session::Remote(session) => session.close().await.doing(|| "ending the session".to_owned()),
            Session::Null { .. } => Ok(()),
        }
    }

    /// The connections of the session and their traffic.
    pub(crate) fn channels(&self) -> Vec<Channel> {
        match &self.session {
            Session::Remote(session) => session.channels().into_iter().map(Channel::from).collect(),
            Session::Null { .. } => Vec::new(),
        }
    }

    /// The negotiated security.
    pub(crate) fn security(&self) -> Security {
        match &self.session {
            Session::Remote(session) => open::security(session),
            Session::Null { .. } => Security::none("null", "1"),
        }
    }
}

impl TargetDirectory {
    /// The directory with all its operations.
    pub(crate) fn files(&self) -> Result<&Directory, Error> {
        match self {
            TargetDirectory::Remote(directory) => Ok(directory),
            TargetDirectory::Null(_) => Err(Error::Usage(null::ONLY_READS.to_owned())),
        }
    }

    /// The directory `path`, for operations on names.
    pub(crate) async fn directory(&self, path: &str) -> client::Result<TargetDirectory> {
        match self {
            TargetDirectory::Remote(directory) => {
                Ok(TargetDirectory::Remote(directory.directory(path).await?))
            }
            TargetDirectory::Null(share) => Ok(TargetDirectory::Null(share.clone())),
        }
    }

    pub(crate) async fn open(&self, path: &str, mode: OpenMode) -> client::Result<File> {
        match self {
            TargetDirectory::Remote(directory) => Ok(File::Remote(directory.open(path, mode).await?)),
            TargetDirectory::Null(share) => Ok(File::Null(share.clone())),
        }
    }
}

/// An error of this host, as an operation returns it.
fn of_host(why: io::Error) -> client::Error {
    client::Error::Local(Arc::new(why))
}

impl File {
    /// The size when the file was opened.
    pub(crate) fn size(&self) -> u64 {
        match self {
            File::Remote(file) => file.size(),
            // The null server answers reads at any offset.
            File::Null(_) => u64::MAX,
        }
    }

    /// Reads, and returns the number of received bytes.
    pub(crate) async fn read(&self, offset: u64, length: u32) -> client::Result<usize> {
        match self {
            File::Remote(file) => Ok(file.read(offset, length).await?),
            File::Null(share) => share.read(offset, length).await.map_err(of_host),
        }
    }

    /// Writes, waits for the storage if the plan requires it, and returns the number of bytes.
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
