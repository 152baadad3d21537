//! Requests that wait, and what is to be sent once no lock is held.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use volume::NodeId;
use wire::Now;

use super::Share;
use super::file::{File, State};
use super::keeping::Absent;
use crate::{BreakNotice, Caller, Cause, Refusal, Step, Ticket, Waiter};

/// What a call has found out under a lock and must send when it is released.
#[derive(Default)]
#[must_use]
pub(super) struct Effects {
    pub notices: Vec<BreakNotice>,
    pub wakes: Vec<Ticket>,
    /// What they were found due by.
    pub cause: Cause,
}

/// Who waits, and until when holders may take their time.
#[derive(Default)]
pub(super) struct Waits {
    next: AtomicU64,
    waiting: Mutex<HashMap<Ticket, (Waiter, Weak<File>)>>,
    deadlines: Mutex<BTreeMap<(u64, NodeId), Weak<File>>>,
    /// Requests that wait for a program of the host or for something else outside, by when they are tried again.
    later: Mutex<BTreeSet<(u64, Ticket)>>,
}

/// How long a program of the host is left alone before it is looked whether it has let go of a file.
const HOST_ASKED_AGAIN_NS: u64 = 100_000_000;

impl Waits {
    /// Lets a request wait for something about a file.
    pub fn add(&self, waiter: &Waiter, file: &Arc<File>) -> Ticket {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        self.waiting.lock().insert(ticket, (waiter.clone(), Arc::downgrade(file)));
        ticket
    }

    /// Whether nobody waits under this ticket any more.
    pub fn is_over(&self, ticket: Ticket) -> bool {
        !self.waiting.lock().contains_key(&ticket)
    }

    /// Lets a request wait until a time.
    pub(super) fn add_later(&self, waiter: &Waiter, at: u64) -> Ticket {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        self.waiting.lock().insert(ticket, (waiter.clone(), Weak::new()));
        self.later.lock().insert((at, ticket));
        ticket
    }

    /// The requests whose time has come.
    fn due(&self, now: u64) -> Vec<Ticket> {
        let mut later = self.later.lock();
        let kept = later.split_off(&(now.saturating_add(1), Ticket(0)));
        std::mem::replace(&mut *later, kept).into_iter().map(|(_, ticket)| ticket).collect()
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

    /// Lets the request wait for a program of the host to let go of a file. The host waits for it no longer
    /// than it likes itself.
    pub(super) fn try_later<T>(&self, caller: &Caller<'_>) -> Step<T> {
        match caller.waiter {
            Some(waiter) => {
                let at = caller.now.mono_ns.saturating_add(HOST_ASKED_AGAIN_NS);
                Step::Wait(self.waits.add_later(waiter, at))
            }
            None => Step::Refused(Refusal::HostKeeps),
        }
    }

    /// Sends what was found out under a lock. To be called with none held.
    pub(super) fn settle(&self, effects: Effects) {
        let Effects { notices, mut wakes, cause } = effects;
        // What others go on with must not be older than what comes back after a crash.
        if notices.is_empty() && wakes.is_empty() {
            self.write_urgent()
        } else {
            self.write_changes()
        }
        for mut notice in notices {
            notice.origin = cause.origin;
            match self.absent(&notice) {
                Absent::No => {}
                Absent::GivesWay(opens) => {
                    self.give_way(opens, cause.now);
                    continue;
                }
                Absent::Stays => continue,
            }
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

    /// Lets a request wait for something of which the engine knows nothing, no longer than until `at_ns` (monotonic).
    /// [`Share::wake`] ends it sooner.
    pub fn wait_until(&self, waiter: &Waiter, at_ns: u64) -> Ticket {
        self.waits.add_later(waiter, at_ns)
    }

    /// Wakes who waits under this ticket, if somebody does.
    pub fn wake(&self, ticket: Ticket) {
        if let Some((waiter, _)) = self.waits.take(ticket) {
            waiter.wake.wake(waiter.token);
        }
    }

    /// Whether somebody still waits under this ticket.
    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        !self.waits.is_over(ticket)
    }

    /// Whether what somebody waits for is a file that is kept open over a restart for a client who is not back yet.
    pub fn waits_for_absent(&self, ticket: Ticket) -> bool {
        let file = self.waits.waiting.lock().get(&ticket).and_then(|(_, file)| file.upgrade());
        let is_absent = |open: Arc<crate::Open>| open.is_lasting() && open.is_detached();
        file.is_some_and(|file| {
            let state = file.state.lock();
            let opens: Vec<_> = state.members.iter().filter_map(|member| member.open.upgrade()).collect();
            drop(state);
            opens.into_iter().any(is_absent)
        })
    }

    /// Takes a wait back; false when the waiter was woken before, or is just being woken.
    pub fn cancel(&self, ticket: Ticket) -> bool {
        let Some((_, file)) = self.waits.take(ticket) else {
            return false;
        };
        if let Some(file) = file.upgrade() {
            let mut state = file.state.lock();
            state.waiting.retain(|waiting| *waiting != ticket);
            for stream in &mut state.streams {
                stream.ranges.forget(ticket);
            }
        }
        true
    }

    /// Remembers when a break that was started under the file's lock expires.
    pub(super) fn watch_deadline(&self, file: &Arc<File>, deadline: u64) {
        self.waits.add_deadline(deadline, file);
    }

    /// When [`Share::tick`] has something to do because of time, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        let expires = self.waits.deadlines.lock().keys().next().map(|(at, _)| *at);
        let later = self.waits.later.lock().first().map(|(at, _)| *at);
        expires.into_iter().chain(later).chain(self.detachment.next_end()).min()
    }

    /// Does what time brings: closes detached opens whose time is over, takes away rights whose holders
    /// did not answer, wakes who waits for a program of the host, and takes in what happened there.
    pub fn tick(&self, now: Now) {
        self.end_detached(now);
        self.settle(Effects { notices: Vec::new(), wakes: self.waits.due(now.mono_ns), cause: now.into() });
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
