//! The calls about names in a directory: lookup, creation, links, removal and renames.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use volume::{Actor, Failure, Name, NodeKind, OpenHow, Result, Stat};

use crate::errno::{call, failure};
use crate::node::PosixNode;
use crate::open::open_below;
use crate::stat::{stat_below, stat_fd};
use crate::sys::ProcPath;
use crate::table::NodeTable;
use crate::{pool, reserve};

/// How often a lookup is repeated while others replace the name.
const TRIES: usize = 8;

/// The bit of a directory in which users can remove only their own files.
const STICKY: u32 = 0o1000;

impl PosixNode {
    /// Opens the node that a name leads to. A device, pipe, socket or symbolic link is never opened for
    /// more than its attributes, whatever `how` says.
    pub(crate) fn open_name(&self, name: &Name, how: OpenHow) -> Result<PosixNode> {
        let directory = self.directory()?;
        if how == OpenHow::Attributes {
            let fd = open_below(directory, name.as_bytes(), OFlags::PATH, Mode::empty())?;
            let stat = stat_fd(&fd)?;
            return Ok(PosixNode::new(Arc::clone(&self.shared), fd, &stat, how, true));
        }
        for _ in 0..TRIES {
            // The kind must be known before the open, because opening a device can have an effect.
            let seen = stat_below(directory, name.as_bytes())?;
            let (flags, how) = match (seen.kind, how) {
                (NodeKind::File, OpenHow::ReadWrite) => (OFlags::RDWR, how),
                (NodeKind::File, _) => (OFlags::RDONLY, how),
                (NodeKind::Directory, _) => (OFlags::RDONLY | OFlags::DIRECTORY, OpenHow::Read),
                _ => (OFlags::PATH, OpenHow::Attributes),
            };
            let fd = match open_below(directory, name.as_bytes(), flags, Mode::empty()) {
                // The name was replaced in between.
                Err(Failure::IsALink | Failure::NotADirectory | Failure::IsADirectory | Failure::Stale) => {
                    continue;
                }
                other => other?,
            };
            let stat = stat_fd(&fd)?;
            if stat.kind == seen.kind {
                let is_path = flags.contains(OFlags::PATH);
                return Ok(PosixNode::new(Arc::clone(&self.shared), fd, &stat, how, is_path));
            }
        }
        Err(Failure::Busy)
    }

    pub(crate) fn make_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<PosixNode> {
        let directory = self.directory()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let acting = self.shared.process.act(actor)?;
        let made = open_below(directory, name.as_bytes(), flags, Mode::from_raw_mode(mode & 0o7777));
        drop(acting);
        self.created(made.map_err(gone)?, mode, OpenHow::ReadWrite, false)
    }

