//! Credits: the number of messages that the server lets a client have in flight (MS-SMB2 3.2.4.1.2 and
//! 3.2.5.1.4).
//!
//! Each used message ID costs a credit, and every reply grants some. [`Credits`] counts them, computes how
//! many to ask for to bring the stock back to its target, and queues requests that must wait, in order.
//!
//! A request that costs more than the server ever grants does not wait. [`Credits::is_bound`] notes the
//! number that the server grants at most.

use std::collections::VecDeque;
use std::task::Waker;

/// The credits of one connection.
#[derive(Debug)]
pub(crate) struct Credits {
    /// Granted and unused.
    available: u32,
    /// Used by requests without a final reply.
    in_flight: u32,
    /// Requested, in requests without a reply.
    asked: u32,
    /// The number that the client wants to own.
    target: u32,
    /// The most that the server grants at once, if it was asked for more in vain.
    most: Option<u32>,
    queue: VecDeque<Waiter>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    charge: u16,
    waker: Waker,
}

/// The outcome of an attempt to take credits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreditOutcome {
    /// They are taken. The header asks for this many.
    Ask(u16),
    /// Not yet. The waker is called when another attempt with this ticket makes sense.
    Wait(u64),
    /// No pending request can bring more than these, or the server is known to grant no more.
    Starved(u32),
}

impl Credits {
    /// The one credit of a new connection, and the target.
    pub(crate) fn new(target: u16) -> Credits {
        // MS-SMB2 3.2.4.2.2
        let target = u32::from(target.max(1));
        let queue = VecDeque::new();
        Credits { available: 1, in_flight: 0, asked: 0, target, most: None, queue, next_ticket: 0 }
    }

    /// The credits that the server has granted and not taken back, used or not.
    pub(crate) fn granted(&self) -> u32 {
        self.available + self.in_flight
    }

    /// The most that the server grants at once, if it was asked for more in vain.
    pub(crate) fn most(&self) -> Option<u32> {
        self.most
    }

    /// Whether the server is known to grant no more than `granted` at once. `in_vain` says that it was asked
    /// for more just now. That is noted until it grants more, unless it has done so meanwhile.
    pub(crate) fn is_bound(&mut self, granted: u32, in_vain: bool) -> bool {
        if in_vain && self.available <= granted {
            self.most = Some(granted);
            self.wake_next();
        }
        in_vain || self.most == Some(granted)
    }

    fn is_beyond(&self, charge: u16) -> Option<u32> {
        self.most.filter(|most| u32::from(charge) > *most)
    }

    /// Takes `charge` credits, if nobody waits in front. `ticket` is that of an earlier
    /// [`CreditOutcome::Wait`].
    pub(crate) fn take(&mut self, charge: u16, ticket: Option<u64>, waker: &Waker) -> CreditOutcome {
        let position = ticket.and_then(|ticket| self.queue.iter().position(|it| it.ticket == ticket));
        if let Some(most) = self.is_beyond(charge) {
            position.and_then(|at| self.queue.remove(at));
            self.wake_next();
            return CreditOutcome::Starved(most);
        }
        let is_next = position == Some(0) || (position.is_none() && self.queue.is_empty());
        let enough = u32::from(charge) <= self.available;
        if is_next && (enough || self.in_flight == 0) {
            if position.is_some() {
                self.queue.pop_front();
            }
            if !enough {
                self.wake_next();
                return CreditOutcome::Starved(self.available);
            }
            self.available -= u32::from(charge);
            self.in_flight += u32::from(charge);
            self.wake_next();
            return CreditOutcome::Ask(self.ask());
        }
        match position {
            Some(at) => {
                self.queue[at].waker.clone_from(waker);
                CreditOutcome::Wait(self.queue[at].ticket)
            }
            None => {
                self.next_ticket += 1;
                let ticket = self.next_ticket;
                self.queue.push_back(Waiter { ticket, charge, waker: waker.clone() });
                CreditOutcome::Wait(ticket)
            }
        }
    }

    /// The credits missing to the target, less those already asked for. At least one, so that a server that
    /// grants as asked never leaves us with nothing.
    fn ask(&mut self) -> u16 {
        let missing = self.target.saturating_sub(self.available + self.asked);
        let ask = u16::try_from(missing).unwrap_or(u16::MAX).max(1);
        self.asked += u32::from(ask);
        ask
    }

    /// Accounts for a reply. `asked` is the number that its request asked for, or zero for a reply after an
    /// interim reply. `charge` is the number that the request took, if the reply is final.
    pub(crate) fn settle(&mut self, charge: u16, asked: u16, granted: u16) {
        self.in_flight -= u32::from(charge);
        self.asked -= u32::from(asked);
        // More credits than the range of message IDs in one window are of no use.
        self.available = (self.available + u32::from(granted)).min(u32::from(u16::MAX));
        // Credits in flight do not count. A server may grant anew for each of them before it has answered it.
        self.most = self.most.filter(|most| self.available <= *most);
        self.wake_next();
    }

    /// Gives up a place in the queue.
    pub(crate) fn forget(&mut self, ticket: u64) {
        self.queue.retain(|it| it.ticket != ticket);
        self.wake_next();
    }

    /// Wakes all waiters. The connection is over.
    pub(crate) fn wake_all(&mut self) {
        self.queue.drain(..).for_each(|it| it.waker.wake());
    }

