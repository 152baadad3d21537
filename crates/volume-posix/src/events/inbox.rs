//! The events of one volume that were read from a group's queue and not taken yet.
//!
//! Each volume has a bound of its own. If one directory changes faster than its share takes the events, that
//! share alone loses some.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The most bytes of events that wait for one volume. The kernel's queue of 16,384 events has about as many
/// (`fs.fanotify.max_queued_events`).
pub(super) const MOST_WAITING: usize = 2 << 20;

/// The events of one volume.
#[derive(Default)]
pub(super) struct EventInbox {
    waiting: Mutex<WaitingEvents>,
    /// Signals the first event in an empty inbox.
    filled: Condvar,
}

/// Events in their order, as the host has written them.
#[derive(Default)]
pub(super) struct WaitingEvents {
    /// Whether events before these were lost. The volume trusts nothing from before then.
    pub has_lost: bool,
    pub bytes: Vec<u8>,
}

impl EventInbox {
    /// Adds an event. One too many, and all are lost.
    pub fn add(&self, event: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.bytes.len() + event.len() <= MOST_WAITING {
            waiting.bytes.extend_from_slice(event);
        } else {
            *waiting = WaitingEvents::lost();
        }
        self.filled.notify_all();
    }

    /// Notes that events were lost.
    pub fn lose(&self) {
        *self.waiting.lock() = WaitingEvents::lost();
        self.filled.notify_all();
    }

    /// Takes all events.
    pub fn take(&self) -> WaitingEvents {
        std::mem::take(&mut self.waiting.lock())
    }

    /// Waits until there are events, for at most this long. True when there are.
    pub fn wait(&self, at_most: Duration) -> bool {
        let (until, mut waiting) = (Instant::now() + at_most, self.waiting.lock());
        while waiting.is_empty() {
            if self.filled.wait_until(&mut waiting, until).timed_out() {
                break;
            }
        }
        !waiting.is_empty()
    }
}

impl WaitingEvents {
    fn lost() -> WaitingEvents {
        WaitingEvents { has_lost: true, bytes: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        !self.has_lost && self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many bytes as an event may have.
    const EVENT: &[u8] = &[7; 128];

    #[test]
    fn one_event_too_many_loses_all_before_it_and_none_after_it() {
        let (inbox, most) = (EventInbox::default(), MOST_WAITING / EVENT.len());
        (0..most).for_each(|_| inbox.add(EVENT));
        let taken = inbox.take();
        assert!(!taken.has_lost && taken.bytes.len() == MOST_WAITING);
        (0..most + 3).for_each(|_| inbox.add(EVENT));
        let taken = inbox.take();
        assert!(taken.has_lost && taken.bytes == [EVENT, EVENT].concat(), "{}", taken.bytes.len());
        assert!(inbox.take().is_empty());
    }

    #[test]
    fn who_waits_is_woken_by_an_event_and_by_a_loss() {
        let inbox = EventInbox::default();
        assert!(!inbox.wait(Duration::ZERO));
        for fill in [(|inbox: &EventInbox| inbox.add(EVENT)) as fn(&EventInbox), EventInbox::lose] {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| inbox.wait(Duration::from_secs(20)));
                fill(&inbox);
                assert!(waits.join().unwrap());
            });
            inbox.take();
        }
    }
}
