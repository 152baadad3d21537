//! A node: one descriptor and what is known of it for good.

use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp,
};
use volume::{
    Actor, DirEntry, Extent, Failure, Kind, Name, Node, NodeId, Note, OpenHow, Overview, Patience, Result,
    Stat, StreamInfo, Time, Times,
};

use wire::FileRange;

use crate::errno::{call, failure};
use crate::kept_back;
use crate::pool::{Descriptor, Using};
use crate::sys::ProcPath;
use crate::volume::Shared;

/// An open file, directory, symbolic link or special file of the host, or a stream of one.
pub struct PosixNode {
    pub(crate) shared: Arc<Shared>,
    /// For [`OpenHow::Attributes`] mostly opened with `O_PATH`.
    pub(crate) descriptor: Descriptor,
    pub(crate) id: NodeId,
    pub(crate) kind: Kind,
    pub(crate) how: OpenHow,
    /// Whether the descriptor was opened with `O_PATH`, so that some calls have to go through `/proc`.
    pub(crate) is_path: bool,
    /// When it was made: with the identity it tells it from a later file with the same number.
    pub(crate) born: Time,
    /// What was seen of it when it was opened by its name, or made.
    pub(crate) first: Option<Stat>,
    /// The file that this is a stream of.
    pub(crate) owner: Option<Box<PosixNode>>,
}

/// Flags that every open has.
pub(crate) const ALWAYS: OFlags =
    OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// What is asked of every stat.
const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Opens one component below a directory, never through a symbolic link of any kind.
pub(crate) fn open_below(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    // With O_PATH nothing is opened that could wait or become a terminal, and the call refuses the flags.
    let always = if flags.contains(OFlags::PATH) { OFlags::NOFOLLOW | OFlags::CLOEXEC } else { ALWAYS };
    let open = || rustix::fs::openat2(directory, name, flags | always, mode, resolve);
    if !flags.contains(OFlags::CREATE) {
        return kept_back::with_room(open).map_err(failure);
    }
    kept_back::ask(directory)?;
    let fd = call(open)?;
    // The name is there now: one descriptor more does less harm.
    kept_back::note(fd.as_fd());
    Ok(fd)
}

/// The stat of a descriptor's file.
pub(crate) fn stat_fd(fd: impl AsFd) -> Result<Stat> {
    call(|| rustix::fs::statx(fd.as_fd(), c"", AtFlags::EMPTY_PATH, WANTED)).map(|seen| stat_of(&seen))
}

/// The stat of what a name leads to; a symbolic link is not followed, and nothing is mounted for it.
pub(crate) fn stat_below(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Stat> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    call(|| rustix::fs::statx(directory, name, flags, WANTED)).map(|seen| stat_of(&seen))
}

fn time(stamp: StatxTimestamp) -> Time {
    Time { secs: stamp.tv_sec, nanos: stamp.tv_nsec }
}

fn stat_of(seen: &Statx) -> Stat {
    let pair = |major: u32, minor: u32| u64::from(major) << 32 | u64::from(minor);
    let kind = match FileType::from_raw_mode(u32::from(seen.stx_mode)) {
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Fifo => Kind::Pipe,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::RegularFile | FileType::Unknown => Kind::File,
    };
    let is_device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
    let has_birth = seen.stx_mask & StatxFlags::BTIME.bits() != 0;
    Stat {
        id: NodeId { device: pair(seen.stx_dev_major, seen.stx_dev_minor), inode: seen.stx_ino },
        file_system: 0,
        kind,
        size: seen.stx_size,
        allocated: seen.stx_blocks.saturating_mul(512),
        links: seen.stx_nlink,
        mode: u32::from(seen.stx_mode) & 0o7777,
        uid: seen.stx_uid,
        gid: seen.stx_gid,
        rdev: if is_device { pair(seen.stx_rdev_major, seen.stx_rdev_minor) } else { 0 },
        accessed: time(seen.stx_atime),
        modified: time(seen.stx_mtime),
        changed: time(seen.stx_ctime),
        born: has_birth.then(|| time(seen.stx_btime)),
        fixed: seen.stx_attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
    }
}

impl PosixNode {
    /// From a descriptor and the stat of what it leads to.
    pub(crate) fn new(
        shared: Arc<Shared>,
        fd: OwnedFd,
        stat: &Stat,
        how: OpenHow,
        is_path: bool,
    ) -> PosixNode {
        let born = stat.born.unwrap_or_default();
        // Without knowing where it is it is no news; who needs that asks for it.
        let own = || rustix::io::fcntl_dupfd_cloexec(&fd, 0).map_err(failure);
        let first = shared.located(*stat, own).ok();
        PosixNode {
            descriptor: Descriptor::of(&shared, fd, (stat.id, stat.kind, born), how, is_path),
            shared,
            id: stat.id,
            kind: stat.kind,
            how,
            is_path,
            born,
            first,
            owner: None,
        }
    }

