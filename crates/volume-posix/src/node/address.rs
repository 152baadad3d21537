//! Addresses of nodes: bytes by which a file is found again without its name, by a later process too.
//!
//! An address is the host's own handle of the file and its birth time. The birth time is needed because
//! some file systems reuse the handle of a removed file. It is zero where it changes (`lasting_birth`). If
//! the host opens nothing by handle, an address also has the inode number, by which the table of nodes
//! (`table`) finds the file. The handle, if there is one, then only distinguishes the file from a later one
//! with the same number.
//!
//! On another file system than the root's, an address has that file system's identity in front of the
//! handle (`file_systems`). There only a file that the host opens by its handle has an address.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use volume::{ADDRESS_MAX, Failure, Name, NodeKind, OpenHow, Result, Stat, Time};

use crate::errno::failure;
use crate::file_systems::mount_mark;
use crate::node::PosixNode;
use crate::open::open_below;
use crate::reserve;
use crate::stat::{stat_below, stat_fd};
use crate::sys::{Handle, ProcPath, is_gone};
use crate::table::{NodeKey, NodeTable};

/// Bytes of the birth time in seconds and nanoseconds, and of the kind of the handle.
const FIXED: usize = 8 + 4 + 4;
/// The kind of an address that leads through the table. No file system has handles of this kind.
const BY_TABLE: i32 = -2;
/// The kind of an address on another file system than the root's. No file system has handles of this kind
/// either.
const BELOW: i32 = -3;
/// How often the path of a node is requested while others move the node.
const TRIES: usize = 8;

impl PosixNode {
    pub(crate) fn find_address(&self) -> Result<Vec<u8>> {
        if self.owner.is_some() {
            return Err(Failure::NotSupported);
        }
        if self.id.device != self.shared.root.id.device {
            return self.address_below();
        }
        if let Some(table) = &self.shared.table {
            self.note_place(table)?;
            return Ok(self.table_address());
        }
        let handle = Handle::of(self.fd()?.as_fd()).map_err(failure)?;
        if FIXED + handle.bytes.len() > ADDRESS_MAX {
            return Err(Failure::NotSupported);
        }
        let mut out = self.address_of_kind(handle.kind);
        out.extend_from_slice(&handle.bytes);
        Ok(out)
    }

    /// An address on another file system than the root's.
    fn address_below(&self) -> Result<Vec<u8>> {
        let fd = self.fd()?;
        let handle = Handle::of(fd.as_fd()).map_err(failure)?;
        let file_system = self.shared.file_system_of(fd.as_fd(), self.id.device)?;
        let mark = mount_mark(fd.as_fd(), self.shared.root.fd.as_fd())?;
        let mut out = self.address_of_kind(BELOW);
        out.extend_from_slice(&mark.to_le_bytes());
        out.extend_from_slice(&file_system.to_le_bytes());
        out.extend_from_slice(&handle.kind.to_le_bytes());
        out.extend_from_slice(&handle.bytes);
        if out.len() > ADDRESS_MAX {
            return Err(Failure::NotSupported);
        }
        match self.find_below(self.born, &out[FIXED..]) {
            Ok(_) => Ok(out),
            // Not every file system can open the handles that it provides, and not every process may open
            // them.
            Err(Failure::Stale | Failure::NotSupported | Failure::Denied) => Err(Failure::NotSupported),
            Err(why) => Err(why),
        }
    }