    pub(crate) fn make_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<PosixNode> {
        let directory = self.directory()?;
        reserve::ensure_descriptor(directory)?;
        let acting = self.shared.process.act(actor)?;
        let mode_bits = Mode::from_raw_mode(mode & 0o7777);
        let made = call(|| rustix::fs::mkdirat(directory, name.as_bytes(), mode_bits));
        drop(acting);
        made.map_err(gone)?;
        // The mode may make the directory unreadable for everybody, including this process.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match open_below(directory, name.as_bytes(), flags, Mode::empty()) {
            Err(Failure::Denied) => {
                let fd =
                    open_below(directory, name.as_bytes(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
                self.created(fd, mode, OpenHow::Attributes, true)
            }
            Err(Failure::Exhausted) => Err(taken_back(directory, name, AtFlags::REMOVEDIR)),
            fd => self.created(fd?, mode, OpenHow::Read, false),
        }
    }

    pub(crate) fn make_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<PosixNode> {
        let directory = self.directory()?;
        if text.is_empty() || text.contains(&0) {
            return Err(Failure::Invalid);
        }
        reserve::ensure_descriptor(directory)?;
        let acting = self.shared.process.act(actor)?;
        let made = call(|| rustix::fs::symlinkat(text, directory, name.as_bytes()));
        drop(acting);
        made.map_err(gone)?;
        let node = match self.open_name(name, OpenHow::Attributes) {
            Err(Failure::Exhausted) => return Err(taken_back(directory, name, AtFlags::empty())),
            node => node?,
        };
        self.shared.sidecar.forget(&node);
        Ok(node)
    }

    pub(crate) fn make_special(
        &self,
        name: &Name,
        kind: NodeKind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<PosixNode> {
        let directory = self.directory()?;
        let (file_type, is_device) = match kind {
            NodeKind::Pipe => (FileType::Fifo, false),
            NodeKind::Socket => (FileType::Socket, false),
            NodeKind::CharDevice => (FileType::CharacterDevice, true),
            NodeKind::BlockDevice => (FileType::BlockDevice, true),
            NodeKind::File | NodeKind::Directory | NodeKind::Link => return Err(Failure::Invalid),
        };
        let half = |bits: u64| u32::try_from(bits).unwrap_or(u32::MAX);
        let device =
            if is_device { rustix::fs::makedev(half(rdev >> 32), half(rdev & 0xffff_ffff)) } else { 0 };
        reserve::ensure_descriptor(directory)?;
        let acting = self.shared.process.act(actor)?;
        let mode_bits = Mode::from_raw_mode(mode & 0o7777);
        let made = call(|| rustix::fs::mknodat(directory, name.as_bytes(), file_type, mode_bits, device));
        drop(acting);
        made.map_err(gone)?;
        match open_below(directory, name.as_bytes(), OFlags::PATH, Mode::empty()) {
            Err(Failure::Exhausted) => Err(taken_back(directory, name, AtFlags::empty())),
            fd => self.created(fd?, mode, OpenHow::Attributes, true),
        }
    }

    /// The node of a file that was just created. The process's mask does not count: the caller chooses
    /// the permission bits of a new file.
    fn created(&self, fd: OwnedFd, mode: u32, how: OpenHow, is_path: bool) -> Result<PosixNode> {
        let mut stat = stat_fd(&fd)?;
        let mask = self.shared.umask;
        let was_masked =
            mode & mask & 0o777 != 0 && stat.mode & 0o777 == mode & 0o777 & !mask && !self.hands_list_down();
        let mut node = PosixNode::new(Arc::clone(&self.shared), fd, &stat, how, is_path);
        if was_masked {
            stat.mode = (stat.mode & 0o7000) | (mode & 0o777);
            node.change_mode(stat.mode)?;
            node.first = None;
        }
        // Removes sidecar data of an older file with the same number, on a file system without birth
        // times.
        self.shared.sidecar.forget(&node);
        Ok(node)
    }

    pub(crate) fn link_name(&self, name: &Name, node: &PosixNode, actor: Option<&Actor>) -> Result<()> {
        let directory = self.directory()?;
        self.same_volume(node)?;
        if node.kind == NodeKind::Directory {
            return Err(Failure::IsADirectory);
        }
        if node.owner.is_some() {
            return Err(Failure::Invalid);
        }
        let fd = node.fd()?;
        let path = ProcPath::of(&fd);
        let _acting = self.shared.process.act(actor)?;
        match rustix::fs::linkat(CWD, path.as_c_str(), directory, name.as_bytes(), AtFlags::SYMLINK_FOLLOW) {
            // The file has lost its last name, or this directory has.
            Err(Errno::NOENT) => Err(Failure::Stale),
            other => other.map_err(failure),
        }
    }

    pub(crate) fn remove_name(&self, name: &Name, is_directory: bool, actor: Option<&Actor>) -> Result<()> {
        let directory = self.directory()?;
        let doomed = self.followed(name);
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let guard = pool::reopen_before_removal(directory, name.as_bytes())?;
        let acting = self.shared.process.act(actor)?;
        call(|| rustix::fs::unlinkat(directory, name.as_bytes(), flags)).map_err(|why| match why {
            // For a directory the host returns either "exists" or "not empty".
            Failure::Exists if is_directory => Failure::NotEmpty,
            other => other,
        })?;
        drop((acting, guard));
        self.shared.lost_name(doomed);
        Ok(())
    }

    /// Checks the permissions that [`PosixNode::remove_name`] needs. The host has no call for this, so
    /// the rule of sticky directories is repeated here.
    pub(crate) fn check_name_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()> {
        let directory = self.directory()?;
        let process = &self.shared.process;
        let uid = process.uid_as(actor);
        if uid == 0 {
            return Ok(());
        }
        let acting = process.act(actor)?;
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let may_write = call(|| rustix::fs::accessat(directory, c".", access, AtFlags::EACCESS));
        drop(acting);
        let check = || {
            may_write?;
            let above = stat_fd(directory)?;
            if above.mode & STICKY == 0 || above.uid == uid {
                return Ok(());
            }
            if stat_below(directory, name.as_bytes())?.uid == uid { Ok(()) } else { Err(Failure::Denied) }
        };
        match check() {
            Err(Failure::NotFound) => Ok(()),
            checked => checked,
        }
    }

    pub(crate) fn move_name(
        &self,
        name: &Name,
        to: &PosixNode,
        to_name: &Name,
        replace: bool,
        actor: Option<&Actor>,
    ) -> Result<()> {
        let (from_dir, to_dir) = (self.directory()?, to.directory()?);
        self.same_volume(to)?;
        let (from, into) = (name.as_bytes(), to_name.as_bytes());
        if self.id == to.id && from == into {
            return stat_below(from_dir, from).map(|_| ());
        }
        let stands = if replace { stat_below(to_dir, into).ok() } else { None };
        // If the file system folds case, the target name may be the file that is moved.
        let is_another = |node: &PosixNode| stat_below(from_dir, from).is_ok_and(|moved| moved.id != node.id);
        let doomed = stands.and_then(|_| to.followed(to_name)).filter(is_another);
        let guard = if replace { Some(pool::reopen_before_removal(to_dir, into)?) } else { None };
        let acting = self.shared.process.act(actor)?;
        if replace {
            call(|| rustix::fs::renameat(from_dir, from, to_dir, into)).map_err(replaced)?;
            if let Some(stat) = stands.filter(|s| s.links > 1 && !self.shared.properties.folds_case) {
                // The source and the target are names of one file. The host would leave both, but a move
                // must leave only the new one.
                if stat_below(from_dir, from).is_ok_and(|s: Stat| s.id == stat.id) {
                    call(|| rustix::fs::unlinkat(from_dir, from, AtFlags::empty()))?;
                }
            }
        } else {
            self.move_to_free_name(name, to, to_name)?;
        }
        drop((acting, guard));
        self.shared.lost_name(doomed);
        if let Some(table) = &self.shared.table
            && let Ok(moved) = stat_below(to_dir, into)
        {
            table.moved(&moved, to.id.inode, to_name);
        }
        Ok(())
    }

    fn move_to_free_name(&self, name: &Name, to: &PosixNode, to_name: &Name) -> Result<()> {
        let (from_dir, to_dir) = (self.directory()?, to.directory()?);
        let (from, into) = (name.as_bytes(), to_name.as_bytes());
        let flags = RenameFlags::NOREPLACE;
        match call(|| rustix::fs::renameat_with(from_dir, from, to_dir, into, flags)) {
            // Either the move is impossible or the file system does not know the flag. The plain call
            // tells which. Somebody could create the name between the check and the call.
            Err(Failure::Invalid) => match stat_below(to_dir, into) {
                Ok(_) => Err(Failure::Exists),
                Err(Failure::NotFound) => call(|| rustix::fs::renameat(from_dir, from, to_dir, into)),
                Err(other) => Err(other),
            },
            other => other,
        }
    }

    /// The node of a name that is about to be removed, if the sidecar store or the table has data about
    /// it.
    fn followed(&self, name: &Name) -> Option<PosixNode> {
        let table = self.shared.table.as_ref();
        if self.shared.sidecar.is_empty() && table.is_none_or(NodeTable::is_empty) {
            return None;
        }
        let node = self.open_name(name, OpenHow::Attributes).ok()?;
        let is_followed =
            self.shared.sidecar.has(&node) || table.is_some_and(|table| table.knows(node.key()));
        is_followed.then_some(node)
    }

    fn same_volume(&self, other: &PosixNode) -> Result<()> {
        if Arc::ptr_eq(&self.shared, &other.shared) { Ok(()) } else { Err(Failure::CrossDevice) }
    }
}

/// Creating a name fails with "not found" only if the directory itself is gone.
fn gone(why: Failure) -> Failure {
    if why == Failure::NotFound { Failure::Stale } else { why }
}

/// Replacing a directory that is not empty fails with one of two errors.
fn replaced(why: Failure) -> Failure {
    if why == Failure::Exists { Failure::NotEmpty } else { why }
}

/// Removes a name that was created but could not be opened. Otherwise it would block the next attempt.
fn taken_back(directory: BorrowedFd<'_>, name: &Name, flags: AtFlags) -> Failure {
    let _ = rustix::fs::unlinkat(directory, name.as_bytes(), flags);
    Failure::Exhausted
}
