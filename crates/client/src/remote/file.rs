//! An open file.

use bytes::Bytes;
use nfs_wire::types::Verifier;

use super::attributes::Attributes;
use super::local::HostFile;
use crate::error::Result;
use crate::nfs::{self, StableHow};
use crate::{Error, smb};

/// An open file.
#[derive(Debug)]
pub enum RemoteFile {
    /// A file of a share.
    Smb(smb::File),
    /// A file of an export, and the stability of its writes.
    Nfs(nfs::ExportFile, StableHow),
    /// A file of this host.
    Local(HostFile),
}

impl RemoteFile {
    /// Its attributes when it was opened.
    #[must_use]
    pub fn opened(&self) -> Attributes {
        match self {
            RemoteFile::Smb(file) => Attributes::from(file.info()),
            RemoteFile::Nfs(file, _) => Attributes::from(file.attributes()),
            RemoteFile::Local(file) => file.opened(),
        }
    }

    /// Its size in bytes when it was opened.
    #[must_use]
    pub fn size(&self) -> u64 {
        match self {
            RemoteFile::Smb(file) => file.info().end_of_file,
            RemoteFile::Nfs(file, _) => file.attributes().size,
            RemoteFile::Local(file) => file.opened().size,
        }
    }

    /// Queries its present attributes.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn stat(&self) -> Result<Attributes> {
        match self {
            RemoteFile::Smb(file) => Ok(Attributes::from(&file.stat().await?)),
            RemoteFile::Nfs(file, _) => Ok(Attributes::from(&file.stat().await?)),
            RemoteFile::Local(file) => file.stat().await,
        }
    }

    /// Reads up to `length` bytes at `offset` with one request, and drops them. Returns their number.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn read(&self, offset: u64, length: u32) -> Result<usize> {
        match self {
            RemoteFile::Smb(file) => Ok(file.read(offset, length).await?.len()),
            RemoteFile::Nfs(file, _) => Ok(file.read(offset, length).await?.len()),
            RemoteFile::Local(file) => file.read(offset, length),
        }
    }

    /// Reads up to `length` bytes at `offset`. There are fewer only at the end of the file.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn read_all(&self, offset: u64, length: u32) -> Result<Bytes> {
        let file = match self {
            RemoteFile::Smb(file) => return Ok(Bytes::from_owner(file.read(offset, length).await?)),
            RemoteFile::Nfs(file, _) => file,
            RemoteFile::Local(file) => return file.read_all(offset, length).await,
        };
        let first = file.read(offset, length).await?;
        if first.len() == length as usize || first.eof || first.is_empty() {
            return Ok(Bytes::from_owner(first));
        }
        // An NFS server may return less than it was asked for.
        let mut whole = first.to_vec();
        while whole.len() < length as usize {
            let done = whole.len();
            let more = file.read(offset + done as u64, length - done as u32).await?;
            whole.extend_from_slice(&more);
            if more.eof || more.is_empty() {
                break;
            }
        }
        Ok(whole.into())
    }

    /// Writes at `offset` with one request, and waits for stable storage if the mount options say so. Returns
    /// the number of bytes written.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn write(&self, offset: u64, content: &Bytes) -> Result<u32> {
        match self {
            RemoteFile::Smb(file) => file.write(offset, content).await,
            RemoteFile::Nfs(file, stable) => Ok(file.write(offset, content, *stable).await?.count),
            RemoteFile::Local(file) => file.write(offset, content).await,
        }
    }

    /// Writes all of `content` at `offset`. Returns the verifier of unstable NFS data, as
    /// [`write_all`](nfs::ExportFile::write_all) does.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn write_all(&self, offset: u64, content: &Bytes) -> Result<Option<Verifier>> {
        if let RemoteFile::Nfs(file, StableHow::Unstable) = self {
            return file.write_all(offset, content).await;
        }
        let mut done = 0;
        while done < content.len() {
            match self.write(offset + done as u64, &content.slice(done..)).await? {
                0 => return Err(Error::Protocol("a write that wrote nothing and succeeded")),
                count => done += count as usize,
            }
        }
        Ok(None)
    }

    /// Sets the size of the file to `length` bytes.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn set_length(&self, length: u64) -> Result<()> {
        match self {
            RemoteFile::Smb(file) => file.set_length(length).await,
            RemoteFile::Nfs(file, _) => file.set_length(length).await,
            RemoteFile::Local(file) => file.set_length(length).await,
        }
    }

    /// Closes it.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn close(self) -> Result<()> {
        match self {
            RemoteFile::Smb(file) => file.close().await,
            RemoteFile::Nfs(file, _) => file.close().await,
            RemoteFile::Local(_) => Ok(()),
        }
    }
}
