//! The memory that all connections hold for clients that do not read their replies: its sum, and a bound on
//! the sum.
//!
//! Each connection has a bound of its own, but many connections below theirs could fill memory together.
//! Above the common bound, the connection that holds most is closed. A connection uses this module only if
//! its socket does not take all of a reply.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::memory;

/// The bound on a host with plenty of memory.
const MOST: usize = 256 << 20;
/// The bound is this fraction of the memory that the process may have.
const PART: u64 = 8;
/// A connection that holds less is not registered, and is not closed for its backlog. The default number of
/// connections stays below [`MOST`] even if all of them hold this much.
const NOTED: usize = 16 * 1024;

/// A connection that can be closed for its backlog.
pub(crate) trait BacklogHolder: Send + Sync {
    /// Closes the connection soon.
    fn give_up(&self);
}

/// The sum for one process.
pub struct Backlog {
    bound: usize,
    held: AtomicUsize,
    /// The bytes of the connections that are being closed.
    ending: AtomicUsize,
    closed: AtomicU64,
    next: AtomicU64,
    noted: Mutex<HashMap<u64, Noted>>,
}

struct Noted {
    held: usize,
    debtor: Arc<dyn BacklogHolder>,
}

impl std::fmt::Debug for Backlog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backlog")
            .field("bound", &self.bound)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

impl Backlog {
    /// A backlog with a bound of this many bytes.
    #[must_use]
    pub fn bounded(bound: usize) -> Arc<Backlog> {
        Arc::new(Backlog {
            bound,
            held: AtomicUsize::new(0),
            ending: AtomicUsize::new(0),
            closed: AtomicU64::new(0),
            next: AtomicU64::new(0),
            noted: Mutex::default(),
        })
    }

    /// A bound of 256 MiB, or an eighth of the memory that this process may have, whichever is less.
    #[must_use]
    pub fn of_host() -> Arc<Backlog> {
        let part = memory::limit().map_or(MOST, |limit| usize::try_from(limit / PART).unwrap_or(MOST));
        Backlog::bounded(part.min(MOST))
    }

    /// The bound in bytes.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Bytes that are held now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Connections that were closed for their backlog.
    #[must_use]
    pub fn closed(&self) -> u64 {
        self.closed.load(Relaxed)
    }

    /// Whether the sum is so large that each connection may hold only a little.
    pub(crate) fn is_tight(&self) -> bool {
        self.held() > self.bound / 2
    }

    /// Closes the connections with the largest backlog until the rest is within the bound.
    fn relieve(&self) {
        let mut noted = self.noted.lock();
        while self.held().saturating_sub(self.ending.load(Relaxed)) > self.bound {
            let Some(worst) = noted.iter().max_by_key(|(_, noted)| noted.held).map(|(id, _)| *id) else {
                return;
            };
            let Some(Noted { held, debtor }) = noted.remove(&worst) else { return };
            self.ending.fetch_add(held, Relaxed);
            self.closed.fetch_add(1, Relaxed);
            debtor.give_up();
        }
    }
}

/// The bytes of one connection. Dropping this removes them from the sum.
pub(crate) struct BacklogEntry {
    backlog: Arc<Backlog>,
    id: u64,
    held: usize,
}

impl BacklogEntry {
    pub(crate) fn new(backlog: &Arc<Backlog>) -> BacklogEntry {
        BacklogEntry { backlog: Arc::clone(backlog), id: backlog.next.fetch_add(1, Relaxed), held: 0 }
    }

    /// Sets the bytes that the connection holds now.
    pub(crate) fn set(&mut self, held: usize, debtor: impl FnOnce() -> Arc<dyn BacklogHolder>) {
        if held == self.held {
            return;
        }
        let backlog = &*self.backlog;
        if held >= NOTED || self.held >= NOTED {
            let mut noted = backlog.noted.lock();
            match noted.get_mut(&self.id) {
                Some(known) if held >= NOTED => known.held = held,
                Some(_) => drop(noted.remove(&self.id)),
                // The connection is being closed. Its bytes of that moment count until it is gone.
                None if self.held >= NOTED => return,
                None => drop(noted.insert(self.id, Noted { held, debtor: debtor() })),
            }
        }
        let grows = held > self.held;
        match grows {
            true => backlog.held.fetch_add(held - self.held, Relaxed),
            false => backlog.held.fetch_sub(self.held - held, Relaxed),
        };
        self.held = held;
        if grows && backlog.held() > backlog.bound {
            backlog.relieve();
        }
    }
}

impl Drop for BacklogEntry {
    fn drop(&mut self) {
        if self.held == 0 {
            return;
        }
        let noted = self.backlog.noted.lock().remove(&self.id);
        if self.held >= NOTED && noted.is_none() {
            self.backlog.ending.fetch_sub(self.held, Relaxed);
        }
        self.backlog.held.fetch_sub(self.held, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct FakeDebtor(AtomicUsize);

    impl BacklogHolder for FakeDebtor {
        fn give_up(&self) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn past_the_bound_the_one_that_holds_most_is_closed_once() {
        let backlog = Backlog::bounded(1 << 20);
        let clients: Vec<Arc<FakeDebtor>> = (0..4).map(|_| Arc::default()).collect();
        let mut debts: Vec<BacklogEntry> = (0..4).map(|_| BacklogEntry::new(&backlog)).collect();
        let closed = || clients.iter().map(|client| client.0.load(Relaxed)).collect::<Vec<_>>();
        for (at, held) in [(0, 300 << 10), (1, 400 << 10), (2, 8 << 10), (3, 300 << 10)] {
            debts[at].set(held, || Arc::clone(&clients[at]) as _);
        }
        assert_eq!(closed(), [0, 0, 0, 0]);
        assert!(backlog.is_tight());
        debts[0].set(350 << 10, || Arc::clone(&clients[0]) as _);
        assert_eq!(closed(), [0, 1, 0, 0]);
        // Its bytes count as gone already, and it cannot hold more.
        debts[1].set(900 << 10, || Arc::clone(&clients[1]) as _);
        debts[0].set(400 << 10, || Arc::clone(&clients[0]) as _);
        assert_eq!(closed(), [0, 1, 0, 0]);
        assert_eq!(backlog.closed(), 1);
        drop(debts);
        assert_eq!((backlog.held(), backlog.ending.load(Relaxed)), (0, 0));
        assert!(backlog.noted.lock().is_empty());
    }
}
