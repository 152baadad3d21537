//! Order of delivery: a reply waits until the notices that its batch has caused are sent to other clients.
//!
//! A batch may post events ahead of its replies (`Mailbox::post_ahead`), for example the notice that a
//! caching right ends. It creates one [`ReplyGate`] for all of them. Each connection with such an event holds
//! the gate until it has sent the resulting notice. The replies of the batch wait until nobody holds the gate
//! any more, but only for a limited time: a client that does not read delays nobody. Without this, a client
//! that has heard of a change could tell another one, which would still read the old data from its cache.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock, Weak};

thread_local! {
    /// Whether a batch runs on this thread.
    static TURNS: Cell<bool> = const { Cell::new(false) };
    /// The gate of that batch, once it has one.
    static GATE: RefCell<Option<Arc<Gate>>> = const { RefCell::new(None) };
}

/// A connection whose replies wait.
pub(crate) trait Asker: Send + Sync {
    /// Tells it that its replies may leave.
    fn go_on(&self);
}

/// Held by every connection that must send a notice first.
pub(crate) struct Gate(OnceLock<Arc<dyn Asker>>);

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(asker) = self.0.get() {
            asker.go_on();
        }
    }
}

/// The gate of the batch that runs on this thread. None outside of batches.
pub(crate) fn gate() -> Option<Arc<Gate>> {
    if !TURNS.get() {
        return None;
    }
    let new = || Arc::new(Gate(OnceLock::new()));
    GATE.with_borrow_mut(|gate| Some(Arc::clone(gate.get_or_insert_with(new))))
}

/// Marks the time in which a batch runs on this thread.
pub(crate) struct Turning;

impl Turning {
    pub(crate) fn begin() -> Turning {
        TURNS.set(true);
        Turning
    }

    /// Ends the batch. Returns the gate that its replies wait for, if there is one.
    pub(crate) fn end(self, asker: impl FnOnce() -> Arc<dyn Asker>) -> Option<Weak<Gate>> {
        let gate = GATE.with_borrow_mut(Option::take)?;
        // No other code sets it.
        let _set = gate.0.set(asker());
        Some(Arc::downgrade(&gate))
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        TURNS.set(false);
        // A batch that panicked leaves it behind.
        GATE.with_borrow_mut(Option::take);
    }
}

/// The gates that a connection's replies wait for.
#[derive(Default)]
pub(crate) struct Behind {
    gates: Vec<Weak<Gate>>,
    until_ns: u64,
}

impl Behind {
    /// Adds the gate of a batch. The replies wait until `until_ns` at the latest.
    pub(crate) fn add(&mut self, gate: Weak<Gate>, until_ns: u64) {
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

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Asker for Count {
        fn go_on(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    fn ended(turning: Turning, asker: &Arc<Count>) -> Option<Weak<Gate>> {
        let asker: Arc<dyn Asker> = Arc::<Count>::clone(asker);
        turning.end(|| asker)
    }

    #[test]
    fn a_turn_has_one_gate_and_only_when_it_tells_somebody() {
        let asker = Arc::new(Count::default());
        assert!(gate().is_none());
        assert!(ended(Turning::begin(), &asker).is_none());
        let turning = Turning::begin();
        let (first, second) = (gate().unwrap(), gate().unwrap());
        assert!(Arc::ptr_eq(&first, &second));
        let left = ended(turning, &asker).unwrap();
        assert!(gate().is_none());
        drop(first);
        assert_eq!((left.strong_count(), asker.0.load(SeqCst)), (1, 0));
        drop(second);
        assert_eq!((left.strong_count(), asker.0.load(SeqCst)), (0, 1));
        // A batch that panics leaves nothing for the next one.
        let panicked = Turning::begin();
        let held = gate().unwrap();
        drop(panicked);
        assert!(ended(Turning::begin(), &asker).is_none());
        drop(held);
        assert_eq!(asker.0.load(SeqCst), 1);
    }

    #[test]
    fn answers_wait_for_each_gate_and_not_for_ever() {
        let asker = Arc::new(Count::default());
        let one = || {
            let turning = Turning::begin();
            let held = gate().unwrap();
            (held, ended(turning, &asker).unwrap())
        };
        let mut behind = Behind::default();
        assert!(!behind.waits(false, || unreachable!("the clock is not asked")));
        let (first, left) = one();
        behind.add(left, 100);
        let (second, left) = one();
        behind.add(left, 1_000_000);
        assert_eq!(behind.deadline(), Some(100));
        drop(second);
        assert!(behind.waits(false, || 99));
        drop(first);
        assert!(!behind.waits(false, || 0));
        assert_eq!(behind.deadline(), None);
        let (_held, left) = one();
        behind.add(left, 100);
        assert!(!behind.waits(false, || 100));
        let (_held, left) = one();
        behind.add(left, 100);
        assert!(!behind.waits(true, || 0));
    }
}
