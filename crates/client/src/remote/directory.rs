//! A directory, and the operations on the names in it and below it. A path has its parts divided by `/`. The
//! empty path is the directory itself.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use smb_wire::create::{CreateOptions, Disposition};

use super::attributes::{Attributes, Entry};
use super::file::RemoteFile;
use super::local::{self, HostDirectory};
use super::options::{MountOptions, OpenMode};
use crate::error::Result;
use crate::nfs::ExportDirectory;
use crate::smb::{OpenOptions, Tree};
use crate::{join, nfs};

/// A directory. Copies share its session.
#[derive(Debug, Clone)]
pub struct Directory {
    at: At,
    options: MountOptions,
}

#[derive(Debug, Clone)]
enum At {
    /// A path in a share.
    Smb(Tree, String),
    Nfs(ExportTree),
    Local(HostDirectory),
}

/// A directory of an export, and the directories below it that were looked up.
#[derive(Debug, Clone)]
struct ExportTree {
    top: ExportDirectory,
    lookups: Arc<Mutex<HashMap<String, ExportDirectory>>>,
}

impl ExportTree {
    fn new(top: ExportDirectory) -> ExportTree {
        ExportTree { top, lookups: Arc::default() }
    }

    fn lookups(&self) -> MutexGuard<'_, HashMap<String, ExportDirectory>> {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn directory(&self, path: &str) -> Result<ExportDirectory> {
        if path.is_empty() {
            return Ok(self.top.clone());
        }
        let known = self.lookups().get(path).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let directory = self.top.directory(path).await?;
        self.lookups().insert(path.to_owned(), directory.clone());
        Ok(directory)
    }

    /// The directory of `path`, and the name in it.
    async fn parent<'a>(&self, path: &'a str) -> Result<(ExportDirectory, &'a str)> {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.directory(above).await?, name))
    }
}

impl Directory {
    /// The directory `path` of a share.
    #[must_use]
    pub fn smb(tree: Tree, path: String, options: MountOptions) -> Directory {
        Directory { at: At::Smb(tree, path), options }
    }

    /// A directory of an export. It remembers the directories below it that it has looked up.
    #[must_use]
    pub fn nfs(directory: nfs::ExportDirectory, options: MountOptions) -> Directory {
        Directory { at: At::Nfs(ExportTree::new(directory)), options }
    }

    /// A directory of this host. Its operations block their thread.
    #[must_use]
    pub fn local(path: PathBuf, options: MountOptions) -> Directory {
        Directory { at: At::Local(HostDirectory { path, is_tree: false }), options }
    }

    /// A directory of this host in a tree that is copied. Its operations run on the threads of the runtime
    /// that may block. They follow no link at the end of a path, except an empty one.
    #[must_use]
    pub fn host_tree(path: PathBuf, options: MountOptions) -> Directory {
        Directory { at: At::Local(HostDirectory { path, is_tree: true }), options }
    }

    /// The same directory with other options.
    #[must_use]
    pub fn with(&self, options: MountOptions) -> Directory {
        Directory { options, ..self.clone() }
    }

    /// The directory `path` below this one. Over SMB it is not looked up before an operation in it.
    ///
    /// # Errors
    /// When it does not exist.
    pub async fn directory(&self, path: &str) -> Result<Directory> {
        let at = match &self.at {
            At::Smb(tree, base) => At::Smb(tree.clone(), join(base, path)),
            At::Nfs(export) => At::Nfs(ExportTree::new(export.directory(path).await?)),
            At::Local(host) => At::Local(host.directory(path).await?),
        };
        Ok(Directory { at, options: self.options })
    }

    /// The directory `path` of an export, for operations that NFS alone has.
    ///
    /// # Errors
    /// When it does not exist, or the directory is not one of an export.
    pub async fn export_directory(&self, path: &str) -> Result<ExportDirectory> {
        match &self.at {
            At::Nfs(export) => export.directory(path).await,
            At::Smb(..) | At::Local(_) => Err(crate::Error::NotOffered("an export")),
        }
    }