    /// The bytes of an address up to its kind.
    fn address_of_kind(&self, kind: i32) -> Vec<u8> {
        let mut out = Vec::with_capacity(ADDRESS_MAX);
        out.extend_from_slice(&self.born.secs.to_le_bytes());
        out.extend_from_slice(&self.born.nanos.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out
    }

    /// An address that leads through the table.
    fn table_address(&self) -> Vec<u8> {
        let mut out = self.address_of_kind(BY_TABLE);
        out.extend_from_slice(&self.id.inode.to_le_bytes());
        if let Ok(fd) = self.fd()
            && let Ok(handle) = Handle::of(fd.as_fd())
            && out.len() + 4 + handle.bytes.len() <= ADDRESS_MAX
        {
            out.extend_from_slice(&handle.kind.to_le_bytes());
            out.extend_from_slice(&handle.bytes);
        }
        out
    }

    /// Ensures that the table has the directory and name of this node, and of the directories above it.
    fn note_place(&self, table: &NodeTable) -> Result<()> {
        if self.id == self.shared.root.id || table.knows(self.key()) {
            return Ok(());
        }
        for _ in 0..TRIES {
            match self.try_note_place(table) {
                // The node was moved in between.
                Ok(false) | Err(Failure::NotFound | Failure::NotADirectory | Failure::IsALink) => {}
                // The host neither reports nor opens a longer path.
                Err(Failure::NameTooLong) => break,
                Ok(true) => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        if stat_fd(self.fd()?)?.links > 0 {
            table.doubt();
        }
        Ok(())
    }

    /// Asks the host for the path of this node, and stores it. False when the node is no longer there.
    fn try_note_place(&self, table: &NodeTable) -> Result<bool> {
        let own = self.fd()?;
        let path = |fd| rustix::fs::readlink(ProcPath::of(fd).as_c_str(), Vec::new()).map_err(failure);
        let (root, text) = (path(table.root())?.into_bytes(), path(own.as_fd())?.into_bytes());
        let below = text.strip_prefix(root.as_slice()).unwrap_or_default();
        let Some((above, last)) = split_last(below.strip_prefix(b"/").unwrap_or(below)) else {
            return Ok(false);
        };
        let Ok(last) = Name::new(last) else { return Ok(false) };
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        // The path is opened in one step, because the directory is usually known.
        let path = if above.is_empty() { b".".as_slice() } else { above };
        let directory = open_below(table.root(), path, flags, Mode::empty())?;
        let seen = stat_fd(&directory)?;
        if stat_below(directory.as_fd(), last.as_bytes())?.id != self.id {
            return Ok(false);
        }
        if seen.id != self.shared.root.id && !table.knows(NodeKey::of(&seen)) {
            let (mut at, mut inode) = (None::<OwnedFd>, self.shared.root.id.inode);
            for name in above.split(|byte| *byte == b'/') {
                let Ok(name) = Name::new(name) else { return Ok(false) };
                let here = at.as_ref().map_or(table.root(), AsFd::as_fd);
                let next = open_below(here, name.as_bytes(), flags, Mode::empty())?;
                let key = NodeKey::of(&stat_fd(&next)?);
                if !table.knows(key) {
                    table.put(key, inode, &name);
                }
                (at, inode) = (Some(next), key.inode);
            }
        }
        table.put(self.key(), seen.id.inode, &last);
        Ok(true)
    }

    /// Finds the node of an address on a file system below the root, or on the root's.
    pub(crate) fn find_node(&self, address: &[u8]) -> Result<PosixNode> {
        let (secs, rest) = address.split_first_chunk::<8>().ok_or(Failure::Stale)?;
        let (nanos, rest) = rest.split_first_chunk::<4>().ok_or(Failure::Stale)?;
        let (kind, bytes) = rest.split_first_chunk::<4>().ok_or(Failure::Stale)?;
        let born = Time { secs: i64::from_le_bytes(*secs), nanos: u32::from_le_bytes(*nanos) };
        if i32::from_le_bytes(*kind) == BELOW {
            return self.find_below(born, bytes);
        }
        let is_by_table = i32::from_le_bytes(*kind) == BY_TABLE;
        match &self.shared.table {
            Some(table) if is_by_table => return self.find_by_table(table, born, bytes, address),
            None if !is_by_table => {}
            // The address was made by a process with other privileges.
            _ => return Err(Failure::Stale),
        }
        let handle = Handle { kind: i32::from_le_bytes(*kind), bytes: bytes.into() };
        let root = self.fd()?;
        let fd = reserve::open_with_reserve(|| handle.open(root.as_fd()))
            .map_err(|errno| if is_gone(errno) { Failure::Stale } else { failure(errno) })?;
        let stat = stat_fd(&fd)?;
        if stat.links == 0 || !self.shared.is_born_at(&stat, born) {
            return Err(Failure::Stale);
        }
        self.found_node(fd, &stat)
    }

    /// Finds the node of an address on another file system than the root's.
    fn find_below(&self, born: Time, rest: &[u8]) -> Result<PosixNode> {
        let (mark, rest) = rest.split_first_chunk::<4>().ok_or(Failure::Stale)?;
        let (file_system, rest) = rest.split_first_chunk::<8>().ok_or(Failure::Stale)?;
        let (kind, bytes) = rest.split_first_chunk::<4>().ok_or(Failure::Stale)?;
        let file_system = u64::from_le_bytes(*file_system);
        let handle = Handle { kind: i32::from_le_bytes(*kind), bytes: bytes.into() };
        let shared = &self.shared;
        let root = shared.root.fd.as_fd();
        let (fd, stat) = shared.file_systems.at_mount(u32::from_le_bytes(*mark), root, |top| {
            let is_stale = |errno| is_gone(errno) || errno == Errno::OPNOTSUPP;
            let fd = reserve::open_with_reserve(|| handle.open(top))
                .map_err(|errno| if is_stale(errno) { Failure::Stale } else { failure(errno) })?;
            let stat = stat_fd(&fd)?;
            let is_it = stat.links > 0
                && shared.file_system_of(fd.as_fd(), stat.id.device)? == file_system
                && shared.is_born_at(&stat, born)
                // Only a part of a file system may be mounted. A directory then lies in that part or
                // outside of it.
                && (stat.kind != NodeKind::Directory || is_below(fd.as_fd(), top));
            is_it.then_some((fd, stat)).ok_or(Failure::Stale)
        })?;
        self.found_node(fd, &stat)
    }

    /// Finds the node of an address that leads through the table.
    fn find_by_table(&self, table: &NodeTable, born: Time, rest: &[u8], address: &[u8]) -> Result<PosixNode> {
        let (inode, _) = rest.split_first_chunk::<8>().ok_or(Failure::Stale)?;
        let key = NodeKey { inode: u64::from_le_bytes(*inode), born };
        if key == self.key() {
            return if self.table_address() == address { self.duplicate() } else { Err(Failure::Stale) };
        }
        table.find(key, &|directory, name| {
            let fd = open_below(directory, name.as_bytes(), OFlags::PATH, Mode::empty())?;
            let stat = stat_fd(&fd)?;
            if NodeKey::of(&stat) != key || stat.id.device != self.shared.root.id.device {
                return Err(Failure::NotFound);
            }
            let node = self.found_node(fd, &stat)?;
            // Without a birth time, the handle distinguishes the file from a later one.
            Ok(if node.table_address() == address { Ok(node) } else { Err(Failure::Stale) })
        })?
    }

    /// A node for an `O_PATH` descriptor.
    fn found_node(&self, fd: OwnedFd, stat: &Stat) -> Result<PosixNode> {
        if stat.kind != NodeKind::Directory {
            return Ok(PosixNode::new(Arc::clone(&self.shared), fd, stat, OpenHow::Attributes, true));
        }
        self.opened_directory(fd)
    }

    /// A directory for an `O_PATH` descriptor. One that may not be read stays as it is.
    fn opened_directory(&self, fd: OwnedFd) -> Result<PosixNode> {
        let stat = stat_fd(&fd)?;
        let node = |fd, how, is_path| PosixNode::new(Arc::clone(&self.shared), fd, &stat, how, is_path);
        match open_below(fd.as_fd(), b".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
            Ok(open) => Ok(node(open, OpenHow::Read, false)),
            Err(Failure::Denied) => Ok(node(fd, OpenHow::Attributes, true)),
            Err(why) => Err(why),
        }
    }

    /// The parent and the name of a directory, as the host reports them.
    ///
    /// # Errors
    /// [`Failure::Stale`] when the directory cannot be reached by any path; errors of the host.
    pub(crate) fn find_place(&self) -> Result<Option<(PosixNode, Name)>> {
        let directory = self.directory()?;
        if self.id == self.shared.root.id {
            return Ok(None);
        }
        for _ in 0..TRIES {
            match self.try_find_place(directory) {
                Ok(Some(found)) => return Ok(Some(found)),
                // The directory was moved in between, or removed.
                Ok(None) | Err(Failure::NotFound | Failure::NotADirectory | Failure::IsALink) => {}
                Err(why) => return Err(why),
            }
            if stat_fd(directory).is_ok_and(|stat| stat.links == 0) {
                break;
            }
        }
        Err(Failure::Stale)
    }

    /// Asks the host for the path of a directory. `None` when the path does not lead there.
    fn try_find_place(&self, directory: BorrowedFd<'_>) -> Result<Option<(PosixNode, Name)>> {
        let text = rustix::fs::readlink(ProcPath::of(directory).as_c_str(), Vec::new()).map_err(failure)?;
        let text = text.into_bytes();
        let last = text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = Name::new(last).map_err(|_| Failure::Stale)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(directory, c"..", flags, Mode::empty());
        let above = reserve::open_with_reserve(open).map_err(failure)?;
        // The host's own root has no parent. Nor has the top of a file system that was unmounted while it
        // is in use.
        if stat_fd(&above)?.id == self.id {
            return Err(Failure::Stale);
        }
        if stat_below(above.as_fd(), name.as_bytes())?.id != self.id {
            return Ok(None);
        }
        Ok(Some((self.opened_directory(above)?, name)))
    }
}

/// Whether a directory is another one or lies below it, by the paths that the host reports.
fn is_below(directory: BorrowedFd<'_>, top: BorrowedFd<'_>) -> bool {
    let path = |fd| rustix::fs::readlink(ProcPath::of(fd).as_c_str(), Vec::new());
    let (Ok(path), Ok(top)) = (path(directory), path(top)) else { return false };
    let rest = path.as_bytes().strip_prefix(top.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || top.as_bytes() == b"/")
}

/// A path split before its last name. `None` for an empty path.
fn split_last(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = path.iter().rposition(|byte| *byte == b'/');
    let (above, last) = at.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
    (!last.is_empty()).then_some((above, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_birth_times_change_an_address_has_none_and_leads_to_the_file_with_any() {
        let temp_dir = tempfile::tempdir().unwrap();
        let files = temp_dir.path().join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("f"), "text").unwrap();
        let name = Name::new(b"f").unwrap();
        let volume = crate::PosixVolume::open(&files, &temp_dir.path().join("beside")).unwrap();
        if volume.shared.table.is_some() {
            // This process opens nothing by handle.
            return;
        }
        let with_birth = volume.root.open_name(&name, OpenHow::Read).unwrap().find_address().unwrap();
        let volume = volume.on_ceph();
        let node = volume.root.open_name(&name, OpenHow::Read).unwrap();
        let address = node.find_address().unwrap();
        assert_eq!((&address[..12], &address[12..]), (&[0; 12][..], &with_birth[12..]));
        assert_eq!(volume::Node::stat(&node).unwrap().born, None);
        for address in [&address, &with_birth] {
            assert_eq!(volume.root.find_node(address).unwrap().id, node.id);
        }
    }

    #[test]
    fn an_address_on_the_roots_own_file_system_is_birth_time_and_handle() {
        let temp_dir = tempfile::tempdir().unwrap();
        let files = temp_dir.path().join("files");
        std::fs::create_dir(&files).unwrap();
        std::fs::write(files.join("f"), "text").unwrap();
        let volume = crate::PosixVolume::open(&files, &temp_dir.path().join("beside")).unwrap();
        let node = volume.root.open_name(&Name::new(b"f").unwrap(), OpenHow::Read).unwrap();
        let born = [&node.born.secs.to_le_bytes()[..], &node.born.nanos.to_le_bytes()].concat();
        let handle = Handle::of(node.fd().unwrap().as_fd());
        let handle = handle.map(|handle| [&handle.kind.to_le_bytes()[..], &handle.bytes].concat());
        let expected = match (&volume.shared.table, handle) {
            (None, handle) => [born, handle.unwrap()].concat(),
            (Some(_), handle) => {
                let by_table = [&BY_TABLE.to_le_bytes()[..], &node.id.inode.to_le_bytes()].concat();
                [born, by_table, handle.unwrap_or_default()].concat()
            }
        };
        assert_eq!(node.find_address(), Ok(expected));
    }
}
