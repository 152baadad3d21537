//! Answers leave behind what other clients are told because of them.
//!
//! A turn that posts an event ahead (`Mailbox::post_ahead`: the notice of a right that is taken away) makes one [`Gate`]
//! for all of them. Each connection that has such an event holds the gate until it has sent what came of it. The answers
//! of the turn wait until nobody holds it any more, and not for long: a client that does not read holds nobody up.
//! Without this, who is told that a change is done could tell others, and these still read from memory what it was.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, OnceLock, Weak};

thread_local! {
    /// Whether a turn runs on this thread.
    static TURNS: Cell<bool> = const { Cell::new(false) };
    /// Its gate, once there is one.
    static GATE: RefCell<Option<Arc<Gate>>> = const { RefCell::new(None) };
}

/// Whose answers wait.
pub(crate) trait Asker: Send + Sync {
    /// Nobody holds them back any more.
    fn go_on(&self);
}

/// Held by all who are to send something first.
pub(crate) struct Gate(OnceLock<Arc<dyn Asker>>);

impl Drop for Gate {
    fn drop(&mut self) {
        if let Some(asker) = self.0.get() {
            asker.go_on();
        }
    }
}

/// The gate of the turn that runs on this thread; none outside of turns.
pub(crate) fn gate() -> Option<Arc<Gate>> {
    if !TURNS.get() {
        return None;
    }
    let new = || Arc::new(Gate(OnceLock::new()));
    GATE.with_borrow_mut(|gate| Some(Arc::clone(gate.get_or_insert_with(new))))
}

/// A turn that runs on this thread, until this is dropped.
pub(crate) struct Turning;

impl Turning {
    pub(crate) fn begin() -> Turning {
        TURNS.set(true);
        Turning
    }

    /// It is over: what its answers wait for, if for anything.
    pub(crate) fn end(self, asker: impl FnOnce() -> Arc<dyn Asker>) -> Option<Weak<Gate>> {
        let gate = GATE.with_borrow_mut(Option::take)?;
        // Nobody else sets it.
        let _set = gate.0.set(asker());
        Some(Arc::downgrade(&gate))
    }
}

impl Drop for Turning {
    fn drop(&mut self) {
        TURNS.set(false);
        // Left by a turn that panicked.
        GATE.with_borrow_mut(Option::take);
    }
}

/// The gates that a connection's answers wait behind.
#[derive(Default)]
pub(crate) struct Behind {
    gates: Vec<Weak<Gate>>,
    until_ns: u64,
}

impl Behind {
    /// A turn has left this gate; its answers wait until then at the latest.
    pub(crate) fn add(&mut self, gate: Weak<Gate>, until_ns: u64) {
        if self.gates.is_empty() {
            self.until_ns = until_ns;
        }
        self.gates.push(gate);
    }

    /// Until when answers wait at the latest, if they do.
    pub(crate) fn deadline(&self) -> Option<u64> {
        (!self.gates.is_empty()).then_some(self.until_ns)
    }

    /// Whether answers wait still; they do no longer once they need not, or `is_awaited` says that others wait for them.
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
        // One that panics leaves nothing to the next.
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
