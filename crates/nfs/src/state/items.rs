//! Items that were found lately, by their handles: what was found is likely to be asked for again.
//!
//! Bounded. When one too many comes, the one goes that came first and was not asked for since it was last passed over, so
//! that each newcomer closes one descriptor at most.

use std::collections::{HashMap, VecDeque};

use share::Item;

use crate::limits::MAX_KEPT_ITEMS;
use crate::state::filehandle::Handle;

struct Kept {
    item: Item,
    /// When it was asked for last (monotonic ns).
    used_ns: u64,
    /// It was asked for since it came or was passed over.
    is_wanted: bool,
}

/// The items.
#[derive(Default)]
pub struct Items {
    kept: HashMap<Handle, Kept>,
    /// In the order in which they came; some of these are gone, and some came again.
    order: VecDeque<Handle>,
}

impl Items {
    /// The item of a handle.
    pub fn get(&mut self, handle: &Handle, now_ns: u64) -> Option<Item> {
        let kept = self.kept.get_mut(handle)?;
        (kept.used_ns, kept.is_wanted) = (now_ns, true);
        Some(kept.item.clone())
    }

    /// The same for who only looks: it does not count as asked for.
    pub fn peek(&self, handle: &Handle) -> Option<Item> {
        self.kept.get(handle).map(|kept| kept.item.clone())
    }

    /// Keeps an item. What has to go for it is given out, to be dropped where nobody waits.
    #[must_use]
    pub fn put(&mut self, handle: &Handle, item: &Item, now_ns: u64) -> Option<Item> {
        let fresh = Kept { item: item.clone(), used_ns: now_ns, is_wanted: false };
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

    /// Forgets the item of a handle, and gives it out.
    #[must_use]
    pub fn remove(&mut self, handle: &Handle) -> Option<Item> {
        self.kept.remove(handle).map(|kept| kept.item)
    }

    /// Forgets what was not asked for since a time, and gives it out.
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
        let (item, mut items) = (share.root_item(), Items::default());
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
        let (item, mut items) = (share.root_item(), Items::default());
        for number in 0..10 * MAX_KEPT_ITEMS {
            let _ = items.put(&handle(number % 3), &item, 1);
            assert!(items.remove(&handle(number % 3)).is_some());
        }
        assert!(items.order.len() <= 2 * MAX_KEPT_ITEMS);
    }
}
