//! The tables of waiting requests and of deadlines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use volume::NodeId;

use super::clients::Clients;
use crate::engine::parts::file::File;
use crate::ranked::{Mutex, Rank};
use crate::{Ticket, Waiter};

/// The waiting requests, the deadlines of holders, and the clients to notify.
pub(crate) struct Waits {
    next: AtomicU64,
    waiting: Mutex<HashMap<Ticket, (Waiter, Weak<File>)>>,
    deadlines: Mutex<BTreeMap<(u64, NodeId), Weak<File>>>,
    /// Requests that wait for a program of the host or for another outside event, by the time when they are
    /// tried again.
    later: Mutex<BTreeSet<(u64, Ticket)>>,
    clients: Clients,
}

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            next: AtomicU64::new(0),
            waiting: Mutex::of_default(Rank::Waiting),
            deadlines: Mutex::of_default(Rank::Deadlines),
            later: Mutex::of_default(Rank::Later),
            clients: Clients::default(),
        }
    }
}

impl Waits {
    /// Lets a request wait for a change of a file.
    pub fn add(&self, waiter: &Waiter, file: &Arc<File>) -> Ticket {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        self.waiting.lock().insert(ticket, (waiter.clone(), Arc::downgrade(file)));
        ticket
    }

    /// Whether no request waits under this ticket any more.
    pub fn is_over(&self, ticket: Ticket) -> bool {
        !self.waiting.lock().contains_key(&ticket)
    }

    /// Lets a request wait until a time.
    pub fn add_later(&self, waiter: &Waiter, at: u64) -> Ticket {
        let ticket = Ticket(self.next.fetch_add(1, Ordering::Relaxed));
        self.waiting.lock().insert(ticket, (waiter.clone(), Weak::new()));
        self.later.lock().insert((at, ticket));
        ticket
    }

    /// Takes out the requests whose time has come.
    pub fn take_due(&self, now: u64) -> Vec<Ticket> {
        let mut later = self.later.lock();
        let kept = later.split_off(&(now.saturating_add(1), Ticket(0)));
        std::mem::replace(&mut *later, kept).into_iter().map(|(_, ticket)| ticket).collect()
    }

    /// Takes a wait out. Only one caller gets it.
    pub fn take(&self, ticket: Ticket) -> Option<(Waiter, Weak<File>)> {
        self.waiting.lock().remove(&ticket)
    }

    /// The file that a request waits for.
    pub fn file_of(&self, ticket: Ticket) -> Option<Arc<File>> {
        self.waiting.lock().get(&ticket).and_then(|(_, file)| file.upgrade())
    }

    /// Enters the deadline of a holder of a right on a file.
    pub fn add_deadline(&self, at: u64, file: &Arc<File>) {
        self.deadlines.lock().insert((at, file.id), Arc::downgrade(file));
    }

    /// Takes out an expired deadline, with its file if that still exists. None if no deadline has expired.
    pub fn update_fixed_times(&self, now: u64) -> Option<Option<Arc<File>>> {
        let mut deadlines = self.deadlines.lock();
        let (&deadline, _) = deadlines.first_key_value().filter(|((at, _), _)| *at <= now)?;
        Some(deadlines.remove(&deadline).and_then(|file| file.upgrade()))
    }

    /// The next time of both tables.
    pub fn next_time(&self) -> Option<u64> {
        let expires = self.deadlines.lock().keys().next().map(|(at, _)| *at);
        let later = self.later.lock().first().map(|(at, _)| *at);
        expires.into_iter().chain(later).min()
    }

    /// The clients that hear of breaks.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }
}
