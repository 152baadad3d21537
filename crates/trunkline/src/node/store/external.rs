//! Tenures that another program gives: Pacemaker, keepalived, an operator of Kubernetes, or a person.
//!
//! That program says on which node the virtual server belongs, and fences the others. This store waits until
//! it says so ([`ExternalStore::grant`]). The record and its epoch are in files of the shared storage, under
//! the same lock as those of [`FlockStore`]. So two nodes that are both told to serve do not both do it,
//! where that lock excludes nodes.
//!
//! A grant may have an end, which [`ExternalStore::hold`] moves. A program that watches over its nodes can
//! so be sure that a node which hears nothing more from it has ended.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tenure::{BootTime, Claim, Epoch, StoreError, TakeOutcome, Taken, TenureRecord, TenureStore};

use super::flock::{FlockStore, PAUSE};
use super::tenure_file::TenureFile;

/// The tenure store for one virtual server of which another program decides.
pub struct ExternalStore {
    store: FlockStore,
    clock: fn() -> BootTime,
    decision: Mutex<Decision>,
    changed: Condvar,
}

/// The last decision of the other program.
#[derive(Debug, Clone, Copy, Default)]
struct Decision {
    /// Whether this node may take the tenure.
    is_granted: bool,
    /// The end of the grant, or [`BootTime::NEVER`].
    until: BootTime,
    /// Whether the caller of the store has not heard of it.
    is_news: bool,
}

impl ExternalStore {
    /// A store that gives the tenure to nobody until [`ExternalStore::grant`]. `clock` reads CLOCK_BOOTTIME.
    #[must_use]
    pub fn new(files: TenureFile, clock: fn() -> BootTime) -> ExternalStore {
        let decision = Mutex::new(Decision::default());
        ExternalStore { store: FlockStore::new(files), clock, decision, changed: Condvar::new() }
    }

    /// This node may take the tenure from now on, for this time or without an end.
    pub fn grant(&self, hold: Option<Duration>) {
        let until = hold.map_or(BootTime::NEVER, |hold| (self.clock)().plus(hold));
        self.decide(Decision { is_granted: true, until, is_news: true });
    }

    /// Moves the end of the grant to this time from now. It never makes it earlier.
    ///
    /// # Errors
    /// One line, if nothing is granted, or without an end.
    pub fn hold(&self, hold: Duration) -> Result<(), String> {
        let mut decision = self.decision.lock();
        let now = (self.clock)();
        match *decision {
            Decision { is_granted: true, until: BootTime::NEVER, .. } => {
                Err("this node was given the virtual server without an end, so there is none to move; give \
                     `node take` its `--hold-s` for a term that `node hold` extends"
                    .to_owned())
            }
            Decision { is_granted: true, until, .. } if now < until => {
                decision.until = until.max(now.plus(hold));
                Ok(())
            }
            _ => Err("this node was not given the virtual server, or its time has ended; give it anew by \
                      `trunkline node take`"
                .to_owned()),
        }
    }

    /// This node may not take the tenure any more. A tenure that it has goes on until it is released, or
    /// until the end of the grant.
    pub fn withdraw(&self) {
        let until = self.decision.lock().until;
        self.decide(Decision { is_granted: false, until, is_news: true });
    }

    fn decide(&self, decision: Decision) {
        *self.decision.lock() = decision;
        self.changed.notify_all();
    }

    /// The rest of the time until `until`, or none if it has no end.
    ///
    /// # Errors
    /// [`StoreError::NotOwner`] if the time is over.
    fn left(&self, until: BootTime) -> Result<Option<Duration>, StoreError> {
        if until == BootTime::NEVER {
            return Ok(None);
        }
        match until.since((self.clock)()) {
            Duration::ZERO => Err(StoreError::NotOwner(
                "the time for which it was given to this node has ended, and nobody has extended it by \
                     `trunkline node hold`"
                    .to_owned(),
            )),
            left => Ok(Some(left)),
        }
    }
}

impl TenureStore for ExternalStore {
    fn take(&self, claim: &Claim) -> Result<TakeOutcome, StoreError> {
        let decision = {
            let mut decision = self.decision.lock();
            decision.is_news = false;
            *decision
        };
        if !decision.is_granted || self.left(decision.until).is_err() {
            return self.store.waits();
        }
        // A node that is told to take it need not leave it to the one of a planned move.
        let claim = Claim { overrides_reservation: true, ..claim.clone() };
        match self.store.take(&claim)? {
            TakeOutcome::Taken(Taken { record, .. }) => {
                // The lock may have taken long.
                let term = self.left(decision.until).unwrap_or(Some(Duration::ZERO));
                Ok(TakeOutcome::Taken(Taken { record, term }))
            }
            owned @ TakeOutcome::Owned(_) => Ok(owned),
        }
    }

