//! Changes by others on the host, from fanotify. An event names the process, so the changes of this
//! process are left out.
//!
//! Each watched directory has a mark of its own, even for a privileged process. A mark on the whole file
//! system would deliver every write on the host, and would not cover other file systems that are mounted
//! below the volume. An event names its directory by a handle. A table leads from there to the node.

mod changed_nodes;
mod raw;
mod rename_halves;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use volume::{Failure, HostChange, HostEvent, NodeId, Result};
use wire::Shrink;

use self::changed_nodes::ChangedNodes;
use self::raw::{Fid, FidAndName, LONGEST, RawEvent};
use self::rename_halves::{PendingRename, RenameHalf};
use crate::errno::{call, failure};
use crate::node::PosixNode;
use crate::open::open_below;
use crate::properties;
use crate::sys::Handle;
use crate::sys::fanotify::{self, Renames};

/// Bytes of events that are read at once.
const CHUNK: usize = 64 * 1024;
/// The longest wait for the second half of a rename, if the host reports renames in two halves.
const SECOND_HALF: Duration = Duration::from_millis(1);

/// The queue of events and the directories that are watched.
pub(crate) struct Events {
    queue: OwnedFd,
    /// The process ID of this process, as it stands in events.
    own_pid: i32,
    watched: Mutex<WatchTables>,
    /// The number of watched directories. If it is zero, the queue is not read.
    count: AtomicUsize,
    /// One thread at a time reads events, so that their order is kept.
    reading: Mutex<Reading>,
    /// The form in which the host reports renames.
    renames: Renames,
}

/// The state of the thread that reads events.
#[derive(Default)]
struct Reading {
    buffer: Vec<u8>,
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
    /// Starts a queue, if the host reports changes in this directory.
    pub(crate) fn start(root: BorrowedFd<'_>) -> Option<Events> {
        let queue = fanotify::queue().ok()?;
        Handle::of(root).ok()?;
        let is_told = |renames| fanotify::mark(queue.as_fd(), root, renames, true).is_ok();
        let renames = [Renames::Whole, Renames::Halves].into_iter().find(|renames| is_told(*renames))?;
        fanotify::mark(queue.as_fd(), root, renames, false).ok()?;
        Some(Events {
            queue,
            own_pid: i32::try_from(std::process::id()).unwrap_or(0),
            watched: Mutex::default(),
            count: AtomicUsize::new(0),
            reading: Mutex::default(),
            renames,
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
        let file_system = call(|| rustix::fs::fstatvfs(&directory))?.f_fsid;
        let fid = Fid { file_system, handle: call(|| Handle::of(directory.as_fd()))? };
        match fanotify::mark(self.queue.as_fd(), directory.as_fd(), self.renames, true) {
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
        // When a directory is removed, its mark goes with it.
        let _ = fanotify::mark(self.queue.as_fd(), watch.directory.as_fd(), self.renames, false);
    }

    pub(crate) fn take(&self, sink: &mut dyn FnMut(HostEvent)) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut reading = self.reading.lock();
        let Reading { buffer, halves, nodes } = &mut *reading;
        buffer.resize(CHUNK, 0);
        loop {
            let len = match rustix::io::read(&self.queue, &mut buffer[..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    // Events that cannot be read are lost.
                    tracing::warn!(%errno, "cannot read file system events of the host");
                    sink(HostEvent::Overflow);
                    break;
                }
            };
            self.tell(&buffer[..len], halves, nodes, sink);
            // The buffer had room for another event, so there are no more.
            let is_all = len + LONGEST <= CHUNK;
            if is_all && !(halves.is_waiting() && self.wait(SECOND_HALF)) {
                break;
            }
        }
        halves.end(sink);
    }

    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let mut polled = [PollFd::new(&self.queue, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0)
    }

    /// Reports the events in a buffer that the host has filled.
    fn tell(
        &self,
        mut events: &[u8],
        halves: &mut PendingRename,
        nodes: &mut ChangedNodes,
        sink: &mut dyn FnMut(HostEvent),
    ) {
        while let Some(event) = RawEvent::parse(events) {
            events = &events[event.len..];
            if event.mask & libc::FAN_Q_OVERFLOW != 0 {
                halves.end(sink);
                sink(HostEvent::Overflow);
            } else if event.pid != self.own_pid {
                self.tell_one(event, halves, nodes, sink);
            }
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
