//! What others on the host change, from fanotify: it tells which process did it, so that what this
//! process does itself is left out.
//!
//! Each watched directory has a mark of its own, also for a privileged process: a mark on the whole file
//! system would bring every write on the host to us, and would end where another file system is mounted
//! below the volume. An event names its directory by a handle; a table leads from there to the node.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use volume::{Failure, HostChange, HostEvent, Name, NodeId, Result};
use wire::Cursor;

use crate::errno::{call, failure};
use crate::facts;
use crate::node::{PosixNode, open_below};
use crate::sys::{Handle, fanotify};

/// Bytes of events taken from the host at once.
const CHUNK: usize = 64 * 1024;
/// The longest event: metadata, header, file system, handle and name.
const LONGEST: usize = 24 + 4 + 8 + 8 + 128 + 256 + 8;
/// Bytes of an event before its records.
const METADATA: usize = 24;
/// The version of the events' layout.
const VERSION: u8 = 3;

/// The queue of events and the directories that are watched.
pub(crate) struct Events {
    queue: OwnedFd,
    /// This process, as the queue names it.
    myself: i32,
    watched: Mutex<Watched>,
    /// How many directories are watched; without any the queue is not asked.
    count: AtomicUsize,
    /// Events are taken by one thread at a time, so that their order is kept.
    buffer: Mutex<Vec<u8>>,
}

/// Where a directory is in the table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    file_system: u64,
    handle: Handle,
}

struct Watch {
    /// How many times it is watched.
    count: usize,
    place: Place,
    /// Needed to take the mark away.
    directory: OwnedFd,
}

#[derive(Default)]
struct Watched {
    by_node: HashMap<NodeId, Watch>,
    by_place: HashMap<Place, NodeId>,
}

