//! A node whose changes of sizes and names are counted.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use wire::FileRange;

use super::Meter;
use super::file::{DATA, FileMeter, Sizing};
use crate::delegate::delegate;
use crate::{
    Actor, DirEntry, Extent, Failure, Name, Node, NodeId, NodeKind, Note, OpenHow, Overview, Patience,
    Result, Stat, StreamInfo, Times,
};

/// A node of a [`super::MeteredVolume`].
pub struct MeteredNode {
    /// Set once anything is counted. It is dropped before the node, so that no later file can have the
    /// inode's number yet.
    file: OnceLock<Arc<FileMeter>>,
    meter: Arc<Meter>,
    inner: Arc<dyn Node>,
    stream: Option<MeteredStream>,
}

/// The stream that a node stands for.
#[derive(Clone)]
struct MeteredStream {
    /// Its name at the time when it was opened.
    name: Name,
    /// The number of its part of the file, once anything is counted.
    number: OnceLock<u32>,
    /// The file that it belongs to.
    owner: Arc<dyn Node>,
}

impl MeteredNode {
    pub(super) fn wrap(inner: Arc<dyn Node>, meter: &Arc<Meter>) -> Arc<dyn Node> {
        let node = MeteredNode { file: OnceLock::new(), meter: Arc::clone(meter), inner, stream: None };
        // A file counts for as long as it is open, even if nothing is done with it.
        let _counted = node.file();
        Arc::new(node)
    }

    /// The meter of the file. `None` while nothing is counted.
    fn file(&self) -> Option<&Arc<FileMeter>> {
        let enter = || self.meter.enter(self.whole().id(), self.whole().kind());
        self.meter.is_awake().then(|| self.file.get_or_init(enter))
    }

    /// Runs a change while nothing is counted.
    fn uncounted<T>(&self, act: impl FnOnce() -> T) -> T {
        let done = act();
        self.meter.mark_uncounted_change();
        done
    }

    /// The wrapped volume's node. A volume knows only its own nodes.
    pub(super) fn unwrap(node: &dyn Node) -> &dyn Node {
        node.downcast::<MeteredNode>().map_or(node, |metered| &*metered.inner)
    }

    fn wrapped(&self, inner: Arc<dyn Node>) -> Arc<dyn Node> {
        MeteredNode::wrap(inner, &self.meter)
    }

    /// Runs `act`, which creates a node with this name.
    fn create_with(&self, name: &Name, act: impl FnOnce() -> Result<Arc<dyn Node>>) -> Result<Arc<dyn Node>> {
        if !self.meter.is_awake() {
            return Ok(self.wrapped(self.uncounted(act)?));
        }
        let _names = self.meter.lock_names([(self.id(), name)]);
        // A scan that ended between the two steps would include the file, and it would be counted twice.
        let _no_move = self.meter.moving.read();
        let inner = act()?;
        let file = self.meter.enter(inner.id(), inner.kind());
        file.made();
        let (file, meter) = (OnceLock::from(file), Arc::clone(&self.meter));
        Ok(Arc::new(MeteredNode { file, meter, inner, stream: None }))
    }

    /// The file, or the file that the stream belongs to.
    fn whole(&self) -> &dyn Node {
        self.stream.as_ref().map_or(&*self.inner, |stream| &*stream.owner)
    }

    /// The number of the node's part of the file.
    fn part(&self, file: &FileMeter) -> Result<u32> {
        let Some(MeteredStream { name, number, owner }) = &self.stream else { return Ok(DATA) };
        if let Some(number) = number.get() {
            return Ok(*number);
        }
        // A stream that was opened and then renamed while nothing was counted is taken for a new one. It
        // counts twice until everything is counted anew. The count is never too low.
        let found = file.stream(&**owner, name)?;
        Ok(*number.get_or_init(|| found))
    }

