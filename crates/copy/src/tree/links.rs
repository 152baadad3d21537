//! Symbolic links and further names of files, for every side.

use super::Tree;
use crate::error::{Fault, FileResult};
use crate::sidecar::Owner;
use crate::tree::target_attributes::TargetAttributes;

/// A symbolic link.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// Its text in POSIX form: names divided by slashes.
    pub(crate) text: Vec<u8>,
    /// Whether its target is a directory, which Windows distinguishes. False if that is not known.
    pub(crate) is_directory: bool,
    /// The owner of the link itself, if it is known.
    pub(crate) owner: Option<Owner>,
    /// The reparse point, in the form of its share.
    pub(crate) reparse: Option<Vec<u8>>,
}

impl Link {
    /// Whether it leads to a path of a Windows host (MS-FSCC 2.1.2.4), which only a share can hold.
    fn is_of_windows(&self) -> bool {
        self.reparse.is_some() && self.text.starts_with(b"/??/")
    }

    /// Whether `other` has the same target. Times are not compared, because not every server sets the time of
    /// a link.
    pub(crate) fn looks_like(&self, other: &Link) -> bool {
        match (&self.reparse, &other.reparse) {
            (Some(one), Some(two)) => one == two,
            _ => self.text == other.text,
        }
    }
}

/// The outcome of creating a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkMade {
    /// It was created.
    Yes,
    /// It was created, without the owner of the source.
    WithoutOwner,
    /// It was created, without the time of the source.
    WithoutTime,
    /// The target cannot hold such a link.
    No,
}

impl Tree {
    /// Reads the symbolic link `path`. Returns none if it is something else, or does not exist.
    pub(crate) async fn read_link(&self, path: &str) -> FileResult<Option<Link>> {
        let read = match self {
            Tree::Local(side) => side.read_link(path).await,
            Tree::Smb(side) => side.read_link(path).await,
            Tree::Nfs(side) => side.read_link(path).await,
        };
        match read {
            Err(fault) if fault.is_missing() => Ok(None),
            read => read,
        }
    }

    /// Whether `path` is a link of any kind, even one that cannot be copied.
    pub(crate) async fn is_link(&self, path: &str) -> FileResult<bool> {
        match self {
            Tree::Smb(side) => side.is_link(path).await,
            Tree::Local(_) | Tree::Nfs(_) => Ok(self.read_link(path).await?.is_some()),
        }
    }

    /// Creates the symbolic link `path`, under the name `part` first, replacing another link.
    pub(crate) async fn put_link(
        &self,
        path: &str,
        part: &str,
        link: &Link,
        like: &TargetAttributes,
    ) -> FileResult<LinkMade> {
        if link.is_of_windows() && !self.is_share() {
            return Ok(LinkMade::No);
        }
        match self {
            Tree::Local(side) => side.put_link(path, part, link, like).await,
            Tree::Smb(side) => side.put_link(path, part, link, like).await,
            Tree::Nfs(side) => side.put_link(path, part, link, like).await,
        }
    }

    /// Gives the file `path` the further name `new_path`, under the name `part` first, replacing another
    /// file. Returns false if the target cannot do that.
    pub(crate) async fn link(&self, path: &str, new_path: &str, part: &str) -> FileResult<bool> {
        let linked = match self {
            Tree::Local(side) => side.link(path, new_path, part).await,
            Tree::Smb(side) => side.link(path, new_path).await,
            Tree::Nfs(side) => side.link(path, new_path, part).await,
        };
        match linked {
            Err(fault) if cannot_link(&fault) => Ok(false),
            linked => linked.map(|()| true),
        }
    }
}

/// Whether the target never supports further names for the file, as opposed to an accidental failure.
fn cannot_link(fault: &Fault) -> bool {
    use client::nfs::NfsStat;
    use smb_wire::NtStatus;
    use std::io::ErrorKind;
    match fault {
        // FAT answers that it is not permitted (link(2)).
        Fault::Remote(client::Error::Local(why)) => {
            let kinds = [ErrorKind::PermissionDenied, ErrorKind::CrossesDevices, ErrorKind::TooManyLinks];
            fault.is_unsupported() || kinds.contains(&why.kind())
        }
        Fault::Remote(error) => {
            let by_status = [NtStatus::INVALID_PARAMETER, NtStatus::NOT_SAME_DEVICE, NtStatus::ACCESS_DENIED];
            let by_nfs_status = [NfsStat::XDev, NfsStat::MLink, NfsStat::Perm];
            fault.is_unsupported()
                || error.status().is_some_and(|status| by_status.contains(&status))
                || error.nfs_status().is_some_and(|status| by_nfs_status.contains(&status))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[tokio::test]
    async fn a_link_to_a_drive_of_windows_is_no_link_of_this_host() {
        let dir = tempfile::tempdir().unwrap();
        let tree = Tree::Local(super::super::local::Local::new(dir.path()));
        let link =
            |text: &str, reparse| Link { text: text.into(), is_directory: false, owner: None, reparse };
        for (text, reparse, made) in [
            ("/??/C:/data", Some(vec![1]), LinkMade::No),
            ("../data", Some(vec![1]), LinkMade::Yes),
            ("/??/C:/data", None, LinkMade::Yes),
        ] {
            let put = tree
                .put_link("link", "part", &link(text, reparse), &TargetAttributes::default())
                .await
                .unwrap();
            assert_eq!(put, made, "{text}");
            let there = std::fs::read_link(dir.path().join("link")).ok();
            assert_eq!(there.as_deref(), (made == LinkMade::Yes).then_some(Path::new(text)));
            let _ = std::fs::remove_file(dir.path().join("link"));
        }
    }
}
