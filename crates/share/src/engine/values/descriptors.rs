//! Descriptors of the host that shares keep for names, with a common limit.
//!
//! Each share is entitled to an equal part. Any share may use the rest, so a share that is used alone has all
//! of them. If a share with less than its part finds none left, those with more return their excess, bit by
//! bit ([`ShareDescriptors::may_stay`]). Nothing here takes a lock, and a lookup of a cached name does not
//! come here.

mod fairness;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use wire::Now;

use crate::ranked::{Mutex, Rank};
use crate::{ClientExpiry, ClientKey};
pub(crate) use fairness::Fairness;

/// The seconds for which a shortage that a share found counts.
const WANTED_S: u64 = 4;

/// A share among those with a common limit.
pub(crate) trait DescriptorSharer: Send + Sync {
    /// Closes files that are kept open only for speed. Returns false if there was none.
    fn give_back(&self) -> bool;

    /// Closes opens that are kept for absent clients and yield to others. Returns false if there was none.
    fn end_yielding(&self, now: Now) -> bool;

    /// Passes the client of each open that holds a descriptor.
    fn name_holders(&self, name: &mut dyn FnMut(ClientKey));

    /// The callbacks that keep the time of its clients.
    fn keepers(&self) -> Vec<Arc<dyn ClientExpiry>>;
}

/// The common limit of descriptors of some shares.
pub struct Descriptors {
    limit: usize,
    used: AtomicUsize,
    /// Directories that are held for watches.
    watched: AtomicUsize,
    shares: AtomicUsize,
    /// The end of the time in which a share lacks some of its part, in monotonic seconds.
    wanted_s: AtomicU64,
    /// The shares with this limit.
    sharing: Mutex<Vec<Weak<dyn DescriptorSharer>>>,
    /// The division of descriptors when the host has few.
    fairness: Fairness,
    /// Code found no descriptor, and state that could be given up for it is still there.
    is_short: AtomicBool,
}

impl fmt::Debug for Descriptors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptors")
            .field("limit", &self.limit)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Descriptors {
    /// A limit of `limit` descriptors.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Descriptors> {
        Arc::new(Descriptors {
            limit,
            used: AtomicUsize::new(0),
            watched: AtomicUsize::new(0),
            shares: AtomicUsize::new(0),
            wanted_s: AtomicU64::new(0),
            sharing: Mutex::of_default(Rank::DescriptorShares),
            fairness: Fairness::default(),
            is_short: AtomicBool::new(false),
        })
    }

    /// The number in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The number of opens that were refused to clients with more than an equal share, while the host had few
    /// descriptors.
    #[must_use]
    pub fn refused_opens(&self) -> u64 {
        self.fairness.refused()
    }

    pub(crate) fn fairness(&self) -> &Fairness {
        &self.fairness
    }

    /// Whether one more directory may be held for watches. Each takes two descriptors: its own, and the one
    /// that removes its mark. Together they take as many as names do.
    pub(crate) fn hold_for_watch(&self) -> bool {
        let more = |watched: usize| (watched < self.limit / 2).then_some(watched + 1);
        self.watched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Returns the room of `count` directories that were held for watches.
    pub(crate) fn release_for_watch(&self, count: usize) {
        self.watched.fetch_sub(count, Ordering::Relaxed);
    }

    /// Adds a share to those with this limit.
    pub(crate) fn join(&self, share: Weak<dyn DescriptorSharer>) {
        let mut sharing = self.sharing.lock();
        sharing.retain(|known| known.strong_count() > 0);
        sharing.push(share);
    }

    /// The shares with this limit.
    pub(crate) fn sharing(&self) -> Vec<Arc<dyn DescriptorSharer>> {
        self.sharing.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Makes all shares close files that are kept open only for speed. Returns false if there was none.
    pub(crate) fn give_back(&self) -> bool {
        let mut any = false;
        for share in self.sharing() {
            any |= share.give_back();
        }
        any
    }

    /// Records that a resource is short, or is no longer.
    pub(crate) fn set_short(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// Whether a resource is short.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// The number of descriptors that each share is entitled to.
    fn part(&self) -> usize {
        self.limit / self.shares.load(Ordering::Relaxed).max(1)
    }
}

/// The descriptors of one share.
pub(crate) struct ShareDescriptors {
    from: Arc<Descriptors>,
    own: AtomicUsize,
}

impl ShareDescriptors {
    pub fn new(from: &Arc<Descriptors>) -> ShareDescriptors {
        from.shares.fetch_add(1, Ordering::Relaxed);
        ShareDescriptors { from: Arc::clone(from), own: AtomicUsize::new(0) }
    }

    /// Whether there is one left. If there is none and the share has less than its part, the others are asked
    /// to return some.
    pub fn is_available(&self, now_s: u64) -> bool {
        if self.from.used() < self.from.limit {
            return true;
        }
        if self.own.load(Ordering::Relaxed) < self.from.part() {
            self.from.wanted_s.fetch_max(now_s + WANTED_S, Ordering::Relaxed);
        }
        false
    }

    /// Takes `count` descriptors. Returns false if there are not so many left.
    pub fn take(&self, count: usize) -> bool {
        if count == 0 {
            return true;
        }
        let more = |used: usize| used.checked_add(count).filter(|used| *used <= self.from.limit);
        let is_taken = self.from.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if is_taken {
            self.own.fetch_add(count, Ordering::Relaxed);
        }
        is_taken
    }

    pub fn give_back(&self, count: usize) {
        if count == 0 {
            return;
        }
        self.own.fetch_sub(count, Ordering::Relaxed);
        self.from.used.fetch_sub(count, Ordering::Relaxed);
    }

    /// The number that the share may go on keeping, if it has more than its part and another lacks some;
    /// none: all.
    pub fn may_stay(&self, now_s: u64) -> Option<usize> {
        let is_wanted = now_s < self.from.wanted_s.load(Ordering::Relaxed);
        let part = self.from.part();
        (is_wanted && self.own.load(Ordering::Relaxed) > part).then_some(part)
    }
}

impl Drop for ShareDescriptors {
    fn drop(&mut self) {
        let own = *self.own.get_mut();
        self.give_back(own);
        self.from.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_all_until_another_lacks_its_part() {
        let together = Descriptors::new(10);
        let (one, two) = (ShareDescriptors::new(&together), ShareDescriptors::new(&together));
        assert!((0..10).all(|_| one.take(1)) && !one.take(1) && !two.take(1));
        assert_eq!((one.may_stay(100), together.used()), (None, 10));
        // A share that has its part and more does not make others return any.
        assert!(!one.is_available(100));
        assert_eq!(one.may_stay(100), None);
        assert!(!two.is_available(100));
        assert_eq!((one.may_stay(100), two.may_stay(100)), (Some(5), None));
        assert_eq!(one.may_stay(100 + WANTED_S), None, "it did not ask again");
        one.give_back(5);
        assert!(two.is_available(101) && (0..5).all(|_| two.take(1)) && !two.is_available(102));
        assert_eq!((one.may_stay(102), two.may_stay(102)), (None, None));
        drop(one);
        assert_eq!(together.used(), 5);
        assert!((0..5).all(|_| two.take(1)) && !two.take(1));
    }
}
