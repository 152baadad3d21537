//! Changes by others on the host, from fanotify. An event names the process, so the changes of this
//! process are left out.
//!
//! Each watched directory has a mark of its own, even for a privileged process. A mark on the whole file
//! system would deliver every write on the host, and would not cover other file systems that are mounted
//! below the volume. An event names its directory by a handle. A table leads from there to the node.
//!
//! All volumes share one group of the kernel, so an event goes three steps:
//!
//! - `group` has the marks and the queue, and delivers each event to the volumes that watch its directory.
//!   `groups` says which group a volume uses, and `reader` empties the queues as events come.
//! - `inbox` has the events of one volume until the volume takes them.
//! - [`Events`] translates them. `raw` has their layout, `rename_halves` joins renames, `changed_nodes` finds
//!   changed files by their handles, and `missing` says why a volume has no events.

mod changed_nodes;
mod group;
mod groups;
mod inbox;
mod missing;
mod raw;
mod reader;
mod rename_halves;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use volume::{Failure, HostChange, HostEvent, NodeId, Result};
use wire::Shrink;

use self::changed_nodes::ChangedNodes;
use self::group::EventGroup;
use self::groups::GroupScope;
use self::inbox::{EventInbox, WaitingEvents};
pub use self::missing::MissingEvents;
use self::raw::{EventHeader, Fid, FidAndName, RawEvent};
use self::rename_halves::{PendingRename, RenameHalf};
use crate::errno::{call, failure};
use crate::node::PosixNode;
use crate::open::open_below;
use crate::properties;

/// The longest wait for the second half of a rename, if the host reports renames in two halves.
const SECOND_HALF: Duration = Duration::from_millis(1);

/// The directories of a volume that are watched, and their events.
pub(crate) struct Events {
    group: Arc<EventGroup>,
    scope: GroupScope,
    /// The device of the root.
    device: u64,
    inbox: Arc<EventInbox>,
    watched: Mutex<WatchTables>,
    /// The number of watched directories. If it is zero, there is nothing to take.
    count: AtomicUsize,
    /// One thread at a time takes events, so that their order is kept.
    taking: Mutex<Taking>,
}

/// The state of the thread that takes events.
#[derive(Default)]
struct Taking {
    halves: PendingRename,
    nodes: ChangedNodes,
}

struct WatchedDirectory {
    /// How many times the directory is watched.
    count: usize,
    fid: Fid,
    /// The descriptor through which the mark is removed.
    directory: OwnedFd,
}

#[derive(Default)]
struct WatchTables {
    by_node: HashMap<NodeId, WatchedDirectory>,
    by_fid: HashMap<Fid, NodeId>,
}

impl Events {
    /// Reports changes below this root directory, if the host does.
    pub(crate) fn start(root: BorrowedFd<'_>, id: NodeId) -> std::result::Result<Events, MissingEvents> {
        let kind = properties::file_system_name(root).unwrap_or("unknown");
        // Its events are not complete, and a mark on it may wait for another host.
        if properties::is_far_kind(kind) {
            return Err(MissingEvents::FileSystem(kind));
        }
        let fid = Fid::of(root).map_err(|errno| MissingEvents::of_mark(errno, kind))?;
        let start = |scope| {
            let group = groups::open(scope).map_err(MissingEvents::of_group)?;
            Ok(Events::start_in(group, scope, root, (id, &fid)))
        };
        let mut started = start(GroupScope::of(id.device, kind, fid.file_system))?;
        if started.as_ref().is_err_and(|errno| *errno == Errno::XDEV) {
            started = start(GroupScope::Device(id.device))?;
        }
        started.map_err(|errno| MissingEvents::of_mark(errno, kind))
    }

    /// Uses this group, if it accepts a mark on the root directory.
    fn start_in(
        group: Arc<EventGroup>,
        scope: GroupScope,
        root: BorrowedFd<'_>,
        of: (NodeId, &Fid),
    ) -> rustix::io::Result<Events> {
        let inbox = Arc::new(EventInbox::default());
        group.mark(of, root, &inbox)?;
        group.unmark(of, root, &inbox);
        Ok(Events {
            group,
            scope,
            device: of.0.device,
            inbox,
            watched: Mutex::default(),
            count: AtomicUsize::new(0),
            taking: Mutex::default(),
        })
    }

