//! Wraps any volume and makes calls fail, or wait, by a plan.
//!
//! Start with [`FaultyVolume::new`] and [`FaultPlan::add`]. Calls of each kind are counted from 1. At the
//! n-th call the planned fault happens: a failure replaces the call, a wait precedes it. Nothing here
//! sleeps: a held call continues when the test releases it. With [`FaultPlan::slow_down`] calls about
//! names and attributes take time, like those of a distant store.

mod node;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::delegate::delegate;
use crate::{Failure, HostEvent, Node, NodeId, Result, Space, Volume, VolumeProperties};

pub use node::FaultyNode;

/// The kinds of calls that a plan can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VolumeCall {
    /// [`Volume::root`].
    Root,
    /// [`Volume::space`].
    Space,
    /// [`Volume::watch`].
    Watch,
    /// [`Node::open_again`].
    OpenAgain,
    /// [`Node::stat`] and [`Node::stat_name`].
    Stat,
    /// [`Node::read`] with [`crate::Patience::Cached`].
    ReadCached,
    /// [`Node::read`] with [`crate::Patience::Block`].
    Read,
    /// [`Node::write`].
    Write,
    /// [`Node::sync`].
    Sync,
    /// [`Node::set_size`], [`Node::allocate`] and [`Node::punch`].
    Resize,
    /// [`Node::next_data`].
    NextData,
    /// [`Node::copy_range`] and [`Node::clone_range`].
    Copy,
    /// [`Node::set_times`], [`Node::set_mode`], [`Node::set_owner`] and [`Node::set_attribute`].
    SetAttributes,
    /// [`Node::attributes`].
    Attributes,
    /// [`Node::note`].
    Note,
    /// [`Node::set_note`].
    SetNote,
    /// [`Node::streams`] and all other calls about streams.
    Streams,
    /// [`Node::lookup`], [`Node::link_text`], [`Volume::find`], [`Node::address`] and
    /// [`Node::parent_and_name`].
    Lookup,
    /// [`Node::create_file`], [`Node::create_directory`], [`Node::create_link`], [`Node::create_special`] and
    /// [`Node::add_name`].
    Create,
    /// [`Node::remove`].
    Remove,
    /// [`Node::check_removal`].
    CheckRemoval,
    /// [`Node::rename`].
    Rename,
    /// [`Node::entries`].
    Entries,
    /// The release of a node that was opened for its data. This cannot fail.
    Release,
}

impl VolumeCall {
    /// Whether the call works on names and attributes rather than on data.
    fn is_about_metadata(self) -> bool {
        !matches!(
            self,
            VolumeCall::Watch
                | VolumeCall::ReadCached
                | VolumeCall::Read
                | VolumeCall::Write
                | VolumeCall::Sync
                | VolumeCall::NextData
                | VolumeCall::Copy
        )
    }
}

/// The planned effect on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlannedFault {
    /// The call fails and does nothing.
    Fail(Failure),
    /// A write fails half done. Any other call fails and does nothing.
    Half(Failure),
    /// The call waits for [`FaultPlan::release`] and then runs.
    Hold,
    /// The call runs and is recorded as having taken this long. Nothing waits; a test that keeps the time
    /// reads it with [`FaultPlan::met`].
    Slow(Duration),
}

/// The calls that fail or wait.
#[derive(Debug, Default)]
pub struct FaultPlan {
    state: Mutex<FaultPlanState>,
    moved: Condvar,
    slowness: Slowness,
    is_short: AtomicBool,
}

/// A wait before each call about names or attributes.
#[derive(Default)]
struct Slowness(OnceLock<Box<dyn Fn() + Send + Sync>>);

impl std::fmt::Debug for Slowness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Slowness").field(&self.0.get().is_some()).finish()
    }
}

#[derive(Debug, Default)]
struct FaultPlanState {
    counts: HashMap<VolumeCall, u64>,
    once: HashMap<(VolumeCall, u64), PlannedFault>,
    always: HashMap<VolumeCall, Failure>,
    held: usize,
    released: u64,
    met: Vec<(VolumeCall, PlannedFault)>,
}