impl Events {
    /// Starts a queue, if the host tells of changes in this directory.
    pub(crate) fn start(root: BorrowedFd<'_>) -> Option<Events> {
        let queue = fanotify::queue().ok()?;
        Handle::of(root).ok()?;
        fanotify::mark(queue.as_fd(), root, true).ok()?;
        fanotify::mark(queue.as_fd(), root, false).ok()?;
        Some(Events {
            queue,
            myself: i32::try_from(std::process::id()).unwrap_or(0),
            watched: Mutex::default(),
            count: AtomicUsize::new(0),
            buffer: Mutex::new(Vec::new()),
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
        let place = Place { file_system, handle: call(|| Handle::of(directory.as_fd()))? };
        match fanotify::mark(self.queue.as_fd(), directory.as_fd(), true) {
            Ok(()) => {}
            // More marks than the host allows one user.
            Err(Errno::NOSPC) => return Err(Failure::Exhausted),
            // A file system below that has no identity of its own.
            Err(Errno::NODEV | Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL) => {
                return Err(Failure::NotSupported);
            }
            Err(errno) => return Err(failure(errno)),
        }
        watched.by_place.insert(place.clone(), node.id);
        slot.insert(Watch { count: 1, place, directory });
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
        watched.by_place.remove(&watch.place);
        self.count.store(watched.by_node.len(), Ordering::Release);
        // A directory that is gone has taken its mark with it.
        let _ = fanotify::mark(self.queue.as_fd(), watch.directory.as_fd(), false);
    }

    pub(crate) fn take(&self, sink: &mut dyn FnMut(HostEvent)) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut buffer = self.buffer.lock();
        buffer.resize(CHUNK, 0);
        loop {
            let len = match rustix::io::read(&self.queue, &mut buffer[..]) {
                Ok(0) | Err(Errno::AGAIN) => return,
                Ok(len) => len,
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    // What cannot be read is lost.
                    tracing::warn!(%errno, "cannot take the host's events");
                    return sink(HostEvent::Overflow);
                }
            };
            self.tell(&buffer[..len], sink);
            if len + LONGEST <= CHUNK {
                // There was room for more, so there was no more.
                return;
            }
        }
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
    fn tell(&self, mut events: &[u8], sink: &mut dyn FnMut(HostEvent)) {
        while let Some(event) = RawEvent::parse(events) {
            events = &events[event.len..];
            if event.mask & libc::FAN_Q_OVERFLOW != 0 {
                sink(HostEvent::Overflow);
                continue;
            }
            let Some((place, name)) = event.place.filter(|_| event.pid != self.myself) else { continue };
            // A mark may bring its last events after it was taken away.
            let Some(directory) = self.watched.lock().by_place.get(&place).copied() else { continue };
            let is_directory = name.is_none() || event.mask & libc::FAN_ONDIR != 0;
            for (bit, change) in CHANGES {
                if event.mask & bit != 0 {
                    sink(HostEvent::Changed { directory, name: name.clone(), is_directory, change });
                }
            }
        }
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

/// One event as the host lays it out.
struct RawEvent {
    len: usize,
    mask: u64,
    pid: i32,
    /// The directory and the name in it, where the event has them; no name for the directory itself.
    place: Option<(Place, Option<Name>)>,
}

impl RawEvent {
    /// Reads the event at the start of `bytes`; none when there is no whole one.
    fn parse(bytes: &[u8]) -> Option<RawEvent> {
        let mut head = Cursor::new(bytes);
        let len = usize::try_from(u32::from_ne_bytes(head.array().ok()?)).ok()?;
        let (version, _reserved, metadata) = (head.u8().ok()?, head.u8().ok()?, head.array().ok()?);
        let mask = u64::from_ne_bytes(head.array().ok()?);
        let _descriptor: [u8; 4] = head.array().ok()?;
        let pid = i32::from_ne_bytes(head.array().ok()?);
        let metadata = usize::from(u16::from_ne_bytes(metadata)).max(METADATA);
        if version != VERSION || len < metadata {
            return None;
        }
        let mut records = Cursor::new(bytes.get(metadata..len)?);
        let mut place = None;
        while let Some((kind, record)) = next_record(&mut records) {
            if kind == libc::FAN_EVENT_INFO_TYPE_DFID_NAME {
                place = place_of(record);
            }
        }
        Some(RawEvent { len, mask, pid, place })
    }
}

fn next_record<'a>(records: &mut Cursor<'a>) -> Option<(u8, Cursor<'a>)> {
    let (kind, _pad) = (records.u8().ok()?, records.u8().ok()?);
    let len = usize::from(u16::from_ne_bytes(records.array().ok()?));
    Some((kind, records.sub(len.checked_sub(4)?).ok()?))
}

fn place_of(mut record: Cursor<'_>) -> Option<(Place, Option<Name>)> {
    let file_system = u64::from_ne_bytes(record.array().ok()?);
    let len = usize::try_from(u32::from_ne_bytes(record.array().ok()?)).ok()?;
    let kind = i32::from_ne_bytes(record.array().ok()?);
    let bytes = record.bytes(len).ok()?.into();
    let name = record.rest().split(|&b| b == 0).next()?;
    // For the directory itself the host says ".", which is no name.
    Some((Place { file_system, handle: Handle { kind, bytes } }, Name::new(name).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One event as Linux lays it out: a file `a` was made in a directory with an 8-byte handle.
    fn event() -> Vec<u8> {
        let mut out = Vec::new();
        let record_len = 4_u16 + 8 + 8 + 8 + 4;
        out.extend_from_slice(&(24 + u32::from(record_len)).to_ne_bytes());
        out.extend_from_slice(&[VERSION, 0]);
        out.extend_from_slice(&24_u16.to_ne_bytes());
        out.extend_from_slice(&libc::FAN_CREATE.to_ne_bytes());
        out.extend_from_slice(&(-1_i32).to_ne_bytes());
        out.extend_from_slice(&77_i32.to_ne_bytes());
        out.extend_from_slice(&[libc::FAN_EVENT_INFO_TYPE_DFID_NAME, 0]);
        out.extend_from_slice(&record_len.to_ne_bytes());
        out.extend_from_slice(&5_u64.to_ne_bytes());
        out.extend_from_slice(&8_u32.to_ne_bytes());
        out.extend_from_slice(&1_i32.to_ne_bytes());
        out.extend_from_slice(b"12345678a\0\0\0");
        out
    }

    #[test]
    fn an_event_is_read() {
        let bytes = event();
        let seen = RawEvent::parse(&bytes).unwrap();
        assert_eq!((seen.len, seen.mask, seen.pid), (bytes.len(), libc::FAN_CREATE, 77));
        let (place, name) = seen.place.unwrap();
        assert_eq!(place.file_system, 5);
        assert_eq!(&*place.handle.bytes, b"12345678");
        assert_eq!(name.unwrap().as_bytes(), b"a");
    }

    #[test]
    fn a_cut_or_changed_event_is_survived() {
        let bytes = event();
        for cut in 0..bytes.len() {
            assert!(RawEvent::parse(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Some(seen) = RawEvent::parse(&changed) {
                    assert!(seen.len >= METADATA && seen.len <= changed.len());
                }
            }
        }
    }
}