    pub(crate) fn watch(&self, node: &PosixNode) -> Result<()> {
        let mut watched = self.watched.lock();
        let watched = &mut *watched;
        let slot = match watched.by_node.entry(node.id) {
            Entry::Occupied(mut known) => {
                known.get_mut().count += 1;
                return Ok(());
            }
            Entry::Vacant(slot) => slot,
        };
        let directory =
            open_below(node.directory()?, b".", OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        if !properties::is_told_of(directory.as_fd(), &node.shared.properties)? {
            return Err(Failure::NotSupported);
        }
        let fid = call(|| Fid::of(directory.as_fd()))?;
        if !self.accepts(node.id.device, &fid, directory.as_fd())? {
            return Err(Failure::NotSupported);
        }
        match self.group.mark((node.id, &fid), directory.as_fd(), &self.inbox) {
            Ok(()) => {}
            // The host's limit of marks for one user is reached.
            Err(Errno::NOSPC) => return Err(Failure::Exhausted),
            // The directory is on a file system that has no identity of its own.
            Err(Errno::NODEV | Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL) => {
                return Err(Failure::NotSupported);
            }
            Err(errno) => return Err(failure(errno)),
        }
        watched.by_fid.insert(fid.clone(), node.id);
        slot.insert(WatchedDirectory { count: 1, fid, directory });
        self.count.store(watched.by_node.len(), Ordering::Release);
        Ok(())
    }

    /// Whether the volume's group is for this directory. It may be on another file system than the root.
    fn accepts(&self, device: u64, fid: &Fid, directory: BorrowedFd<'_>) -> Result<bool> {
        if device == self.device {
            return Ok(true);
        }
        let kind = properties::file_system_name(directory)?;
        Ok(GroupScope::of(device, kind, fid.file_system) == self.scope)
    }

    pub(crate) fn unwatch(&self, directory: NodeId) {
        let mut watched = self.watched.lock();
        let Entry::Occupied(mut known) = watched.by_node.entry(directory) else { return };
        known.get_mut().count -= 1;
        if known.get().count > 0 {
            return;
        }
        let watch = known.remove();
        watched.by_fid.remove(&watch.fid);
        watched.by_fid.shrink();
        watched.by_node.shrink();
        self.count.store(watched.by_node.len(), Ordering::Release);
        self.group.unmark((directory, &watch.fid), watch.directory.as_fd(), &self.inbox);
        if watched.by_node.is_empty() {
            self.inbox.take();
        }
    }

    pub(crate) fn take(&self, sink: &mut dyn FnMut(HostEvent)) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut taking = self.taking.lock();
        let Taking { halves, nodes } = &mut *taking;
        let mut until = None;
        loop {
            self.group.drain();
            self.tell(self.inbox.take(), halves, nodes, sink);
            if !halves.is_waiting() {
                break;
            }
            let until = *until.get_or_insert_with(|| Instant::now() + SECOND_HALF);
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.group.wait(left);
        }
        halves.end(sink);
    }

    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        self.group.drain();
        self.inbox.wait(at_most)
    }

    /// Reports events of the inbox.
    fn tell(
        &self,
        waiting: WaitingEvents,
        halves: &mut PendingRename,
        nodes: &mut ChangedNodes,
        sink: &mut dyn FnMut(HostEvent),
    ) {
        if waiting.has_lost {
            halves.end(sink);
            sink(HostEvent::Overflow);
        }
        let mut bytes = &waiting.bytes[..];
        while let Some(header) = EventHeader::parse(bytes) {
            if let Some(event) = RawEvent::parse(header, bytes) {
                self.tell_one(event, halves, nodes, sink);
            }
            bytes = &bytes[header.len..];
        }
    }

    fn tell_one(
        &self,
        event: RawEvent,
        halves: &mut PendingRename,
        nodes: &mut ChangedNodes,
        sink: &mut dyn FnMut(HostEvent),
    ) {
        let RawEvent { mask, pid, .. } = event;
        let is_on_directory = mask & libc::FAN_ONDIR != 0;
        if mask & libc::FAN_RENAME != 0 {
            let half = |named: Option<FidAndName>| {
                let (fid, name) = named?;
                Some(RenameHalf {
                    directory: self.watched(&fid)?,
                    name: name?,
                    is_directory: is_on_directory,
                })
            };
            if let Some(old) = half(event.old) {
                halves.went(pid, old, sink);
            }
            if let Some(new) = half(event.new) {
                halves.came(pid, new, sink);
            }
            return halves.end(sink);
        }
        let Some((fid, name)) = event.parent_and_name else { return };
        let Some(directory) = self.watched(&fid) else { return };
        let is_directory = name.is_none() || is_on_directory;
        for (bit, change) in CHANGES {
            if mask & bit == 0 {
                continue;
            }
            match (change, name.clone()) {
                (HostChange::RenamedFrom, Some(name)) => {
                    halves.went(pid, RenameHalf { directory, name, is_directory }, sink);
                }
                (HostChange::RenamedTo, Some(name)) => {
                    halves.came(pid, RenameHalf { directory, name, is_directory }, sink);
                }
                (change, name) => {
                    halves.end(sink);
                    sink(HostEvent::Changed { directory, name, is_directory, change });
                    let is_of_node = matches!(change, HostChange::Modified | HostChange::Attributes);
                    let child = event.child.as_ref().filter(|_| is_of_node);
                    if let Some(node) = child.and_then(|fid| self.changed_node(directory, fid, nodes)) {
                        sink(HostEvent::NodeChanged { node, change });
                    }
                }
            }
        }
    }

    /// The node with this handle, which a name in `directory` led to.
    fn changed_node(&self, directory: NodeId, fid: &Fid, nodes: &mut ChangedNodes) -> Option<NodeId> {
        let watched = self.watched.lock();
        nodes.find(fid, directory, watched.by_node.get(&directory)?.directory.as_fd())
    }

    /// The directory of an event. A mark may deliver its last events after it was removed.
    fn watched(&self, fid: &Fid) -> Option<NodeId> {
        self.watched.lock().by_fid.get(fid).copied()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for (node, watch) in &self.watched.get_mut().by_node {
            self.group.unmark((*node, &watch.fid), watch.directory.as_fd(), &self.inbox);
        }
    }
}

/// The changes that the bits of an event mean. The host may join several changes into one event. They are
/// reported in this order: creations, modifications, removals.
const CHANGES: [(u64, HostChange); 6] = [
    (libc::FAN_CREATE, HostChange::Created),
    (libc::FAN_MOVED_TO, HostChange::RenamedTo),
    (libc::FAN_MODIFY, HostChange::Modified),
    (libc::FAN_ATTRIB, HostChange::Attributes),
    (libc::FAN_MOVED_FROM, HostChange::RenamedFrom),
    (libc::FAN_DELETE, HostChange::Removed),
];
