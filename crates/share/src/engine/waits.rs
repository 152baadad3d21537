//! Requests that wait, and what is to be sent once no lock is held.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use volume::NodeId;
use wire::Now;

use super::Share;
use super::file::{File, State};
use crate::{BreakNotice, Caller, Refusal, Step, Ticket, Waiter};

/// What a call has found out under a lock and must send when it is released.
#[derive(Default)]
#[must_use]
pub(super) struct Effects {
    pub notices: Vec<BreakNotice>,
    pub wakes: Vec<Ticket>,
}

/// Who waits, and until when holders may take their time.
#[derive(Default)]
pub(super) struct Waits {
    next: AtomicU64,
    waiting: Mutex<HashMap<Ticket, (Waiter, Weak<File>)>>,
    deadlines: Mutex<BTreeMap<(u64, NodeId), Weak<File>>>,
}

impl Waits {
    /// Lets a request wait for something about a file.
    pub fn add(&self, waiter: &Waiter, file: &Arc<File>) -> Ticket {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        self.waiting.lock().insert(ticket, (waiter.clone(), Arc::downgrade(file)));
        ticket
    }

    fn take(&self, ticket: Ticket) -> Option<(Waiter, Weak<File>)> {
        self.waiting.lock().remove(&ticket)
    }

    fn add_deadline(&self, at: u64, file: &Arc<File>) {
        self.deadlines.lock().insert((at, file.id), Arc::downgrade(file));
    }
}

impl Share {
    /// Lets the request wait until something about the file changes, or refuses it when it cannot wait.
    pub(super) fn park<T>(
        &self,
        caller: &Caller<'_>,
        file: &Arc<File>,
        state: &mut State,
        else_: Refusal,
    ) -> Step<T> {
        match caller.waiter {
            Some(waiter) => {
                let ticket = self.waits.add(waiter, file);
                state.waiting.push(ticket);
                Step::Wait(ticket)
            }
            None => Step::Refused(else_),
        }
    }

    /// Sends what was found out under a lock. To be called with none held.
    pub(super) fn settle(&self, effects: Effects) {
        let Effects { notices, mut wakes } = effects;
        for notice in notices {
            let holder = self.clients.lock().get(&notice.client).map(|(holder, _)| Arc::clone(holder));
            let is_told = holder.is_some_and(|holder| holder.on_break(&notice));
            if !is_told {
                wakes.extend(self.revoke(&notice));
            }
        }
        for ticket in wakes {
            if let Some((waiter, _)) = self.waits.take(ticket) {
                waiter.wake.wake(waiter.token);
            }
        }
    }

    /// Takes a wait back. The waiter may still be woken if that was under way.
    pub fn cancel(&self, ticket: Ticket) {
        let Some((_, file)) = self.waits.take(ticket) else {
            return;
        };
        if let Some(file) = file.upgrade() {
            let mut state = file.state.lock();
            state.waiting.retain(|waiting| *waiting != ticket);
            for stream in &mut state.streams {
                stream.ranges.forget(ticket);
            }
        }
    }

    /// Remembers when a break that was started under the file's lock expires.
    pub(super) fn watch_deadline(&self, file: &Arc<File>, deadline: u64) {
        self.waits.add_deadline(deadline, file);
    }

    /// When [`Share::tick`] has something to do because of time, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waits.deadlines.lock().keys().next().map(|(at, _)| *at)
    }

    /// Does what time brings: takes away rights whose holders did not answer, and takes in what
    /// happened on the host.
    pub fn tick(&self, now: Now) {
        loop {
            let mut deadlines = self.waits.deadlines.lock();
            let Some((&(at, id), _)) = deadlines.first_key_value().filter(|((at, _), _)| *at <= now.mono_ns)
            else {
                break;
            };
            let file = deadlines.remove(&(at, id)).and_then(|file| file.upgrade());
            drop(deadlines);
            if let Some(file) = file {
                self.expire(&file, now.mono_ns);
            }
        }
        self.before_batch(now);
    }
}