    /// The target of a change of the node's size. `None` if the node has no data.
    fn sizing(&self, file: &FileMeter) -> Result<Option<Sizing<'_>>> {
        if self.inner.kind() != NodeKind::File {
            return Ok(None);
        }
        let part = self.part(file)?;
        Ok(Some(Sizing { node: &*self.inner, whole: self.whole(), part }))
    }

    /// Runs `act`, after which the data reaches at least up to `end`.
    fn grow_to<T>(&self, end: Option<u64>, exactly: bool, act: impl FnOnce() -> Result<T>) -> Result<T> {
        self.meter.check_largest(&*self.inner, end.unwrap_or(0))?;
        let Some(file) = self.file() else { return self.uncounted(act) };
        // The host refuses an end that overflows.
        let (Some(end), Some(sizing)) = (end, self.sizing(file)?) else { return act() };
        let mut act = Some(act);
        let mut once = || act.take().map_or(Err(Failure::Invalid), |act| act());
        if let Some(done) = file.within(sizing.part, end, &mut once) {
            return done;
        }
        file.resize(&sizing, |size| size.max(end), exactly, once)
    }

    /// Runs `act`, which copies data to another node, and counts the growth of that node.
    fn copy_to<T>(
        &self,
        at: u64,
        to: &dyn Node,
        to_at: u64,
        len: u64,
        act: impl FnOnce(&dyn Node) -> Result<T>,
    ) -> Result<T> {
        let Some(target) = to.downcast::<MeteredNode>() else { return act(to) };
        let is_far = to_at.saturating_add(len) > target.meter.largest.load(Ordering::Relaxed);
        if !target.meter.is_awake() && !is_far {
            return target.uncounted(|| act(&*target.inner));
        }
        let there = self.inner.stat()?.size.saturating_sub(at).min(len);
        let end = if there == 0 { Some(0) } else { to_at.checked_add(there) };
        target.grow_to(end, false, || act(&*target.inner))
    }
}

