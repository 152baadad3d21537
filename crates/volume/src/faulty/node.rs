//! A node whose calls go through a plan first.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use super::{FaultPlan, VolumeCall};
use crate::delegate::delegate;
use crate::{
    Actor, DirEntry, Extent, Name, Node, NodeId, NodeKind, Note, OpenHow, Overview, Patience, Result, Stat,
    StreamInfo, Times,
};

/// A node of a [`super::FaultyVolume`].
pub struct FaultyNode {
    inner: Arc<dyn Node>,
    plan: Arc<FaultPlan>,
}

impl FaultyNode {
    pub(super) fn wrap(inner: Arc<dyn Node>, plan: &Arc<FaultPlan>) -> Arc<dyn Node> {
        Arc::new(FaultyNode { inner, plan: Arc::clone(plan) })
    }

    /// The wrapped volume's node. A volume knows only its own nodes.
    pub(super) fn unwrap(node: &dyn Node) -> &dyn Node {
        node.downcast::<FaultyNode>().map_or(node, |faulty| &*faulty.inner)
    }

    fn wrapped(&self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        FaultyNode::wrap(node, &self.plan)
    }
}

impl Drop for FaultyNode {
    fn drop(&mut self) {
        if self.inner.kind() == NodeKind::File && self.inner.how() > OpenHow::Attributes {
            // No caller could receive the failure.
            let _unheard = self.plan.apply(VolumeCall::Release);
        }
    }
}

/// Writes methods that apply the plan and then call the method of the wrapped node.
macro_rules! through_plan {
    ($($call:ident: fn $name:ident(&self $(, $arg:ident: $type:ty)*) -> $out:ty;)+) => {$(
        fn $name(&self $(, $arg: $type)*) -> $out {
            self.plan.apply(VolumeCall::$call)?;
            self.inner.$name($($arg),*)
        }
    )+};
}

impl Node for FaultyNode {
    delegate! {
        |it| it.inner;
        fn id(&self) -> NodeId;
        fn kind(&self) -> NodeKind;
        fn how(&self) -> OpenHow;
        fn is_closed(&self) -> bool;
        fn first_stat(&self) -> Option<Stat>;
    }

    through_plan! {
        Stat: fn stat(&self) -> Result<Stat>;
        Lookup: fn address(&self) -> Result<Vec<u8>>;
        Sync: fn sync(&self, data_only: bool) -> Result<()>;
        Resize: fn set_size(&self, size: u64) -> Result<()>;
        Resize: fn allocate(&self, range: Range<u64>) -> Result<()>;
        Resize: fn punch(&self, range: Range<u64>) -> Result<()>;
        NextData: fn next_data(&self, from: u64) -> Result<Option<Range<u64>>>;
        NextData: fn extents(&self, from: u64, max: usize) -> Result<(Vec<Extent>, bool)>;
        SetAttributes: fn set_times(&self, times: Times) -> Result<()>;
        SetAttributes: fn set_mode(&self, mode: u32) -> Result<()>;
        SetAttributes: fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()>;
        Note: fn note(&self, note: Note) -> Result<Option<Vec<u8>>>;
        Note: fn overview(&self) -> Result<Overview>;
        SetNote: fn set_note(&self, note: Note, value: Option<&[u8]>) -> Result<()>;
        Attributes: fn attributes(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>>;
        SetAttributes: fn set_attribute(&self, name: &[u8], value: Option<&[u8]>) -> Result<()>;
        Streams: fn streams(&self) -> Result<Vec<StreamInfo>>;
        Streams: fn remove_stream(&self, name: &Name) -> Result<()>;
        Streams: fn rename_stream(&self, from: &Name, to: &Name, replace: bool) -> Result<()>;
        Stat: fn stat_name(&self, name: &Name) -> Result<Stat>;
        Remove: fn remove(&self, name: &Name, directory: bool, actor: Option<&Actor>) -> Result<()>;
        CheckRemoval: fn check_removal(&self, name: &Name, actor: Option<&Actor>) -> Result<()>;
        Lookup: fn link_text(&self) -> Result<Vec<u8>>;
        Entries: fn entries(
            &self, cookie: u64, visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>
        ) -> Result<()>;
    }

    fn open_again(&self, how: OpenHow) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::OpenAgain)?;
        Ok(self.wrapped(self.inner.open_again(how)?))
    }

    fn parent_and_name(&self) -> Result<Option<(Arc<dyn Node>, Name)>> {
        self.plan.apply(VolumeCall::Lookup)?;
        Ok(self.inner.parent_and_name()?.map(|(above, name)| (self.wrapped(above), name)))
    }

    fn read(&self, at: u64, len: usize, out: &mut Vec<u8>, patience: Patience) -> Result<usize> {
        self.plan.apply(match patience {
            Patience::Cached => VolumeCall::ReadCached,
            Patience::Block => VolumeCall::Read,
        })?;
        self.inner.read(at, len, out, patience)
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        if let Some(failure) = self.plan.apply_before_half(VolumeCall::Write)? {
            self.inner.write(at, &data[..data.len() / 2])?;
            return Err(failure);
        }
        self.inner.write(at, data)
    }

    fn copy_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<u64> {
        self.plan.apply(VolumeCall::Copy)?;
        self.inner.copy_range(at, FaultyNode::unwrap(to), to_at, len)
    }

    fn clone_range(&self, at: u64, to: &dyn Node, to_at: u64, len: u64) -> Result<()> {
        self.plan.apply(VolumeCall::Copy)?;
        self.inner.clone_range(at, FaultyNode::unwrap(to), to_at, len)
    }

    fn open_stream(&self, name: &Name, create: bool, exclusive: bool) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Streams)?;
        Ok(self.wrapped(self.inner.open_stream(name, create, exclusive)?))
    }

    fn lookup(&self, name: &Name, how: OpenHow) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Lookup)?;
        Ok(self.wrapped(self.inner.lookup(name, how)?))
    }

    fn create_file(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Create)?;
        Ok(self.wrapped(self.inner.create_file(name, mode, actor)?))
    }

    fn create_directory(&self, name: &Name, mode: u32, actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Create)?;
        Ok(self.wrapped(self.inner.create_directory(name, mode, actor)?))
    }

    fn create_link(&self, name: &Name, text: &[u8], actor: Option<&Actor>) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Create)?;
        Ok(self.wrapped(self.inner.create_link(name, text, actor)?))
    }

    fn create_special(
        &self,
        name: &Name,
        kind: NodeKind,
        mode: u32,
        rdev: u64,
        actor: Option<&Actor>,
    ) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Create)?;
        Ok(self.wrapped(self.inner.create_special(name, kind, mode, rdev, actor)?))
    }

    fn add_name(&self, name: &Name, node: &dyn Node, actor: Option<&Actor>) -> Result<()> {
        self.plan.apply(VolumeCall::Create)?;
        self.inner.add_name(name, FaultyNode::unwrap(node), actor)
    }

    fn rename(
        &self,
        name: &Name,
        to: &dyn Node,
        to_name: &Name,
        replace: bool,
        actor: Option<&Actor>,
    ) -> Result<()> {
        self.plan.apply(VolumeCall::Rename)?;
        self.inner.rename(name, FaultyNode::unwrap(to), to_name, replace, actor)
    }
}