    fn renew(&self, epoch: Epoch) -> Result<Option<Duration>, StoreError> {
        let until = self.decision.lock().until;
        self.store.renew(epoch)?;
        self.left(until)
    }

    fn update(&self, record: &TenureRecord) -> Result<(), StoreError> {
        self.store.update(record)
    }

    fn release(&self, record: &TenureRecord) -> Result<(), StoreError> {
        self.store.release(record)
    }

    fn watch(&self, within: Duration) -> Result<(), StoreError> {
        let end = Instant::now() + within;
        let mut decision = self.decision.lock();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if decision.is_news || left.is_zero() {
                return Ok(());
            }
            self.changed.wait_for(&mut decision, PAUSE.min(left));
            // Another node's lock counts only for a node that may take it.
            let is_free = decision.is_granted && self.left(decision.until).is_ok();
            if is_free && parking_lot::MutexGuard::unlocked(&mut decision, || self.store.has_news())? {
                return Ok(());
            }
        }
    }

    fn record(&self) -> Result<Option<(TenureRecord, bool)>, StoreError> {
        self.store.record()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::suite::{self, Backing, claim};
    use super::*;

    thread_local! {
        /// The time of a test, in seconds.
        static SECONDS: Cell<u64> = const { Cell::new(1) };
    }

    fn clock() -> BootTime {
        BootTime { ns: SECONDS.get() * 1_000_000_000 }
    }

    struct ExternalDirectory(tempfile::TempDir);

    impl ExternalDirectory {
        fn waiting(&self) -> ExternalStore {
            ExternalStore::new(TenureFile::beside(&self.0.path().join("state")).unwrap(), clock)
        }
    }

    impl Backing for ExternalDirectory {
        fn store(&self) -> Box<dyn TenureStore> {
            let store = self.waiting();
            store.grant(None);
            Box::new(store)
        }

        fn end_term(&self, owner: Box<dyn TenureStore>) {
            drop(owner);
        }

        fn has_terms(&self) -> bool {
            false
        }

        fn has_reservations(&self) -> bool {
            false
        }
    }

    #[test]
    fn it_keeps_the_contract_of_a_store() {
        suite::run(&ExternalDirectory(tempfile::tempdir().unwrap()));
    }

    #[test]
    fn it_waits_for_the_other_program() {
        let dir = ExternalDirectory(tempfile::tempdir().unwrap());
        let store = dir.waiting();
        assert_eq!(store.take(&claim("a", "1")), Ok(TakeOutcome::Owned(TenureRecord::default())));
        assert!(store.hold(Duration::from_secs(5)).is_err());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| store.watch(suite::LONG));
            store.grant(None);
            waits.join().unwrap().unwrap();
        });
        assert!(matches!(store.take(&claim("a", "1")), Ok(TakeOutcome::Taken(Taken { term: None, .. }))));
        assert_eq!(store.renew(Epoch(1)), Ok(None));
        assert!(store.hold(Duration::from_secs(5)).is_err());
        let other = dir.waiting();
        other.grant(None);
        assert!(matches!(other.take(&claim("b", "2")), Ok(TakeOutcome::Owned(_))));
    }

    #[test]
    fn a_hold_gives_a_term_that_ends_by_itself() {
        let dir = ExternalDirectory(tempfile::tempdir().unwrap());
        let store = dir.waiting();
        let seconds = Duration::from_secs;
        store.grant(Some(seconds(10)));
        let Ok(TakeOutcome::Taken(taken)) = store.take(&claim("a", "1")) else { panic!() };
        assert_eq!(taken.term, Some(seconds(10)));
        SECONDS.set(8);
        assert_eq!(store.renew(Epoch(1)), Ok(Some(seconds(3))));
        store.hold(seconds(1)).unwrap();
        assert_eq!(store.renew(Epoch(1)), Ok(Some(seconds(3))));
        store.hold(seconds(10)).unwrap();
        assert_eq!(store.renew(Epoch(1)), Ok(Some(seconds(10))));
        // It may still release what it has, for the rest of its time.
        store.withdraw();
        assert_eq!(store.renew(Epoch(1)), Ok(Some(seconds(10))));
        assert!(store.hold(seconds(10)).is_err());
        SECONDS.set(18);
        assert!(matches!(store.renew(Epoch(1)), Err(StoreError::NotOwner(_))));
        store.release(&taken.record.released(None)).unwrap();
        store.grant(Some(seconds(1)));
        SECONDS.set(19);
        assert!(matches!(store.take(&claim("a", "1")), Ok(TakeOutcome::Owned(_))));
    }
}