impl Node for MeteredNode {
    delegate! {
        |it| it.inner;
        fn id(&self) -> NodeId;
        fn kind(&self) -> NodeKind;
        fn how(&self) -> OpenHow;
        fn is_closed(&self) -> bool;
        fn stat(&self) -> Result<Stat>;
        fn first_stat(&self) -> Option<Stat>;
        fn address(&self) -> Result<Vec<u8>>;
        fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, patience: Patience) -> Result<usize>;
        fn sync(&self, data_only: bool) -> Result<()>;
        fn punch(&self, range: Range<u64>) -> Result<()>;
        fn next_data(&self, from: u64) -> Result<Option<Range<u64>>>;
        fn extents(&self, from: u64, max: usize) -> Result<(Vec<Extent>, bool)>;
        fn set_times(&self, times: Times) -> Result<()>;
        fn set_mode(&self, mode: u32) -> Result<()>;
        fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()>;
        fn note(&self, note: Note) -> Result<Option<Vec<u8>>>;
        fn overview(&self) -> Result<Overview>;
        fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()>;
        fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;
        fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()>;
        fn streams(&self) -> Result<Vec<StreamInfo>>;
        fn stat_name(&self, name: &Name) -> Result<Stat>;
        fn link_text(&self) -> Result<Vec<u8>>;
        fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()>;
    }

    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>> {
        let inner = self.inner.open_again(how)?;
        Ok(Arc::new(MeteredNode {
            file: self.file.clone(),
            meter: Arc::clone(&self.meter),
            inner,
            stream: self.stream.clone(),
        }))
    }

    fn parent_and_name(&self) -> Result<Option<(Arc<dyn Node>, Name)>> {
        Ok(self.inner.parent_and_name()?.map(|(above, name)| (self.wrapped(above), name)))
    }

    fn range(self: Arc<Self>, at: u64, len: usize) -> Result<Option<FileRange>> {
        Arc::clone(&self.inner).range(at, len)
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        let end = if data.is_empty() { Some(0) } else { at.checked_add(data.len() as u64) };
        self.grow_to(end, true, || self.inner.write(at, data))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.meter.check_largest(&*self.inner, size)?;
        let act = || self.inner.set_size(size);
        let Some(file) = self.file() else { return self.uncounted(act) };
        match self.sizing(file)? {
            Some(sizing) => file.resize(&sizing, |_| size, true, act),
            None => act(),
        }
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.meter.check_largest(&*self.inner, range.end)?;
        if let Some(file) = self.file()
            && let Some(sizing) = self.sizing(file)?
        {
            file.check_end(&sizing, range.end)?;
        }
        self.inner.allocate(range)
    }

    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64> {
        self.copy_to(at, to, to_at, len, |to| self.inner.copy_range(at, to, to_at, len))
    }

    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()> {
        self.copy_to(at, to, to_at, len, |to| self.inner.clone_range(at, to, to_at, len))
    }

    fn open_stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<Arc<dyn Node>> {
        let inner = self.inner.open_stream(name, create, exclusive)?;
        let owner = self.stream.as_ref().map_or(&self.inner, |stream| &stream.owner);
        let number = match self.file() {
            Some(file) => OnceLock::from(file.stream(self.whole(), name)?),
            // A new stream is empty, so the count has missed no bytes.
            None => OnceLock::new(),
        };
        let stream = Some(MeteredStream { name: name.clone(), number, owner: Arc::clone(owner) });
        Ok(Arc::new(MeteredNode { file: self.file.clone(), meter: Arc::clone(&self.meter), inner, stream }))
    }

    fn remove_stream(&self, name: &Name) -> Result<()> {
        let act = || self.inner.remove_stream(name);
        let Some(file) = self.file() else { return self.uncounted(act) };
        file.remove_stream_of(self.whole(), name, None, act)
    }

    fn rename_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        let act = || self.inner.rename_stream(from, to, replace);
        let Some(file) = self.file() else { return self.uncounted(act) };
        file.remove_stream_of(self.whole(), from, Some(to), act)
    }

    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>> {
        Ok(self.wrapped(self.inner.lookup(name, how)?))
    }

    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.create_with(name, || self.inner.create_file(name, mode, actor))
    }

    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.create_with(name, || self.inner.create_directory(name, mode, actor))
    }

    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.create_with(name, || self.inner.create_link(name, text, actor))
    }

    fn create_special(
        &self,
        name: &Name,
        kind: NodeKind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>> {
        self.create_with(name, || self.inner.create_special(name, kind, mode, rdev, actor))
    }

    fn add_name(&self, name: &Name, node: &dyn Node, actor: Option<&Actor>) -> Result<()> {
        let _names = self.meter.is_awake().then(|| self.meter.lock_names([(self.id(), name)]));
        self.inner.add_name(name, MeteredNode::unwrap(node), actor)
    }

    fn remove(&self, name: &Name, directory: bool, actor: Option<&Actor>) -> Result<()> {
        let meter = &self.meter;
        if !meter.is_awake() {
            return self.uncounted(|| self.inner.remove(name, directory, actor));
        }
        let _names = self.meter.lock_names([(self.id(), name)]);
        let doomed = self.inner.lookup(name, OpenHow::Attributes)?;
        let _no_move = meter.moving.read();
        let file = meter.enter(doomed.id(), doomed.kind());
        file.remove_name(&*doomed, || self.inner.remove(name, directory, actor))
    }

    fn check_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()> {
        self.uncounted(|| self.inner.check_removal(name, actor))
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
        let meter = &self.meter;
        if !meter.is_awake() {
            return self.uncounted(act);
        }
        let _names = self.meter.lock_names([(self.id(), name), (to.id(), to_name)]);
        let _no_move = meter.moving.read();
        let is_counting = meter.is_counting();
        if !replace && !is_counting {
            return act();
        }
        let moved = self.inner.lookup(name, OpenHow::Attributes)?;
        if is_counting {
            meter.enter(moved.id(), moved.kind()).seen(&*moved)?;
            if moved.kind() == NodeKind::Directory {
                meter.note_moved(&moved);
            }
        }
        if !replace {
            return act();
        }
        let doomed = match to.lookup(to_name, OpenHow::Attributes) {
            Ok(doomed) if doomed.id() != moved.id() => doomed,
            // The host refuses the rename when the target is no directory, and reports the reason.
            Ok(_) | Err(Failure::NotFound | Failure::NotADirectory) => return act(),
            Err(why) => return Err(why),
        };
        let file = meter.enter(doomed.id(), doomed.kind());
        file.remove_name(&*doomed, act)
    }
}
