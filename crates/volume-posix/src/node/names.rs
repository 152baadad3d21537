//! Names in a directory: looked up, made, linked, removed and moved.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use volume::{Actor, Failure, NodeKind, Name, OpenHow, Result, Stat};

use crate::errno::{call, failure};
use crate::node::PosixNode;
use crate::open::open_below;
use crate::stat::{stat_below, stat_fd};
use crate::sys::ProcPath;
use crate::table::Table;
use crate::{kept_back, pool};

/// How often a name that others keep replacing is tried.
const TRIES: usize = 8;

/// The bit of a directory in which nobody removes what is another's.
const STICKY: u32 = 0o1000;

impl PosixNode {
    /// Opens what a name leads to. A device, pipe, socket or symbolic link is never opened for more than
    /// its attributes, whatever is asked for.
    pub(crate) fn open_name(&self, name: &Name, how: OpenHow) -> Result<PosixNode> {
        let directory = self.directory()?;
        if how == OpenHow::Attributes {
            let fd = open_below(directory, name.as_bytes(), OFlags::PATH, Mode::empty())?;
            let stat = stat_fd(&fd)?;
            return Ok(PosixNode::new(Arc::clone(&self.shared), fd, &stat, how, true));
        }
        for _ in 0..TRIES {
            // What it is must be known before it is opened: opening a device can do something.
            let seen = stat_below(directory, name.as_bytes())?;
            let (flags, how) = match (seen.kind, how) {
                (NodeKind::File, OpenHow::ReadWrite) => (OFlags::RDWR, how),
                (NodeKind::File, _) => (OFlags::RDONLY, how),
                (NodeKind::Directory, _) => (OFlags::RDONLY | OFlags::DIRECTORY, OpenHow::Read),
                _ => (OFlags::PATH, OpenHow::Attributes),
            };
            let fd = match open_below(directory, name.as_bytes(), flags, Mode::empty()) {
                // Replaced in between.
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
        let acting = self.shared.myself.act(actor)?;
        let made = open_below(directory, name.as_bytes(), flags, Mode::from_raw_mode(mode & 0o7777));
        drop(acting);
        self.made(made.map_err(gone)?, mode, OpenHow::ReadWrite, false)
    }

    pub(crate) fn make_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<PosixNode> {
        let directory = self.directory()?;
        kept_back::ask(directory)?;
        let acting = self.shared.myself.act(actor)?;
        let mode_bits = Mode::from_raw_mode(mode & 0o7777);
        let made = call(|| rustix::fs::mkdirat(directory, name.as_bytes(), mode_bits));
        drop(acting);
        made.map_err(gone)?;
        // Its maker may have made it unreadable for everybody, this process too.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match open_below(directory, name.as_bytes(), flags, Mode::empty()) {
            Err(Failure::Denied) => {
                let fd =
                    open_below(directory, name.as_bytes(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
                self.made(fd, mode, OpenHow::Attributes, true)
            }
            Err(Failure::Exhausted) => Err(taken_back(directory, name, AtFlags::REMOVEDIR)),
            fd => self.made(fd?, mode, OpenHow::Read, false),
        }
    }

    pub(crate) fn make_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<PosixNode> {
        let directory = self.directory()?;
        if text.is_empty() || text.contains(&0) {
            return Err(Failure::Invalid);
        }
        kept_back::ask(directory)?;
        let acting = self.shared.myself.act(actor)?;
        let made = call(|| rustix::fs::symlinkat(text, directory, name.as_bytes()));
        drop(acting);
        made.map_err(gone)?;
        let node = match self.open_name(name, OpenHow::Attributes) {
            Err(Failure::Exhausted) => return Err(taken_back(directory, name, AtFlags::empty())),
            node => node?,
        };
        self.shared.beside.forget(&node);
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
        kept_back::ask(directory)?;
        let acting = self.shared.myself.act(actor)?;
        let mode_bits = Mode::from_raw_mode(mode & 0o7777);
        let made = call(|| rustix::fs::mknodat(directory, name.as_bytes(), file_type, mode_bits, device));
        drop(acting);
        made.map_err(gone)?;
        match open_below(directory, name.as_bytes(), OFlags::PATH, Mode::empty()) {
            Err(Failure::Exhausted) => Err(taken_back(directory, name, AtFlags::empty())),
            fd => self.made(fd?, mode, OpenHow::Attributes, true),
        }
    }

    /// A node that was made just now. The process's mask of permission bits does not count: which bits
    /// a new file has is for the caller to say.
    fn made(&self, fd: OwnedFd, mode: u32, how: OpenHow, is_path: bool) -> Result<PosixNode> {
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
        // What lay beside a file that had the same number, on a file system that tells no birth time.
        self.shared.beside.forget(&node);
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
        let _acting = self.shared.myself.act(actor)?;
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
        let leaving = pool::leaving(directory, name.as_bytes())?;
        let acting = self.shared.myself.act(actor)?;
        call(|| rustix::fs::unlinkat(directory, name.as_bytes(), flags)).map_err(|why| match why {
            // For a directory the host says "exists" or "not empty", as it likes.
            Failure::Exists if is_directory => Failure::NotEmpty,
            other => other,
        })?;
        drop((acting, leaving));
        self.shared.lost_name(doomed);
        Ok(())
    }

    /// Says what [`PosixNode::remove_name`] would say of permissions. The host has no call for that, so its rule of sticky
    /// directories is here once more.
    pub(crate) fn check_name_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()> {
        let directory = self.directory()?;
        let myself = &self.shared.myself;
        let uid = myself.uid_as(actor);
        if uid == 0 {
            return Ok(());
        }
        let acting = myself.act(actor)?;
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
        // Where the file system folds case, what stands there may be what is moved.
        let is_another = |node: &PosixNode| stat_below(from_dir, from).is_ok_and(|moved| moved.id != node.id);
        let doomed = stands.and_then(|_| to.followed(to_name)).filter(is_another);
        let leaving = if replace { Some(pool::leaving(to_dir, into)?) } else { None };
        let acting = self.shared.myself.act(actor)?;
        if replace {
            call(|| rustix::fs::renameat(from_dir, from, to_dir, into)).map_err(replaced)?;
            if let Some(stat) = stands.filter(|s| s.links > 1 && !self.shared.facts.folds_case) {
                // Two names of one file: the host leaves both, but a move leaves only the new one.
                if stat_below(from_dir, from).is_ok_and(|s: Stat| s.id == stat.id) {
                    call(|| rustix::fs::unlinkat(from_dir, from, AtFlags::empty()))?;
                }
            }
        } else {
            self.move_to_free_name(name, to, to_name)?;
        }
        drop((acting, leaving));
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
            // tells which; between the look and the call somebody could make the name.
            Err(Failure::Invalid) => match stat_below(to_dir, into) {
                Ok(_) => Err(Failure::Exists),
                Err(Failure::NotFound) => call(|| rustix::fs::renameat(from_dir, from, to_dir, into)),
                Err(other) => Err(other),
            },
            other => other,
        }
    }

    /// What a name leads to that is about to lose it, if something is kept of it beside the volume.
    fn followed(&self, name: &Name) -> Option<PosixNode> {
        let table = self.shared.table.as_ref();
        if self.shared.beside.is_empty() && table.is_none_or(Table::is_empty) {
            return None;
        }
        let node = self.open_name(name, OpenHow::Attributes).ok()?;
        let is_followed = self.shared.beside.has(&node) || table.is_some_and(|table| table.knows(node.key()));
        is_followed.then_some(node)
    }

    fn same_volume(&self, other: &PosixNode) -> Result<()> {
        if Arc::ptr_eq(&self.shared, &other.shared) { Ok(()) } else { Err(Failure::CrossDevice) }
    }
}

/// Making a name fails with "not found" only when the directory itself is gone.
fn gone(why: Failure) -> Failure {
    if why == Failure::NotFound { Failure::Stale } else { why }
}

/// Replacing a directory that holds something fails with either of two errors.
fn replaced(why: Failure) -> Failure {
    if why == Failure::Exists { Failure::NotEmpty } else { why }
}

/// Removes a name that was made and could not be opened: it would be in the way of the next attempt.
fn taken_back(directory: BorrowedFd<'_>, name: &Name, flags: AtFlags) -> Failure {
    let _ = rustix::fs::unlinkat(directory, name.as_bytes(), flags);
    Failure::Exhausted
}
