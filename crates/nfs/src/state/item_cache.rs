//! A cache of recently used items by filehandle.
//!
//! Its size is bounded. If it is full, the oldest item goes that was not used since the last time it was
//! passed over. Each new item therefore closes at most one descriptor.

use std::collections::{HashMap, VecDeque};

use share::Item;

use crate::limits::MAX_KEPT_ITEMS;
use crate::state::filehandle::Handle;

struct CachedItem {
    item: Item,
    /// The time of the last use (monotonic ns).
    used_ns: u64,
    /// Whether it was used since it was added or last passed over.
    is_wanted: bool,
}

/// The cache.
#[derive(Default)]
pub struct ItemCache {
    kept: HashMap<Handle, CachedItem>,
    /// Filehandles in the order of their arrival. Some may have been removed, and some added again.
    order: VecDeque<Handle>,
}

impl ItemCache {
    /// Looks up the item of a filehandle.
    pub fn get(&mut self, handle: &Handle, now_ns: u64) -> Option<Item> {
        let kept = self.kept.get_mut(handle)?;
        (kept.used_ns, kept.is_wanted) = (now_ns, true);
        Some(kept.item.clone())
    }

    /// The same without counting as a use.
    pub fn peek(&self, handle: &Handle) -> Option<Item> {
        self.kept.get(handle).map(|kept| kept.item.clone())
    }

    /// Adds an item. Returns the item that makes room for it, so that the caller can drop it without a lock.
    #[must_use]
    pub fn put(&mut self, handle: &Handle, item: &Item, now_ns: u64) -> Option<Item> {
        let fresh = CachedItem { item: item.clone(), used_ns: now_ns, is_wanted: false };
        if let Some(kept) = self.kept.get_mut(handle) {
            return Some(std::mem::replace(kept, fresh).item);
        }
        let gone = if self.kept.len() >= MAX_KEPT_ITEMS { self.evict() } else { None };
        if self.order.len() >= 2 * MAX_KEPT_ITEMS {
            self.order = self.kept.keys().copied().collect();
        }
        self.order.push_back(*handle);
        self.kept.insert(*handle, fresh);
        gone
    }

    fn evict(&mut self) -> Option<Item> {
        while let Some(first) = self.order.pop_front() {
            let Some(kept) = self.kept.get_mut(&first) else { continue };
            if !std::mem::take(&mut kept.is_wanted) {
                return self.remove(&first);
            }
            self.order.push_back(first);
        }
        None
    }

    /// Removes the item of a filehandle and returns it.
    #[must_use]
    pub fn remove(&mut self, handle: &Handle) -> Option<Item> {
        self.kept.remove(handle).map(|kept| kept.item)
    }

    /// Removes the items that were not used since a time and returns them.
    #[must_use]
    pub fn remove_idle(&mut self, since_ns: u64) -> Vec<Item> {
        self.kept.extract_if(|_, kept| kept.used_ns < since_ns).map(|(_, kept)| kept.item).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use share::{Config, Share};
    use volume::memory::MemoryVolume;

    use super::*;
    use crate::state::filehandle::HandleKey;

    fn handle(number: usize) -> Handle {
        HandleKey::new([1; 32]).make(1, &number.to_be_bytes()).unwrap()
    }

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes_one_by_one() {
        let share = Share::open(Arc::new(MemoryVolume::new(1)), Config::default()).unwrap();
        let (item, mut items) = (share.root_item(), ItemCache::default());
        for number in 0..MAX_KEPT_ITEMS {
            assert!(items.put(&handle(number), &item, 1).is_none());
        }
        for number in MAX_KEPT_ITEMS..4 * MAX_KEPT_ITEMS {
            assert!(items.get(&handle(7), 2).is_some());
            assert!(items.put(&handle(number), &item, 1).is_some());
            assert_eq!(items.kept.len(), MAX_KEPT_ITEMS);
        }
        assert!(items.get(&handle(0), 2).is_none());
        assert_eq!(items.remove_idle(2).len(), MAX_KEPT_ITEMS - 1);
        assert!(items.get(&handle(7), 3).is_some());
    }

    #[test]
    fn what_comes_and_goes_again_and_again_takes_no_more_room() {
        let share = Share::open(Arc::new(MemoryVolume::new(1)), Config::default()).unwrap();
        let (item, mut items) = (share.root_item(), ItemCache::default());
        for number in 0..10 * MAX_KEPT_ITEMS {
            let _ = items.put(&handle(number % 3), &item, 1);
            assert!(items.remove(&handle(number % 3)).is_some());
        }
        assert!(items.order.len() <= 2 * MAX_KEPT_ITEMS);
    }
}