    /// The root, as `stat` shows it.
    pub(crate) fn root(shared: Arc<Shared>, stat: &Stat) -> PosixNode {
        PosixNode {
            shared,
            descriptor: Descriptor::OfRoot,
            id: stat.id,
            kind: stat.kind,
            how: OpenHow::Read,
            is_path: false,
            born: stat.born.unwrap_or_default(),
            first: Some(*stat),
            owner: None,
        }
    }

    /// The file that a stream belongs to, or the node itself.
    pub(crate) fn base(&self) -> &PosixNode {
        self.owner.as_deref().unwrap_or(self)
    }

    /// The descriptor, which stays open as long as what is returned lives.
    ///
    /// # Errors
    /// [`Failure::Stale`], [`Failure::Exhausted`] and others when it was closed and cannot be opened again.
    pub(crate) fn fd(&self) -> Result<Using<'_>> {
        self.raw_fd().map_err(failure)
    }

    /// The same for who takes errors of the host.
    pub(crate) fn raw_fd(&self) -> rustix::io::Result<Using<'_>> {
        match &self.descriptor {
            Descriptor::OfRoot => Ok(Using::Kept(self.shared.root_fd.as_fd())),
            Descriptor::Kept(fd) => Ok(Using::Kept(fd.as_fd())),
            Descriptor::Pooled(pooled) => pooled.file().map(Using::Pooled),
        }
    }

    /// The descriptor of a directory, for names in it. None of a directory is ever closed.
    pub(crate) fn directory(&self) -> Result<BorrowedFd<'_>> {
        match &self.descriptor {
            _ if self.kind != Kind::Directory || self.owner.is_some() => Err(Failure::NotADirectory),
            Descriptor::OfRoot => Ok(self.shared.root_fd.as_fd()),
            Descriptor::Kept(fd) => Ok(fd.as_fd()),
            Descriptor::Pooled(_) => Err(Failure::Stale),
        }
    }

    /// The stat of what a name in this directory leads to.
    pub(crate) fn stat_child(&self, name: &Name) -> Result<Stat> {
        stat_below(self.directory()?, name.as_bytes())
    }

    /// The node of this kind of volume behind `node`.
    pub(crate) fn of(node: &dyn Node) -> Result<&PosixNode> {
        node.downcast::<PosixNode>().ok_or(Failure::CrossDevice)
    }

    /// The same node with a descriptor of its own, or with one of the pool's.
    pub(crate) fn duplicate(&self) -> Result<PosixNode> {
        let descriptor = match &self.descriptor {
            Descriptor::Pooled(pooled) => Descriptor::Pooled(Arc::clone(pooled)),
            Descriptor::OfRoot | Descriptor::Kept(_) => {
                let own = self.fd()?;
                let copy = kept_back::with_room(|| rustix::io::fcntl_dupfd_cloexec(&own, 0));
                Descriptor::Kept(copy.map_err(failure)?)
            }
        };
        Ok(PosixNode {
            shared: Arc::clone(&self.shared),
            descriptor,
            first: None,
            owner: self.owner.as_ref().map(|o| o.duplicate().map(Box::new)).transpose()?,
            ..*self
        })
    }

    fn reopened(&self, how: OpenHow) -> Result<PosixNode> {
        let flags = match (self.kind, how) {
            // A device, pipe or socket is never opened for more than its attributes.
            (Kind::Link | Kind::Pipe | Kind::Socket | Kind::CharDevice | Kind::BlockDevice, _)
            | (_, OpenHow::Attributes) => return self.duplicate(),
            (Kind::Directory, _) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let descriptor =
                    Descriptor::Kept(open_below(self.fd()?.as_fd(), b".", flags, Mode::empty())?);
                let how = OpenHow::Read;
                return Ok(PosixNode { descriptor, how, is_path: false, ..self.duplicate()? });
            }
            (Kind::File, OpenHow::Read) => OFlags::RDONLY,
            (Kind::File, OpenHow::ReadWrite) => OFlags::RDWR,
        };
        // The link in /proc leads to this very file whatever its name has become, so it must be followed.
        let flags = flags | (ALWAYS - OFlags::NOFOLLOW);
        let own = self.fd()?;
        let path = ProcPath::of(&own);
        let fd = kept_back::with_room(|| rustix::fs::open(path.as_c_str(), flags, Mode::empty()))
            .map_err(failure)?;
        let descriptor = match self.owner {
            Some(_) => Descriptor::Kept(fd),
            None => Descriptor::of(&self.shared, fd, (self.id, self.kind, self.born), how, false),
        };
        let owner = self.owner.as_ref().map(|o| o.duplicate().map(Box::new)).transpose()?;
        let shared = Arc::clone(&self.shared);
        Ok(PosixNode { shared, descriptor, how, is_path: false, first: None, owner, ..*self })
    }
}

