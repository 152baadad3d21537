//! A table with a limit in bytes and descriptors, in parts with a lock each.
//!
//! If a new entry does not fit, the oldest entry is removed that was not used since it was last passed over.
//! A full part lets in only some of the new entries. If more is in use than fits, every entry would otherwise
//! be replaced before its next use, which costs more than asking the host. Removed entries are dropped
//! outside of all locks, because that may close a descriptor of the host.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use wire::Shrink;

use crate::engine::values::descriptors::{Descriptors, ShareDescriptors};
use crate::ranked::{Mutex, MutexGuard, Rank};

/// Parts of a table. Two threads seldom need the same one.
pub(super) const SHARDS: usize = 16;

/// A full part lets in one of this many new entries.
const ADMITTED: u32 = 8;

/// The room that a value takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight {
    /// Bytes that it counts for.
    pub bytes: usize,
    /// Descriptors of the host that it holds.
    pub descriptors: usize,
}

impl Weight {
    /// The weight of a value without a descriptor.
    pub fn of_bytes(bytes: usize) -> Weight {
        Weight { bytes, descriptors: 0 }
    }
}

/// Values under keys, within limits.
pub(super) struct Bounded<K, V, S = RandomState> {
    parts: [Mutex<CacheShard<K, V, S>>; SHARDS],
    hasher: S,
    /// Most bytes in one part.
    limit: usize,
    /// The source of descriptors.
    drawn: ShareDescriptors,
}

struct CacheShard<K, V, S> {
    slots: HashMap<K, CacheEntry<V>, S>,
    /// Every key, in the order of arrival. Some keys are gone already, and some are there twice.
    order: VecDeque<K>,
    /// The weight of all entries.
    weight: Weight,
    /// How many new entries did not fit.
    crowd: u32,
}

struct CacheEntry<V> {
    value: V,
    weight: Weight,
    /// It was used since it came or was passed over.
    is_wanted: bool,
    /// The time of the last use, in seconds.
    used_s: u64,
}

impl<K: Hash + Eq + Clone, V: Clone, S: BuildHasher + Default> Bounded<K, V, S> {
    /// A table for at most `limit` bytes, with descriptors from `descriptors`.
    pub fn new(limit: usize, descriptors: &Arc<Descriptors>) -> Bounded<K, V, S> {
        let nothing = Weight::of_bytes(0);
        let empty =
            || CacheShard { slots: HashMap::default(), order: VecDeque::new(), weight: nothing, crowd: 0 };
        Bounded {
            parts: std::array::from_fn(|_| Mutex::new(Rank::CachePart, empty())),
            hasher: S::default(),
            limit: limit / SHARDS,
            drawn: ShareDescriptors::new(descriptors),
        }
    }

