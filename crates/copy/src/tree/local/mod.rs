//! Files of this host: what a copy needs beside the operations of [`client::remote`].

mod links;
pub(super) mod sidecar;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use bytes::Bytes;
use client::remote::local::{in_pool, read_all};
use client::remote::{Attributes, HostFile, MODE, RemoteFile, SPECIAL};
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT, futimens};

use crate::PreservedParts;
use crate::error::{Fault, FileResult};
use crate::sidecar::{Sidecar, SidecarOutcome};
use crate::tree::File;
use crate::tree::listing::Fetched;
use crate::tree::target_attributes::TargetAttributes;

/// A directory of this host, or a file until it has been looked at.
#[derive(Debug)]
pub(crate) struct Local {
    pub(super) root: PathBuf,
}

/// The permission bits alone.
const PERMISSIONS: u32 = 0o777;

/// A modification time in the form of utimensat(2). The access time stays.
fn times(modified: i128) -> Timestamps {
    // Every side counts seconds, or less, in 64 bits.
    let tv_sec = modified.div_euclid(1_000_000_000) as i64;
    let last_modification = Timespec { tv_sec, tv_nsec: modified.rem_euclid(1_000_000_000) as _ };
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ };
    Timestamps { last_access, last_modification }
}

/// Opens without following a link at the end of the path.
fn no_link(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
}

fn settle(file: &fs::File, like: &TargetAttributes) -> io::Result<()> {
    let mode = match like.mode {
        // acl(5): the permission bits are now those of the access list.
        Some(mode) if like.has_list && mode & SPECIAL != 0 => {
            Some(file.metadata()?.mode() & PERMISSIONS | mode & SPECIAL)
        }
        Some(_) if like.has_list => None,
        mode => mode,
    };
    if let Some(mode) = mode {
        file.set_permissions(fs::Permissions::from_mode(mode & MODE))?;
    }
    if let Some(modified) = like.modified {
        futimens(file, &times(modified))?;
    }
    Ok(())
}

/// Opens the new or emptied file `path` to write.
fn create(path: &Path, like: &TargetAttributes) -> io::Result<fs::File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(like.first_mode(0o666));
    no_link(&mut options).open(path)
}

/// The first byte at or after `offset` that is not in a hole.
pub(super) async fn data_from(file: &HostFile, offset: u64) -> FileResult<u64> {
    let file = Arc::clone(file.file());
    let seek = move || match rustix::fs::seek(file.as_fd(), rustix::fs::SeekFrom::Data(offset)) {
        Ok(at) => Ok(at),
        // There is nothing but a hole up to the end.
        Err(rustix::io::Errno::NXIO) => Ok(u64::MAX),
        Err(_) => Ok(offset),
    };
    Ok(in_pool(seek).await?)
}

impl Local {
    pub(super) fn new(root: &Path) -> Local {
        Local { root: root.to_owned() }
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    pub(super) fn step_up(&mut self) -> Option<String> {
        let name = crate::name::last_part(&self.root)?;
        self.root = match self.root.parent() {
            Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
            Some(above) => above.to_owned(),
            None => return None,
        };
        Some(name)
    }

    pub(super) async fn settle_directory(&self, path: &str, like: &TargetAttributes) -> FileResult<()> {
        let (at, like) = (self.path(path), *like);
        Ok(in_pool(move || settle(&fs::File::open(at)?, &like)).await?)
    }

    pub(super) async fn fetch(&self, path: &str, length: u32) -> FileResult<Fetched> {
        let at = self.path(path);
        let fetching = move || {
            let file = no_link(OpenOptions::new().read(true)).open(at)?;
            let content = read_all(&file, 0, length)?;
            Ok(Fetched { content, attributes: Attributes::from(&file.metadata()?), has_streams: false })
        };
        Ok(in_pool(fetching).await?)
    }

    pub(super) async fn put(
        &self,
        path: &str,
        part: &str,
        content: &Bytes,
        like: &TargetAttributes,
    ) -> FileResult<()> {
        let (at, part, content, like) = (self.path(path), self.path(part), content.clone(), *like);
        let putting = move || {
            let made = (|| {
                let mut file = create(&part, &like)?;
                file.write_all(&content)?;
                settle(&file, &like)?;
                fs::rename(&part, at)
            })();
            if made.is_err() {
                // There may be none to remove. The caller gets the first error.
                let _ = fs::remove_file(&part);
            }
            made
        };
        Ok(in_pool(putting).await?)
    }

    pub(super) async fn finish(
        &self,
        file: File,
        part: &str,
        path: &str,
        like: &TargetAttributes,
    ) -> FileResult<()> {
        let RemoteFile::Local(file) = file.file else { return Err(Fault::other_side()) };
        let (at, part, like) = (self.path(path), self.path(part), *like);
        let finishing = move || {
            settle(file.file(), &like)?;
            fs::rename(part, at)
        };
        Ok(in_pool(finishing).await?)
    }

    pub(super) async fn sidecar(&self, path: &str, keep: &PreservedParts) -> FileResult<Sidecar> {
        let (at, keep) = (self.path(path), *keep);
        Ok(in_pool(move || sidecar::read(&fs::File::open(at)?, &keep)).await?)
    }

    pub(super) async fn set_sidecar(
        &self,
        path: &str,
        sidecar: &Sidecar,
        keep: &PreservedParts,
    ) -> FileResult<SidecarOutcome> {
        let (at, sidecar, keep) = (self.path(path), sidecar.clone(), *keep);
        Ok(in_pool(move || sidecar::write(&fs::File::open(at)?, &sidecar, &keep)).await?)
    }
}
