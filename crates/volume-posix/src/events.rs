//! What others on the host change, from fanotify: it tells which process did it, so that what this
//! process does itself is left out.
//!
//! Each watched directory has a mark of its own, also for a privileged process: a mark on the whole file
//! system would bring every write on the host to us, and would end where another file system is mounted
//! below the volume. An event names its directory by a handle; a table leads from there to the node.

mod halves;
mod raw;

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

use self::halves::{Half, Halves};
use self::raw::{Fid, LONGEST, Named, RawEvent};
use crate::errno::{call, failure};
use crate::facts;
use crate::node::PosixNode;
use crate::open::open_below;
use crate::sys::Handle;
use crate::sys::fanotify::{self, Renames};

/// Bytes of events taken from the host at once.
const CHUNK: usize = 64 * 1024;
/// How long the second half of a rename may take where the host tells it in two.
const SECOND_HALF: Duration = Duration::from_millis(1);

/// The queue of events and the directories that are watched.
pub(crate) struct Events {
    queue: OwnedFd,
    /// This process, as the queue names it.
    myself: i32,
    watched: Mutex<Watched>,
    /// How many directories are watched; without any the queue is not asked.
    count: AtomicUsize,
    /// Events are taken by one thread at a time, so that their order is kept.
    reading: Mutex<Reading>,
    /// How the host tells of renames.
    renames: Renames,
}

/// What taking events needs.
#[derive(Default)]
struct Reading {
    buffer: Vec<u8>,
    halves: Halves,
}

struct Watch {
    /// How many times it is watched.
    count: usize,
    fid: Fid,
    /// Needed to take the mark away.
    directory: OwnedFd,
}

#[derive(Default)]
struct Watched {
    by_node: HashMap<NodeId, Watch>,
    by_fid: HashMap<Fid, NodeId>,
}

impl Events {
    /// Starts a queue, if the host tells of changes in this directory.
    pub(crate) fn start(root: BorrowedFd<'_>) -> Option<Events> {
        let queue = fanotify::queue().ok()?;
        Handle::of(root).ok()?;
        let is_told = |renames| fanotify::mark(queue.as_fd(), root, renames, true).is_ok();
        let renames = [Renames::Whole, Renames::Halves].into_iter().find(|renames| is_told(*renames))?;
        fanotify::mark(queue.as_fd(), root, renames, false).ok()?;
        Some(Events {
            queue,
            myself: i32::try_from(std::process::id()).unwrap_or(0),
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
        if !facts::is_told_of(directory.as_fd(), &node.shared.facts)? {
            return Err(Failure::NotSupported);
        }
        let file_system = call(|| rustix::fs::fstatvfs(&directory))?.f_fsid;
        let fid = Fid { file_system, handle: call(|| Handle::of(directory.as_fd()))? };
        match fanotify::mark(self.queue.as_fd(), directory.as_fd(), self.renames, true) {
            Ok(()) => {}
            // More marks than the host allows one user.
            Err(Errno::NOSPC) => return Err(Failure::Exhausted),
            // A file system below that has no identity of its own.
            Err(Errno::NODEV | Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL) => {
                return Err(Failure::NotSupported);
            }
            Err(errno) => return Err(failure(errno)),
        }
        watched.by_fid.insert(fid.clone(), node.id);
        slot.insert(Watch { count: 1, fid, directory });
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
        // A directory that is gone has taken its mark with it.
        let _ = fanotify::mark(self.queue.as_fd(), watch.directory.as_fd(), self.renames, false);
    }

    pub(crate) fn take(&self, sink: &mut dyn FnMut(HostEvent)) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut reading = self.reading.lock();
        let Reading { buffer, halves } = &mut *reading;
        buffer.resize(CHUNK, 0);
        loop {
            let len = match rustix::io::read(&self.queue, &mut buffer[..]) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    // What cannot be read is lost.
                    tracing::warn!(%errno, "cannot take the host's events");
                    sink(HostEvent::Overflow);
                    break;
                }
            };
            self.tell(&buffer[..len], halves, sink);
            // There was room for more, so there was no more.
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

    /// Tells what stands in a buffer that the host has filled.
    fn tell(&self, mut events: &[u8], halves: &mut Halves, sink: &mut dyn FnMut(HostEvent)) {
        while let Some(event) = RawEvent::parse(events) {
            events = &events[event.len..];
            if event.mask & libc::FAN_Q_OVERFLOW != 0 {
                halves.end(sink);
                sink(HostEvent::Overflow);
            } else if event.pid != self.myself {
                self.tell_one(event, halves, sink);
            }
        }
    }

    fn tell_one(&self, event: RawEvent, halves: &mut Halves, sink: &mut dyn FnMut(HostEvent)) {
        let RawEvent { mask, pid, .. } = event;
        let is_on_directory = mask & libc::FAN_ONDIR != 0;
        if mask & libc::FAN_RENAME != 0 {
            let half = |named: Option<Named>| {
                let (fid, name) = named?;
                Some(Half { directory: self.watched(&fid)?, name: name?, is_directory: is_on_directory })
            };
            if let Some(old) = half(event.old) {
                halves.went(pid, old, sink);
            }
            if let Some(new) = half(event.new) {
                halves.came(pid, new, sink);
            }
            return halves.end(sink);
        }
        let Some((fid, name)) = event.place else { return };
        let Some(directory) = self.watched(&fid) else { return };
        let is_directory = name.is_none() || is_on_directory;
        for (bit, change) in CHANGES {
            if mask & bit == 0 {
                continue;
            }
            match (change, name.clone()) {
                (HostChange::RenamedFrom, Some(name)) => {
                    halves.went(pid, Half { directory, name, is_directory }, sink);
                }
                (HostChange::RenamedTo, Some(name)) => {
                    halves.came(pid, Half { directory, name, is_directory }, sink);
                }
                (change, name) => {
                    halves.end(sink);
                    sink(HostEvent::Changed { directory, name, is_directory, change });
                }
            }
        }
    }

    /// The directory of an event. A mark may bring its last events after it was taken away.
    fn watched(&self, fid: &Fid) -> Option<NodeId> {
        self.watched.lock().by_fid.get(fid).copied()
    }
}

/// What the bits of an event mean, in the order in which they are told when the host has joined several
/// events into one: what comes, what changes, what goes.
const CHANGES: [(u64, HostChange); 6] = [
    (libc::FAN_CREATE, HostChange::Created),
    (libc::FAN_MOVED_TO, HostChange::RenamedTo),
    (libc::FAN_MODIFY, HostChange::Modified),
    (libc::FAN_ATTRIB, HostChange::Attributes),
    (libc::FAN_MOVED_FROM, HostChange::RenamedFrom),
    (libc::FAN_DELETE, HostChange::Removed),
];
