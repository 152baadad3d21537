//! A fanotify group: one queue of the kernel, and marks on directories of many volumes.
//!
//! The kernel keeps one mark for a directory, however many volumes watch it. So a mark goes with the last of
//! them. A thread that reads the queue hands each event to every volume that watches its directory.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::{Errno, Result};
use volume::NodeId;
use wire::Shrink;

use super::inbox::EventInbox;
use super::raw::{EventHeader, Fid, LONGEST};
use crate::sys::fanotify::{self, Renames};

/// Bytes of events that are read at once.
const CHUNK: usize = 64 * 1024;
/// The setting for the events that the queue of a new group holds.
const DEPTH: &str = "/proc/sys/fs/fanotify/max_queued_events";
/// Its value, unless the host is set otherwise.
const USUAL_DEPTH: usize = 16_384;

/// A queue and its marks.
pub(super) struct EventGroup {
    queue: OwnedFd,
    /// The process ID of this process, as it stands in events.
    own_pid: i32,
    /// The number of events that the queue holds at most.
    depth: usize,
    routes: Mutex<EventRoutes>,
    /// One thread at a time reads and delivers, so that events keep their order.
    buffer: Mutex<Vec<u8>>,
    /// Whether the queue could not be read once.
    has_failed: AtomicBool,
}

/// The marks and who gets their events.
#[derive(Default)]
struct EventRoutes {
    /// By the [key](Fid::key) of the directory. A file system and its copy may have the same identity. Then
    /// one list is for two directories.
    by_key: HashMap<Box<[u8]>, Vec<EventRoute>>,
    /// The form in which the host reports renames, once it has accepted a mark.
    renames: Option<Renames>,
}

/// One volume that watches a directory.
struct EventRoute {
    node: NodeId,
    inbox: Arc<EventInbox>,
}

impl EventGroup {
    /// Opens a group without marks.
    pub fn open() -> Result<EventGroup> {
        let depth = std::fs::read_to_string(DEPTH).ok().and_then(|text| text.trim().parse().ok());
        Ok(EventGroup {
            queue: fanotify::queue()?,
            own_pid: i32::try_from(std::process::id()).unwrap_or(0),
            depth: depth.unwrap_or(USUAL_DEPTH),
            routes: Mutex::default(),
            buffer: Mutex::new(vec![0; CHUNK]),
            has_failed: AtomicBool::new(false),
        })
    }

    /// Begins to hand events of a directory to `inbox`.
    pub fn mark(
        &self,
        (node, fid): (NodeId, &Fid),
        directory: BorrowedFd<'_>,
        inbox: &Arc<EventInbox>,
    ) -> Result<()> {
        let mut routes = self.routes.lock();
        self.add_mark(directory, &mut routes.renames)?;
        let route = EventRoute { node, inbox: Arc::clone(inbox) };
        routes.by_key.entry(fid.key()).or_default().push(route);
        Ok(())
    }

    /// Undoes a call of [`EventGroup::mark`]. `directory` may be another descriptor of the directory.
    pub fn unmark(&self, (node, fid): (NodeId, &Fid), directory: BorrowedFd<'_>, inbox: &Arc<EventInbox>) {
        let (key, mut routes) = (fid.key(), self.routes.lock());
        let Some(watching) = routes.by_key.get_mut(&key) else { return };
        watching.retain(|route| route.node != node || !Arc::ptr_eq(&route.inbox, inbox));
        let is_last = watching.iter().all(|route| route.node != node);
        if watching.is_empty() {
            routes.by_key.remove(&key);
            routes.by_key.shrink();
        }
        if is_last && let Some(renames) = routes.renames {
            // When a directory is removed, its mark goes with it.
            let _ = fanotify::mark(self.queue.as_fd(), directory, renames, false);
        }
    }

    fn add_mark(&self, directory: BorrowedFd<'_>, known: &mut Option<Renames>) -> Result<()> {
        let add = |form| fanotify::mark(self.queue.as_fd(), directory, form, true);
        if let Some(form) = *known {
            return add(form);
        }
        let (mut form, mut result) = (Renames::Whole, add(Renames::Whole));
        if result == Err(Errno::INVAL) {
            (form, result) = (Renames::Halves, add(Renames::Halves));
        }
        *known = result.is_ok().then_some(form);
        result
    }

    /// Delivers all events that the host has reported so far. Other threads may deliver a part of them.
    pub fn drain(&self) {
        let mut count = 0;
        // Events that come meanwhile may have no end. The queue held no more than this at the beginning.
        while count <= self.depth {
            let mut buffer = self.buffer.lock();
            let len = match rustix::io::read(&self.queue, &mut buffer[..]) {
                Ok(0) | Err(Errno::AGAIN) => return,
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(errno) => return self.fail(errno),
            };
            count += self.deliver(&buffer[..len]);
            // A request on another thread waits for a part of the events only.
            MutexGuard::unlock_fair(buffer);
            // The buffer had room for another event, so there are no more.
            if len + LONGEST <= CHUNK {
                return;
            }
        }
    }

    /// Waits until the queue has an event, for at most this long.
    pub fn wait(&self, at_most: Duration) {
        let timeout = Timespec {
            tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(at_most.subsec_nanos()),
        };
        let _ = rustix::event::poll(&mut [PollFd::new(&self.queue, PollFlags::IN)], Some(&timeout));
    }

    /// Delivers the events in a buffer that the host has filled. Returns their number.
    fn deliver(&self, mut events: &[u8]) -> usize {
        let mut count = 0;
        while let Some(header) = EventHeader::parse(events) {
            let (event, rest) = events.split_at(header.len);
            (events, count) = (rest, count + 1);
            if header.mask & libc::FAN_Q_OVERFLOW != 0 {
                self.lose();
            } else if header.pid != self.own_pid {
                self.deliver_one(header, event);
            }
        }
        count
    }

    /// Hands an event to each volume that watches a directory of it. A mark may report its last events after
    /// it was removed.
    fn deliver_one(&self, header: EventHeader, event: &[u8]) {
        let routes = self.routes.lock();
        let mut inboxes: Vec<&Arc<EventInbox>> = Vec::new();
        for route in header.directories(event).filter_map(|key| routes.by_key.get(key)).flatten() {
            if !inboxes.iter().any(|inbox| Arc::ptr_eq(inbox, &route.inbox)) {
                route.inbox.add(event);
                inboxes.push(&route.inbox);
            }
        }
    }

    /// Tells each volume that events were lost. Nobody knows whose they were.
    fn lose(&self) {
        self.routes.lock().by_key.values().flatten().for_each(|route| route.inbox.lose());
    }

    /// Handles a queue that cannot be read. Its events are lost.
    fn fail(&self, errno: Errno) {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            tracing::warn!(%errno, "cannot read file system events of the host, so nothing is cached for \
                                    long; restart the server");
        }
        self.lose();
    }
}

impl AsFd for EventGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}
