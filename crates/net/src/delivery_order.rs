//! Order of delivery between a batch and the other connections that it has events for.
//!
//! A reply waits until the notices that its batch has caused are sent to other clients.
//!
//! A batch may post events ahead of its replies (`Mailbox::post_ahead`), for example the notice that a
//! caching right ends. It creates one [`ReplyGate`] for all of them. Each connection with such an event holds
//! the gate until it has sent the resulting notice. The replies of the batch wait until nobody holds the gate
//! any more, but only for a limited time: a client that does not read delays nobody. Without this, a client
//! that has heard of a change could tell another one, which would still read the old data from its cache.
//!
//! A batch may also let requests of other connections go on (`Mailbox::post_behind`), for example by the
//! acknowledgement of a break that an open waits for. These [`LaterPosts`] leave after the replies of the
//! batch have been offered to the socket. A client therefore does not hear of the second request's end before
//! that of the first.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock, Weak};

thread_local! {
    /// The address of the mailbox whose connection has a batch on this thread. None outside of batches.
    static BATCH_OF: Cell<Option<usize>> = const { Cell::new(None) };
    /// The gate of that batch, once it has one.
    static GATE: RefCell<Option<Arc<ReplyGate>>> = const { RefCell::new(None) };
    /// Posts that leave after the replies of that batch.
    static LATER: RefCell<Vec<Post>> = const { RefCell::new(Vec::new()) };
}

/// The delivery of one event.
type Post = Box<dyn FnOnce() + Send>;

/// Delivers an event to the mailbox at the address `to` after the replies of the batch that runs on this
/// thread. It leaves at once outside of batches, and also to the batch's own connection, which keeps the
/// order itself.
pub(crate) fn after_replies(to: usize, post: impl FnOnce() + Send + 'static) {
    if BATCH_OF.get().is_some_and(|own_mailbox| own_mailbox != to) {
        LATER.with_borrow_mut(|later| later.push(Box::new(post)));
    } else {
        post();
    }
}

/// Events for other connections that leave after the replies of a batch. Dropping it delivers them, too.
#[derive(Default)]
pub(crate) struct LaterPosts(Vec<Post>);

impl LaterPosts {
    /// Adds those of another batch.
    pub(crate) fn append(&mut self, mut other: LaterPosts) {
        self.0.append(&mut other.0);
    }

    /// Delivers them in their order, each once.
    pub(crate) fn deliver(&mut self) {
        self.0.drain(..).for_each(|post| post());
    }
}

impl Drop for LaterPosts {
    fn drop(&mut self) {
        self.deliver();
    }
}

/// A connection whose replies wait.
pub(crate) trait WaitingSender: Send + Sync {
    /// Tells it that its replies may leave.
    fn release(&self);
}

/// Held by every connection that must send a notice first.
pub(crate) struct ReplyGate(OnceLock<Arc<dyn WaitingSender>>);

impl Drop for ReplyGate {
    fn drop(&mut self) {
        if let Some(sender) = self.0.get() {
            sender.release();
        }
    }
}

/// The gate of the batch that runs on this thread. None outside of batches.
pub(crate) fn gate() -> Option<Arc<ReplyGate>> {
    BATCH_OF.get()?;
    let new = || Arc::new(ReplyGate(OnceLock::new()));
    GATE.with_borrow_mut(|gate| Some(Arc::clone(gate.get_or_insert_with(new))))
}

/// Marks the time in which a batch runs on this thread.
pub(crate) struct BatchScope;

impl BatchScope {
    /// Begins a batch of the connection whose mailbox has the address `own_mailbox`.
    pub(crate) fn begin(own_mailbox: usize) -> BatchScope {
        BATCH_OF.set(Some(own_mailbox));
        BatchScope
    }

    /// Ends the batch. Returns the gate that its replies wait for, if there is one, and what leaves after
    /// them.
    pub(crate) fn end(
        self,
        sender: impl FnOnce() -> Arc<dyn WaitingSender>,
    ) -> (Option<Weak<ReplyGate>>, LaterPosts) {
        let gate = GATE.with_borrow_mut(Option::take).map(|gate| {
            // No other code sets it.
            let _set = gate.0.set(sender());
            Arc::downgrade(&gate)
        });
        (gate, LaterPosts(LATER.take()))
    }
}

impl Drop for BatchScope {
    fn drop(&mut self) {
        BATCH_OF.set(None);
        // A batch that panicked leaves both behind.
        GATE.with_borrow_mut(Option::take);
        drop(LaterPosts(LATER.take()));
    }
}

