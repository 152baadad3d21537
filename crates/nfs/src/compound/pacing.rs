//! Operations on a limited share: each that counts asks its share, and its COMPOUND is held by time when it is not its
//! turn; never refused. Its slot stays busy meanwhile, and other requests of the connection are answered.
//!
//! READ and operations on names and state wait before they are done; of a WRITE what follows waits, since its data is
//! here already. A COMPOUND that has asked another client something waits in the same place (`crate::state::question`).
//! A COMPOUND that asks for attributes, names or access only beside something else counts once.

use std::sync::Arc;

use nfs_wire::op::OpNum;
use share::limits::{Charge, Hold, MeteredWork, ResponseType, ThrottleDecision, ThrottleRequest};
use share::{Share, Waiter, Wake};

use crate::compound::{Run, Stop};
use crate::counting::{Count, count};

/// How far a COMPOUND is with its shares.
#[derive(Debug, Default)]
pub struct Pacing {
    /// What it is held by.
    hold: Option<Hold>,
    /// How it is told from others of its connection.
    token: Option<u64>,
    /// The operation that is done now has passed.
    has_passed: bool,
    /// What that has taken; with the COMPOUND it goes to the blocking pool and back.
    charge: Charge,
    /// Which limit the operation that is done now has met.
    met: ResponseType,
    /// Something in it has counted.
    has_counted: bool,
    /// Nothing of it is held any more: what it does is owed.
    is_over: bool,
}

impl Pacing {
    /// An operation has been done.
    pub fn operation_done(&mut self) {
        self.has_passed = false;
        self.charge = Charge::default();
    }

    /// So many bytes of the operation have gone in or out; what else it has taken is given back.
    #[inline]
    pub fn used(&mut self, bytes: usize) {
        std::mem::take(&mut self.charge).used(bytes);
    }

    /// Which limit the operation has met that is over now.
    pub fn take_met(&mut self) -> ResponseType {
        std::mem::take(&mut self.met)
    }

    /// How the COMPOUND is told from others of its connection, once it was held.
    pub fn token(&self) -> Option<u64> {
        self.token
    }

    /// Whether the COMPOUND must wait.
    pub fn is_held(&self) -> bool {
        self.hold.is_some()
    }
}

impl Run {
    /// Lets an operation on names or state pass, or has it held.
    ///
    /// # Errors
    /// [`Stop::Hold`] when it is held.
    #[inline]
    pub fn pace_metadata(&mut self, number: OpNum) -> Result<(), Stop> {
        let Some(export) = self.current.as_ref().and_then(|current| current.export()) else { return Ok(()) };
        if export.engine.limits().is_none() {
            return Ok(());
        }
        let engine = Arc::clone(&export.engine);
        match count(number) {
            Count::Always => self.pace(&engine, MeteredWork::Metadata),
            Count::Alone if !self.pacing.has_counted => self.pace(&engine, MeteredWork::Metadata),
            Count::Alone | Count::No => Ok(()),
        }
    }

    /// Lets an operation pass, or has it held: it is done again when its time has come, and passes then.
    ///
    /// # Errors
    /// [`Stop::Hold`] when it is held.
    #[inline]
    pub fn pace(&mut self, engine: &Share, work: MeteredWork) -> Result<(), Stop> {
        if engine.limits().is_none() || self.pacing.has_passed {
            return Ok(());
        }
        self.pacing.has_passed = true;
        self.ask_to_pass(engine, work);
        if self.pacing.is_held() { Err(Stop::Hold) } else { Ok(()) }
    }

    /// The same for an operation that is done: what follows is held.
    #[inline]
    pub fn pace_rest(&mut self, engine: &Share, work: MeteredWork) {
        if engine.limits().is_some() {
            self.ask_to_pass(engine, work);
            std::mem::take(&mut self.pacing.charge).used_up();
            // It is owed also if the connection is lost before its time has come.
            self.pacing.hold = self.pacing.hold.take().map(Hold::is_done);
        }
    }

    /// Who is to be woken for this COMPOUND; none when nothing of it is held any more.
    pub fn waiter(&mut self) -> Option<Waiter> {
        if self.pacing.is_over {
            return None;
        }
        let token = *self.pacing.token.get_or_insert_with(|| self.way.next_held());
        Some(Waiter { wake: Arc::clone(&self.way) as Arc<dyn Wake>, token })
    }

    /// Whether nothing keeps it any more.
    pub(crate) fn may_go_on(&self) -> bool {
        self.pacing.hold.as_ref().is_none_or(|hold| hold.released().is_some()) && !self.waits_for_answer()
    }

    /// Its time has come: what it was held by is over.
    pub(crate) fn go_on(&mut self) {
        let Some(hold) = self.pacing.hold.take() else { return };
        match hold.released() {
            Some(met) if self.pacing.has_passed => self.pacing.met = met,
            Some(met) => self.course.last_has_met(met),
            None => {}
        }
        if self.pacing.has_passed {
            self.pacing.charge = hold.go();
        }
    }

    /// Its connection is gone, so that nothing of it is held any more. True when the operation that it stands before is to be
    /// done all the same, since those before it are done and only not answered.
    pub(crate) fn end_waiting(&mut self) -> bool {
        if self.pacing.has_passed {
            return false;
        }
        self.pacing.hold = None;
        self.pacing.is_over = true;
        true
    }

    /// Whether it waits for what it has asked a client.
    fn waits_for_answer(&self) -> bool {
        self.question.as_ref().is_some_and(|question| question.answered().is_none())
    }

    fn ask_to_pass(&mut self, engine: &Share, work: MeteredWork) {
        self.pacing.has_counted = true;
        let (Some(limits), Ok(session)) = (engine.limits(), self.session()) else { return };
        if self.pacing.is_over {
            self.pacing.charge = limits.charge(work, self.now);
            return;
        }
        let client = session.client.key;
        let Some(waiter) = self.waiter() else { return };
        let ask = ThrottleRequest { client, connection: self.way.id, work, waiter: &waiter };
        match limits.ask(&ask, self.now) {
            ThrottleDecision::Go(met, charge) => (self.pacing.met, self.pacing.charge) = (met, charge),
            ThrottleDecision::Held(hold) => self.pacing.hold = Some(hold),
        }
    }
}