impl FaultPlan {
    /// Sets the result of [`Volume::is_short`].
    pub fn set_short(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// The `n`-th call of this kind from now on, counted from 1, meets `fault`.
    pub fn add(&self, call: VolumeCall, n: u64, fault: PlannedFault) {
        let mut state = self.state.lock();
        let at = state.counts.get(&call).copied().unwrap_or(0) + n;
        state.once.insert((call, at), fault);
    }

    /// Every call of this kind fails from now on. `None` ends this.
    pub fn always(&self, call: VolumeCall, failure: Option<Failure>) {
        let mut state = self.state.lock();
        match failure {
            Some(failure) => state.always.insert(call, failure),
            None => state.always.remove(&call),
        };
    }

    /// The faults that calls have met since the last call of this function, in their order.
    #[must_use]
    pub fn met(&self) -> Vec<(VolumeCall, PlannedFault)> {
        std::mem::take(&mut self.state.lock().met)
    }

    /// Removes the faults of [`FaultPlan::add`] that no call has met. The faults of [`FaultPlan::always`]
    /// stay.
    pub fn forget(&self) {
        self.state.lock().once.clear();
    }

    /// Makes every call about names and attributes wait before it runs. This stays so, and only the first
    /// wait that is set counts.
    pub fn slow_down(&self, wait: impl Fn() + Send + Sync + 'static) {
        let _ = self.slowness.0.set(Box::new(wait));
    }

    /// The number of calls about names and attributes so far.
    #[must_use]
    pub fn metadata_calls(&self) -> u64 {
        let state = self.state.lock();
        state.counts.iter().filter(|(call, _)| call.is_about_metadata()).map(|(_, count)| count).sum()
    }

    /// The number of calls of this kind so far.
    #[must_use]
    pub fn count(&self, call: VolumeCall) -> u64 {
        self.state.lock().counts.get(&call).copied().unwrap_or(0)
    }

    /// Waits until `count` calls are held, for at most this long. True when they are.
    pub fn wait_held(&self, count: usize, at_most: Duration) -> bool {
        let mut state = self.state.lock();
        self.moved.wait_while_for(&mut state, |s| s.held < count, at_most);
        state.held >= count
    }

    /// Continues all calls that are held now.
    pub fn release(&self) {
        let mut state = self.state.lock();
        state.released += 1;
        state.held = 0;
        self.moved.notify_all();
    }

    /// Counts a call and applies the planned fault to it.
    fn apply(&self, call: VolumeCall) -> Result<()> {
        self.apply_before_half(call)?.map_or(Ok(()), Err)
    }

    /// Like `apply`, but returns the failure that is due after half of a write.
    fn apply_before_half(&self, call: VolumeCall) -> Result<Option<Failure>> {
        if let Some(wait) = self.slowness.0.get().filter(|_| call.is_about_metadata()) {
            wait();
        }
        let mut state = self.state.lock();
        let count = state.counts.entry(call).or_default();
        *count += 1;
        let at = *count;
        let once = state.once.remove(&(call, at));
        state.met.extend(once.map(|fault| (call, fault)));
        match once {
            Some(PlannedFault::Fail(failure)) => return Err(failure),
            Some(PlannedFault::Half(failure)) => return Ok(Some(failure)),
            Some(PlannedFault::Hold) => {
                state.held += 1;
                let until = state.released;
                self.moved.notify_all();
                self.moved.wait_while(&mut state, |s| s.released == until);
            }
            Some(PlannedFault::Slow(_)) | None => {}
        }
        let Some(&failure) = state.always.get(&call) else { return Ok(None) };
        if failure != Failure::WouldBlock {
            state.met.push((call, PlannedFault::Fail(failure)));
        }
        Err(failure)
    }
}

/// A volume whose calls go through a plan first.
pub struct FaultyVolume {
    inner: Arc<dyn Volume>,
    plan: Arc<FaultPlan>,
}

impl FaultyVolume {
    /// Wraps a volume. With an empty plan it behaves like the volume itself.
    #[must_use]
    pub fn new(inner: Arc<dyn Volume>) -> FaultyVolume {
        FaultyVolume { inner, plan: Arc::default() }
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Arc<FaultPlan> {
        &self.plan
    }
}

impl Volume for FaultyVolume {
    delegate! {
        |it| it.inner;
        fn properties(&self) -> &VolumeProperties;
        fn release_unused(&self);
        fn unwatch(&self, directory: NodeId);
        fn take_events(&self, sink: &mut dyn FnMut(HostEvent));
        fn wait_events(&self, at_most: Duration) -> bool;
    }

    fn root(&self) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Root)?;
        Ok(FaultyNode::wrap(self.inner.root()?, &self.plan))
    }

    fn find(&self, address: &[u8]) -> Result<Arc<dyn Node>> {
        self.plan.apply(VolumeCall::Lookup)?;
        Ok(FaultyNode::wrap(self.inner.find(address)?, &self.plan))
    }