impl Node for PosixNode {
    fn id(&self) -> NodeId {
        self.id
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn how(&self) -> OpenHow {
        self.how
    }

    fn is_closed(&self) -> bool {
        matches!(&self.descriptor, Descriptor::Pooled(pooled) if pooled.is_closed())
    }

    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.reopened(how)?))
    }

    fn stat(&self) -> Result<Stat> {
        let own = stat_fd(self.fd()?)?;
        let stat = match &self.owner {
            None => own,
            Some(owner) => Stat { size: own.size, allocated: own.allocated, ..stat_fd(owner.fd()?)? },
        };
        let open = || {
            let own = self.base().fd()?;
            call(|| rustix::io::fcntl_dupfd_cloexec(&own, 0))
        };
        self.shared.located(stat, open)
    }

    fn first_stat(&self) -> Option<Stat> {
        self.first
    }

    fn address(&self) -> Result<Vec<u8>> {
        self.find_address()
    }

    fn place(&self) -> Result<Option<(Arc<dyn Node>, Name)>> {
        Ok(self.find_place()?.map(|(above, name)| (Arc::new(above) as Arc<dyn Node>, name)))
    }

    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, patience: Patience) -> Result<usize> {
        self.read_data(at, len, out, patience)
    }

    fn range(self: Arc<Self>, at: u64, len: usize) -> Result<Option<FileRange>> {
        self.data_range(at, len)
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        self.write_data(at, data)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.sync_data(data_only)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        let fd = self.writable()?;
        self.resized(size, || call(|| rustix::fs::ftruncate(&fd, size)))
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.allocate_data(range)
    }

    fn punch(&self, range: Range<u64>) -> Result<()> {
        self.punch_data(range)
    }

    fn next_data(&self, from: u64) -> Result<Option<Range<u64>>> {
        self.next_data_range(from)
    }

    fn extents(&self, from: u64, max: usize) -> Result<(Vec<Extent>, bool)> {
        self.extents_from(from, max)
    }

    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64> {
        self.copy_data(at, PosixNode::of(to)?, to_at, len)
    }

    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()> {
        self.clone_data(at, PosixNode::of(to)?, to_at, len)
    }

    fn set_times(&self, times: Times) -> Result<()> {
        self.base().change_times(times)
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.base().change_mode(mode)
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.base().change_owner(uid, gid)
    }

    fn note(&self, note: Note) -> Result<Option<Vec<u8>>> {
        self.base().read_note(note)
    }

    fn overview(&self) -> Result<Overview> {
        self.base().look_over()
    }

    fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()> {
        self.base().write_note(note, value)
    }

    fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.base().list_attributes()
    }

    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.base().write_attribute(name, value)
    }

    fn streams(&self) -> Result<Vec<StreamInfo>> {
        self.base().list_streams()
    }

    fn open_stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.base().stream(name, create, exclusive)?))
    }

    fn remove_stream(&self, name: &Name) -> Result<()> {
        self.base().unlink_stream(name)
    }

    fn rename_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.base().move_stream(from, to, replace)
    }

    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.open_name(name, how)?))
    }

    fn stat_name(&self, name: &Name) -> Result<Stat> {
        let open = || open_below(self.directory()?, name.as_bytes(), OFlags::PATH, Mode::empty());
        self.shared.located(self.stat_child(name)?, open)
    }

    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.make_file(name, mode, actor)?))
    }

    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.make_directory(name, mode, actor)?))
    }

    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.make_link(name, text, actor)?))
    }

    fn create_special(
        &self,
        name: &Name,
        kind: Kind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.make_special(name, kind, mode, rdev, actor)?))
    }

    fn add_name(&self, name: &Name, node: &dyn Node, actor: Option<&Actor>) -> Result<()> {
        self.link_name(name, PosixNode::of(node)?, actor)
    }

    fn remove(&self, name: &Name, directory: bool, actor: Option<&Actor>) -> Result<()> {
        self.remove_name(name, directory, actor)
    }

    fn check_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()> {
        self.check_name_removal(name, actor)
    }

    fn rename(
        &self,
        name: &Name,
        to: &dyn Node,
        to_name: &Name,
        replace: bool,
        actor: Option<&Actor>,
    ) -> Result<()> {
        self.move_name(name, PosixNode::of(to)?, to_name, replace, actor)
    }

    fn link_text(&self) -> Result<Vec<u8>> {
        if self.kind != Kind::Link {
            return Err(Failure::Invalid);
        }
        let fd = self.fd()?;
        call(|| rustix::fs::readlinkat(&fd, c"", Vec::new())).map(std::ffi::CString::into_bytes)
    }

    fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()> {
        self.scan(cookie, visit)
    }
}
