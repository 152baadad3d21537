//! An open file, and what was read of it.

use bytes::Bytes;

use super::local;
use crate::error::Result;
use crate::nfs::{self, StableHow};
use crate::{Error, smb};

/// An open file.
#[derive(Debug)]
pub enum File {
    /// One of a share.
    Smb(smb::File),
    /// One of an export, and how each write waits.
    Nfs(nfs::File, StableHow),
    /// One of this host.
    Local(local::File),
}

/// What was read.
#[derive(Debug)]
pub enum Data {
    /// The reply to a READ of a share.
    Smb(smb::Data),
    /// The reply to a READ of an export.
    Nfs(nfs::Data),
    /// So many bytes of this host; they lie in a buffer that is not handed out.
    Local(usize),
}

impl Data {
    /// How many bytes came.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Data::Smb(data) => data.len(),
            Data::Nfs(data) => data.len(),
            Data::Local(length) => *length,
        }
    }

    /// Whether none came.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl File {
    /// Bytes that it had when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            File::Smb(file) => file.info().end_of_file,
            File::Nfs(file, _) => file.attributes().size,
            File::Local(file) => file.size(),
        }
    }

    /// Reads up to `length` bytes at `offset`.
    ///
    /// # Errors
    /// What is against it.
    pub async fn read(&self, offset: u64, length: u32) -> Result<Data> {
        match self {
            File::Smb(file) => Ok(Data::Smb(file.read(offset, length).await?)),
            File::Nfs(file, _) => Ok(Data::Nfs(file.read(offset, length).await?)),
            File::Local(file) => Ok(Data::Local(file.read(offset, length).map_err(Error::local)?)),
        }
    }

    /// Writes at `offset`, and waits for the store where the mount options say so; answers how many bytes.
    ///
    /// # Errors
    /// What is against it.
    pub async fn write(&self, offset: u64, content: &Bytes) -> Result<u32> {
        match self {
            File::Smb(file) => file.write(offset, content).await,
            File::Nfs(file, stable) => Ok(file.write(offset, content, *stable).await?.count),
            File::Local(file) => file.write(offset, content).map_err(Error::local),
        }
    }

    /// Closes it.
    ///
    /// # Errors
    /// What is against it.
    pub async fn close(self) -> Result<()> {
        match self {
            File::Smb(file) => file.close().await,
            File::Nfs(file, _) => file.close().await,
            File::Local(_) => Ok(()),
        }
    }
}