    fn wake_next(&self) {
        if let Some(next) = self.queue.front()
            && (u32::from(next.charge) <= self.available
                || self.in_flight == 0
                || self.is_beyond(next.charge).is_some())
        {
            next.waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn waker() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (Arc::clone(&count), Waker::from(count))
    }

    #[test]
    fn the_first_request_asks_for_the_whole_target_and_later_ones_only_for_what_is_missing() {
        let waker = Waker::noop();
        let mut credits = Credits::new(64);
        assert_eq!(credits.take(1, None, waker), CreditOutcome::Ask(64));
        credits.settle(1, 64, 32);
        assert_eq!(credits.take(16, None, waker), CreditOutcome::Ask(48));
        assert_eq!(credits.take(1, None, waker), CreditOutcome::Ask(1), "48 are asked for already");
        credits.settle(16, 48, 48);
        credits.settle(1, 1, 1);
        assert_eq!(credits.available, 64);
        assert_eq!((credits.in_flight, credits.asked), (0, 0));
    }

    #[test]
    fn those_who_wait_go_in_order_and_a_small_request_does_not_pass_a_large_one() {
        let (large_woken, large) = waker();
        let (small_woken, small) = waker();
        let mut credits = Credits::new(8);
        assert_eq!(credits.take(1, None, Waker::noop()), CreditOutcome::Ask(8));
        let CreditOutcome::Wait(first) = credits.take(4, None, &large) else {
            panic!("there is no credit left")
        };
        let CreditOutcome::Wait(second) = credits.take(1, None, &small) else {
            panic!("somebody is in front")
        };
        credits.settle(0, 8, 3);
        assert_eq!(large_woken.0.load(Ordering::Relaxed), 0, "three are not four");
        assert_eq!(credits.take(1, Some(second), &small), CreditOutcome::Wait(second));
        credits.settle(1, 0, 2);
        assert_eq!(large_woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(small_woken.0.load(Ordering::Relaxed), 0);
        assert_eq!(credits.take(4, Some(first), &large), CreditOutcome::Ask(7));
        assert_eq!(small_woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(credits.take(1, Some(second), &small), CreditOutcome::Ask(1));
        assert!(credits.queue.is_empty());
    }

    #[test]
    fn who_gives_up_lets_the_next_one_pass() {
        let (woken, next) = waker();
        let mut credits = Credits::new(8);
        assert_eq!(credits.take(1, None, Waker::noop()), CreditOutcome::Ask(8));
        let CreditOutcome::Wait(large) = credits.take(8, None, Waker::noop()) else {
            panic!("no credit is left")
        };
        let CreditOutcome::Wait(small) = credits.take(1, None, &next) else { panic!("somebody is in front") };
        credits.settle(0, 8, 2);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        credits.forget(large);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(matches!(credits.take(1, Some(small), &next), CreditOutcome::Ask(_)));
    }

    #[test]
    fn a_request_that_can_never_be_paid_for_fails_when_nothing_is_under_way() {
        let (woken, large) = waker();
        let mut credits = Credits::new(8);
        assert_eq!(credits.take(1, None, Waker::noop()), CreditOutcome::Ask(8));
        let CreditOutcome::Wait(ticket) = credits.take(16, None, &large) else { panic!("no credit is left") };
        credits.settle(1, 8, 2);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!(credits.take(16, Some(ticket), &large), CreditOutcome::Starved(2));
        assert!(matches!(credits.take(2, None, &large), CreditOutcome::Ask(_)));
    }

    #[test]
    fn what_the_server_was_asked_for_in_vain_is_not_waited_for_until_it_grants_more() {
        let (woken, next) = waker();
        let mut credits = Credits::new(8);
        assert_eq!(credits.take(1, None, Waker::noop()), CreditOutcome::Ask(8));
        let CreditOutcome::Wait(large) = credits.take(4, None, &next) else { panic!("no credit is left") };
        let CreditOutcome::Wait(behind) = credits.take(1, None, &next) else {
            panic!("somebody is in front")
        };
        assert!(!credits.is_bound(2, false), "it was not asked yet");
        assert!(credits.is_bound(2, true));
        assert!(credits.is_bound(2, false) && !credits.is_bound(1, false), "fewer are asked about anew");
        assert_eq!(woken.0.swap(0, Ordering::Relaxed), 1, "who waits for more than that is told");
        assert_eq!(credits.take(4, Some(large), &next), CreditOutcome::Starved(2));
        assert_eq!(
            credits.take(4, None, Waker::noop()),
            CreditOutcome::Starved(2),
            "at once, though one is under way"
        );
        credits.settle(1, 8, 2);
        assert!(woken.0.load(Ordering::Relaxed) > 0);
        assert!(matches!(credits.take(1, Some(behind), &next), CreditOutcome::Ask(_)));
        assert_eq!(credits.most(), Some(2), "2 are no more than that");
        // The server grants one before it answers the request in front. There are three in all, and no more
        // than two at once.
        credits.settle(0, 0, 1);
        assert_eq!((credits.granted(), credits.most()), (3, Some(2)));
        credits.settle(1, 0, 1);
        assert_eq!((credits.granted(), credits.most()), (3, None));
        assert!(credits.is_bound(2, true));
        assert_eq!(credits.most(), None, "it has granted more meanwhile");
    }
}