    /// Creates the directory `path`, which may exist if `may_exist`. Its parent must exist.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn make_directory(&self, path: &str, may_exist: bool) -> Result<()> {
        let made = match &self.at {
            At::Smb(tree, base) => {
                let disposition = if may_exist { Disposition::OpenIf } else { Disposition::Create };
                return tree.touch(&join(base, path), &OpenOptions::directory(disposition)).await;
            }
            At::Nfs(export) => {
                let (directory, name) = export.parent(path).await?;
                directory.make_directory(name, self.options.dir_mode).await
            }
            At::Local(host) => host.make_directory(path, self.options.dir_mode).await,
        };
        match made {
            Err(why) if may_exist && why.is_taken() => Ok(()),
            made => made,
        }
    }

    /// Creates the directory `path` and the missing ones above it. It may exist.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn make_directories(&self, path: &str) -> Result<()> {
        if let At::Local(host) = &self.at {
            return host.run(path, fs::create_dir_all).await;
        }
        if path.is_empty() {
            return Ok(());
        }
        match self.make_directory(path, true).await {
            Err(why) if why.is_missing() => {}
            made => return made,
        }
        for (end, _) in path.match_indices('/') {
            self.make_directory(&path[..end], true).await?;
        }
        self.make_directory(path, true).await
    }

    /// Opens the file `path`.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn open(&self, path: &str, mode: OpenMode) -> Result<RemoteFile> {
        match &self.at {
            At::Smb(tree, base) => {
                let how = mode.of_smb();
                let how = OpenOptions { options: how.options | self.options.caching(), ..how };
                Ok(RemoteFile::Smb(tree.open(&join(base, path), &how).await?))
            }
            At::Nfs(export) => {
                let (directory, name) = export.parent(path).await?;
                let file = directory.open(name, &mode.of_nfs(self.options.file_mode)).await?;
                Ok(RemoteFile::Nfs(file, self.options.stable()))
            }
            At::Local(host) => Ok(RemoteFile::Local(host.open(path, mode, self.options).await?)),
        }
    }

    /// Opens a file and closes it, in one compound.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn touch(&self, path: &str, mode: OpenMode) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => tree.touch(&join(base, path), &mode.of_smb()).await,
            At::Nfs(export) => {
                let (directory, name) = export.parent(path).await?;
                directory.touch(name, &mode.of_nfs(self.options.file_mode)).await
            }
            At::Local(_) => self.open(path, mode).await.map(drop),
        }
    }

    /// Opens a file, writes `content` and closes it, in one compound.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn put(&self, path: &str, mode: OpenMode, content: &Bytes) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => tree.put(&join(base, path), &mode.of_smb(), content).await,
            At::Nfs(export) => {
                let (directory, name) = export.parent(path).await?;
                directory.put(name, &mode.of_nfs(self.options.file_mode), content).await
            }
            At::Local(host) => host.put(path, mode, content).await,
        }
    }

    /// Deletes a file or a link itself. Over SMB this is one compound.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn remove(&self, path: &str) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => tree.touch(&join(base, path), &OpenOptions::delete().of_link()).await,
            At::Nfs(export) => {
                let (directory, name) = export.parent(path).await?;
                directory.remove(name).await
            }
            At::Local(host) => host.run(path, fs::remove_file).await,
        }
    }

    /// Does the same, over SMB with one request after the other.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn remove_stepwise(&self, path: &str) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => {
                tree.open(&join(base, path), &OpenOptions::delete().of_link()).await?.close().await
            }
            At::Nfs(_) | At::Local(_) => self.remove(path).await,
        }
    }

    /// Deletes an empty directory.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn remove_directory(&self, path: &str) -> Result<()> {
        match &self.at {
            At::Smb(tree, base) => {
                let how = OpenOptions::delete().of_link();
                let options = how.options | CreateOptions::DIRECTORY_FILE;
                tree.touch(&join(base, path), &OpenOptions { options, ..how }).await
            }
            At::Nfs(export) => {
                export.lookups().remove(path);
                self.remove(path).await
            }
            At::Local(host) => host.run(path, fs::remove_dir).await,
        }
    }

    /// Queries the attributes of `path`.
    ///
    /// # Errors
    /// When it does not exist.
    pub async fn stat(&self, path: &str) -> Result<Attributes> {
        match &self.at {
            At::Smb(tree, base) => Ok(Attributes::from(&tree.stat(&join(base, path)).await?)),
            At::Nfs(export) if path.is_empty() => Ok(Attributes::from(&export.top.known().await?)),
            At::Nfs(export) => {
                let (directory, name) = export.parent(path).await?;
                Ok(Attributes::from(&directory.stat(name).await?))
            }
            At::Local(host) => host.stat(path).await,
        }
    }

    /// Lists the directory.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn list(&self) -> Result<Vec<Entry>> {
        self.list_at("").await
    }

    /// Lists the directory `path`.
    ///
    /// # Errors
    /// When the server or host refuses.
    pub async fn list_at(&self, path: &str) -> Result<Vec<Entry>> {
        match &self.at {
            At::Smb(tree, base) => {
                let how = OpenOptions::directory(Disposition::Open);
                let directory = tree.open(&join(base, path), &how).await?;
                let listed = directory.list("*").await;
                directory.close().await?;
                Ok(listed?.into_iter().map(Entry::from).collect())
            }
            At::Nfs(export) => {
                let listed = export.directory(path).await?.list().await?;
                Ok(listed.into_iter().map(Entry::from).collect())
            }
            At::Local(host) => host.run(path, |at| local::list(&at)).await,
        }
    }
}
