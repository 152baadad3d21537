//! Symbolic links and further names of files of this host.

use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use client::remote::Attributes;
use client::remote::local::in_pool;
use rustix::fs::{AtFlags, CWD, utimensat};

use super::{Local, times};
use crate::error::{Fault, FileResult, owner_refused};
use crate::sidecar::{Owner, OwnerId};
use crate::tree::links::{Link, LinkMade};
use crate::tree::target_attributes::TargetAttributes;

impl Local {
    pub(in crate::tree) async fn read_link(&self, path: &str) -> FileResult<Option<Link>> {
        let at = self.path(path);
        let reading = move || {
            let known = fs::symlink_metadata(&at)?;
            if !known.file_type().is_symlink() {
                return Ok(None);
            }
            let owner = Owner { user: OwnerId::Number(known.uid()), group: OwnerId::Number(known.gid()) };
            Ok(Some(Link {
                text: fs::read_link(&at)?.into_os_string().into_vec(),
                is_directory: fs::metadata(&at).is_ok_and(|known| known.is_dir()),
                owner: Some(owner),
                reparse: None,
            }))
        };
        Ok(in_pool(reading).await?)
    }

    /// The target of the link `path`: its path without any link in it, and its attributes.
    pub(crate) async fn follow(&self, path: &str) -> FileResult<(String, Attributes)> {
        let real = self.real(path).await?;
        let at = real.clone();
        let attributes = in_pool(move || fs::metadata(at).map(|known| Attributes::from(&known))).await?;
        Ok((real, attributes))
    }

    /// The path of `path` without any link in it.
    pub(crate) async fn real(&self, path: &str) -> FileResult<String> {
        let at = self.path(path);
        let real = in_pool(move || fs::canonicalize(at)).await?;
        let strange =
            |_| Fault::Said("the path that it leads to is not UTF-8, which a copy needs".to_owned());
        real.into_os_string().into_string().map_err(strange)
    }

    /// The path of the root without any link in it, as far as it exists.
    pub(crate) async fn real_root(&self) -> FileResult<String> {
        let root = self.path("");
        let real = in_pool(move || Ok(crate::overlap::real(&root))).await?;
        // A path that is not UTF-8 neither contains one that is nor lies in one. Its text is close enough.
        Ok(real.to_string_lossy().into_owned())
    }

    pub(in crate::tree) async fn put_link(
        &self,
        path: &str,
        part: &str,
        link: &Link,
        like: &TargetAttributes,
    ) -> FileResult<LinkMade> {
        let (at, part, link, like) = (self.path(path), self.path(part), link.clone(), *like);
        let putting = move || {
            // A link that an earlier copy has left may have another target.
            let _ = fs::remove_file(&part);
            let text = Path::new(std::ffi::OsStr::from_bytes(&link.text));
            match std::os::unix::fs::symlink(text, &part) {
                Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                    // symlink(2): EPERM means a file system without links, EACCES a directory.
                    let none = Some(rustix::io::Errno::PERM.raw_os_error());
                    return if error.raw_os_error() == none { Ok(LinkMade::No) } else { Err(error) };
                }
                made => made?,
            }
            let done = settle(&part, &link, &like).and_then(|made| fs::rename(&part, at).map(|()| made));
            if done.is_err() {
                // The caller gets the first error.
                let _ = fs::remove_file(&part);
            }
            done
        };
        Ok(in_pool(putting).await?)
    }

    pub(in crate::tree) async fn link(&self, path: &str, new_path: &str, part: &str) -> FileResult<()> {
        let (from, at, part) = (self.path(path), self.path(new_path), self.path(part));
        let linking = move || {
            let _ = fs::remove_file(&part);
            fs::hard_link(from, &part)?;
            let renamed = fs::rename(&part, at);
            // rename(2) leaves the old name where both are names of one file.
            let _ = fs::remove_file(&part);
            renamed
        };
        Ok(in_pool(linking).await?)
    }
}

/// Sets the owner and the time of a link.
fn settle(part: &Path, link: &Link, like: &TargetAttributes) -> std::io::Result<LinkMade> {
    let mut made = LinkMade::Yes;
    if let Some(owner) = &link.owner {
        match (owner.user.number(false), owner.group.number(true)) {
            (Some(uid), Some(gid)) => {
                std::os::unix::fs::lchown(part, Some(uid), Some(gid)).map_err(owner_refused)?;
            }
            _ => made = LinkMade::WithoutOwner,
        }
    }
    if let Some(modified) = like.modified {
        utimensat(CWD, part, &times(modified), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(made)
}
