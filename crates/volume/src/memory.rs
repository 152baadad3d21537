//! A volume without a disk. It is the reference for other volumes, and the volume that most tests use.
//!
//! Start with [`MemoryVolume::new`]. It has no clock: each change is one nanosecond later than the one
//! before, unless the test sets the time. Changes of names hold one lock of the volume, and each node's
//! state has its own lock. No thread holds two of the latter at once.

mod node;
mod sparse;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::{
    Failure, HostChange, HostEvent, Name, Node, NodeId, NodeKind, Note, OpenHow, Result, Space, Stat, Time,
    Volume, VolumeProperties,
};

pub use node::MemoryNode;
use sparse::Sparse;

/// A volume that lives in memory.
#[derive(Debug, Clone)]
pub struct MemoryVolume {
    inner: Arc<MemoryFileSystem>,
}

#[derive(Debug)]
struct MemoryFileSystem {
    properties: VolumeProperties,
    device: u64,
    root: Arc<Inode>,
    next_inode: AtomicU64,
    /// The time of the next change, in nanoseconds since 1970.
    clock: AtomicU64,
    /// Every inode that exists, by its number.
    inodes: Mutex<HashMap<u64, Weak<Inode>>>,
    /// Held while names are looked up and changed.
    names: Mutex<()>,
    events: Mutex<Events>,
    told: Condvar,
}

#[derive(Debug, Default)]
struct Events {
    queue: VecDeque<HostEvent>,
    watched: HashMap<NodeId, usize>,
}

/// A file, directory or link.
#[derive(Debug)]
struct Inode {
    number: u64,
    kind: NodeKind,
    /// The number of a device node.
    rdev: u64,
    born: Time,
    state: Mutex<InodeState>,
}

#[derive(Debug)]
struct InodeState {
    links: u32,
    mode: u32,
    uid: u32,
    gid: u32,
    accessed: Time,
    modified: Time,
    changed: Time,
    data: Sparse,
    link_text: Vec<u8>,
    names: Directory,
    notes: HashMap<Note, Vec<u8>>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    streams: BTreeMap<Name, Arc<Mutex<Sparse>>>,
}

/// The names of a directory. An entry keeps its cookie as long as it exists, and no cookie is used twice.
#[derive(Debug, Default)]
struct Directory {
    by_name: HashMap<Name, (u64, Arc<Inode>)>,
    by_cookie: BTreeMap<u64, Name>,
    last_cookie: u64,
    /// The parent directory. It prevents a directory from being moved below itself.
    parent: Weak<Inode>,
}

impl Directory {
    fn insert(&mut self, name: Name, inode: Arc<Inode>) {
        // The cookies of `.` and `..` are 1 and 2.
        self.last_cookie = self.last_cookie.max(2) + 1;
        self.by_cookie.insert(self.last_cookie, name.clone());
        self.by_name.insert(name, (self.last_cookie, inode));
    }

    fn remove(&mut self, name: &Name) -> Option<Arc<Inode>> {
        let (cookie, inode) = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie);
        Some(inode)
    }
}

impl MemoryVolume {
    /// An empty volume whose root belongs to the host's user 0. The `serial` distinguishes it from other
    /// volumes.
    #[must_use]
    pub fn new(serial: u64) -> MemoryVolume {
        let born = Time { secs: 1_000_000_000, nanos: 0 };
        let properties = VolumeProperties {
            file_system: "memory".to_owned(),
            serial,
            born,
            name_max: 255,
            folds_case: false,
            clones: true,
            discards: false,
            extended_attributes: true,
            read_only: false,
            tells_changes: true,
        };
        let root = Arc::new(Inode::new(2, NodeKind::Directory, 0, 0o755, born));
        root.state.lock().links = 2;
        let clock = AtomicU64::new(1_000_000_000_000_000_000);
        MemoryVolume {
            inner: Arc::new(MemoryFileSystem {
                properties,
                device: serial,
                root,
                next_inode: AtomicU64::new(3),
                inodes: Mutex::default(),
                clock,
                names: Mutex::default(),
                events: Mutex::default(),
                told: Condvar::new(),
            }),
        }
    }

