//! Requests to a limited share: each asks its share, and is held by time when it is not its turn, never refused. Other
//! requests of the connection are answered meanwhile.
//!
//! READ and what works on names and Opens waits before it is done; of a WRITE the answer waits, since its data is here
//! already. The client is not told STATUS_PENDING: it would have to keep more of a request that is only late.
//!
//! What breaks, cancels, or waits itself is never held, and neither is FLUSH.

use share::Share;
use share::limits::{Answer, Ask, Charge, Hold, ShareLimits, Work};
use smb_wire::{Command, NtStatus};
use wire::{Now, Output};

use crate::changing::Looking;
use crate::compound::Compound;
use crate::connection::{Connection, Pause, Rest, Resumed, Start};
use crate::dispatch::{Request, expected_size};
use crate::event::Event;
use crate::limits::{MAX_WAITING_BYTES, SMALL_HELD};
use crate::suspend::{Stop, Suspended};
use crate::tree::{Target, Tree};

/// Whether a command counts among the operations on metadata: those on names and Opens rather than on data.
pub(crate) fn is_metadata(command: Command) -> bool {
    matches!(
        command,
        Command::Create
            | Command::Close
            | Command::Lock
            | Command::Ioctl
            | Command::QueryDirectory
            | Command::QueryInfo
            | Command::SetInfo
    )
}

impl Connection {
    /// Lets a request pass that works on names or Opens of a tree, or has it held.
    pub(crate) fn pace_metadata(&self, request: &mut Request<'_>, tree: &Tree) -> Result<(), Stop> {
        match &tree.target {
            Target::Disk { engine, .. } if is_metadata(request.header.command()) => {
                self.pace(request, engine, Work::Metadata).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Lets a request pass, with what it takes, or has it held: it is done again when its time has come, and passes then.
    #[inline]
    pub(crate) fn pace(&self, request: &mut Request<'_>, engine: &Share, work: Work) -> Result<Charge, Stop> {
        if request.course.has_passed {
            return Ok(std::mem::take(&mut request.course.charge));
        }
        let Some(limits) = engine.limits() else { return Ok(Charge::default()) };
        request.course.has_passed = true;
        self.ask(request, &limits, work).map_err(Stop::Hold)
    }

    /// The same for a request that is done: its answer is held.
    #[inline]
    pub(crate) fn pace_answer(
        &self,
        request: &mut Request<'_>,
        engine: &Share,
        work: Work,
    ) -> Result<NtStatus, Stop> {
        let Some(limits) = engine.limits() else { return Ok(NtStatus::SUCCESS) };
        match self.ask(request, &limits, work) {
            Ok(charge) => {
                charge.used_up();
                Ok(NtStatus::SUCCESS)
            }
            // It is owed also if the connection is lost before its time has come.
            Err(hold) => Err(Stop::Answer(NtStatus::SUCCESS, hold.is_done())),
        }
    }

    fn ask(&self, request: &mut Request<'_>, limits: &ShareLimits, work: Work) -> Result<Charge, Hold> {
        let Some(negotiated) = &self.negotiated else { return Ok(Charge::default()) };
        let client = negotiated.client;
        let waiter = self.waiter(self.async_id(request));
        let ask = Ask { client, connection: self.handle.id, work, waiter: &waiter };
        match limits.ask(&ask, request.now) {
            Answer::Go(met, charge) => {
                request.course.met = met;
                Ok(charge)
            }
            Answer::Held(hold) => Err(hold),
        }
    }

    /// Puts a held request aside, or its answer.
    pub(crate) fn hold(
        &mut self,
        mut compound: Compound,
        stop: Stop,
        pause: Pause,
        [here, behind]: [Rest<'_>; 2],
        now: Now,
        out: &mut Output<Event>,
    ) {
        let Pause { async_id, at, announced, signed, header, outstanding, mut course, keeps } = pause;
        let (hold, done, rest) = match stop {
            Stop::Hold(hold) => (hold, None, here),
            Stop::Answer(status, hold) => (hold, Some(status), behind),
            _ => return,
        };
        if done.is_none() {
            compound.abandon(at);
            if rest.messages.len() > SMALL_HELD
                && rest.messages.len() + self.waiting_bytes() > MAX_WAITING_BYTES
            {
                // There is no room to hold more of what only a client that means harm sends so much of: it is done
                // now, and owed.
                course.charge = hold.go();
                let resumed = Some(Resumed { async_id, announced, signed, outstanding, course });
                return self.run(
                    compound,
                    rest.messages,
                    Start { resumed, signatures: rest.signatures },
                    now,
                    out,
                );
            }
            if compound.is_empty() {
                // The room for an answer is taken when there is one.
                out.pool.give_back(std::mem::take(&mut compound.frame));
            }
        }
        let held = Suspended {
            compound,
            at,
            header,
            rest: rest.messages.to_vec(),
            signatures: rest.signatures.to_vec(),
            announced,
            signed,
            ticket: None,
            working: done.is_some(),
            outstanding,
            course,
            held: Some(Held { hold, done, _keeps: keeps }),
        };
        self.held += 1;
        self.suspended.insert(async_id, held);
    }

    /// A held request may go on; false when it is not held, or its time has not come.
    pub(crate) fn let_go(&mut self, async_id: u64, now: Now, out: &mut Output<Event>) -> bool {
        let held = self.suspended.get(&async_id).and_then(|waiting| waiting.held.as_ref());
        let Some(held) = held else { return false };
        let Some(met) = held.hold.released() else { return true };
        let Some(mut waiting) = self.suspended.remove(&async_id) else { return true };
        self.held -= 1;
        waiting.course.met = met;
        let Some(Held { hold, done, .. }) = waiting.held.take() else { return true };
        if let Some(status) = done {
            drop(hold);
            let frame = std::mem::take(&mut waiting.compound.frame);
            self.suspended.insert(async_id, waiting);
            self.job_done(async_id, frame, Ok(status), now, out);
            return true;
        }
        waiting.course.charge = hold.go();
        if waiting.compound.is_empty() {
            waiting.compound.frame = out.pool.take(expected_size(&waiting.rest));
        }
        self.resume(async_id, waiting, now, out);
        true
    }
}

/// What a held request waits for.
pub struct Held {
    /// Its place; given up when dropped.
    pub hold: Hold,
    /// How it ended, when only its answer is held.
    pub done: Option<NtStatus>,
    /// The Open that it needs, which no CLOSE behind it ends meanwhile.
    pub(crate) _keeps: Option<Looking>,
}