/// The gates that a connection's replies wait for.
#[derive(Default)]
pub(crate) struct ReplyBarrier {
    gates: Vec<Weak<ReplyGate>>,
    until_ns: u64,
}

impl ReplyBarrier {
    /// Adds the gate of a batch. The replies wait until `until_ns` at the latest.
    pub(crate) fn add(&mut self, gate: Weak<ReplyGate>, until_ns: u64) {
        if self.gates.is_empty() {
            self.until_ns = until_ns;
        }
        self.gates.push(gate);
    }

    /// The latest time at which waiting replies leave. None if none wait.
    pub(crate) fn deadline(&self) -> Option<u64> {
        (!self.gates.is_empty()).then_some(self.until_ns)
    }

    /// Whether replies still wait. They stop waiting if all gates are released, if time is up, or if
    /// `is_awaited` says that others wait for this connection.
    pub(crate) fn waits(&mut self, is_awaited: bool, now_ns: impl FnOnce() -> u64) -> bool {
        if self.gates.is_empty() {
            return false;
        }
        self.gates.retain(|gate| gate.strong_count() > 0);
        if is_awaited || self.gates.is_empty() || now_ns() >= self.until_ns {
            self.gates.clear();
        }
        !self.gates.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    /// The address of a mailbox.
    const OWN: usize = 8;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl WaitingSender for Count {
        fn release(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn ended(scope: BatchScope, sender: &Arc<Count>) -> Option<Weak<ReplyGate>> {
        let sender: Arc<dyn WaitingSender> = Arc::<Count>::clone(sender);
        scope.end(|| sender).0
    }

    #[test]
    fn a_turn_has_one_gate_and_only_when_it_tells_somebody() {
        let sender = Arc::new(Count::default());
        assert!(gate().is_none());
        assert!(ended(BatchScope::begin(OWN), &sender).is_none());
        let scope = BatchScope::begin(OWN);
        let (first, second) = (gate().unwrap(), gate().unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        let left = ended(scope, &sender).unwrap();
        assert!(gate().is_none());
        drop(first);
        assert_eq!((left.strong_count(), sender.0.load(SeqCst)), (1, 0));
        drop(second);
        assert_eq!((left.strong_count(), sender.0.load(SeqCst)), (0, 1));
        // A batch that panics leaves nothing for the next one.
        let panicked = BatchScope::begin(OWN);
        let held = gate().unwrap();
        drop(panicked);
        assert!(ended(BatchScope::begin(OWN), &sender).is_none());
        drop(held);
        assert_eq!(sender.0.load(SeqCst), 1);
    }

    #[test]
    fn answers_wait_for_each_gate_and_not_for_ever() {
        let sender = Arc::new(Count::default());
        let one = || {
            let scope = BatchScope::begin(OWN);
            let held = gate().unwrap();
            (held, ended(scope, &sender).unwrap())
        };
        let mut barrier = ReplyBarrier::default();
        assert!(!barrier.waits(false, || unreachable!("the clock is not asked")));
        let (first, left) = one();
        barrier.add(left, 100);
        let (second, left) = one();
        barrier.add(left, 1_000_000);
        assert_eq!(barrier.deadline(), Some(100));
        drop(second);
        assert!(barrier.waits(false, || 99));
        drop(first);
        assert!(!barrier.waits(false, || 0));
        assert_eq!(barrier.deadline(), None);
        let (_held, left) = one();
        barrier.add(left, 100);
        assert!(!barrier.waits(false, || 100));
        let (_held, left) = one();
        barrier.add(left, 100);
        assert!(!barrier.waits(true, || 0));
    }

    #[test]
    fn what_goes_on_after_a_batch_is_posted_after_its_replies() {
        let posted = Arc::new(Count::default());
        let post_to = |mailbox| {
            let posted = Arc::clone(&posted);
            after_replies(mailbox, move || posted.release());
        };
        let count = || posted.0.load(SeqCst);
        post_to(OWN + 8);
        assert_eq!(count(), 1, "outside of a batch it leaves at once");
        let scope = BatchScope::begin(OWN);
        post_to(OWN);
        assert_eq!(count(), 2, "the own connection keeps the order itself");
        post_to(OWN + 8);
        assert_eq!(count(), 2);
        let mut later = LaterPosts::default();
        later.append(scope.end(|| unreachable!("there is no gate")).1);
        assert_eq!(count(), 2, "the replies have not left yet");
        later.deliver();
        later.deliver();
        assert_eq!(count(), 3, "each leaves once");
        let panicked = BatchScope::begin(OWN);
        post_to(OWN + 8);
        drop(panicked);
        assert_eq!(count(), 4, "none is lost");
    }
}
