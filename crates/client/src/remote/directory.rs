//! A directory, and what is done to the names in it.

use std::path::PathBuf;

use bytes::Bytes;
use smb_wire::create::{CreateOptions, Disposition};

use super::attributes::{Attributes, Entry};
use super::file::File;
use super::local;
use super::options::{MountOptions, OpenMode};
use crate::error::Result;
use crate::smb::{OpenOptions, Tree};
use crate::{Error, join, nfs};

/// A directory. Copies share what it is reached by.
#[derive(Debug, Clone)]
pub struct Directory {
    at: At,
    options: MountOptions,
}

#[derive(Debug, Clone)]
enum At {
    /// A path in a share.
    Smb(Tree, String),
    Nfs(nfs::Directory),
    Local(PathBuf),
}

impl Directory {
    /// The directory `path` of a share.
    #[must_use]
    pub fn smb(tree: Tree, path: String, options: MountOptions) -> Directory {
        Directory { at: At::Smb(tree, path), options }
    }

    /// A directory of an export.
    #[must_use]
    pub fn nfs(directory: nfs::Directory, options: MountOptions) -> Directory {
        Directory { at: At::Nfs(directory), options }
    }

    /// A directory of this host. What is done there blocks its thread.
    #[must_use]
    pub fn local(path: PathBuf, options: MountOptions) -> Directory {
        Directory { at: At::Local(path), options }
    }

    /// The directory `path` below this one. Over SMB it is not looked for before something is done in it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn directory(&self, path: &str) -> Result<Directory> {
        let at = match &self.at {
            At::Smb(tree, base) => At::Smb(tree.clone(), join(base, path)),
            At::Nfs(directory) => At::Nfs(directory.directory(path).await?),
            At::Local(base) => At::Local(local::directory(base, path).map_err(Error::local)?),
        };
        Ok(Directory { at, options: self.options })
    }

    /// Makes the directory `path`, which may be there already if `may_exist`. The one above it is there.
    ///
    /// # Errors
    /// What is against it.
    pub async fn make_directory(&self, path: &str, may_exist: bool) -> Result<()> {
        let made = match &self.at {
            At::Smb(tree, base) => {
                let disposition = if may_exist { Disposition::OpenIf } else { Disposition::Create };
                let how = OpenOptions::directory(disposition);
                return tree.open(&join(base, path), &how).await?.close().await;
            }
            At::Nfs(directory) => {
                let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
                directory.directory(above).await?.make_directory(name, self.options.dir_mode).await
            }
            At::Local(base) => std::fs::create_dir(base.join(path)).map_err(Error::local),
        };
        match made {
            Err(why) if may_exist && why.is_taken() => Ok(()),
            made => made,
        }
    }

    /// Opens the file `path`.
    ///
    /// # Errors
    /// What is against it.
    pub async fn open(&self, path: &str, mode: OpenMode) -> Result<File> {
        match &self.at {
            At::Smb(tree, base) => {
                let how = mode.of_smb();
                let how = OpenOptions { options: how.options | self.options.caching(), ..how };
                Ok(File::Smb(tree.open(&join(base, path), &how).await?))
            }
            At::Nfs(directory) => {
                let how = mode.of_nfs(self.options.file_mode);
                let file = match path.rsplit_once('/') {
                    None => directory.open(path, &how).await?,
                    Some((above, name)) => directory.directory(above).await?.open(name, &how).await?,
                };
                Ok(File::Nfs(file, self.options.stable()))
            }
            At::Local(base) => {
                let MountOptions { direct, sync, .. } = self.options;
                let file = local::File::open(&base.join(path), mode, direct, sync);
                Ok(File::Local(file.map_err(Error::local)?))
            }
        }
    }

    /// Opens a file and closes it, in one compound.
    ///
    /// # Errors
    /// What is against it.
    pub async fn touch(&self, name: &str, mode: OpenMode) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => tree.touch(&join(base, name), &mode.of_smb()).await,
            At::Nfs(directory) => directory.touch(name, &mode.of_nfs(self.options.file_mode)).await,
            At::Local(_) => self.open(name, mode).await.map(drop),
        }
    }

    /// Opens a file, writes `content` and closes it, in one compound.
    ///
    /// # Errors
    /// What is against it.
    pub async fn put(&self, name: &str, mode: OpenMode, content: &Bytes) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => tree.put(&join(base, name), &mode.of_smb(), content).await,
            At::Nfs(directory) => directory.put(name, &mode.of_nfs(self.options.file_mode), content).await,
            At::Local(base) => local::put(&base.join(name), mode, content).map_err(Error::local),
        }
    }

    /// Deletes a file; over SMB in one compound.
    ///
    /// # Errors
    /// What is against it.
    pub async fn remove(&self, name: &str) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => tree.touch(&join(base, name), &OpenOptions::delete()).await,
            At::Nfs(directory) => directory.remove(name).await,
            At::Local(base) => std::fs::remove_file(base.join(name)).map_err(Error::local),
        }
    }

    /// The same, over SMB in one request after the other.
    ///
    /// # Errors
    /// What is against it.
    pub async fn remove_stepwise(&self, name: &str) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => tree.open(&join(base, name), &OpenOptions::delete()).await?.close().await,
            At::Nfs(_) | At::Local(_) => self.remove(name).await,
        }
    }

    /// Deletes an empty directory.
    ///
    /// # Errors
    /// What is against it.
    pub async fn remove_directory(&self, name: &str) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => {
                let how = OpenOptions::delete();
                let options = how.options | CreateOptions::DIRECTORY_FILE;
                tree.touch(&join(base, name), &OpenOptions { options, ..how }).await
            }
            At::Nfs(directory) => directory.remove(name).await,
            At::Local(base) => std::fs::remove_dir(base.join(name)).map_err(Error::local),
        }
    }

    /// What is known of a name in the directory.
    ///
    /// # Errors
    /// When there is none.
    pub async fn stat(&self, name: &str) -> Result<Attributes> {
        match &self.at {
            At::Smb(tree, base) => Ok(Attributes::from(&tree.stat(&join(base, name)).await?)),
            At::Nfs(directory) => Ok(Attributes::from(&directory.stat(name).await?)),
            At::Local(base) => {
                let known = std::fs::metadata(base.join(name)).map_err(Error::local)?;
                Ok(Attributes::from(&known))
            }
        }
    }

    /// All that is in the directory.
    ///
    /// # Errors
    /// What is against it.
    pub async fn list(&self) -> Result<Vec<Entry>> {
        match &self.at {
            At::Smb(tree, base) => {
                let directory = tree.open(base, &OpenOptions::directory(Disposition::Open)).await?;
                let listed = directory.list("*").await;
                directory.close().await?;
                Ok(listed?.into_iter().map(Entry::from).collect())
            }
            At::Nfs(directory) => Ok(directory.list().await?.into_iter().map(Entry::from).collect()),
            At::Local(base) => local::list(base).map_err(Error::local),
        }
    }
}
