//! Symbolic links and further names of files, on whichever side they are.

use super::Tree;
use crate::beside::Owner;
use crate::error::{Done, Fault};
use crate::tree::like::Like;

/// A symbolic link.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// Where it leads, as POSIX has it: names divided by slashes.
    pub(crate) text: Vec<u8>,
    /// Whether that is a directory, which Windows keeps apart; false where it is not known.
    pub(crate) is_directory: bool,
    /// Who owns the link itself, where that can be told.
    pub(crate) owner: Option<Owner>,
    /// The reparse point of a share, which says it as that share has it.
    pub(crate) reparse: Option<Vec<u8>>,
}

impl Link {
    /// Whether it leads to a path of a Windows host (MS-FSCC 2.1.2.4), which nothing but a share can hold.
    fn is_of_windows(&self) -> bool {
        self.reparse.is_some() && self.text.starts_with(b"/??/")
    }

    /// Whether `other` leads to the same. As not every server sets the time of a link, that says nothing.
    pub(crate) fn looks_like(&self, other: &Link) -> bool {
        match (&self.reparse, &other.reparse) {
            (Some(one), Some(two)) => one == two,
            _ => self.text == other.text,
        }
    }
}

/// What came of making a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkMade {
    /// It is there.
    Yes,
    /// It is there, and its owner is not that of the source.
    WithoutOwner,
    /// It is there, and its time is not that of the source.
    WithoutTime,
    /// The target holds no such link.
    No,
}

impl Tree {
    /// The symbolic link `path`; none where something else is there, or nothing.
    pub(crate) async fn read_link(&self, path: &str) -> Done<Option<Link>> {
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

    /// Whether `path` is a link of any kind, also one that cannot be copied.
    pub(crate) async fn is_link(&self, path: &str) -> Done<bool> {
        match self {
            Tree::Smb(side) => side.is_link(path).await,
            Tree::Local(_) | Tree::Nfs(_) => Ok(self.read_link(path).await?.is_some()),
        }
    }

    /// Makes the symbolic link `path`, by way of `part` beside it, in the place of another link there may be.
    pub(crate) async fn put_link(&self, path: &str, part: &str, link: &Link, like: &Like) -> Done<LinkMade> {
        if link.is_of_windows() && !self.is_share() {
            return Ok(LinkMade::No);
        }
        match self {
            Tree::Local(side) => side.put_link(path, part, link, like).await,
            Tree::Smb(side) => side.put_link(path, part, link, like).await,
            Tree::Nfs(side) => side.put_link(path, part, link, like).await,
        }
    }

    /// Gives the file `path` the name `new_path` as well, by way of `part` beside that, in the place of another file there may
    /// be. False where the target cannot do that.
    pub(crate) async fn link(&self, path: &str, new_path: &str, part: &str) -> Done<bool> {
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

/// Whether a file gets no further name for what the target is, and not for what has gone wrong.
fn cannot_link(fault: &Fault) -> bool {
    use client::nfs::NfsStat;
    use smb_wire::NtStatus;
    use std::io::ErrorKind;
    match fault {
        // FAT says that it is not permitted (link(2)).
        Fault::Host(kind, _) => {
            let kinds = [ErrorKind::PermissionDenied, ErrorKind::CrossesDevices, ErrorKind::TooManyLinks];
            fault.is_unsupported() || kinds.contains(kind)
        }
        Fault::Server(error) => {
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
            let put = tree.put_link("link", "part", &link(text, reparse), &Like::default()).await.unwrap();
            assert_eq!(put, made, "{text}");
            let there = std::fs::read_link(dir.path().join("link")).ok();
            assert_eq!(there.as_deref(), (made == LinkMade::Yes).then_some(Path::new(text)));
            let _ = std::fs::remove_file(dir.path().join("link"));
        }
    }
}
