//! Memory that is kept for clients as long as they want it: their opens and byte ranges, and what the protocols keep beside
//! them. One sum over all shares, and a bound on it.
//!
//! Each table has a bound of its own, but many clients that stay below it would fill memory together. So a client may have as
//! much as is still free (the dynamic threshold of shared buffers): one alone half of the bound, 32 that take all they can get a
//! 33rd each, and there is always some left for one that comes later.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;

use crate::ClientKey;

/// What an open takes, with all that is kept of it here and in its protocol.
pub const OPEN_BYTES: usize = 6 * 1024;
/// What a byte range takes.
pub const RANGE_BYTES: usize = 320;

/// Shards of the table; two clients seldom meet in one.
const SHARDS: usize = 64;
/// After so long the log says again that somebody is refused.
const SILENCE_NS: u64 = 10_000_000_000;

/// The sum for one process.
pub struct ClientMemory {
    bound: usize,
    used: AtomicUsize,
    by_client: [Mutex<HashMap<ClientKey, usize>>; SHARDS],
    refused: AtomicU64,
    /// When the log has said so last (monotonic ns); 0: never.
    told_ns: AtomicU64,
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
    /// One with a bound of so many bytes.
    #[must_use]
    pub fn bounded(bound: usize) -> Arc<ClientMemory> {
        Arc::new(ClientMemory {
            bound,
            used: AtomicUsize::new(0),
            by_client: std::array::from_fn(|_| Mutex::default()),
            refused: AtomicU64::new(0),
            told_ns: AtomicU64::new(0),
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

    /// Whether a client may have so many bytes more.
    #[must_use]
    pub fn has_room(&self, client: ClientKey, bytes: usize) -> bool {
        let free = self.bound.saturating_sub(self.used());
        self.used_by(client).saturating_add(bytes) <= free
    }

    /// Charges a client with so many bytes until what is given is dropped. Asks for no room: that is for whoever can refuse.
    #[must_use]
    pub fn charge(self: &Arc<Self>, client: ClientKey, bytes: usize) -> Charge {
        self.add(client, bytes);
        Charge { memory: Arc::clone(self), client, bytes }
    }

    /// Bytes that a client has.
    fn used_by(&self, client: ClientKey) -> usize {
        self.shard(client).lock().get(&client).copied().unwrap_or_default()
    }

    pub(crate) fn add(&self, client: ClientKey, bytes: usize) {
        *self.shard(client).lock().entry(client).or_default() += bytes;
        self.used.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn remove(&self, client: ClientKey, bytes: usize) {
        let mut shard = self.shard(client).lock();
        if let Some(own) = shard.get_mut(&client) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                shard.remove(&client);
            }
        }
        self.used.fetch_sub(bytes, Relaxed);
    }

    /// Counts a refusal, and says so in the log now and then.
    pub(crate) fn refuse(&self, client: ClientKey, user: &str, now_ns: u64) {
        let refused = self.refused.fetch_add(1, Relaxed) + 1;
        let told_ns = self.told_ns.load(Relaxed);
        let is_told = told_ns != 0 && now_ns.saturating_sub(told_ns) < SILENCE_NS;
        if is_told || self.told_ns.compare_exchange(told_ns, now_ns.max(1), Relaxed, Relaxed).is_err() {
            return;
        }
        tracing::warn!(
            user,
            own = self.used_by(client),
            used = self.used(),
            bound = self.bound,
            refused,
            "a client has more open files and locks than there is memory left for; it gets no new ones"
        );
    }

    fn shard(&self, client: ClientKey) -> &Mutex<HashMap<ClientKey, usize>> {
        // Keys may be counters or random: the product spreads both.
        let folded = (client.0 >> 64) as u64 ^ client.0 as u64;
        &self.by_client[(folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58) as usize % SHARDS]
    }
}

/// So much of a client's memory, until it is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: Arc<ClientMemory>,
    client: ClientKey,
    bytes: usize,
}

impl Charge {
    /// Charges with so many bytes more if there is room; false when there is none.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let has_room = self.memory.has_room(self.client, bytes);
        if has_room {
            self.memory.add(self.client, bytes);
            self.bytes += bytes;
        }
        has_room
    }

    /// Gives so many bytes of it back.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.memory.remove(self.client, bytes);
        self.bytes -= bytes;
    }
}

impl Clone for Charge {
    /// Charges as much once more.
    fn clone(&self) -> Charge {
        self.memory.charge(self.client, self.bytes)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.remove(self.client, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has each client take what it can get, a byte at a time in turn.
    fn fill(memory: &Arc<ClientMemory>, clients: u128) -> Vec<Charge> {
        let mut charges = Vec::new();
        loop {
            let before = charges.len();
            for client in (0..clients).map(ClientKey) {
                if memory.has_room(client, 1) {
                    charges.push(memory.charge(client, 1));
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
            let own: Vec<usize> = (0..clients).map(|client| memory.used_by(ClientKey(client))).collect();
            assert!(own.iter().all(|own| own.abs_diff(each) <= 1), "{clients} clients: {own:?}");
            assert!(
                memory.has_room(ClientKey(1 << 80), each - 1),
                "a newcomer finds {}",
                1000 - memory.used()
            );
            drop(charges);
            assert_eq!(memory.used(), 0);
            assert!(memory.by_client.iter().all(|shard| shard.lock().is_empty()));
        }
    }

    #[test]
    fn a_charge_grows_while_there_is_room_and_gives_all_of_it_back() {
        let memory = ClientMemory::bounded(100);
        let mut charge = memory.charge(ClientKey(1), 20);
        assert!(charge.grow(20) && !charge.grow(30) && charge.grow(10));
        charge.shrink(40);
        assert_eq!((memory.used(), charge.grow(30)), (10, true));
        drop(charge);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn who_has_most_gets_nothing_when_others_come() {
        let memory = ClientMemory::bounded(1000);
        let _first = memory.charge(ClientKey(1), 400);
        assert!(memory.has_room(ClientKey(1), 100) && !memory.has_room(ClientKey(1), 201));
        let second = memory.charge(ClientKey(2), 300);
        assert!(!memory.has_room(ClientKey(1), 1) && memory.has_room(ClientKey(3), 300));
        drop(second);
        assert!(memory.has_room(ClientKey(1), 1));
    }
}
