//! A table whose entries are found without a lock.
//!
//! Reads and writes look up an entry here for every message, from any connection's thread, so a lookup is one
//! atomic load. Opening and closing change the table, and take a lock for the list of free slots.

use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;

/// An entry that knows its own ID, so that a reused slot is not mistaken for the old one.
pub trait Keyed {
    /// The ID from [`LockFreeTable::reserve`].
    fn key(&self) -> u64;
}

/// Slots in the first chunk. Each further chunk doubles the table.
const FIRST: usize = 8;
/// Number of chunks: room for 8 · 2^20 entries.
const CHUNKS: usize = 21;

/// A growing table of shared entries.
pub struct LockFreeTable<T> {
    chunks: [OnceLock<Box<[ArcSwapOption<T>]>>; CHUNKS],
    slots: Mutex<SlotAllocator>,
    most: usize,
}

#[derive(Default)]
struct SlotAllocator {
    /// Slots that were used and are free again.
    free: Vec<u32>,
    /// Number of slots that were ever used.
    used: u32,
    /// Grows with each reservation, so that no ID is given twice.
    generation: u32,
    live: usize,
}

/// An entry that was looked up, without counting references.
pub struct EntryGuard<T>(Guard<Option<Arc<T>>>);

impl<T> EntryGuard<T> {
    /// A counted reference to the entry, to keep.
    pub fn share(&self) -> Arc<T> {
        Arc::clone(self)
    }
}

impl<T> std::ops::Deref for EntryGuard<T> {
    type Target = Arc<T>;

    #[inline]
    fn deref(&self) -> &Arc<T> {
        // `LockFreeTable::get` creates an `EntryGuard` only for a filled slot.
        self.0.as_ref().expect("held entries are there")
    }
}

impl<T: Keyed> LockFreeTable<T> {
    /// An empty table for at most `most` entries.
    #[must_use]
    pub fn new(most: usize) -> Self {
        LockFreeTable { chunks: [const { OnceLock::new() }; CHUNKS], slots: Mutex::default(), most }
    }

    /// The chunk of an index, and the slot in it.
    #[inline]
    fn locate(index: usize) -> (usize, usize) {
        let scaled = index / FIRST + 1;
        let chunk = scaled.ilog2() as usize;
        let start = FIRST * ((1 << chunk) - 1);
        (chunk, index - start)
    }

    /// Reserves a slot. None if the table is full. The ID is not found until [`LockFreeTable::fill`].
    pub fn reserve(&self) -> Option<u64> {
        let mut slots = self.slots.lock();
        if slots.live >= self.most {
            return None;
        }
        let index = match slots.free.pop() {
            Some(index) => index,
            None => {
                slots.used += 1;
                slots.used - 1
            }
        };
        slots.live += 1;
        slots.generation = slots.generation.wrapping_add(1).max(1);
        let (chunk, _) = Self::locate(index as usize);
        self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| ArcSwapOption::empty()).collect());
        Some((u64::from(slots.generation) << 32) | u64::from(index))
    }

    /// Puts an entry into its reserved slot.
    pub fn fill(&self, entry: Arc<T>) {
        if let Some(slot) = self.slot(entry.key()) {
            slot.store(Some(entry));
        }
    }

    /// Replaces the entry with the same key. Returns false if there is none.
    pub fn replace(&self, entry: Arc<T>) -> bool {
        let _places = self.slots.lock();
        let Some(slot) = self.slot(entry.key()) else { return false };
        let is_there = slot.load().as_ref().is_some_and(|old| old.key() == entry.key());
        if is_there {
            slot.store(Some(entry));
        }
        is_there
    }

    /// The entry under `key`.
    #[inline]
    pub fn get(&self, key: u64) -> Option<EntryGuard<T>> {
        let guard = self.slot(key)?.load();
        guard.as_ref().is_some_and(|entry| entry.key() == key).then_some(EntryGuard(guard))
    }

    /// Removes an entry, or frees a reserved slot. Only the first caller gets the entry.
    pub fn remove(&self, key: u64) -> Option<Arc<T>> {
        let mut slots = self.slots.lock();
        let slot = self.slot(key)?;
        let found = slot.load_full();
        if found.as_ref().is_some_and(|entry| entry.key() != key) {
            return None;
        }
        found.as_ref()?;
        slot.store(None);
        slots.free.push(key as u32);
        slots.live -= 1;
        found
    }

    /// Frees a reserved slot that was never filled.
    pub fn forget(&self, key: u64) {
        let mut slots = self.slots.lock();
        slots.free.push(key as u32);
        slots.live -= 1;
    }

    /// Number of slots in use.
    pub fn len(&self) -> usize {
        self.slots.lock().live
    }

    /// Whether no slot is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries at one moment, for status and shutdown.
    pub fn all(&self) -> Vec<Arc<T>> {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        chunks.flat_map(|chunk| chunk.iter()).filter_map(ArcSwapOption::load_full).collect()
    }

    #[inline]
    fn slot(&self, key: u64) -> Option<&ArcSwapOption<T>> {
        let (chunk, at) = Self::locate(key as u32 as usize);
        self.chunks.get(chunk)?.get()?.get(at)
    }
}

impl<T> std::fmt::Debug for LockFreeTable<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockFreeTable").field("live", &self.slots.lock().live).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct NumberedEntry(u64);
    impl Keyed for NumberedEntry {
        fn key(&self) -> u64 {
            self.0
        }
    }

    #[test]
    fn a_reused_place_does_not_answer_to_its_old_id() {
        let table = LockFreeTable::new(100);
        let first = table.reserve().unwrap();
        assert!(table.get(first).is_none());
        table.fill(Arc::new(NumberedEntry(first)));
        assert_eq!(table.get(first).unwrap().key(), first);
        assert!(table.remove(first).is_some());
        assert!(table.remove(first).is_none());
        let second = table.reserve().unwrap();
        assert_eq!(second as u32, first as u32);
        table.fill(Arc::new(NumberedEntry(second)));
        assert!(table.get(first).is_none());
        assert!(table.get(u64::MAX).is_none());
    }

    #[test]
    fn a_table_grows_to_its_bound_and_no_further() {
        let table = LockFreeTable::new(1000);
        let ids: Vec<_> = (0..1000).map(|_| table.reserve().unwrap()).collect();
        assert!(table.reserve().is_none());
        for &id in &ids {
            table.fill(Arc::new(NumberedEntry(id)));
        }
        assert!(ids.iter().all(|&id| table.get(id).is_some()));
        table.remove(ids[500]);
        assert!(table.reserve().is_some());
    }

    #[test]
    fn an_entry_is_replaced_while_it_is_there() {
        let table = LockFreeTable::new(10);
        let id = table.reserve().unwrap();
        assert!(!table.replace(Arc::new(NumberedEntry(id))));
        table.fill(Arc::new(NumberedEntry(id)));
        assert!(table.replace(Arc::new(NumberedEntry(id))));
        table.remove(id);
        assert!(!table.replace(Arc::new(NumberedEntry(id))));
        assert!(table.get(id).is_none());
    }
}
