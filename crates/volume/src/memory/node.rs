//! A node of the volume in memory.

use std::fmt;
use std::ops::{Bound, ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};

use super::{Inode, InodeState, MemoryFileSystem, Sparse};
use crate::security::posix;
use crate::{
    Actor, DirEntry, Extent, Failure, Name, Node, NodeId, NodeKind, Note, OpenHow, Overview, Patience,
    Result, Stat, StreamInfo, Times,
};

/// An open file, directory, link or stream in memory.
pub struct MemoryNode {
    volume: Arc<MemoryFileSystem>,
    inode: Arc<Inode>,
    how: OpenHow,
    /// The data of the stream, when the node is one.
    stream: Option<Arc<Mutex<Sparse>>>,
    /// The attributes at the time of the lookup or creation.
    first: Option<Stat>,
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode")
            .field("inode", &self.inode.number)
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}

impl MemoryNode {
    pub(super) fn open(volume: Arc<MemoryFileSystem>, inode: Arc<Inode>, how: OpenHow) -> MemoryNode {
        let how = match (inode.kind, how) {
            (NodeKind::File, how) | (_, how @ OpenHow::Attributes) => how,
            (NodeKind::Directory, _) => OpenHow::Read,
            _ => OpenHow::Attributes,
        };
        MemoryNode { volume, inode, how, stream: None, first: None }
    }

    /// The node, with its attributes of this moment as the first ones.
    fn seen(self) -> Arc<dyn Node> {
        let first = Some(self.inode.stat(self.volume.device));
        Arc::new(MemoryNode { first, ..self })
    }

    fn of(node: &dyn Node) -> Result<&MemoryNode> {
        node.downcast::<MemoryNode>().ok_or(Failure::CrossDevice)
    }

    fn may(&self, how: OpenHow) -> Result<()> {
        match self.kind() {
            NodeKind::Directory => Err(Failure::IsADirectory),
            NodeKind::File if self.how >= how => Ok(()),
            NodeKind::File => Err(Failure::Denied),
            _ => Err(Failure::Invalid),
        }
    }

    /// Runs `work` on the data of this node.
    fn data<T>(&self, work: impl FnOnce(&mut Sparse) -> T) -> T {
        match &self.stream {
            Some(stream) => work(&mut stream.lock()),
            None => work(&mut self.inode.state.lock().data),
        }
    }

    /// Runs `work` on the data, and sets the time of change when it succeeds.
    fn change_data<T>(&self, work: impl FnOnce(&mut Sparse) -> Result<T>) -> Result<T> {
        self.may(OpenHow::ReadWrite)?;
        let done = self.data(work)?;
        let now = self.volume.tick();
        let mut state = self.inode.state.lock();
        if self.stream.is_none() {
            state.modified = now;
        }
        state.changed = now;
        Ok(done)
    }

