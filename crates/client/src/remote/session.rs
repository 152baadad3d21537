//! The way to a server.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::directory::Directory;
use super::options::MountOptions;
use crate::error::Result;
use crate::{ChannelStatus, Error, nfs, smb};

/// A session with a server, and the share or export in it. Copies share it.
#[derive(Debug, Clone)]
pub enum Session {
    /// A share.
    Smb {
        /// The first connection of the session.
        connection: smb::Connection,
        /// The session itself.
        session: smb::Session,
        /// The share.
        tree: smb::Tree,
    },
    /// An export.
    Nfs {
        /// The session.
        client: nfs::Client,
        /// The export.
        export: nfs::Directory,
    },
    /// This host, which needs none.
    Local,
}

impl Session {
    /// The root of the share or export. Paths of this host begin at the working directory.
    #[must_use]
    pub fn root(&self, options: MountOptions) -> Directory {
        match self {
            Session::Smb { tree, .. } => Directory::smb(tree.clone(), String::new(), options),
            Session::Nfs { export, .. } => Directory::nfs(export.clone(), options),
            Session::Local => Directory::local(PathBuf::new(), options),
        }
    }

    /// The connections that carry it now.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelStatus> {
        match self {
            Session::Smb { session, .. } => session.channels(),
            Session::Nfs { client, .. } => client.connections(),
            Session::Local => Vec::new(),
        }
    }

    /// Has `count` connections if the server allows it, further ones over SMB to `addresses` in turn, and uses them all. Answers
    /// how many there are, and why not more.
    pub async fn widen(&self, count: usize, addresses: &[SocketAddr]) -> (usize, Option<Error>) {
        let had = self.channels().len();
        if had >= count {
            return (had, None);
        }
        let failure = match self {
            Session::Smb { session, .. } => {
                let options = smb::ChannelOptions {
                    channels: count,
                    addresses: addresses.to_vec(),
                    use_all: true,
                    ..smb::ChannelOptions::default()
                };
                session.open_channels(&options).await.map_or_else(Some, |opened| opened.failure)
            }
            Session::Nfs { client, .. } => client.widen(count).await.err(),
            Session::Local => None,
        };
        (self.channels().len(), failure)
    }

    /// Gives up all connections but `count`.
    pub fn narrow(&self, count: usize) {
        match self {
            Session::Smb { session, .. } => session.narrow(count),
            Session::Nfs { client, .. } => client.narrow(count),
            Session::Local => {}
        }
    }

    /// The most bytes of one READ or WRITE.
    #[must_use]
    pub fn max_io(&self) -> u32 {
        match self {
            Session::Smb { connection, .. } => connection.negotiated().max_io(),
            Session::Nfs { client, .. } => client.max_io(),
            Session::Local => u32::MAX,
        }
    }

    /// Asks for an answer that costs the server nothing.
    ///
    /// # Errors
    /// When there is none.
    pub async fn echo(&self) -> Result<()> {
        match self {
            Session::Smb { connection, .. } => connection.echo().await,
            Session::Nfs { client, .. } => client.echo().await,
            Session::Local => Ok(()),
        }
    }

    /// Ends it.
    ///
    /// # Errors
    /// When the server did not take notice.
    pub async fn close(self) -> Result<()> {
        match self {
            Session::Smb { session, .. } => session.log_off().await,
            Session::Nfs { client, .. } => client.close().await,
            Session::Local => Ok(()),
        }
    }
}
