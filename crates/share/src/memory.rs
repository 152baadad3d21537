//! Memory that is used for clients as long as they want it: their opens and byte ranges, and the state that
//! the protocols keep for them alone. There is one sum over all shares, with a bound.
//!
//! Each table has a bound of its own, but many clients below it would fill memory together. So a client may
//! have as much as is still free (the dynamic threshold of shared buffers). One client alone may have half of
//! the bound; 32 that take all they can get have a 33rd each. There is always some left for one that comes
//! later.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::ranked::{Mutex, Rank};
use crate::{ClientKey, Identity};

/// Bytes of an open, with all its state here and in its protocol.
pub const OPEN_BYTES: usize = 6 * 1024;
/// Bytes of a byte range.
pub const RANGE_BYTES: usize = 320;

/// Shards of the table. Two clients seldom need the same one.
const SHARDS: usize = 64;
/// After this time the log may report again that a client is refused.
const SILENCE_NS: u64 = 10_000_000_000;
/// Memory is short if less than this part of the bound is left.
const SHORT_PART: usize = 8;
/// For this time the state of absent clients is not searched again.
const RELIEF_NS: u64 = 1_000_000_000;

/// A user on a client, who is charged. The client alone would not be enough: it chooses its own name, and
/// could choose that of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Payer(u64);

impl Payer {
    /// A payer that is never refused anything.
    pub const NOBODY: Payer = Payer(0);
}

/// The sum for one process.
pub struct ClientMemory {
    bound: usize,
    used: AtomicUsize,
    /// Makes payers that no one outside can guess.
    hasher: RandomState,
    by_payer: [Mutex<HashMap<Payer, usize>>; SHARDS],
    refused: AtomicU64,
    /// The time of the last line in the log (monotonic ns); 0: never.
    logged_ns: AtomicU64,
    /// The time when state of absent clients was last given up (monotonic ns); 0: never.
    relieved_ns: AtomicU64,
}

impl std::fmt::Debug for ClientMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientMemory")
            .field("bound", &self.bound)
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

impl ClientMemory {
    /// An account with a bound of `bound` bytes.
    #[must_use]
    pub fn bounded(bound: usize) -> Arc<ClientMemory> {
        Arc::new(ClientMemory {
            bound,
            used: AtomicUsize::new(0),
            hasher: RandomState::new(),
            by_payer: std::array::from_fn(|_| Mutex::of_default(Rank::ClientMemory)),
            refused: AtomicU64::new(0),
            logged_ns: AtomicU64::new(0),
            relieved_ns: AtomicU64::new(0),
        })
    }

    /// The bound in bytes.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Bytes in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Relaxed)
    }

    /// How often a client was refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// The payer for the state of a user on a client.
    #[must_use]
    pub fn payer(&self, client: ClientKey, user: &Identity) -> Payer {
        Payer(self.hasher.hash_one((client, user.key())))
    }

    /// Whether a payer may have `bytes` more.
    #[must_use]
    pub fn has_room(&self, payer: Payer, bytes: usize) -> bool {
        let free = self.bound.saturating_sub(self.used());
        self.used_by(payer).saturating_add(bytes) <= free
    }

    /// Charges a payer with `bytes` until the returned value is dropped. It does not check for room: the
    /// caller that can refuse does.
    #[must_use]
    pub fn charge(self: &Arc<Self>, payer: Payer, bytes: usize) -> Charge {
        self.add(payer, bytes);
        Charge { memory: Arc::clone(self), payer, bytes }
    }

    /// Charges a payer if there is room.
    #[must_use]
    pub fn try_charge(self: &Arc<Self>, payer: Payer, bytes: usize) -> Option<Charge> {
        self.has_room(payer, bytes).then(|| self.charge(payer, bytes))
    }

    /// Charges a user on a client for one open. The room was checked before, or must not be checked.
    pub(crate) fn charge_open(self: &Arc<Self>, client: ClientKey, user: &Identity) -> Charge {
        self.charge(self.payer(client, user), OPEN_BYTES)
    }

    /// Whether so little is left that state of absent clients is to be given up. Returns true at most once a
    /// second.
    pub(crate) fn is_short(&self, now_ns: u64) -> bool {
        let relieved_ns = self.relieved_ns.load(Relaxed);
        let is_long_ago = relieved_ns == 0 || now_ns.saturating_sub(relieved_ns) >= RELIEF_NS;
        let is_short = self.used() > self.bound - self.bound / SHORT_PART && is_long_ago;
        is_short && self.relieved_ns.compare_exchange(relieved_ns, now_ns.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Bytes that a payer has.
    fn used_by(&self, payer: Payer) -> usize {
        self.shard(payer).lock().get(&payer).copied().unwrap_or_default()
    }

    pub(crate) fn add(&self, payer: Payer, bytes: usize) {
        *self.shard(payer).lock().entry(payer).or_default() += bytes;
        self.used.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove(&self, payer: Payer, bytes: usize) {
        let mut shard = self.shard(payer).lock();
        if let Some(own) = shard.get_mut(&payer) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                shard.remove(&payer);
            }
        }
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Counts a refusal, and logs it at a limited rate.
    pub fn refuse(&self, payer: Payer, user: &str, now_ns: u64) {
        let refused = self.refused.fetch_add(1, Relaxed) + 1;
        let logged_ns = self.logged_ns.load(Relaxed);
        let reports_changes = logged_ns != 0 && now_ns.saturating_sub(logged_ns) < SILENCE_NS;
        if reports_changes
            || self.logged_ns.compare_exchange(logged_ns, now_ns.max(1), Relaxed, Relaxed).is_err()
        {
            return;
        }
        tracing::warn!(
            user,
            own = self.used_by(payer),
            used = self.used(),
            bound = self.bound,
            refused,
            "a client has more open files and locks than there is memory left for; it gets no new ones"
        );
    }

    fn shard(&self, payer: Payer) -> &Mutex<HashMap<Payer, usize>> {
        &self.by_payer[payer.0 as usize % SHARDS]
    }
}

/// Bytes that a payer is charged with, until this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<ClientMemory>,
    payer: Payer,
    bytes: usize,
}

