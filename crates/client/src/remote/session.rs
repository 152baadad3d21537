//! A session with a server, whatever its protocol.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::directory::Directory;
use super::options::MountOptions;
use crate::error::Result;
use crate::{ChannelStatus, Error, nfs, smb};

/// A session with a server, and the share or export in it. Copies share it.
#[derive(Debug, Clone)]
pub enum RemoteSession {
    /// A session with a share.
    Smb {
        /// The first connection of the session.
        connection: smb::Connection,
        /// The session itself.
        session: smb::Session,
        /// The share.
        tree: smb::Tree,
    },
    /// A session with an export.
    Nfs {
        /// The session.
        client: nfs::Client,
        /// The export.
        export: nfs::ExportDirectory,
    },
    /// This host, which needs no session.
    Local,
}

impl RemoteSession {
    /// The root of the share or export. Paths of this host begin at the working directory.
    #[must_use]
    pub fn root(&self, options: MountOptions) -> Directory {
        match self {
            RemoteSession::Smb { tree, .. } => Directory::smb(tree.clone(), String::new(), options),
            RemoteSession::Nfs { export, .. } => Directory::nfs(export.clone(), options),
            RemoteSession::Local => Directory::local(PathBuf::new(), options),
        }
    }

    /// The present connections.
    #[must_use]
    pub fn channels(&self) -> Vec<ChannelStatus> {
        match self {
            RemoteSession::Smb { session, .. } => session.channels(),
            RemoteSession::Nfs { client, .. } => client.connections(),
            RemoteSession::Local => Vec::new(),
        }
    }

    /// Raises the number of connections to `count` and uses them all. Further ones over SMB go to `addresses`
    /// in turn. Returns the present number, and the reason if there are fewer.
    pub async fn widen(&self, count: usize, addresses: &[SocketAddr]) -> (usize, Option<Error>) {
        let had = self.channels().len();
        if had >= count {
            return (had, None);
        }
        let failure = match self {
            RemoteSession::Smb { session, .. } => {
                let options = smb::ChannelOptions {
                    channels: count,
                    addresses: addresses.to_vec(),
                    use_all: true,
                    ..smb::ChannelOptions::default()
                };
                session.open_channels(&options).await.map_or_else(Some, |opened| opened.failure)
            }
            RemoteSession::Nfs { client, .. } => client.widen(count).await.err(),
            RemoteSession::Local => None,
        };
        (self.channels().len(), failure)
    }

    /// Closes all connections but `count`.
    pub fn narrow(&self, count: usize) {
        match self {
            RemoteSession::Smb { session, .. } => session.narrow(count),
            RemoteSession::Nfs { client, .. } => client.narrow(count),
            RemoteSession::Local => {}
        }
    }

    /// The most bytes of one READ or WRITE.
    #[must_use]
    pub fn max_io(&self) -> u32 {
        match self {
            RemoteSession::Smb { connection, .. } => connection.negotiated().max_io(),
            RemoteSession::Nfs { client, .. } => client.max_io(),
            RemoteSession::Local => u32::MAX,
        }
    }

    /// Sends a request that costs the server nothing.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn echo(&self) -> Result<()> {
        match self {
            RemoteSession::Smb { connection, .. } => connection.echo().await,
            RemoteSession::Nfs { client, .. } => client.echo().await,
            RemoteSession::Local => Ok(()),
        }
    }

    /// Ends the session.
    ///
    /// # Errors
    /// When the server did not confirm it.
    pub async fn close(self) -> Result<()> {
        match self {
            RemoteSession::Smb { session, .. } => session.log_off().await,
            RemoteSession::Nfs { client, .. } => client.close().await,
            RemoteSession::Local => Ok(()),
        }
    }
}