    /// Sets the clock. The next change happens at `time`, and each later one a nanosecond after the one
    /// before.
    pub fn set_clock(&self, time: Time) {
        let ns = u64::try_from(time.secs).unwrap_or(0).saturating_mul(1_000_000_000) + u64::from(time.nanos);
        self.inner.clock.store(ns, Ordering::Relaxed);
    }

    /// Reports an event as if a program on the host had changed something. Like a host, it reports
    /// nothing about a directory that is not watched.
    pub fn tell(&self, event: HostEvent) {
        let mut events = self.inner.events.lock();
        let is_watched = |directory: NodeId| events.watched.contains_key(&directory);
        let half = |(directory, name), is_directory, change| {
            Some(HostEvent::Changed { directory, name: Some(name), is_directory, change })
        };
        let heard = match event {
            HostEvent::Changed { directory, .. } => is_watched(directory).then_some(event),
            HostEvent::Renamed { from, to, is_directory } => match (is_watched(from.0), is_watched(to.0)) {
                (true, true) => Some(HostEvent::Renamed { from, to, is_directory }),
                (true, false) => half(from, is_directory, HostChange::RenamedFrom),
                (false, true) => half(to, is_directory, HostChange::RenamedTo),
                (false, false) => None,
            },
            HostEvent::NodeChanged { .. } | HostEvent::Overflow | HostEvent::Mounts => Some(event),
        };
        if let Some(event) = heard {
            events.queue.push_back(event);
            self.inner.told.notify_all();
        }
    }
}

impl MemoryFileSystem {
    /// The time of a change that happens now.
    fn tick(&self) -> Time {
        let ns = self.clock.fetch_add(1, Ordering::Relaxed);
        Time::from_wall_ns(i64::try_from(ns).unwrap_or(i64::MAX))
    }

    fn id(&self, inode: &Inode) -> NodeId {
        NodeId { device: self.device, inode: inode.number }
    }

    /// Registers a new inode under its number.
    fn enter(&self, inode: &Arc<Inode>) {
        let mut inodes = self.inodes.lock();
        if inodes.len().is_power_of_two() {
            inodes.retain(|_, inode| inode.strong_count() > 0);
        }
        inodes.insert(inode.number, Arc::downgrade(inode));
    }

    fn open(self: &Arc<Self>, inode: &Arc<Inode>, how: OpenHow) -> MemoryNode {
        MemoryNode::open(Arc::clone(self), Arc::clone(inode), how)
    }
}

impl Inode {
    fn new(number: u64, kind: NodeKind, rdev: u64, mode: u32, born: Time) -> Inode {
        let state = InodeState {
            links: 1,
            mode: mode & 0o7777,
            uid: 0,
            gid: 0,
            accessed: born,
            modified: born,
            changed: born,
            data: Sparse::default(),
            link_text: Vec::new(),
            names: Directory::default(),
            notes: HashMap::new(),
            attributes: BTreeMap::new(),
            streams: BTreeMap::new(),
        };
        Inode { number, kind, rdev, born, state: Mutex::new(state) }
    }

    fn stat(&self, device: u64) -> Stat {
        let state = self.state.lock();
        let size = match self.kind {
            NodeKind::Link => state.link_text.len() as u64,
            _ => state.data.size(),
        };
        Stat {
            id: NodeId { device, inode: self.number },
            file_system: 0,
            kind: self.kind,
            size,
            allocated: state.data.allocated(),
            links: state.links,
            mode: state.mode,
            uid: state.uid,
            gid: state.gid,
            rdev: self.rdev,
            accessed: state.accessed,
            modified: state.modified,
            changed: state.changed,
            born: Some(self.born),
            fixed: false,
        }
    }
}