    /// The state, with the time of change set to now.
    fn changed(&self) -> MutexGuard<'_, InodeState> {
        let now = self.volume.tick();
        let mut state = self.inode.state.lock();
        state.changed = now;
        state
    }

    fn directory(&self) -> Result<()> {
        if self.inode.kind == NodeKind::Directory && self.stream.is_none() {
            Ok(())
        } else {
            Err(Failure::NotADirectory)
        }
    }

    /// The inode that a name leads to.
    fn find(&self, name: &Name) -> Result<Arc<Inode>> {
        self.directory()?;
        let state = self.inode.state.lock();
        state.names.by_name.get(name).map(|(_, inode)| Arc::clone(inode)).ok_or(Failure::NotFound)
    }

    /// Creates a new inode. The caller holds no lock.
    fn make(
        &self,
        name: &Name,
        kind: NodeKind,
        mode: u32,
        actor: Option<&Actor>,
        text: &[u8],
        rdev: u64,
    ) -> Result<MemoryNode> {
        self.directory()?;
        let _names = self.volume.names.lock();
        if self.find(name).is_ok() {
            return Err(Failure::Exists);
        }
        if self.inode.state.lock().links == 0 {
            return Err(Failure::Stale);
        }
        let now = self.volume.tick();
        let number = self.volume.next_inode.fetch_add(1, Ordering::Relaxed);
        let inode = Arc::new(Inode::new(number, kind, rdev, mode, now));
        self.volume.enter(&inode);
        {
            let mut state = inode.state.lock();
            if let Some(actor) = actor {
                (state.uid, state.gid) = (actor.uid, actor.gid);
            }
            state.link_text = text.to_vec();
            if kind == NodeKind::Directory {
                state.links = 2;
                state.names.parent = Arc::downgrade(&self.inode);
            }
        }
        self.insert(name, &inode);
        let how = if kind == NodeKind::Link { OpenHow::Attributes } else { OpenHow::ReadWrite };
        Ok(self.volume.open(&inode, how))
    }

    fn insert(&self, name: &Name, inode: &Arc<Inode>) {
        let now = self.volume.tick();
        let mut state = self.inode.state.lock();
        if inode.kind == NodeKind::Directory {
            state.links += 1;
        }
        state.names.insert(name.clone(), Arc::clone(inode));
        (state.modified, state.changed) = (now, now);
    }

    fn take_out(&self, name: &Name) -> Option<Arc<Inode>> {
        let now = self.volume.tick();
        let mut state = self.inode.state.lock();
        let inode = state.names.remove(name)?;
        if inode.kind == NodeKind::Directory {
            state.links -= 1;
        }
        (state.modified, state.changed) = (now, now);
        Some(inode)
    }

    /// Takes one name from an inode that was just removed from a directory.
    fn lose_name(&self, inode: &Inode) {
        let now = self.volume.tick();
        let mut state = inode.state.lock();
        state.links = if inode.kind == NodeKind::Directory { 0 } else { state.links - 1 };
        state.changed = now;
        if state.links == 0 {
            state.streams.clear();
        }
    }

    /// Refuses to replace `inode` by an inode of another kind, or a directory that is not empty.
    fn replaceable(inode: &Inode, is_directory: bool) -> Result<()> {
        match (inode.kind == NodeKind::Directory, is_directory) {
            (true, false) => Err(Failure::IsADirectory),
            (false, true) => Err(Failure::NotADirectory),
            (true, true) if !inode.state.lock().names.by_name.is_empty() => Err(Failure::NotEmpty),
            _ => Ok(()),
        }
    }

    /// Whether this directory is `inode` or lies below it.
    fn is_within(&self, inode: &Inode) -> bool {
        let mut now = Some(Arc::clone(&self.inode));
        while let Some(directory) = now {
            if directory.number == inode.number {
                return true;
            }
            now = directory.state.lock().names.parent.upgrade();
        }
        false
    }
}

impl Node for MemoryNode {
    fn id(&self) -> NodeId {
        self.volume.id(&self.inode)
    }

    fn kind(&self) -> NodeKind {
        if self.stream.is_some() { NodeKind::File } else { self.inode.kind }
    }

    fn how(&self) -> OpenHow {
        self.how
    }

    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>> {
        // As on a host, a request for the lowest access does not reduce the access of the node.
        let how = if how == OpenHow::Attributes { self.how } else { how };
        let node = self.volume.open(&self.inode, how);
        match &self.stream {
            Some(stream) => Ok(Arc::new(MemoryNode { how, stream: Some(Arc::clone(stream)), ..node })),
            None => Ok(Arc::new(node)),
        }
    }

    fn address(&self) -> Result<Vec<u8>> {
        if self.stream.is_some() {
            return Err(Failure::NotSupported);
        }
        Ok(self.inode.number.to_le_bytes().to_vec())
    }

    fn parent_and_name(&self) -> Result<Option<(Arc<dyn Node>, Name)>> {
        self.directory()?;
        if self.inode.number == self.volume.root.number {
            return Ok(None);
        }
        let _names = self.volume.names.lock();
        let above = self.inode.state.lock().names.parent.upgrade().ok_or(Failure::Stale)?;
        let state = above.state.lock();
        let own = state.names.by_name.iter().find(|(_, (_, inode))| inode.number == self.inode.number);
        let name = own.map(|(name, _)| name.clone()).ok_or(Failure::Stale)?;
        drop(state);
        Ok(Some((Arc::new(self.volume.open(&above, OpenHow::Read)), name)))
    }

