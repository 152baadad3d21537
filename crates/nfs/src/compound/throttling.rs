//! Throttling on a share with provisioned limits. Each operation that counts asks its share first. If the
//! limit is used up, the COMPOUND waits; it is never refused. Its slot stays busy meanwhile, and the
//! connection answers other requests.
//!
//! READ and operations on names and state wait before they run. The data of a WRITE has arrived already, so
//! the operations after it wait instead. A COMPOUND that waits for another client's reply uses the same
//! mechanism (`crate::state::attribute_query`). A COMPOUND counts once if it asks for attributes, names or
//! access only beside something else.

use std::sync::Arc;

use nfs_wire::op::OpNum;
use share::limits::{Charge, Hold, MeteredWork, ResponseType, ThrottleDecision, ThrottleRequest};
use share::{Share, Waiter, Wake};

use crate::compound::{Run, Stop};
use crate::counting::{Count, count};

/// The state of a COMPOUND's throttling.
#[derive(Debug, Default)]
pub struct ThrottleState {
    /// The wait for a limit.
    hold: Option<Hold>,
    /// Identifies the COMPOUND among those of its connection.
    token: Option<u64>,
    /// The current operation has been admitted.
    has_passed: bool,
    /// The charge of that operation. It goes to the blocking pool and back with the COMPOUND.
    charge: Charge,
    /// The limit that the current operation has met.
    met: ResponseType,
    /// An operation of the COMPOUND has counted.
    has_counted: bool,
    /// The COMPOUND waits no more. Further operations run into debt.
    is_over: bool,
}

impl ThrottleState {
    /// Call this when an operation has ended.
    pub fn operation_done(&mut self) {
        self.has_passed = false;
        self.charge = Charge::default();
    }

    /// Settles the charge: the operation has moved this many bytes. The rest of the charge is returned.
    #[inline]
    pub fn used(&mut self, bytes: usize) {
        std::mem::take(&mut self.charge).used(bytes);
    }

    /// Takes the limit that the operation which has just ended had met.
    pub fn take_met(&mut self) -> ResponseType {
        std::mem::take(&mut self.met)
    }

    /// Identifies the COMPOUND among those of its connection, once it has waited.
    pub fn token(&self) -> Option<u64> {
        self.token
    }

    /// Whether the COMPOUND must wait.
    pub fn is_waiting(&self) -> bool {
        self.hold.is_some()
    }
}

impl Run {
    /// Admits an operation on names or state, or makes its COMPOUND wait.
    ///
    /// # Errors
    /// [`Stop::Hold`] if it must wait.
    #[inline]
    pub fn throttle_metadata(&mut self, number: OpNum) -> Result<(), Stop> {
        let Some(export) = self.current.as_ref().and_then(|current| current.export()) else { return Ok(()) };
        if export.engine.limits().is_none() {
            return Ok(());
        }
        let engine = Arc::clone(&export.engine);
        match count(number) {
            Count::Always => self.throttle(&engine, MeteredWork::Metadata),
            Count::Alone if !self.throttle.has_counted => self.throttle(&engine, MeteredWork::Metadata),
            Count::Alone | Count::No => Ok(()),
        }
    }

    /// Admits an operation, or makes its COMPOUND wait. After the wait the operation runs again and is
    /// admitted.
    ///
    /// # Errors
    /// [`Stop::Hold`] if it must wait.
    #[inline]
    pub fn throttle(&mut self, engine: &Share, work: MeteredWork) -> Result<(), Stop> {
        if engine.limits().is_none() || self.throttle.has_passed {
            return Ok(());
        }
        self.throttle.has_passed = true;
        self.ask_to_pass(engine, work);
        if self.throttle.is_waiting() { Err(Stop::Hold) } else { Ok(()) }
    }

    /// The same for an operation that has ended: the operations after it wait.
    #[inline]
    pub fn throttle_rest(&mut self, engine: &Share, work: MeteredWork) {
        if engine.limits().is_some() {
            self.ask_to_pass(engine, work);
            std::mem::take(&mut self.throttle.charge).used_up();
            // The charge remains due if the connection is lost before the wait is over.
            self.throttle.hold = self.throttle.hold.take().map(Hold::is_done);
        }
    }

    /// The waiter to wake for this COMPOUND. None if it waits no more.
    pub fn waiter(&mut self) -> Option<Waiter> {
        if self.throttle.is_over {
            return None;
        }
        let token = *self.throttle.token.get_or_insert_with(|| self.connection.next_token());
        Some(Waiter { wake: Arc::clone(&self.connection) as Arc<dyn Wake>, token })
    }

    /// Whether nothing makes it wait any more.
    pub(crate) fn may_resume(&self) -> bool {
        self.throttle.hold.as_ref().is_none_or(|hold| hold.released().is_some()) && !self.waits_for_answer()
    }

    /// Ends the wait.
    pub(crate) fn end_wait(&mut self) {
        let Some(hold) = self.throttle.hold.take() else { return };
        match hold.released() {
            Some(met) if self.throttle.has_passed => self.throttle.met = met,
            Some(met) => self.transactions.last_has_met(met),
            None => {}
        }
        if self.throttle.has_passed {
            self.throttle.charge = hold.go();
        }
    }

    /// Ends the wait because the connection is gone. Returns true if the next operation is to run
    /// nevertheless: the operations before it have ended and only lack a reply.
    pub(crate) fn end_waiting(&mut self) -> bool {
        if self.throttle.has_passed {
            return false;
        }
        self.throttle.hold = None;
        self.throttle.is_over = true;
        true
    }

    /// Whether it waits for the reply of another client.
    fn waits_for_answer(&self) -> bool {
        self.query.as_ref().is_some_and(|query| query.answered().is_none())
    }

    fn ask_to_pass(&mut self, engine: &Share, work: MeteredWork) {
        self.throttle.has_counted = true;
        let (Some(limits), Ok(session)) = (engine.limits(), self.session()) else { return };
        if self.throttle.is_over {
            self.throttle.charge = limits.charge(work, self.now);
            return;
        }
        let client = session.client.key;
        let Some(waiter) = self.waiter() else { return };
        let ask = ThrottleRequest { client, connection: self.connection.id, work, waiter: &waiter };
        match limits.ask(&ask, self.now) {
            ThrottleDecision::Go(met, charge) => (self.throttle.met, self.throttle.charge) = (met, charge),
            ThrottleDecision::Held(hold) => self.throttle.hold = Some(hold),
        }
    }
}