    fn is_short(&self) -> bool {
        self.plan.is_short.load(Ordering::Relaxed) || self.inner.is_short()
    }

    fn space(&self) -> Result<Space> {
        self.plan.apply(VolumeCall::Space)?;
        self.inner.space()
    }

    fn space_at(&self, node: &dyn Node) -> Result<Space> {
        self.plan.apply(VolumeCall::Space)?;
        self.inner.space_at(FaultyNode::unwrap(node))
    }

    fn watch(&self, directory: &dyn Node) -> Result<()> {
        self.plan.apply(VolumeCall::Watch)?;
        self.inner.watch(FaultyNode::unwrap(directory))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::memory::MemoryVolume;
    use crate::{Name, Patience};

    fn faulty() -> FaultyVolume {
        FaultyVolume::new(Arc::new(MemoryVolume::new(1)))
    }

    #[test]
    fn the_nth_call_fails_and_only_that() {
        let volume = faulty();
        let name = Name::new(b"a").unwrap();
        let file = volume.root().unwrap().create_file(&name, 0o600, None).unwrap();
        volume.plan().add(VolumeCall::Write, 2, PlannedFault::Fail(Failure::NoSpace));
        assert_eq!(file.write(0, b"one"), Ok(()));
        assert_eq!(file.write(0, b"two"), Err(Failure::NoSpace));
        assert_eq!(file.write(3, b"three"), Ok(()));
        let mut out = Vec::new();
        volume.plan().add(VolumeCall::ReadCached, 1, PlannedFault::Fail(Failure::WouldBlock));
        assert_eq!(file.read(0, 9, &mut out, Patience::Cached), Err(Failure::WouldBlock));
        assert_eq!(file.read(0, 9, &mut out, Patience::Block), Ok(8));
        assert_eq!(out, b"onethree");
        assert_eq!(volume.plan().count(VolumeCall::Write), 3);
    }

    #[test]
    fn always_until_told_otherwise() {
        let volume = faulty();
        volume.plan().always(VolumeCall::Space, Some(Failure::Io));
        assert_eq!(volume.space(), Err(Failure::Io));
        assert_eq!(volume.space(), Err(Failure::Io));
        assert_eq!(volume.plan().met().len(), 2);
        volume.plan().always(VolumeCall::Space, None);
        assert!(volume.space().is_ok());
    }

    #[test]
    fn what_was_met_is_told_once_and_what_was_not_can_be_forgotten() {
        let volume = faulty();
        let plan = volume.plan();
        let slow = PlannedFault::Slow(Duration::from_secs(3));
        plan.add(VolumeCall::Space, 1, slow);
        plan.add(VolumeCall::Space, 2, PlannedFault::Fail(Failure::Io));
        plan.add(VolumeCall::Root, 1, PlannedFault::Fail(Failure::Io));
        assert!(volume.space().is_ok());
        assert_eq!(volume.space(), Err(Failure::Io));
        assert_eq!(
            plan.met(),
            [(VolumeCall::Space, slow), (VolumeCall::Space, PlannedFault::Fail(Failure::Io))]
        );
        assert_eq!(plan.met(), []);
        plan.forget();
        assert!(volume.root().is_ok());
    }

    #[test]
    fn calls_about_names_and_attributes_wait_and_those_about_data_do_not() {
        let volume = faulty();
        let name = Name::new(b"a").unwrap();
        let root = volume.root().unwrap();
        drop(root.create_file(&name, 0o600, None).unwrap());
        assert_eq!((volume.plan().count(VolumeCall::Release), volume.plan().metadata_calls()), (1, 3));
        let waits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&waits);
        volume.plan().slow_down(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let file = root.lookup(&name, crate::OpenHow::ReadWrite).unwrap();
        file.stat().unwrap();
        file.write(0, b"x").unwrap();
        file.sync(true).unwrap();
        assert_eq!((waits.load(Ordering::Relaxed), volume.plan().metadata_calls()), (2, 5));
    }

    #[test]
    fn a_held_call_goes_on_when_released() {
        let volume = Arc::new(faulty());
        volume.plan().add(VolumeCall::Space, 1, PlannedFault::Hold);
        let waiting = {
            let volume = Arc::clone(&volume);
            std::thread::spawn(move || volume.space())
        };
        assert!(volume.plan().wait_held(1, Duration::from_secs(20)));
        assert!(!waiting.is_finished());
        volume.plan().release();
        assert!(waiting.join().unwrap().is_ok());
    }
}