    fn stat(&self) -> Result<Stat> {
        let stat = self.inode.stat(self.volume.device);
        Ok(match &self.stream {
            None => stat,
            Some(stream) => {
                let stream = stream.lock();
                Stat { size: stream.size(), allocated: stream.allocated(), ..stat }
            }
        })
    }

    fn first_stat(&self) -> Option<Stat> {
        self.first
    }

    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, _patience: Patience) -> Result<usize> {
        self.may(OpenHow::Read)?;
        Ok(self.data(|data| data.read(at, len, out)))
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        self.change_data(|sparse| sparse.write(at, data))
    }

    fn sync(&self, _data_only: bool) -> Result<()> {
        Ok(())
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.change_data(|sparse| sparse.set_size(size))
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.change_data(|sparse| sparse.allocate(range))
    }

    fn punch(&self, range: Range<u64>) -> Result<()> {
        self.change_data(|sparse| {
            sparse.punch(range);
            Ok(())
        })
    }

    fn next_data(&self, from: u64) -> Result<Option<Range<u64>>> {
        self.may(OpenHow::Read)?;
        Ok(self.data(|data| data.next_data(from)))
    }

    fn extents(&self, _from: u64, _max: usize) -> Result<(Vec<Extent>, bool)> {
        // Data in memory has no position on a device.
        Err(Failure::NotSupported)
    }

    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64> {
        let to = MemoryNode::of(to)?;
        self.may(OpenHow::Read)?;
        to.may(OpenHow::ReadWrite)?;
        if at.checked_add(len).is_none() || to_at.checked_add(len).is_none() {
            return Err(Failure::Invalid);
        }
        // The data is copied out first, because the ranges may overlap in one file.
        let mut bytes = Vec::new();
        self.data(|data| data.read(at, usize::try_from(len).unwrap_or(usize::MAX), &mut bytes));
        if !bytes.is_empty() {
            to.write(to_at, &bytes)?;
        }
        Ok(bytes.len() as u64)
    }

    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()> {
        let end = at.checked_add(len).ok_or(Failure::Invalid)?;
        let is_aligned = [at, to_at].iter().all(|offset| offset.is_multiple_of(super::sparse::BLOCK as u64));
        if end > self.stat()?.size || !is_aligned {
            return Err(Failure::Invalid);
        }
        self.copy_range(at, to, to_at, len).map(|_| ())
    }

    fn set_times(&self, times: Times) -> Result<()> {
        let mut state = self.changed();
        state.accessed = times.accessed.unwrap_or(state.accessed);
        state.modified = times.modified.unwrap_or(state.modified);
        Ok(())
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        if self.inode.kind == NodeKind::Link {
            return Err(Failure::NotSupported);
        }
        let mut state = self.changed();
        state.mode = mode & 0o7777;
        if let Some(mut list) = state.notes.get(&Note::AccessList).and_then(|list| posix::parse(list)) {
            posix::set_mode_of_list(&mut list, mode);
            state.notes.insert(Note::AccessList, posix::encode(&list));
        }
        Ok(())
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        if uid == Some(u32::MAX) || gid == Some(u32::MAX) {
            return Err(Failure::Invalid);
        }
        let mut state = self.changed();
        state.uid = uid.unwrap_or(state.uid);
        state.gid = gid.unwrap_or(state.gid);
        Ok(())
    }

    fn note(&self, note: Note) -> Result<Option<Vec<u8>>> {
        Ok(self.inode.state.lock().notes.get(&note).cloned())
    }

    fn overview(&self) -> Result<Overview> {
        let state = self.inode.state.lock();
        Ok(Overview {
            attributes: state.notes.get(&Note::Attributes).cloned(),
            access_list: state.notes.contains_key(&Note::AccessList),
            default_list: state.notes.contains_key(&Note::DefaultList),
        })
    }

    fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()> {
        let mut state = self.changed();
        if let (Note::AccessList, Some(list)) = (note, value) {
            let list = posix::parse(list).ok_or(Failure::Invalid)?;
            state.mode = state.mode & 0o7000 | posix::mode_of_list(&list);
        }
        match value {
            Some(value) => state.notes.insert(note, value.to_vec()),
            None => state.notes.remove(&note),
        };
        Ok(())
    }

    fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(self.inode.state.lock().attributes.clone().into_iter().collect())
    }

    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        if !matches!(self.inode.kind, NodeKind::File | NodeKind::Directory) {
            return Err(Failure::NotSupported);
        }
        if name.is_empty() || name.contains(&0) {
            return Err(Failure::Invalid);
        }
        if name.len() > 250 {
            return Err(Failure::NameTooLong);
        }
        if value.is_some_and(|v| v.len() > 64 * 1024) {
            return Err(Failure::TooLarge);
        }
        let mut state = self.changed();
        match value {
            Some(value) => state.attributes.insert(name.to_vec(), value.to_vec()),
            None => state.attributes.remove(name),
        };
        Ok(())
    }

    fn streams(&self) -> Result<Vec<StreamInfo>> {
        let state = self.inode.state.lock();
        let info = |(name, data): (&Name, &Arc<Mutex<Sparse>>)| {
            let data = data.lock();
            StreamInfo { name: name.clone(), size: data.size(), allocated: data.allocated() }
        };
        Ok(state.streams.iter().map(info).collect())
    }

    fn open_stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<Arc<dyn Node>> {
        if !matches!(self.inode.kind, NodeKind::File | NodeKind::Directory) {
            return Err(Failure::NotSupported);
        }
        let mut state = self.inode.state.lock();
        let stream = match state.streams.get(name) {
            Some(_) if create && exclusive => return Err(Failure::Exists),
            Some(stream) => Arc::clone(stream),
            None if !create => return Err(Failure::NotFound),
            None if state.links == 0 => return Err(Failure::Stale),
            None => Arc::clone(state.streams.entry(name.clone()).or_default()),
        };
        let (volume, inode) = (Arc::clone(&self.volume), Arc::clone(&self.inode));
        Ok(Arc::new(MemoryNode { volume, inode, how: OpenHow::ReadWrite, stream: Some(stream), first: None }))
    }

    fn remove_stream(&self, name: &Name) -> Result<()> {
        self.inode.state.lock().streams.remove(name).map(|_| ()).ok_or(Failure::NotFound)
    }

    fn rename_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let mut state = self.inode.state.lock();
        if !state.streams.contains_key(from) {
            return Err(Failure::NotFound);
        }
        if from != to {
            if !replace && state.streams.contains_key(to) {
                return Err(Failure::Exists);
            }
            if let Some(stream) = state.streams.remove(from) {
                state.streams.insert(to.clone(), stream);
            }
        }
        Ok(())
    }

    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>> {
        Ok(self.volume.open(&self.find(name)?, how).seen())
    }

    fn stat_name(&self, name: &Name) -> Result<Stat> {
        Ok(self.find(name)?.stat(self.volume.device))
    }

    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(self.make(name, NodeKind::File, mode, actor, b"", 0)?.seen())
    }

    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(self.make(name, NodeKind::Directory, mode, actor, b"", 0)?.seen())
    }

    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.directory()?;
        if text.is_empty() || text.contains(&0) {
            return Err(Failure::Invalid);
        }
        Ok(Arc::new(self.make(name, NodeKind::Link, 0o777, actor, text, 0)?))
    }

    fn create_special(
        &self,
        name: &Name,
        kind: NodeKind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>> {
        let rdev = match kind {
            NodeKind::CharDevice | NodeKind::BlockDevice => rdev,
            NodeKind::Pipe | NodeKind::Socket => 0,
            NodeKind::File | NodeKind::Directory | NodeKind::Link => return Err(Failure::Invalid),
        };
        Ok(self.make(name, kind, mode, actor, b"", rdev)?.seen())
    }

    fn add_name(&self, name: &Name, node: &dyn Node, _actor: Option<&Actor>) -> Result<()> {
        self.directory()?;
        let node = MemoryNode::of(node)?;
        if !Arc::ptr_eq(&self.volume, &node.volume) {
            return Err(Failure::CrossDevice);
        }
        if node.kind() == NodeKind::Directory {
            return Err(Failure::IsADirectory);
        }
        if node.stream.is_some() {
            return Err(Failure::Invalid);
        }
        let _names = self.volume.names.lock();
        if self.find(name).is_ok() {
            return Err(Failure::Exists);
        }
        if node.inode.state.lock().links == 0 || self.inode.state.lock().links == 0 {
            return Err(Failure::Stale);
        }
        node.changed().links += 1;
        self.insert(name, &node.inode);
        Ok(())
    }

    fn remove(&self, name: &Name, directory: bool, _actor: Option<&Actor>) -> Result<()> {
        let _names = self.volume.names.lock();
        MemoryNode::replaceable(&*self.find(name)?, directory)?;
        if let Some(inode) = self.take_out(name) {
            self.lose_name(&inode);
        }
        Ok(())
    }

    /// A volume in memory checks no permissions.
    fn check_removal(&self, _name: &Name, _actor: Option<&Actor>) -> Result<()> {
        Ok(())
    }

    fn rename(
        &self,
        name: &Name,
        to: &dyn Node,
        to_name: &Name,
        replace: bool,
        _actor: Option<&Actor>,
    ) -> Result<()> {
        self.directory()?;
        let to = MemoryNode::of(to)?;
        to.directory()?;
        if !Arc::ptr_eq(&self.volume, &to.volume) {
            return Err(Failure::CrossDevice);
        }
        let _names = self.volume.names.lock();
        let moved = self.find(name)?;
        if self.inode.number == to.inode.number && name == to_name {
            return Ok(());
        }
        // The host looks the new name up first, and a removed directory has no names.
        if to.inode.state.lock().links == 0 {
            return Err(Failure::NotFound);
        }
        if !replace && to.find(to_name).is_ok() {
            return Err(Failure::Exists);
        }
        if moved.kind == NodeKind::Directory && to.is_within(&moved) {
            return Err(Failure::Invalid);
        }
        if let Ok(stands) = to.find(to_name) {
            // The moved node lies below this directory, so it cannot be empty.
            if self.is_within(&stands) {
                return Err(Failure::NotEmpty);
            }
            // For two names of one file, the target keeps its place in listings.
            if stands.number == moved.number {
                self.take_out(name);
                self.lose_name(&moved);
                return Ok(());
            }
            MemoryNode::replaceable(&stands, moved.kind == NodeKind::Directory)?;
            to.take_out(to_name);
            self.lose_name(&stands);
        }
        self.take_out(name);
        to.insert(to_name, &moved);
        let mut state = moved.state.lock();
        state.changed = self.volume.tick();
        if moved.kind == NodeKind::Directory {
            state.names.parent = Arc::downgrade(&to.inode);
        }
        Ok(())
    }

    fn link_text(&self) -> Result<Vec<u8>> {
        if self.kind() != NodeKind::Link {
            return Err(Failure::Invalid);
        }
        Ok(self.inode.state.lock().link_text.clone())
    }

    fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()> {
        self.directory()?;
        let mut cookie = cookie;
        loop {
            // One entry at a time, without the lock while the visitor sees it: the visitor may use the
            // directory.
            let state = self.inode.state.lock();
            let next = state.names.by_cookie.range((Bound::Excluded(cookie), Bound::Unbounded)).next();
            let Some((&at, name)) = next else { return Ok(()) };
            let Some((_, inode)) = state.names.by_name.get(name) else { return Ok(()) };
            let entry =
                DirEntry { name: name.clone(), inode: inode.number, kind: Some(inode.kind), cookie: at };
            drop(state);
            if visit(entry).is_break() {
                return Ok(());
            }
            cookie = at;
        }
    }
}
