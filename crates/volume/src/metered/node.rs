//! A node whose changes of sizes and names are counted.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use wire::FileRange;

use super::Meter;
use super::file::{DATA, FileMeter, Sizing};
use crate::{
    Actor, DirEntry, Failure, Kind, Name, Node, NodeId, Note, OpenHow, Patience, Result, Stat, StreamInfo,
    Times,
};

/// A node of a [`super::MeteredVolume`].
pub struct MeteredNode {
    /// Dropped before the node, so that no later file can have its number yet.
    file: Arc<FileMeter>,
    inner: Arc<dyn Node>,
    /// Of a stream: its number, and the file it belongs to.
    stream: Option<(u32, Arc<dyn Node>)>,
}

impl MeteredNode {
    pub(super) fn wrap(inner: Arc<dyn Node>, meter: &Arc<Meter>) -> Arc<dyn Node> {
        let file = meter.enter(inner.id(), inner.kind());
        Arc::new(MeteredNode { file, inner, stream: None })
    }

    /// The node of the volume that is wrapped, which knows its own nodes only.
    pub(super) fn unwrap(node: &dyn Node) -> &dyn Node {
        node.downcast::<MeteredNode>().map_or(node, |metered| &*metered.inner)
    }

    fn wrapped(&self, inner: Arc<dyn Node>) -> Arc<dyn Node> {
        MeteredNode::wrap(inner, self.file.meter())
    }

    /// A node that was made just now.
    fn made(&self, inner: Arc<dyn Node>) -> Arc<dyn Node> {
        let file = self.file.meter().enter(inner.id(), inner.kind());
        file.made();
        Arc::new(MeteredNode { file, inner, stream: None })
    }

    /// The file, or the one that the stream belongs to.
    fn whole(&self) -> &dyn Node {
        self.stream.as_ref().map_or(&*self.inner, |(_, owner)| &**owner)
    }

    /// What is counted of it; none: it has no data.
    fn sizing(&self) -> Option<Sizing<'_>> {
        let part = self.stream.as_ref().map_or(DATA, |(number, _)| *number);
        let has_data = self.inner.kind() == Kind::File;
        has_data.then(|| Sizing { node: &*self.inner, whole: self.whole(), part })
    }

    /// Does something after which the data reaches at least up to `end`, if it is done.
    fn reaching<T>(&self, end: Option<u64>, exactly: bool, act: impl FnOnce() -> Result<T>) -> Result<T> {
        // An end that is none is for the host to refuse.
        let (Some(end), Some(sizing)) = (end, self.sizing()) else { return act() };
        let mut act = Some(act);
        let mut once = || act.take().map_or(Err(Failure::Invalid), |act| act());
        if let Some(done) = self.file.within(sizing.part, end, &mut once) {
            return done;
        }
        self.file.resize(&sizing, |size| size.max(end), exactly, once)
    }

    /// The same on the node that something is copied to.
    fn reached_by<T>(
        &self,
        at: u64,
        to: &dyn Node,
        to_at: u64,
        len: u64,
        act: impl FnOnce(&dyn Node) -> Result<T>,
    ) -> Result<T> {
        let Some(target) = to.downcast::<MeteredNode>() else { return act(to) };
        let there = self.inner.stat()?.size.saturating_sub(at).min(len);
        let end = if there == 0 { Some(0) } else { to_at.checked_add(there) };
        target.reaching(end, false, || act(&*target.inner))
    }
}

impl Node for MeteredNode {
    fn id(&self) -> NodeId {
        self.inner.id()
    }

    fn kind(&self) -> Kind {
        self.inner.kind()
    }

    fn how(&self) -> OpenHow {
        self.inner.how()
    }

    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>> {
        let inner = self.inner.open_again(how)?;
        Ok(Arc::new(MeteredNode { file: Arc::clone(&self.file), inner, stream: self.stream.clone() }))
    }

    fn stat(&self) -> Result<Stat> {
        self.inner.stat()
    }

    fn first_stat(&self) -> Option<Stat> {
        self.inner.first_stat()
    }

    fn address(&self) -> Result<Vec<u8>> {
        self.inner.address()
    }

