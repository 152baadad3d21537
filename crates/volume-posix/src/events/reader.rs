//! The thread that empties the queues of all groups as events come.
//!
//! Requests empty the queue of their volume's group too, so that no answer is older than the events before
//! it. Without this thread a request might find the events of a busy neighbour, and the queue, which is
//! bounded, might overflow for everybody.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::io::{Errno, Result};

use super::group::EventGroup;

/// The time between two looks at the queues while events come. A queue holds more than the host reports in
/// this time. Without events the thread sleeps.
const PACE: Duration = Duration::from_millis(5);
/// The most groups that one look returns.
const AT_ONCE: usize = 64;

static READER: Mutex<Option<Arc<EventReader>>> = Mutex::new(None);

/// The queues that the thread follows.
struct EventReader {
    ready: OwnedFd,
    /// Groups by their descriptors. A closed one leaves its number to the next.
    groups: Mutex<HashMap<u64, Weak<EventGroup>>>,
}

/// Empties the queue of a group as events come, until the group is dropped.
pub(super) fn follow(group: &Arc<EventGroup>) -> Result<()> {
    let mut reader = READER.lock();
    let reader = match &*reader {
        Some(reader) => reader,
        None => reader.insert(EventReader::start()?),
    };
    let number = group.as_fd().as_raw_fd().unsigned_abs().into();
    let mut groups = reader.groups.lock();
    groups.retain(|_, group| group.strong_count() > 0);
    groups.insert(number, Arc::downgrade(group));
    epoll::add(&reader.ready, group.as_fd(), epoll::EventData::new_u64(number), epoll::EventFlags::IN)
}

impl EventReader {
    /// Starts the thread.
    fn start() -> Result<Arc<EventReader>> {
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let reader = Arc::new(EventReader { ready, groups: Mutex::default() });
        let own = Arc::clone(&reader);
        let started = std::thread::Builder::new().name("host-events".to_owned()).spawn(move || own.run());
        match started {
            Ok(_) => Ok(reader),
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
        }
    }

    fn run(&self) {
        let mut ready = Vec::with_capacity(AT_ONCE);
        loop {
            // The only error is a signal.
            let _ = epoll::wait(&self.ready, spare_capacity(&mut ready), None);
            for event in ready.drain(..) {
                let number = event.data.u64();
                let group = self.groups.lock().get(&number).and_then(Weak::upgrade);
                if let Some(group) = group {
                    group.drain();
                }
            }
            std::thread::sleep(PACE);
        }
    }
}
