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
pub struct MemoryAccount(u64);

impl MemoryAccount {
    /// An account that is never refused anything.
    pub const NOBODY: MemoryAccount = MemoryAccount(0);
}

/// The sum for one process.
pub struct ClientMemory {
    bound: usize,
    used: AtomicUsize,
    /// Makes accounts that no one outside can guess.
    hasher: RandomState,
    by_account: [Mutex<HashMap<MemoryAccount, usize>>; SHARDS],
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
            by_account: std::array::from_fn(|_| Mutex::of_default(Rank::ClientMemory)),
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

    /// The account for the state of a user on a client.
    #[must_use]
    pub fn account(&self, client: ClientKey, user: &Identity) -> MemoryAccount {
        MemoryAccount(self.hasher.hash_one((client, user.key())))
    }

    /// Whether an account may have `bytes` more.
    #[must_use]
    pub fn has_room(&self, account: MemoryAccount, bytes: usize) -> bool {
        let free = self.bound.saturating_sub(self.used());
        self.used_by(account).saturating_add(bytes) <= free
    }

    /// Charges an account with `bytes` until the returned value is dropped. It does not check for room: the
    /// caller that can refuse does.
    #[must_use]
    pub fn charge(self: &Arc<Self>, account: MemoryAccount, bytes: usize) -> Charge {
        self.add(account, bytes);
        Charge { memory: Arc::clone(self), account, bytes }
    }

    /// Charges an account if there is room.
    #[must_use]
    pub fn try_charge(self: &Arc<Self>, account: MemoryAccount, bytes: usize) -> Option<Charge> {
        self.has_room(account, bytes).then(|| self.charge(account, bytes))
    }

    /// Charges a user on a client for one open. The room was checked before, or must not be checked.
    pub(crate) fn charge_open(self: &Arc<Self>, client: ClientKey, user: &Identity) -> Charge {
        self.charge(self.account(client, user), OPEN_BYTES)
    }

    /// Whether so little is left that state of absent clients is to be given up. Returns true at most once a
    /// second.
    pub(crate) fn is_short(&self, now_ns: u64) -> bool {
        let relieved_ns = self.relieved_ns.load(Relaxed);
        let is_long_ago = relieved_ns == 0 || now_ns.saturating_sub(relieved_ns) >= RELIEF_NS;
        let is_short = self.used() > self.bound - self.bound / SHORT_PART && is_long_ago;
        is_short && self.relieved_ns.compare_exchange(relieved_ns, now_ns.max(1), Relaxed, Relaxed).is_ok()
    }

    /// Bytes that an account has.
    fn used_by(&self, account: MemoryAccount) -> usize {
        self.shard(account).lock().get(&account).copied().unwrap_or_default()
    }

    pub(crate) fn add(&self, account: MemoryAccount, bytes: usize) {
        *self.shard(account).lock().entry(account).or_default() += bytes;
        self.used.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove(&self, account: MemoryAccount, bytes: usize) {
        let mut shard = self.shard(account).lock();
        if let Some(own) = shard.get_mut(&account) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                shard.remove(&account);
            }
        }
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Counts a refusal, and logs it at a limited rate.
    pub fn refuse(&self, account: MemoryAccount, user: &str, now_ns: u64) {
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
            own = self.used_by(account),
            used = self.used(),
            bound = self.bound,
            refused,
            "a client has more open files and locks than there is memory left for; it gets no new ones"
        );
    }

    fn shard(&self, account: MemoryAccount) -> &Mutex<HashMap<MemoryAccount, usize>> {
        &self.by_account[account.0 as usize % SHARDS]
    }
}

/// Bytes that an account is charged with, until this is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<ClientMemory>,
    account: MemoryAccount,
    bytes: usize,
}

impl Charge {
    /// The account.
    #[must_use]
    pub fn account(&self) -> MemoryAccount {
        self.account
    }

    /// Charges `bytes` more if there is room. Returns false if there is none.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let has_room = self.memory.has_room(self.account, bytes);
        if has_room {
            self.memory.add(self.account, bytes);
            self.bytes += bytes;
        } else {
            self.memory.refused.fetch_add(1, Relaxed);
        }
        has_room
    }

    /// Returns `bytes` of the charge.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.memory.remove(self.account, bytes);
        self.bytes -= bytes;
    }
}

impl Clone for Charge {
    /// Charges as much once more.
    fn clone(&self) -> Charge {
        self.memory.charge(self.account, self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.remove(self.account, self.bytes);
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
            for account in (0..clients).map(MemoryAccount) {
                if memory.has_room(account, 1) {
                    charges.push(memory.charge(account, 1));
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
            let own: Vec<usize> = (0..clients).map(|client| memory.used_by(MemoryAccount(client))).collect();
            assert!(own.iter().all(|own| own.abs_diff(each) <= 1), "{clients} clients: {own:?}");
            assert!(
                memory.has_room(MemoryAccount(1 << 60), each - 1),
                "a newcomer finds {}",
                1000 - memory.used()
            );
            drop(charges);
            assert_eq!(memory.used(), 0);
            assert!(memory.by_account.iter().all(|shard| shard.lock().is_empty()));
        }
    }

    #[test]
    fn a_charge_grows_while_there_is_room_and_gives_all_of_it_back() {
        let memory = ClientMemory::bounded(100);
        let mut charge = memory.charge(MemoryAccount(1), 20);
        assert!(charge.grow(20) && !charge.grow(30) && charge.grow(10));
        charge.shrink(40);
        assert_eq!((memory.used(), charge.grow(30)), (10, true));
        drop(charge);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn who_has_most_gets_nothing_when_others_come() {
        let memory = ClientMemory::bounded(1000);
        let _first = memory.charge(MemoryAccount(1), 400);
        assert!(memory.has_room(MemoryAccount(1), 100) && !memory.has_room(MemoryAccount(1), 201));
        let second = memory.charge(MemoryAccount(2), 300);
        assert!(!memory.has_room(MemoryAccount(1), 1) && memory.has_room(MemoryAccount(3), 300));
        drop(second);
        assert!(memory.has_room(MemoryAccount(1), 1));
    }
}
