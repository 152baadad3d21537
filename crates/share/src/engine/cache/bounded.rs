//! A table with a limit in bytes, in parts that are locked one by one.
//!
//! When something does not fit, that goes which came first and was not asked for since it was last passed over. Of what is new
//! to a full part only some is let in: where more is in use than fits, everything would else be replaced before it is asked for
//! again, at more cost than asking the host. What goes is dropped when nothing is locked, since that may close a descriptor of
//! the host.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};

use parking_lot::{Mutex, MutexGuard};

/// Parts of a table; two threads seldom meet in one.
pub(super) const PARTS: usize = 16;

/// Of so many that are new to a full part one is let in.
const LET_IN: u32 = 8;

/// What is kept under keys.
pub(super) struct Bounded<K, V> {
    parts: [Mutex<Part<K, V>>; PARTS],
    hasher: RandomState,
    /// Most bytes in one part.
    limit: usize,
}

struct Part<K, V> {
    slots: HashMap<K, Slot<V>>,
    /// Every key, in the order in which they came; some keys that are gone too, and some twice.
    order: VecDeque<K>,
    bytes: usize,
    /// How many came that did not fit.
    crowd: u32,
}

struct Slot<V> {
    value: V,
    bytes: usize,
    /// It was asked for since it came or was passed over.
    is_wanted: bool,
    /// When it was asked for last, in seconds.
    used_s: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Bounded<K, V> {
    /// A table for at most `limit` bytes.
    pub fn new(limit: usize) -> Bounded<K, V> {
        let empty = || Mutex::new(Part { slots: HashMap::new(), order: VecDeque::new(), bytes: 0, crowd: 0 });
        Bounded { parts: std::array::from_fn(|_| empty()), hasher: RandomState::new(), limit: limit / PARTS }
    }

    fn part(&self, key: &K) -> MutexGuard<'_, Part<K, V>> {
        self.parts[self.hasher.hash_one(key) as usize % PARTS].lock()
    }

    /// What is kept under a key, which is asked for at this second.
    pub fn get(&self, key: &K, now_s: u64) -> Option<V> {
        let mut part = self.part(key);
        let slot = part.slots.get_mut(key)?;
        (slot.is_wanted, slot.used_s) = (true, now_s);
        Some(slot.value.clone())
    }

    /// Keeps a value that counts for so many bytes, unless `is_right` says, while nobody can take the key out, that it is
    /// no longer to be.
    pub fn put(&self, key: K, value: V, bytes: usize, now_s: u64, is_right: impl FnOnce() -> bool) {
        // Dropped behind the lock.
        let mut gone = Vec::new();
        let mut part = self.part(&key);
        if bytes > self.limit || part.turns_away(&key, bytes, self.limit) || !is_right() {
            return;
        }
        part.order.push_back(key.clone());
        part.bytes += bytes;
        let slot = Slot { value, bytes, is_wanted: false, used_s: now_s };
        if let Some(old) = part.slots.insert(key, slot) {
            part.bytes -= old.bytes;
            gone.push(old.value);
        }
        while part.bytes > self.limit {
            gone.extend(part.pass_over());
        }
        part.tidy();
        drop(part);
        drop(gone);
    }

    /// Takes out what is kept under a key.
    pub fn remove(&self, key: &K) -> Option<V> {
        let mut part = self.part(key);
        let slot = part.slots.remove(key)?;
        part.bytes -= slot.bytes;
        Some(slot.value)
    }

    /// Takes everything out.
    pub fn clear(&self) {
        for part in &self.parts {
            let mut part = part.lock();
            let slots = std::mem::take(&mut part.slots);
            part.order.clear();
            part.bytes = 0;
            drop(part);
            drop(slots);
        }
    }

    /// Takes out of one part what was not asked for since `since_s`.
    pub fn drop_idle(&self, part: usize, since_s: u64) {
        let mut part = self.parts[part % PARTS].lock();
        let idle: Vec<Slot<V>> =
            part.slots.extract_if(|_, slot| slot.used_s < since_s).map(|(_, slot)| slot).collect();
        part.bytes -= idle.iter().map(|slot| slot.bytes).sum::<usize>();
        part.tidy();
        drop(part);
        drop(idle);
    }