    fn place(&self) -> Result<Option<(Arc<dyn Node>, Name)>> {
        Ok(self.inner.place()?.map(|(above, name)| (self.wrapped(above), name)))
    }

    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, patience: Patience) -> Result<usize> {
        self.inner.read(at, len, out, patience)
    }

    fn range(self: Arc<Self>, at: u64, len: usize) -> Result<Option<FileRange>> {
        Arc::clone(&self.inner).range(at, len)
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        let end = if data.is_empty() { Some(0) } else { at.checked_add(data.len() as u64) };
        self.reaching(end, true, || self.inner.write(at, data))
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.inner.sync(data_only)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        match self.sizing() {
            Some(sizing) => self.file.resize(&sizing, |_| size, true, || self.inner.set_size(size)),
            None => self.inner.set_size(size),
        }
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        if let Some(sizing) = self.sizing() {
            self.file.check_end(&sizing, range.end)?;
        }
        self.inner.allocate(range)
    }

    fn punch(&self, range: Range<u64>) -> Result<()> {
        self.inner.punch(range)
    }

    fn next_data(&self, from: u64) -> Result<Option<Range<u64>>> {
        self.inner.next_data(from)
    }

    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64> {
        self.reached_by(at, to, to_at, len, |to| self.inner.copy_range(at, to, to_at, len))
    }

    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()> {
        self.reached_by(at, to, to_at, len, |to| self.inner.clone_range(at, to, to_at, len))
    }

    fn set_times(&self, times: Times) -> Result<()> {
        self.inner.set_times(times)
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.inner.set_mode(mode)
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.inner.set_owner(uid, gid)
    }

    fn note(&self, note: Note) -> Result<Option<Vec<u8>>> {
        self.inner.note(note)
    }

    fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()> {
        self.inner.set_note(note, value)
    }

    fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.inner.attributes()
    }

    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.inner.set_attribute(name, value)
    }

    fn streams(&self) -> Result<Vec<StreamInfo>> {
        self.inner.streams()
    }

    fn open_stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<Arc<dyn Node>> {
        let inner = self.inner.open_stream(name, create, exclusive)?;
        let number = self.file.stream(self.whole(), name)?;
        let owner = self.stream.as_ref().map_or(&self.inner, |(_, owner)| owner);
        let stream = Some((number, Arc::clone(owner)));
        Ok(Arc::new(MeteredNode { file: Arc::clone(&self.file), inner, stream }))
    }

    fn remove_stream(&self, name: &Name) -> Result<()> {
        self.file.losing_stream(self.whole(), name, None, || self.inner.remove_stream(name))
    }

    fn rename_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let act = || self.inner.rename_stream(from, to, replace);
        self.file.losing_stream(self.whole(), from, Some(to), act)
    }

    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>> {
        Ok(self.wrapped(self.inner.lookup(name, how)?))
    }

    fn stat_name(&self, name: &Name) -> Result<Stat> {
        self.inner.stat_name(name)
    }

    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(self.made(self.inner.create_file(name, mode, actor)?))
    }

    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(self.made(self.inner.create_directory(name, mode, actor)?))
    }

    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        Ok(self.made(self.inner.create_link(name, text, actor)?))
    }

    fn create_special(
        &self,
        name: &Name,
        kind: Kind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>> {
        Ok(self.made(self.inner.create_special(name, kind, mode, rdev, actor)?))
    }

    fn add_name(&self, name: &Name, node: &dyn Node, actor: Option<&Actor>) -> Result<()> {
        self.inner.add_name(name, MeteredNode::unwrap(node), actor)
    }

    fn remove(&self, name: &Name, directory: bool, actor: Option<&Actor>) -> Result<()> {
        let doomed = self.inner.lookup(name, OpenHow::Attributes)?;
        let meter = self.file.meter();
        let _still = meter.moving.read();
        let file = meter.enter(doomed.id(), doomed.kind());
        file.losing_name(&*doomed, || self.inner.remove(name, directory, actor))
    }

    fn rename(
        &self,
        name: &Name,
        to: &dyn Node,
        to_name: &Name,
        replace: bool,
        actor: Option<&Actor>,
    ) -> Result<()> {
        let to = MeteredNode::unwrap(to);
        let act = || self.inner.rename(name, to, to_name, replace, actor);
        let meter = self.file.meter();
        let _still = meter.moving.read();
        let is_counting = meter.is_counting();
        if !replace && !is_counting {
            return act();
        }
        let moved = self.inner.lookup(name, OpenHow::Attributes)?;
        if is_counting {
            meter.enter(moved.id(), moved.kind()).seen(&*moved)?;
            if moved.kind() == Kind::Directory {
                meter.moves(&moved);
            }
        }
        if !replace {
            return act();
        }
        let doomed = match to.lookup(to_name, OpenHow::Attributes) {
            Ok(doomed) if doomed.id() != moved.id() => doomed,
            // What is no directory stands in the way of moving too, and the host says so as it does.
            Ok(_) | Err(Failure::NotFound | Failure::NotADirectory) => return act(),
            Err(why) => return Err(why),
        };
        let file = meter.enter(doomed.id(), doomed.kind());
        file.losing_name(&*doomed, act)
    }

    fn link_text(&self) -> Result<Vec<u8>> {
        self.inner.link_text()
    }

    fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()> {
        self.inner.entries(cookie, visit)
    }
}
