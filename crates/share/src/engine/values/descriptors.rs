//! Descriptors of the host that shares keep for names, out of a number that they have together.
//!
//! Each share may always have its part, which is the same for all. What the others do not use is anybody's: a share that is
//! used alone has all of them. When one that has less than its part finds none left, those that have more give back what is
//! too much, bit by bit ([`Drawn::may_stay`]). Nothing here is locked, and nothing is asked to find a name that is kept.

mod fairness;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use wire::Now;

use crate::ranked::{Mutex, Rank};
use crate::{ClientKey, Lapsing};
pub(crate) use fairness::Fairness;

/// For how many seconds it counts that a share found none left.
const WANTED_S: u64 = 4;

/// A share among those that have descriptors together.
pub(crate) trait Sharing: Send + Sync {
    /// Gives back what is kept for speed alone; false when nothing was.
    fn give_back(&self) -> bool;

    /// Closes opens that are kept for absent clients and give way to others; false when there was none.
    fn end_yielding(&self, now: Now) -> bool;

    /// Names the client of each open that holds a descriptor.
    fn name_holders(&self, name: &mut dyn FnMut(ClientKey));

    /// Those who keep the time of its clients.
    fn keepers(&self) -> Vec<Arc<dyn Lapsing>>;
}

/// How many descriptors some shares may keep together.
pub struct Descriptors {
    limit: usize,
    used: AtomicUsize,
    /// Directories that are held for watches.
    watched: AtomicUsize,
    shares: AtomicUsize,
    /// Up to when a share lacks some of its part, in monotonic seconds.
    wanted_s: AtomicU64,
    /// Those that have them together.
    sharing: Mutex<Vec<Weak<dyn Sharing>>>,
    /// Who gets what is left when the host has few.
    fairness: Fairness,
    /// Somebody found no descriptor, and what could be given up for it is still there.
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
    /// So many.
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

    /// How many are in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How many opens were refused to clients that had more than an equal share, while the host had few descriptors.
    #[must_use]
    pub fn refused_opens(&self) -> u64 {
        self.fairness.refused()
    }

    pub(crate) fn fairness(&self) -> &Fairness {
        &self.fairness
    }

    /// Whether a directory more may be held for watches. Each takes two: its own, and the one that its mark is taken away by. Together
    /// they take as many as names do.
    pub(crate) fn hold_for_watch(&self) -> bool {
        let more = |watched: usize| (watched < self.limit / 2).then_some(watched + 1);
        self.watched.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// So many are not held for watches any more.
    pub(crate) fn release_for_watch(&self, count: usize) {
        self.watched.fetch_sub(count, Ordering::Relaxed);
    }

    /// One more has them together with the others.
    pub(crate) fn join(&self, share: Weak<dyn Sharing>) {
        let mut sharing = self.sharing.lock();
        sharing.retain(|known| known.strong_count() > 0);
        sharing.push(share);
    }

    /// Those that have them together.
    pub(crate) fn sharing(&self) -> Vec<Arc<dyn Sharing>> {
        self.sharing.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Has all of them give back what is kept for speed alone; false when nothing was.
    pub(crate) fn give_back(&self) -> bool {
        let mut any = false;
        for share in self.sharing() {
            any |= share.give_back();
        }
        any
    }

    /// Notes that something is short, or is not any more.
    pub(crate) fn set_short(&self, is_short: bool) {
        self.is_short.store(is_short, Ordering::Relaxed);
    }

    /// Whether something is short.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// How many each share may always have.
    fn part(&self) -> usize {
        self.limit / self.shares.load(Ordering::Relaxed).max(1)
    }
}

/// Those of one share.
pub(crate) struct Drawn {
    from: Arc<Descriptors>,
    own: AtomicUsize,
}

impl Drawn {
    pub fn new(from: &Arc<Descriptors>) -> Drawn {
        from.shares.fetch_add(1, Ordering::Relaxed);
        Drawn { from: Arc::clone(from), own: AtomicUsize::new(0) }
    }

    /// Whether there is one left. The others hear of it when there is none and the share has less than its part.
    pub fn is_there(&self, now_s: u64) -> bool {
        if self.from.used() < self.from.limit {
            return true;
        }
        if self.own.load(Ordering::Relaxed) < self.from.part() {
            self.from.wanted_s.fetch_max(now_s + WANTED_S, Ordering::Relaxed);
        }
        false
    }

    /// Takes some; false when there are not so many left.
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

    /// How many the share may go on keeping, when it has more than its part and another lacks some; none: all.
    pub fn may_stay(&self, now_s: u64) -> Option<usize> {
        let is_wanted = now_s < self.from.wanted_s.load(Ordering::Relaxed);
        let part = self.from.part();
        (is_wanted && self.own.load(Ordering::Relaxed) > part).then_some(part)
    }
}

impl Drop for Drawn {
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
        let (one, two) = (Drawn::new(&together), Drawn::new(&together));
        assert!((0..10).all(|_| one.take(1)) && !one.take(1) && !two.take(1));
        assert_eq!((one.may_stay(100), together.used()), (None, 10));
        // Who has its part and more does not have others give back.
        assert!(!one.is_there(100));
        assert_eq!(one.may_stay(100), None);
        assert!(!two.is_there(100));
        assert_eq!((one.may_stay(100), two.may_stay(100)), (Some(5), None));
        assert_eq!(one.may_stay(100 + WANTED_S), None, "it did not ask again");
        one.give_back(5);
        assert!(two.is_there(101) && (0..5).all(|_| two.take(1)) && !two.is_there(102));
        assert_eq!((one.may_stay(102), two.may_stay(102)), (None, None));
        drop(one);
        assert_eq!(together.used(), 5);
        assert!((0..5).all(|_| two.take(1)) && !two.take(1));
    }
}