impl Charge {
    /// The payer.
    #[must_use]
    pub fn payer(&self) -> Payer {
        self.payer
    }

    /// Charges `bytes` more if there is room. Returns false if there is none.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let has_room = self.memory.has_room(self.payer, bytes);
        if has_room {
            self.memory.add(self.payer, bytes);
            self.bytes += bytes;
        } else {
            self.memory.refused.fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Returns `bytes` of the charge.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.memory.remove(self.payer, bytes);
        self.bytes -= bytes;
    }
}

impl Clone for Charge {
    /// Charges as much once more.
    fn clone(&self) -> Charge {
        self.memory.charge(self.payer, self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.remove(self.payer, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets each client take all it can get, a byte at a time in turn.
    fn fill(memory: &Arc<ClientMemory>, clients: u64) -> Vec<Charge> {
        let mut charges = Vec::new();
        loop {
            let before = charges.len();
            for payer in (0..clients).map(Payer) {
                if memory.has_room(payer, 1) {
                    charges.push(memory.charge(payer, 1));
                }
            }
            if charges.len() == before {
                return charges;
            }
        }
    }

    #[test]
    fn clients_that_take_all_they_can_get_have_equal_parts_and_leave_one() {
        for (clients, each) in [(1, 500), (3, 250), (9, 100), (99, 10)] {
            let memory = ClientMemory::bounded(1000);
            let charges = fill(&memory, clients);
            let own: Vec<usize> = (0..clients).map(|client| memory.used_by(Payer(client))).collect();
            assert!(own.iter().all(|own| own.abs_diff(each) <= 1), "{clients} clients: {own:?}");
            assert!(memory.has_room(Payer(1 << 60), each - 1), "a newcomer finds {}", 1000 - memory.used());
            drop(charges);
            assert_eq!(memory.used(), 0);
            assert!(memory.by_payer.iter().all(|shard| shard.lock().is_empty()));
        }
    }

    #[test]
    fn a_charge_grows_while_there_is_room_and_gives_all_of_it_back() {
        let memory = ClientMemory::bounded(100);
        let mut charge = memory.charge(Payer(1), 20);
        assert!(charge.grow(20) && !charge.grow(30) && charge.grow(10));
        charge.shrink(40);
        assert_eq!((memory.used(), charge.grow(30)), (10, true));
        drop(charge);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn who_has_most_gets_nothing_when_others_come() {
        let memory = ClientMemory::bounded(1000);
        let _first = memory.charge(Payer(1), 400);
        assert!(memory.has_room(Payer(1), 100) && !memory.has_room(Payer(1), 201));
        let second = memory.charge(Payer(2), 300);
        assert!(!memory.has_room(Payer(1), 1) && memory.has_room(Payer(3), 300));
        drop(second);
        assert!(memory.has_room(Payer(1), 1));
    }
}