    /// How much is kept, and for how many bytes it counts.
    pub fn usage(&self) -> (usize, usize) {
        let each = self.parts.iter().map(|part| {
            let part = part.lock();
            (part.slots.len(), part.bytes)
        });
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl<K: Hash + Eq + Clone, V> Part<K, V> {
    /// Whether something that comes now is not worth what would have to go for it.
    fn turns_away(&mut self, key: &K, bytes: usize, limit: usize) -> bool {
        if self.bytes + bytes <= limit || self.slots.contains_key(key) {
            return false;
        }
        self.crowd = self.crowd.wrapping_add(1);
        !self.crowd.is_multiple_of(LET_IN)
    }

    /// Passes over what came first; takes it out when nobody has asked for it.
    fn pass_over(&mut self) -> Option<V> {
        let Some(first) = self.order.pop_front() else {
            // Every key is in the order, so nothing is left.
            self.bytes = 0;
            return None;
        };
        let slot = self.slots.get_mut(&first)?;
        if std::mem::take(&mut slot.is_wanted) {
            self.order.push_back(first);
            return None;
        }
        let slot = self.slots.remove(&first)?;
        self.bytes -= slot.bytes;
        Some(slot.value)
    }

    /// Takes keys out of the order that are gone, before they are many.
    fn tidy(&mut self) {
        if self.order.len() > 2 * self.slots.len() + 64 {
            self.order = self.slots.keys().cloned().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(table: &Bounded<u64, u64>, key: u64, bytes: usize) {
        table.put(key, key * 10, bytes, 1, || true);
    }

    #[test]
    fn the_limit_holds_and_what_is_asked_for_stays() {
        let table = Bounded::new(PARTS * 1000);
        for key in 0..100_000 {
            put(&table, key, 10);
            if key >= 7 {
                assert_eq!(table.get(&7, 2), Some(70), "{key}");
            }
            assert!(key % 1000 != 0 || table.usage().1 <= PARTS * 1000);
        }
        let (len, bytes) = table.usage();
        assert!(len * 10 == bytes && bytes <= PARTS * 1000 && bytes > PARTS * 900, "{len} {bytes}");
        put(&table, 1, 1001);
        assert_eq!(table.get(&1, 2), None, "what is larger than a part is not kept");
    }

    #[test]
    fn where_more_is_in_use_than_fits_some_of_it_stays() {
        let table = Bounded::new(PARTS * 1000);
        let (mut found, mut asked) = (0, 0);
        // Four times as much as fits, again and again in the same order.
        for round in 0..20 {
            for key in 0..400 * PARTS as u64 {
                let is_there = table.get(&key, 1).is_some();
                if round > 0 {
                    asked += 1;
                    found += u32::from(is_there);
                }
                if !is_there {
                    put(&table, key, 10);
                }
            }
        }
        assert!(found * 10 > asked, "{found} of {asked}");
        // What comes into use takes its place after a while.
        let found = (0..100).filter(|_| {
            let is_there = table.get(&1_000_000, 1).is_some();
            put(&table, 1_000_000, 10);
            is_there
        });
        assert!(found.count() > 100 - 2 * LET_IN as usize);
    }

    #[test]
    fn what_is_replaced_removed_or_idle_counts_no_more() {
        let table = Bounded::new(1 << 20);
        for round in 0..1000 {
            put(&table, 5, 100 + round % 3);
            table.put(6, 60, 1, 9, || true);
            table.put(7, 70, 1, 9, || false);
        }
        assert_eq!(table.usage(), (2, 101));
        (0..PARTS).for_each(|part| table.drop_idle(part, 9));
        assert_eq!((table.get(&5, 9), table.get(&6, 9), table.usage()), (None, Some(60), (1, 1)));
        assert_eq!((table.remove(&6), table.remove(&6), table.usage()), (Some(60), None, (0, 0)));
        put(&table, 8, 3);
        table.clear();
        assert_eq!((table.get(&8, 1), table.usage()), (None, (0, 0)));
        let orders: usize = table.parts.iter().map(|part| part.lock().order.len()).sum();
        assert!(orders <= 64 * PARTS, "{orders}");
    }
}
