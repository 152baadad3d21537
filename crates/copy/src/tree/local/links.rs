//! Symbolic links and further names of files of this host.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use client::remote::Attributes;
use rustix::fs::{AtFlags, CWD, utimensat};

use super::{Local, away, times};
use crate::beside::{Owner, Who};
use crate::error::{Done, Fault};
use crate::tree::like::Like;
use crate::tree::links::{Link, LinkMade};

impl Local {
    pub(in crate::tree) async fn read_link(&self, path: &str) -> Done<Option<Link>> {
        let at = self.path(path);
        away(move || {
            let known = fs::symlink_metadata(&at)?;
            if !known.file_type().is_symlink() {
                return Ok(None);
            }
            let owner = Owner { user: Who::Number(known.uid()), group: Who::Number(known.gid()) };
            Ok(Some(Link {
                text: fs::read_link(&at)?.into_os_string().into_vec(),
                is_directory: fs::metadata(&at).is_ok_and(|known| known.is_dir()),
                owner: Some(owner),
                reparse: None,
            }))
        })
        .await
    }

    /// What the link `path` leads to, and the path of that without any link in it.
    pub(crate) async fn follow(&self, path: &str) -> Done<(String, Attributes)> {
        let real = self.real(path).await?;
        let at = real.clone();
        let facts = away(move || fs::metadata(at).map(|known| Attributes::from(&known))).await?;
        Ok((real, facts))
    }

    /// The path of `path` without any link in it.
    pub(crate) async fn real(&self, path: &str) -> Done<String> {
        let at = self.path(path);
        let real = away(move || fs::canonicalize(at)).await?;
        let strange =
            |_| Fault::Said("the path that it leads to is not UTF-8, which a copy needs".to_owned());
        real.into_os_string().into_string().map_err(strange)
    }

    /// The path at which the copy begins without any link in it, as far as it exists.
    pub(crate) async fn real_root(&self) -> Done<String> {
        let root = self.path("");
        let real = away(move || Ok(crate::place::real(&root))).await?;
        // A path that is not UTF-8 has none within it that is, nor the other way round: its text is close enough.
        Ok(real.to_string_lossy().into_owned())
    }

    pub(in crate::tree) async fn put_link(
        &self,
        path: &str,
        part: &str,
        link: &Link,
        like: &Like,
    ) -> Done<LinkMade> {
        let (at, part, link, like) = (self.path(path), self.path(part), link.clone(), *like);
        away(move || {
            // What an earlier copy has left may lead elsewhere by now.
            let _ = fs::remove_file(&part);
            let text = Path::new(std::ffi::OsStr::from_bytes(&link.text));
            match std::os::unix::fs::symlink(text, &part) {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    // symlink(2): EPERM is said of a file system without links, EACCES of a directory.
                    let none = Some(rustix::io::Errno::PERM.raw_os_error());
                    return if error.raw_os_error() == none { Ok(LinkMade::No) } else { Err(error) };
                }
                made => made?,
            }
            let done = settle(&part, &link, &like).and_then(|made| fs::rename(&part, at).map(|()| made));
            if done.is_err() {
                // What counts is why it was not made.
                let _ = fs::remove_file(&part);
            }
            done
        })
        .await
    }

    pub(in crate::tree) async fn link(&self, path: &str, new_path: &str, part: &str) -> Done<()> {
        let (from, at, part) = (self.path(path), self.path(new_path), self.path(part));
        away(move || {
            let _ = fs::remove_file(&part);
            fs::hard_link(from, &part)?;
            let renamed = fs::rename(&part, at);
            // rename(2) leaves the old name where both are names of one file.
            let _ = fs::remove_file(&part);
            renamed
        })
        .await
    }
}

/// Gives a link its owner and its time.
fn settle(part: &Path, link: &Link, like: &Like) -> std::io::Result<LinkMade> {
    let mut made = LinkMade::Yes;
    if let Some(owner) = &link.owner {
        match (owner.user.number(false), owner.group.number(true)) {
            (Some(uid), Some(gid)) => std::os::unix::fs::lchown(part, Some(uid), Some(gid))?,
            _ => made = LinkMade::WithoutOwner,
        }
    }
    if let Some(modified) = like.modified {
        utimensat(CWD, part, &times(modified), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(made)
}
