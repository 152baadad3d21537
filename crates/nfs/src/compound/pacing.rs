//! Operations on a limited share: each that counts asks its share, and its COMPOUND is held by time when it is not its
//! turn; never refused. Its slot stays busy meanwhile, and other requests of the connection are answered.
//!
//! READ and operations on names and state wait before they are done; of a WRITE what follows waits, since its data is
//! here already. A COMPOUND that has asked another client something waits in the same place (`crate::state::question`).
//! A COMPOUND that asks for attributes, names or access only beside something else counts once.

use std::sync::Arc;

use nfs_wire::op::{Args, OpNum};
use share::limits::{Answer, Ask, Hold, ResponseType, Work};
use share::{Share, Waiter, Wake};
use volume::Patience;
use wire::{Now, Output};

use crate::compound::{Flow, Run, Stop, UnderWay};
use crate::connection::event::Event;
use crate::connection::{Connection, Way};

/// How an operation counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// As one on metadata.
    Always,
    /// The same, when nothing in front of it has counted.
    Alone,
    /// Not here.
    No,
}

/// How an operation counts.
pub(crate) fn count(number: OpNum) -> Count {
    match number {
        OpNum::Open
        | OpNum::Close
        | OpNum::OpenDowngrade
        | OpNum::Create
        | OpNum::Remove
        | OpNum::Rename
        | OpNum::Link
        | OpNum::SetAttr
        | OpNum::ReadDir
        | OpNum::Lock
        | OpNum::LockU
        | OpNum::Allocate
        | OpNum::Deallocate
        | OpNum::Copy
        | OpNum::Clone
        | OpNum::SetXattr
        | OpNum::RemoveXattr => Count::Always,
        OpNum::GetAttr
        | OpNum::Access
        | OpNum::Lookup
        | OpNum::LookupP
        | OpNum::ReadLink
        | OpNum::Verify
        | OpNum::NVerify
        | OpNum::LockT
        | OpNum::Seek
        | OpNum::GetXattr
        | OpNum::ListXattrs => Count::Alone,
        _ => Count::No,
    }
}

