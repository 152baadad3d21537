//! A node whose calls meet a plan first.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::{Call, Plan};
use crate::{
    Actor, DirEntry, Extent, Kind, Name, Node, NodeId, Note, OpenHow, Overview, Patience, Result, Stat,
    StreamInfo, Times,
};

/// A node of a [`super::FaultyVolume`].
pub struct FaultyNode {
    inner: Arc<dyn Node>,
    plan: Arc<Plan>,
}

impl FaultyNode {
    pub(super) fn wrap(inner: Arc<dyn Node>, plan: &Arc<Plan>) -> Arc<dyn Node> {
        Arc::new(FaultyNode { inner, plan: Arc::clone(plan) })
    }

    /// The node of the volume that is wrapped, which knows its own nodes only.
    pub(super) fn unwrap(node: &dyn Node) -> &dyn Node {
        node.downcast::<FaultyNode>().map_or(node, |faulty| &*faulty.inner)
    }

    fn wrapped(&self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        FaultyNode::wrap(node, &self.plan)
    }
}

impl Drop for FaultyNode {
    fn drop(&mut self) {
        if self.inner.kind() == Kind::File && self.inner.how() > OpenHow::Attributes {
            // What it would fail with has nobody to hear of it.
            let _unheard = self.plan.meet(Call::GiveBack);
        }
    }
}

impl Node for FaultyNode {
    fn id(&self) -> NodeId {
        self.inner.id()
    }

    fn kind(&self) -> Kind {
        self.inner.kind()
    }

    fn how(&self) -> OpenHow {
        self.inner.how()
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>> {
        self.plan.meet(Call::OpenAgain)?;
        Ok(self.wrapped(self.inner.open_again(how)?))
    }

    fn stat(&self) -> Result<Stat> {
        self.plan.meet(Call::Stat)?;
        self.inner.stat()
    }

    fn first_stat(&self) -> Option<Stat> {
        self.inner.first_stat()
    }

    fn address(&self) -> Result<Vec<u8>> {
        self.plan.meet(Call::Lookup)?;
        self.inner.address()
    }

    fn place(&self) -> Result<Option<(Arc<dyn Node>, Name)>> {
        self.plan.meet(Call::Lookup)?;
        Ok(self.inner.place()?.map(|(above, name)| (self.wrapped(above), name)))
    }

    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, patience: Patience) -> Result<usize> {
        self.plan.meet(match patience {
            Patience::Cached => Call::ReadCached,
            Patience::Block => Call::Read,
        })?;
        self.inner.read(at, len, out, patience)
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        if let Some(failure) = self.plan.meet_halfway(Call::Write)? {
            self.inner.write(at, &data[..data.len() / 2])?;
            return Err(failure);
        }
        self.inner.write(at, data)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        self.plan.meet(Call::Sync)?;
        self.inner.sync(data_only)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.plan.meet(Call::Resize)?;
        self.inner.set_size(size)
    }

    fn allocate(&self, range: Range<u64>) -> Result<()> {
        self.plan.meet(Call::Resize)?;
        self.inner.allocate(range)
    }

    fn punch(&self, range: Range<u64>) -> Result<()> {
        self.plan.meet(Call::Resize)?;
        self.inner.punch(range)
    }

    fn next_data(&self, from: u64) -> Result<Option<Range<u64>>> {
        self.plan.meet(Call::NextData)?;
        self.inner.next_data(from)
    }

    fn extents(&self, from: u64, max: usize) -> Result<(Vec<Extent>, bool)> {
        self.plan.meet(Call::NextData)?;
        self.inner.extents(from, max)
    }

    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64> {
        self.plan.meet(Call::Copy)?;
        self.inner.copy_range(at, FaultyNode::unwrap(to), to_at, len)
    }

    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()> {
        self.plan.meet(Call::Copy)?;
        self.inner.clone_range(at, FaultyNode::unwrap(to), to_at, len)
    }

    fn set_times(&self, times: Times) -> Result<()> {
        self.plan.meet(Call::SetAttributes)?;
        self.inner.set_times(times)
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        self.plan.meet(Call::SetAttributes)?;
        self.inner.set_mode(mode)
    }

    fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        self.plan.meet(Call::SetAttributes)?;
        self.inner.set_owner(uid, gid)
    }

    fn note(&self, note: Note) -> Result<Option<Vec<u8>>> {
        self.plan.meet(Call::Note)?;
        self.inner.note(note)
    }

    fn overview(&self) -> Result<Overview> {
        self.plan.meet(Call::Note)?;
        self.inner.overview()
    }

    fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()> {
        self.plan.meet(Call::SetNote)?;
        self.inner.set_note(note, value)
    }

    fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.plan.meet(Call::Attributes)?;
        self.inner.attributes()
    }

    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.plan.meet(Call::SetAttributes)?;
        self.inner.set_attribute(name, value)
    }

    fn streams(&self) -> Result<Vec<StreamInfo>> {
        self.plan.meet(Call::Streams)?;
        self.inner.streams()
    }

    fn open_stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<Arc<dyn Node>> {
        self.plan.meet(Call::Streams)?;
        Ok(self.wrapped(self.inner.open_stream(name, create, exclusive)?))
    }

    fn remove_stream(&self, name: &Name) -> Result<()> {
        self.plan.meet(Call::Streams)?;
        self.inner.remove_stream(name)
    }

    fn rename_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()> {
        self.plan.meet(Call::Streams)?;
        self.inner.rename_stream(from, to, replace)
    }

    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>> {
        self.plan.meet(Call::Lookup)?;
        Ok(self.wrapped(self.inner.lookup(name, how)?))
    }

    fn stat_name(&self, name: &Name) -> Result<Stat> {
        self.plan.meet(Call::Stat)?;
        self.inner.stat_name(name)
    }

    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.plan.meet(Call::Create)?;
        Ok(self.wrapped(self.inner.create_file(name, mode, actor)?))
    }

    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.plan.meet(Call::Create)?;
        Ok(self.wrapped(self.inner.create_directory(name, mode, actor)?))
    }

    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.plan.meet(Call::Create)?;
        Ok(self.wrapped(self.inner.create_link(name, text, actor)?))
    }

    fn create_special(
        &self,
        name: &Name,
        kind: Kind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>> {
        self.plan.meet(Call::Create)?;
        Ok(self.wrapped(self.inner.create_special(name, kind, mode, rdev, actor)?))
    }

    fn add_name(&self, name: &Name, node: &dyn Node, actor: Option<&Actor>) -> Result<()> {
        self.plan.meet(Call::Create)?;
        self.inner.add_name(name, FaultyNode::unwrap(node), actor)
    }

    fn remove(&self, name: &Name, directory: bool, actor: Option<&Actor>) -> Result<()> {
        self.plan.meet(Call::Remove)?;
        self.inner.remove(name, directory, actor)
    }

    fn check_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()> {
        self.plan.meet(Call::CheckRemoval)?;
        self.inner.check_removal(name, actor)
    }

    fn rename(
        &self,
        name: &Name,
        to: &dyn Node,
        to_name: &Name,
        replace: bool,
        actor: Option<&Actor>,
    ) -> Result<()> {
        self.plan.meet(Call::Rename)?;
        self.inner.rename(name, FaultyNode::unwrap(to), to_name, replace, actor)
    }

    fn link_text(&self) -> Result<Vec<u8>> {
        self.plan.meet(Call::Lookup)?;
        self.inner.link_text()
    }

    fn entries(&self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>) -> Result<()> {
        self.plan.meet(Call::Entries)?;
        self.inner.entries(cookie, visit)
    }
}