impl Volume for MemoryVolume {
    fn properties(&self) -> &VolumeProperties {
        &self.inner.properties
    }

    fn root(&self) -> Result<Arc<dyn Node>> {
        Ok(Arc::new(self.inner.open(&self.inner.root, OpenHow::Read)))
    }

    fn find(&self, address: &[u8]) -> Result<Arc<dyn Node>> {
        let number = address.try_into().map(u64::from_le_bytes).map_err(|_| Failure::Stale)?;
        let root = &self.inner.root;
        let found = if number == root.number {
            Some(Arc::clone(root))
        } else {
            self.inner.inodes.lock().get(&number).and_then(Weak::upgrade)
        };
        let inode = found.filter(|inode| inode.state.lock().links > 0).ok_or(Failure::Stale)?;
        let how = if inode.kind == NodeKind::Directory { OpenHow::Read } else { OpenHow::Attributes };
        Ok(Arc::new(self.inner.open(&inode, how)))
    }

    fn space(&self) -> Result<Space> {
        Ok(Space {
            total: 1 << 40,
            free: 1 << 39,
            available: 1 << 39,
            block: sparse::BLOCK as u32,
            files: 0,
            files_free: 0,
        })
    }

    fn watch(&self, directory: &dyn Node) -> Result<()> {
        if directory.kind() != NodeKind::Directory {
            return Err(Failure::NotADirectory);
        }
        *self.inner.events.lock().watched.entry(directory.id()).or_default() += 1;
        Ok(())
    }

    fn unwatch(&self, directory: NodeId) {
        let mut events = self.inner.events.lock();
        if let Some(count) = events.watched.get_mut(&directory) {
            *count -= 1;
            if *count == 0 {
                events.watched.remove(&directory);
            }
        }
    }

    fn take_events(&self, sink: &mut dyn FnMut(HostEvent)) {
        let taken = std::mem::take(&mut self.inner.events.lock().queue);
        taken.into_iter().for_each(sink);
    }

    fn wait_events(&self, at_most: Duration) -> bool {
        let mut events = self.inner.events.lock();
        if events.queue.is_empty() {
            self.inner.told.wait_for(&mut events, at_most);
        }
        !events.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostChange;

    #[test]
    fn only_watched_directories_are_told_of() {
        let volume = MemoryVolume::new(1);
        let root = volume.root().unwrap();
        let event = HostEvent::Changed {
            directory: root.id(),
            name: None,
            is_directory: true,
            change: HostChange::Attributes,
        };
        let taken = || {
            let mut seen = Vec::new();
            volume.take_events(&mut |e| seen.push(e));
            seen
        };
        volume.tell(event.clone());
        assert_eq!(taken(), []);
        volume.watch(&*root).unwrap();
        volume.watch(&*root).unwrap();
        volume.unwatch(root.id());
        volume.tell(event.clone());
        assert!(volume.wait_events(Duration::ZERO));
        assert_eq!(taken().as_slice(), std::slice::from_ref(&event));
        assert!(!volume.wait_events(Duration::ZERO));
        volume.unwatch(root.id());
        volume.tell(event);
        assert_eq!(taken(), []);
        volume.tell(HostEvent::Overflow);
        assert_eq!(taken(), [HostEvent::Overflow]);
    }

    #[test]
    fn time_is_what_the_test_says() {
        let volume = MemoryVolume::new(1);
        volume.set_clock(Time { secs: 5, nanos: 7 });
        let root = volume.root().unwrap();
        let file = root.create_file(&Name::new(b"a").unwrap(), 0o600, None).unwrap();
        let stat = file.stat().unwrap();
        assert_eq!(stat.born, Some(Time { secs: 5, nanos: 7 }));
        file.write(0, b"x").unwrap();
        assert!(file.stat().unwrap().modified > stat.modified);
    }
}