/// How far a COMPOUND is with its shares.
#[derive(Debug, Default)]
pub struct Pacing {
    /// What it is held by.
    hold: Option<Hold>,
    /// How it is told from others of its connection.
    token: Option<u64>,
    /// The operation that is done now has passed.
    has_passed: bool,
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
    }

    /// Which limit the operation has met that is over now.
    pub fn take_met(&mut self) -> ResponseType {
        std::mem::take(&mut self.met)
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
            Count::Always => self.pace(&engine, Work::Metadata),
            Count::Alone if !self.pacing.has_counted => self.pace(&engine, Work::Metadata),
            Count::Alone | Count::No => Ok(()),
        }
    }

    /// Lets an operation pass, or has it held: it is done again when its time has come, and passes then.
    ///
    /// # Errors
    /// [`Stop::Hold`] when it is held.
    #[inline]
    pub fn pace(&mut self, engine: &Share, work: Work) -> Result<(), Stop> {
        if engine.limits().is_none() || self.pacing.has_passed {
            return Ok(());
        }
        self.pacing.has_passed = true;
        self.ask_to_pass(engine, work);
        if self.pacing.is_held() { Err(Stop::Hold) } else { Ok(()) }
    }

    /// The same for an operation that is done: what follows is held.
    #[inline]
    pub fn pace_rest(&mut self, engine: &Share, work: Work) {
        if engine.limits().is_some() {
            self.ask_to_pass(engine, work);
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

    /// Whether it waits for what it has asked a client.
    fn waits_for_answer(&self) -> bool {
        self.question.as_ref().is_some_and(|question| question.answered().is_none())
    }

    fn ask_to_pass(&mut self, engine: &Share, work: Work) {
        self.pacing.has_counted = true;
        let (Some(limits), Ok(session)) = (engine.limits(), self.session()) else { return };
        if self.pacing.is_over {
            limits.charge(work, self.now);
            return;
        }
        let client = session.client.key;
        let Some(waiter) = self.waiter() else { return };
        let ask = Ask { client, connection: self.way.id, work, waiter: &waiter };
        match limits.ask(&ask, self.now) {
            Answer::Go(met) => self.pacing.met = met,
            Answer::Held(hold) => self.pacing.hold = Some(hold),
        }
    }
}

impl Wake for Way {
    fn wake(&self, token: u64) {
        self.post(Event::LetGo { token });
    }
}

/// A COMPOUND that is held.
pub struct Held {
    /// What of it has been done.
    pub under_way: UnderWay,
    /// The operations that are left.
    pub rest: Vec<u8>,
    /// How many they are.
    pub left: u32,
}

impl Held {
    /// Bytes that it keeps.
    pub(crate) fn keeps(&mut self) -> usize {
        let frame = self.under_way.run().map_or(0, |run| run.writer.held());
        size_of::<Run>() + self.rest.capacity() + frame
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Held {
    /// Goes on with what is left.
    fn go(&mut self) -> Option<Flow> {
        let run = self.under_way.run()?;
        let flow = run.go(nfs_wire::compound::Operations::<Args<'_>>::new(&self.rest, run.minor, self.left));
        Some(flow)
    }

    /// What is left from where it has stopped.
    pub fn cut(mut self, position: usize, left: u32) -> Held {
        self.rest.drain(..position.min(self.rest.len()));
        Held { left, ..self }
    }
}

impl Connection {
    /// Puts a held COMPOUND aside.
    pub(crate) fn hold(&mut self, mut held: Held, now: Now, out: &mut Output<Event>) {
        let Some(run) = held.under_way.run() else { return };
        let Some(token) = run.pacing.token else { return };
        // It may have been let go before it was there to be found.
        let is_released =
            run.pacing.hold.as_ref().is_none_or(|hold| hold.released().is_some()) && !run.waits_for_answer();
        self.held.insert(token, held);
        if is_released {
            self.let_go(token, now, out);
        }
    }

    /// The time of a held COMPOUND has come.
    pub(crate) fn let_go(&mut self, token: u64, now: Now, out: &mut Output<Event>) {
        let Some(mut held) = self.held.remove(&token) else { return };
        let Some(run) = held.under_way.run() else { return };
        if run.waits_for_answer() {
            self.held.insert(token, held);
            return;
        }
        match run.pacing.hold.as_ref().map(Hold::released) {
            Some(None) => {
                self.held.insert(token, held);
                return;
            }
            Some(Some(met)) if run.pacing.has_passed => run.pacing.met = met,
            Some(Some(met)) => run.course.last_has_met(met),
            None => {}
        }
        run.pacing.hold = None;
        (run.now, run.patience) = (now, Patience::Cached);
        match held.go() {
            None => {}
            Some(Flow::Done) => self.finish(held.under_way, out),
            Some(Flow::Hold { position, left }) => self.hold(held.cut(position, left), now, out),
            Some(Flow::Work { position, left }) => {
                let Held { under_way, rest, left } = held.cut(position, left);
                self.suspend(under_way, &rest, left, out);
            }
        }
    }

    /// The connection is gone. What was done and only not answered ends in its slot, where a retry finds it; what was
    /// not begun can be asked for again.
    pub(crate) fn end_held(&mut self, now: Now) {
        for (_, mut held) in std::mem::take(&mut self.held) {
            let Some(run) = held.under_way.run() else { continue };
            // A retry is told of it, out of the slot.
            run.promised.keep();
            if run.pacing.has_passed {
                continue;
            }
            run.pacing.hold = None;
            run.pacing.is_over = true;
            run.now = now;
            if held.go() == Some(Flow::Done) {
                if let Some(run) = held.under_way.run() {
                    run.promised.keep();
                }
                let _nobody_hears_it = held.under_way.finish();
            }
        }
    }
}
