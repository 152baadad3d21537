//! The tables of requests that wait, and of what time brings.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use volume::NodeId;

use super::clients::Clients;
use crate::engine::parts::file::File;
use crate::ranked::{Mutex, Rank};
use crate::{Ticket, Waiter};

/// Who waits, until when holders may take their time, and who is told.
pub(crate) struct Waits {
    next: AtomicU64,
    waiting: Mutex<HashMap<Ticket, (Waiter, Weak<File>)>>,
    deadlines: Mutex<BTreeMap<(u64, NodeId), Weak<File>>>,
    /// Requests that wait for a program of the host or for something else outside, by when they are tried again.
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

    /// Takes a wait out; only one caller gets it.
    pub fn take(&self, ticket: Ticket) -> Option<(Waiter, Weak<File>)> {
        self.waiting.lock().remove(&ticket)
    }

    /// The file that somebody waits for.
    pub fn file_of(&self, ticket: Ticket) -> Option<Arc<File>> {
        self.waiting.lock().get(&ticket).and_then(|(_, file)| file.upgrade())
    }

    /// The holder of a right on a file may take its time until then.
    pub fn add_deadline(&self, at: u64, file: &Arc<File>) {
        self.deadlines.lock().insert((at, file.id), Arc::downgrade(file));
    }

    /// Takes out a deadline that is over, with its file if that is still there; none when none is over.
    pub fn take_over(&self, now: u64) -> Option<Option<Arc<File>>> {
        let mut deadlines = self.deadlines.lock();
        let (&deadline, _) = deadlines.first_key_value().filter(|((at, _), _)| *at <= now)?;
        Some(deadlines.remove(&deadline).and_then(|file| file.upgrade()))
    }

    /// When the next of both has its time.
    pub fn next_time(&self) -> Option<u64> {
        let expires = self.deadlines.lock().keys().next().map(|(at, _)| *at);
        let later = self.later.lock().first().map(|(at, _)| *at);
        expires.into_iter().chain(later).min()
    }

    /// Who hears of breaks.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }
}