    fn part(&self, key: &K) -> MutexGuard<'_, CacheShard<K, V, S>> {
        self.parts[self.hasher.hash_one(key) as usize % SHARDS].lock()
    }

    /// The value under a key, which counts as used at this second.
    pub fn get(&self, key: &K, now_s: u64) -> Option<V> {
        let mut part = self.part(key);
        let slot = part.slots.get_mut(key)?;
        (slot.is_wanted, slot.used_s) = (true, now_s);
        Some(slot.value.clone())
    }

    /// Whether a new entry is worth the entries that would be removed for it. Call it once before each
    /// [`Bounded::put`], which takes whatever it is given.
    pub fn admits(&self, key: &K, weight: Weight, now_s: u64) -> bool {
        if weight.bytes > self.limit {
            return false;
        }
        let mut part = self.part(key);
        let lacks_descriptors = weight.descriptors > 0 && !self.drawn.is_available(now_s);
        if part.slots.contains_key(key) {
            return true;
        }
        // Only entries of the same part can be removed for it.
        let is_hopeless = lacks_descriptors && part.weight.descriptors == 0;
        let is_full = lacks_descriptors || part.weight.bytes + weight.bytes > self.limit;
        !is_hopeless && (!is_full || part.admits_one_of_many())
    }

    /// Stores a value if `is_right` holds. That is checked while no thread can take the key out.
    pub fn put(&self, key: K, value: V, weight: Weight, now_s: u64, is_right: impl FnOnce() -> bool) {
        // Dropped after the lock is released.
        let mut gone = Vec::new();
        let mut part = self.part(&key);
        if !is_right() {
            return;
        }
        gone.extend(part.take(&key));
        self.give_back(&gone);
        while part.weight.bytes + weight.bytes > self.limit && !part.slots.is_empty() {
            self.pass_over(&mut part, &mut gone);
        }
        while !self.drawn.take(weight.descriptors) {
            if part.weight.descriptors == 0 {
                // Others were quicker, and there is nothing to remove for it.
                drop(part);
                return;
            }
            self.pass_over(&mut part, &mut gone);
        }
        part.order.push_back(key.clone());
        part.add(key, CacheEntry { value, weight, is_wanted: false, used_s: now_s });
        part.tidy();
        drop(part);
        drop(gone);
    }

    fn pass_over(&self, part: &mut CacheShard<K, V, S>, gone: &mut Vec<CacheEntry<V>>) {
        if let Some(slot) = part.pass_over() {
            self.drawn.give_back(slot.weight.descriptors);
            gone.push(slot);
        }
    }

    fn give_back(&self, gone: &[CacheEntry<V>]) {
        self.drawn.give_back(gone.iter().map(|slot| slot.weight.descriptors).sum());
    }

    /// Takes the value out that is under a key.
    pub fn remove(&self, key: &K) -> Option<V> {
        let slot = self.part(key).take(key)?;
        self.drawn.give_back(slot.weight.descriptors);
        Some(slot.value)
    }

    /// Takes everything out.
    pub fn clear(&self) {
        for part in &self.parts {
            let mut part = part.lock();
            let slots = std::mem::take(&mut part.slots);
            part.order.clear();
            self.drawn.give_back(part.weight.descriptors);
            part.weight = Weight::of_bytes(0);
            drop(part);
            drop(slots);
        }
    }

    /// Takes out of one part the entries that were not used since `since_s`, and as many descriptors as
    /// others are to have.
    pub fn drop_idle(&self, part: usize, since_s: u64, now_s: u64) {
        let mut part = self.parts[part % SHARDS].lock();
        let idle: Vec<K> =
            part.slots.iter().filter(|(_, slot)| slot.used_s < since_s).map(|(key, _)| key.clone()).collect();
        let mut gone: Vec<CacheEntry<V>> = idle.iter().filter_map(|key| part.take(key)).collect();
        self.give_back(&gone);
        if let Some(stay) = self.drawn.may_stay(now_s) {
            while part.weight.descriptors > stay / SHARDS {
                self.pass_over(&mut part, &mut gone);
            }
        }
        part.compact();
        drop(part);
        drop(gone);
    }

    /// Takes out the values that `is_meant` selects, if `is_idle` holds for the time of their last use.
    /// Returns true if some selected values are left.
    pub fn drop_where(&self, is_meant: impl Fn(&V) -> bool, is_idle: impl Fn(u64) -> bool) -> bool {
        let mut is_any_left = false;
        for part in &self.parts {
            let mut part = part.lock();
            let mut idle = Vec::new();
            for (key, slot) in part.slots.iter().filter(|(_, slot)| is_meant(&slot.value)) {
                if is_idle(slot.used_s) {
                    idle.push(key.clone());
                } else {
                    is_any_left = true;
                }
            }
            let gone: Vec<CacheEntry<V>> = idle.iter().filter_map(|key| part.take(key)).collect();
            self.give_back(&gone);
            part.tidy();
            drop(part);
            drop(gone);
        }
        is_any_left
    }

    /// The number of entries, and the bytes that they count for.
    pub fn usage(&self) -> (usize, usize) {
        let each = self.parts.iter().map(|part| {
            let part = part.lock();
            (part.slots.len(), part.weight.bytes)
        });
        each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

impl<K: Hash + Eq + Clone, V, S: BuildHasher> CacheShard<K, V, S> {
    fn add(&mut self, key: K, slot: CacheEntry<V>) {
        self.weight.bytes += slot.weight.bytes;
        self.weight.descriptors += slot.weight.descriptors;
        self.slots.insert(key, slot);
    }

    fn take(&mut self, key: &K) -> Option<CacheEntry<V>> {
        let slot = self.slots.remove(key)?;
        self.weight.bytes -= slot.weight.bytes;
        self.weight.descriptors -= slot.weight.descriptors;
        Some(slot)
    }

    /// Whether a full part lets this new entry in: it lets in one of many.
    fn admits_one_of_many(&mut self) -> bool {
        self.crowd = self.crowd.wrapping_add(1);
        self.crowd.is_multiple_of(ADMITTED)
    }

    /// Passes over the oldest entry and takes it out if it was not used. Every key is in the order, so in the
    /// end an entry is taken out as long as there is one.
    fn pass_over(&mut self) -> Option<CacheEntry<V>> {
        let first = self.order.pop_front()?;
        let slot = self.slots.get_mut(&first)?;
        if std::mem::take(&mut slot.is_wanted) {
            self.order.push_back(first);
            return None;
        }
        self.take(&first)
    }

    /// Takes keys out of the order that are gone, before they are many. Returns memory that many had used.
    fn tidy(&mut self) {
        if self.order.len() > 2 * self.slots.len() + 64 {
            self.order = self.slots.keys().cloned().collect();
        }
        self.slots.shrink();
    }

    /// Takes keys out of the order that are gone, unless they are few beside the others, and returns the
    /// memory of an empty part. A forgotten key may be the last to hold pages of the allocator, so a few in
    /// each part cost much more than their size.
    fn compact(&mut self) {
        let CacheShard { slots, order, .. } = self;
        if order.len() > slots.len() + slots.len() / 8 {
            order.retain(|key| slots.contains_key(key));
            order.shrink_to(2 * slots.len());
        }
        match slots.is_empty() {
            true => slots.shrink_to_fit(),
            false => slots.shrink(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(limit: usize) -> Bounded<u64, u64> {
        Bounded::new(limit, &Descriptors::new(usize::MAX))
    }

    fn put(table: &Bounded<u64, u64>, key: u64, bytes: usize) {
        put_weight(table, key, Weight::of_bytes(bytes));
    }

    fn put_weight(table: &Bounded<u64, u64>, key: u64, weight: Weight) {
        if table.admits(&key, weight, 1) {
            table.put(key, key * 10, weight, 1, || true);
        }
    }

    #[test]
    fn the_limit_holds_and_what_is_asked_for_stays() {
        let table = table(SHARDS * 1000);
        for key in 0..100_000 {
            put(&table, key, 10);
            if key >= 7 {
                assert_eq!(table.get(&7, 2), Some(70), "{key}");
            }
            assert!(key % 1000 != 0 || table.usage().1 <= SHARDS * 1000);
        }
        let (len, bytes) = table.usage();
        assert!(len * 10 == bytes && bytes <= SHARDS * 1000 && bytes > SHARDS * 900, "{len} {bytes}");
        put(&table, 1, 1001);
        assert_eq!(table.get(&1, 2), None, "what is larger than a part is not kept");
    }

    #[test]
    fn where_more_is_in_use_than_fits_some_of_it_stays() {
        let table = table(SHARDS * 1000);
        let (mut found, mut asked) = (0, 0);
        // Four times as much as fits, again and again in the same order.
        for round in 0..20 {
            for key in 0..400 * SHARDS as u64 {
                let is_available = table.get(&key, 1).is_some();
                if round > 0 {
                    asked += 1;
                    found += u32::from(is_available);
                }
                if !is_available {
                    put(&table, key, 10);
                }
            }
        }
        assert!(found * 10 > asked, "{found} of {asked}");
        // A key that comes into use gets its place after a while.
        let found = (0..100).filter(|_| {
            let is_available = table.get(&1_000_000, 1).is_some();
            put(&table, 1_000_000, 10);
            is_available
        });
        assert!(found.count() > 100 - 2 * ADMITTED as usize);
    }

    #[test]
    fn what_is_replaced_removed_or_idle_counts_no_more() {
        let table = table(1 << 20);
        for round in 0..1000 {
            put(&table, 5, 100 + round % 3);
            table.put(6, 60, Weight::of_bytes(1), 9, || true);
            table.put(7, 70, Weight::of_bytes(1), 9, || false);
        }
        assert_eq!(table.usage(), (2, 101));
        (0..SHARDS).for_each(|part| table.drop_idle(part, 9, 9));
        assert_eq!((table.get(&5, 9), table.get(&6, 9), table.usage()), (None, Some(60), (1, 1)));
        assert_eq!((table.remove(&6), table.remove(&6), table.usage()), (Some(60), None, (0, 0)));
        put(&table, 8, 3);
        table.clear();
        assert_eq!((table.get(&8, 1), table.usage()), (None, (0, 0)));
        let orders: usize = table.parts.iter().map(|part| part.lock().order.len()).sum();
        assert!(orders <= 64 * SHARDS, "{orders}");
    }

    #[test]
    fn what_was_removed_leaves_no_keys_behind_once_the_part_was_searched() {
        let table = table(1 << 20);
        let keys = 32 * SHARDS as u64;
        (0..keys).for_each(|key| put(&table, key, 10));
        (1..keys).for_each(|key| assert_eq!(table.remove(&key), Some(key * 10)));
        let kept = |of: fn(&CacheShard<u64, u64, RandomState>) -> usize| -> usize {
            table.parts.iter().map(|part| of(&part.lock())).sum()
        };
        assert!(kept(|part| part.order.len()) > SHARDS, "a few stay at first");
        (0..SHARDS).for_each(|part| table.drop_idle(part, 0, 1));
        assert_eq!((kept(|part| part.order.len()), table.get(&0, 1)), (1, Some(0)));
        table.remove(&0);
        (0..SHARDS).for_each(|part| table.drop_idle(part, 0, 1));
        assert_eq!(kept(|part| part.order.capacity() + part.slots.capacity()), 0);
    }

    #[test]
    fn tables_share_descriptors_and_each_comes_to_its_part() {
        const ALL: usize = 8 * SHARDS;
        let together = Descriptors::new(ALL);
        let (one, two) = (Bounded::new(1 << 20, &together), Bounded::new(1 << 20, &together));
        let kept = |table: &Bounded<u64, u64>| table.usage().0;
        let with_descriptor = Weight { bytes: 10, descriptors: 1 };
        let fill = |table: &Bounded<u64, u64>| {
            (0..10 * ALL as u64).for_each(|key| put_weight(table, key, with_descriptor));
        };
        fill(&one);
        assert_eq!((kept(&one), together.used()), (ALL, ALL), "who is alone has all");
        // An entry without a descriptor needs none.
        (1000..1100).for_each(|key| put(&two, 1_000_000 + key, 10));
        assert_eq!((kept(&two), together.used()), (100, ALL));
        two.clear();
        fill(&two);
        assert_eq!(kept(&two), 0, "nothing of its own could go for it");
        (0..SHARDS).for_each(|part| one.drop_idle(part, 0, 2));
        assert!(kept(&one) <= ALL / 2 && kept(&one) > ALL / 4, "{}", kept(&one));
        fill(&two);
        fill(&one);
        assert_eq!((kept(&one) + kept(&two), together.used()), (ALL, ALL));
        assert!(kept(&two) >= ALL / 2);
        (0..SHARDS).for_each(|part| two.drop_idle(part, 9, 9));
        assert_eq!((kept(&two), together.used()), (0, kept(&one)), "who is idle gives all back");
        one.clear();
        assert_eq!(together.used(), 0);
    }
}
