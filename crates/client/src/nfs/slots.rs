//! The slots of a session. Each pending request has a slot of its own, whose sequence number tells a retry
//! from a new request (RFC 8881 2.10.6).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use crate::Error;
use crate::error::Result;

/// The slots of one session.
#[derive(Debug)]
pub(crate) struct Slots {
    /// One permit for each slot that may be taken.
    permits: Semaphore,
    state: Mutex<SlotTable>,
}

#[derive(Debug)]
struct SlotTable {
    slots: Vec<Slot>,
    /// A bit for each slot in use.
    used: Vec<u64>,
    /// The number of slots that the server allows in use.
    allowed: usize,
    /// Permits to remove when they are returned.
    surplus: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// The sequence number of the next request.
    sequence: u32,
    /// Whether a request with that number may have reached the server, and nobody waits for its reply.
    in_doubt: bool,
}

/// A slot that a request has taken. Dropping it returns the slot with its present state.
#[derive(Debug)]
pub(crate) struct Lease {
    slots: Arc<Slots>,
    pub(crate) slot: u32,
    pub(crate) sequence: u32,
    /// The highest slot in use when this one was taken.
    pub(crate) highest: u32,
    /// Whether an earlier request with this number may have reached the server.
    pub(crate) in_doubt: bool,
    consumed: bool,
}

impl Slots {
    /// `count` unused slots.
    pub(crate) fn new(count: u32) -> Arc<Slots> {
        let count = count.max(1) as usize;
        // RFC 8881 2.10.6.1
        let slots = vec![Slot { sequence: 1, in_doubt: false }; count];
        let used = vec![0; count.div_ceil(64)];
        let state = SlotTable { slots, used, allowed: count, surplus: 0 };
        Arc::new(Slots { permits: Semaphore::new(count), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.lock().slots.len()
    }

    /// Waits for a slot, in order of arrival, and takes the lowest one.
    ///
    /// # Errors
    /// [`Error::Closed`] when the session is over.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Lease> {
        let permit = self.permits.acquire().await.map_err(|_| Error::Closed)?;
        let mut state = self.lock();
        let free = state.lowest_free().ok_or(Error::Closed)?;
        permit.forget();
        state.used[free / 64] |= 1 << (free % 64);
        let Slot { sequence, in_doubt } = state.slots[free];
        let highest = state.highest_used() as u32;
        drop(state);
        let slots = Arc::clone(self);
        Ok(Lease { slots, slot: free as u32, sequence, highest, in_doubt, consumed: false })
    }

    /// Sets the number of slots in use to `target` + 1 at most, as the server asks in each SEQUENCE.
    pub(crate) fn set_target(&self, target: u32) {
        let mut state = self.lock();
        let allowed = (target as usize).saturating_add(1).min(state.slots.len());
        let (before, more) = (state.allowed, allowed.saturating_sub(state.allowed));
        if before == allowed {
            return;
        }
        state.allowed = allowed;
        // A permit that was to be removed and is wanted again stays.
        let kept = more.min(state.surplus);
        state.surplus -= kept;
        self.permits.add_permits(more - kept);
        let less = before.saturating_sub(allowed);
        state.surplus += less - self.permits.forget_permits(less);
    }

    /// Ends the waits for slots.
    pub(crate) fn close(&self) {
        self.permits.close();
    }
}

impl SlotTable {
    fn lowest_free(&self) -> Option<usize> {
        let word = self.used.iter().position(|word| *word != u64::MAX)?;
        let slot = word * 64 + self.used[word].trailing_ones() as usize;
        (slot < self.slots.len()).then_some(slot)
    }

    fn highest_used(&self) -> usize {
        let word = self.used.iter().rposition(|word| *word != 0);
        word.map_or(0, |word| word * 64 + 63 - self.used[word].leading_zeros() as usize)
    }
}

impl Lease {
    /// Notes that the request is about to be sent.
    pub(crate) fn sent(&mut self) {
        self.in_doubt = true;
    }

    /// Notes that the server has carried out a request with this number. The next request has the next
    /// number.
    pub(crate) fn consumed(&mut self) {
        self.consumed = true;
        self.in_doubt = false;
    }

    /// Notes that the server has not carried out the request.
    pub(crate) fn refused(&mut self) {
        self.in_doubt = false;
    }

    /// Goes on with the next number in the same slot, after [`Lease::consumed`].
    pub(crate) fn advance(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        self.consumed = false;
        self.in_doubt = false;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.consumed {
            self.advance();
        }
        let mut state = self.slots.lock();
        let at = self.slot as usize;
        state.slots[at] = Slot { sequence: self.sequence, in_doubt: self.in_doubt };
        state.used[at / 64] &= !(1 << (at % 64));
        if state.surplus > 0 {
            state.surplus -= 1;
        } else {
            self.slots.permits.add_permits(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// The slot that is free at once.
    fn now(slots: &Arc<Slots>) -> Option<Lease> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(slots.take()).poll(&mut context) {
            Poll::Ready(lease) => Some(lease.expect("the session lives")),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_lowest_slot_is_taken_and_counts_only_what_was_carried_out() {
        let slots = Slots::new(70);
        let mut first = now(&slots).expect("a slot");
        let second = now(&slots).expect("another");
        assert_eq!((first.slot, first.sequence, second.slot, second.highest), (0, 1, 1, 1));
        first.sent();
        first.consumed();
        drop(first);
        let again = now(&slots).expect("the first one");
        assert_eq!((again.slot, again.sequence, again.in_doubt, again.highest), (0, 2, false, 1));
        drop(again);
        // Nothing was sent in it, so the number is still free.
        assert_eq!(now(&slots).expect("the first one").sequence, 2);
        let all: Vec<_> = std::iter::from_fn(|| now(&slots)).collect();
        assert_eq!((all.len(), all[68].slot, all[68].highest), (69, 69, 69));
    }

    #[test]
    fn a_request_that_was_given_up_leaves_its_slot_in_doubt() {
        let slots = Slots::new(1);
        let mut lease = now(&slots).expect("the slot");
        lease.sent();
        drop(lease);
        let lease = now(&slots).expect("the slot");
        assert_eq!((lease.sequence, lease.in_doubt), (1, true));
    }

    #[test]
    fn the_server_can_take_slots_away_and_give_them_back() {
        let slots = Slots::new(4);
        let mut taken: Vec<_> = (0..3).map(|_| now(&slots).expect("a slot")).collect();
        slots.set_target(1);
        assert!(now(&slots).is_none(), "the fourth is taken away at once");
        taken.pop();
        assert!(now(&slots).is_none(), "the third when it comes back");
        taken.pop();
        taken.push(now(&slots).expect("the second"));
        slots.set_target(3);
        taken.extend((0..2).map(|_| now(&slots).expect("a slot")));
        assert!(now(&slots).is_none());
        slots.set_target(0);
        slots.set_target(3);
        drop(taken);
        assert_eq!(std::iter::from_fn(|| now(&slots)).collect::<Vec<_>>().len(), 4);
    }
}
