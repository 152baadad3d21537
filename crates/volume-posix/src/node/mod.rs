//! A node: one descriptor and the constant properties of its file.
//!
//! The files of this folder have a node's calls by subject: `names`, `data`, `attributes` and `streams`.
//! The file `address` finds a file again without its name.

mod address;
mod attributes;
mod data;
mod names;
mod streams;

use std::ops::{ControlFlow, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use volume::{
    Actor, DirEntry, Extent, Failure, Name, Node, NodeId, NodeKind, Note, OpenHow, Overview, Patience,
    Result, Stat, StreamInfo, Time, Times,
};

use wire::FileRange;

use crate::context::VolumeContext;
use crate::errno::{call, failure};
use crate::open::{ALWAYS, open_below};
use crate::pool::{Descriptor, DescriptorGuard};
use crate::reserve;
use crate::scan::scan;
use crate::stat::{stat_below, stat_fd};
use crate::sys::ProcPath;
use crate::table::NodeKey;

/// An open file, directory, symbolic link or special file of the host, or a stream of one.
pub struct PosixNode {
    pub(crate) shared: Arc<VolumeContext>,
    /// For [`OpenHow::Attributes`] usually opened with `O_PATH`.
    pub(crate) descriptor: Descriptor,
    pub(crate) id: NodeId,
    pub(crate) kind: NodeKind,
    pub(crate) how: OpenHow,
    /// Whether the descriptor was opened with `O_PATH`. Some calls must go through `/proc` then.
    pub(crate) is_path: bool,
    /// The time of creation. Together with the identity it distinguishes the file from a later one with
    /// the same number.
    pub(crate) born: Time,
    /// The attributes at the time of the lookup or creation.
    pub(crate) first: Option<Stat>,
    /// The file that the stream belongs to, if the node is a stream.
    pub(crate) owner: Option<Box<PosixNode>>,
}

impl PosixNode {
    /// Makes a node of a descriptor and the attributes of its file.
    pub(crate) fn new(
        shared: Arc<VolumeContext>,
        fd: OwnedFd,
        stat: &Stat,
        how: OpenHow,
        is_path: bool,
    ) -> PosixNode {
        // Without the identity of its file system a stat is not complete. A caller that needs one calls
        // `stat`.
        let own = || rustix::io::fcntl_dupfd_cloexec(&fd, 0).map_err(failure);
        let first = shared.with_file_system(*stat, own).ok();
        let born = shared.lasting_birth(stat);
        PosixNode {
            descriptor: Descriptor::of(&shared.root, fd, stat.id, stat.kind, born, how, is_path),
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

    /// The root, with the attributes in `stat`.
    pub(crate) fn root(shared: Arc<VolumeContext>, stat: &Stat) -> PosixNode {
        let first = shared.with_lasting_birth(*stat);
        PosixNode {
            born: shared.lasting_birth(stat),
            shared,
            descriptor: Descriptor::OfRoot,
            id: stat.id,
            kind: stat.kind,
            how: OpenHow::Read,
            is_path: false,
            first: Some(first),
            owner: None,
        }
    }

    /// The file that a stream belongs to, or the node itself.
    pub(crate) fn base(&self) -> &PosixNode {
        self.owner.as_deref().unwrap_or(self)
    }

    /// The key of this node in the table of nodes.
    pub(crate) fn key(&self) -> NodeKey {
        NodeKey { inode: self.id.inode, born: self.born }
    }

    /// The descriptor. It stays open as long as the result exists.
    ///
    /// # Errors
    /// [`Failure::Stale`], [`Failure::Exhausted`] and others when it was closed and cannot be opened
    /// again.
    pub(crate) fn fd(&self) -> Result<DescriptorGuard<'_>> {
        self.raw_fd().map_err(failure)
    }

    /// As [`PosixNode::fd`], with the host's errors.
    pub(crate) fn raw_fd(&self) -> rustix::io::Result<DescriptorGuard<'_>> {
        match &self.descriptor {
            Descriptor::OfRoot => Ok(DescriptorGuard::Kept(self.shared.root.fd.as_fd())),
            Descriptor::Kept(fd) => Ok(DescriptorGuard::Kept(fd.as_fd())),
            Descriptor::Pooled(pooled) => pooled.file().map(DescriptorGuard::Pooled),
        }
    }

    /// The descriptor of a directory, for operations on names in it. Descriptors of directories are never
    /// closed early.
    pub(crate) fn directory(&self) -> Result<BorrowedFd<'_>> {
        match &self.descriptor {
            _ if self.kind != NodeKind::Directory || self.owner.is_some() => Err(Failure::NotADirectory),
            Descriptor::OfRoot => Ok(self.shared.root.fd.as_fd()),
            Descriptor::Kept(fd) => Ok(fd.as_fd()),
            Descriptor::Pooled(_) => Err(Failure::Stale),
        }
    }

    /// The attributes of the node that a name in this directory leads to.
    pub(crate) fn stat_child(&self, name: &Name) -> Result<Stat> {
        stat_below(self.directory()?, name.as_bytes())
    }

    /// The node as this volume's type.
    pub(crate) fn of(node: &dyn Node) -> Result<&PosixNode> {
        node.downcast::<PosixNode>().ok_or(Failure::CrossDevice)
    }

    /// The same node with a descriptor of its own, or with one of the pool.
    pub(crate) fn duplicate(&self) -> Result<PosixNode> {
        let descriptor = match &self.descriptor {
            Descriptor::Pooled(pooled) => Descriptor::Pooled(Arc::clone(pooled)),
            Descriptor::OfRoot | Descriptor::Kept(_) => {
                let own = self.fd()?;
                let copy = reserve::open_with_reserve(|| rustix::io::fcntl_dupfd_cloexec(&own, 0));
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
            (
                NodeKind::Link
                | NodeKind::Pipe
                | NodeKind::Socket
                | NodeKind::CharDevice
                | NodeKind::BlockDevice,
                _,
            )
            | (_, OpenHow::Attributes) => return self.duplicate(),
            (NodeKind::Directory, _) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let descriptor =
                    Descriptor::Kept(open_below(self.fd()?.as_fd(), b".", flags, Mode::empty())?);
                let how = OpenHow::Read;
                return Ok(PosixNode { descriptor, how, is_path: false, ..self.duplicate()? });
            }
            (NodeKind::File, OpenHow::Read) => OFlags::RDONLY,
            (NodeKind::File, OpenHow::ReadWrite) => OFlags::RDWR,
        };
        // The link in /proc leads to this file even after a rename, so it must be followed.
        let flags = flags | (ALWAYS - OFlags::NOFOLLOW);
        let own = self.fd()?;
        let path = ProcPath::of(&own);
        let fd = reserve::open_with_reserve(|| rustix::fs::open(path.as_c_str(), flags, Mode::empty()))
            .map_err(failure)?;
        let descriptor = match self.owner {
            Some(_) => Descriptor::Kept(fd),
            None => Descriptor::of(&self.shared.root, fd, self.id, self.kind, self.born, how, false),
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

    fn kind(&self) -> NodeKind {
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
        self.shared.with_file_system(stat, open)
    }

    fn first_stat(&self) -> Option<Stat> {
        self.first
    }

    fn address(&self) -> Result<Vec<u8>> {
        self.find_address()
    }

    fn parent_and_name(&self) -> Result<Option<(Arc<dyn Node>, Name)>> {
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
        self.resize_stream(size, || call(|| rustix::fs::ftruncate(&fd, size)))
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
        self.shared.with_file_system(self.stat_child(name)?, open)
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
        kind: NodeKind,
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
        if self.kind != NodeKind::Link {
            return Err(Failure::Invalid);
        }
        let fd = self.fd()?;
        call(|| rustix::fs::readlinkat(&fd, c"", Vec::new())).map(std::ffi::CString::into_bytes)
    }

    fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()> {
        scan(self.directory()?, cookie, visit)
    }
}
