//! Requests to a limited share: each asks its share, and is held by time when it is not its turn, never refused. Other
//! requests of the connection are answered meanwhile.
//!
//! READ and what works on names and Opens waits before it is done; of a WRITE the answer waits, since its data is here
//! already. The client is not told STATUS_PENDING: it would have to keep more of a request that is only late.
//!
//! What breaks, cancels, or waits itself is never held, and neither is FLUSH.

use share::Share;
use share::limits::{Charge, Hold, MeteredWork, ShareLimits, ThrottleDecision, ThrottleRequest};
use smb_wire::NtStatus;

use super::Connection;
use crate::counting::is_metadata;
use crate::exchange::{Aside, Request, Stop};
use crate::state::{Target, Tree};

impl Connection {
    /// Lets a request pass that works on names or Opens of a tree, or has it held.
    pub(crate) fn pace_metadata(&self, request: &mut Request<'_>, tree: &Tree) -> Result<(), Stop> {
        match &tree.target {
            Target::Disk { engine, .. } if is_metadata(request.header.command()) => {
                self.pace(request, engine, MeteredWork::Metadata).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Lets a request pass, with what it takes, or has it held: it is done again when its time has come, and passes then.
    #[inline]
    pub(crate) fn pace(
        &self,
        request: &mut Request<'_>,
        engine: &Share,
        work: MeteredWork,
    ) -> Result<Charge, Stop> {
        if request.course.has_passed {
            return Ok(std::mem::take(&mut request.course.charge));
        }
        let Some(limits) = engine.limits() else { return Ok(Charge::default()) };
        request.course.has_passed = true;
        self.ask(request, &limits, work).map_err(|hold| Stop::Aside(Aside::Hold(hold)))
    }

    /// The same for a request that is done: its answer is held.
    #[inline]
    pub(crate) fn pace_answer(
        &self,
        request: &mut Request<'_>,
        engine: &Share,
        work: MeteredWork,
    ) -> Result<NtStatus, Stop> {
        let Some(limits) = engine.limits() else { return Ok(NtStatus::SUCCESS) };
        match self.ask(request, &limits, work) {
            Ok(charge) => {
                charge.used_up();
                Ok(NtStatus::SUCCESS)
            }
            // It is owed also if the connection is lost before its time has come.
            Err(hold) => Err(Stop::Aside(Aside::Answer(NtStatus::SUCCESS, hold.is_done()))),
        }
    }

    fn ask(
        &self,
        request: &mut Request<'_>,
        limits: &ShareLimits,
        work: MeteredWork,
    ) -> Result<Charge, Hold> {
        let Some(negotiated) = &self.negotiated else { return Ok(Charge::default()) };
        let client = negotiated.client;
        let waiter = self.waiter_for(request);
        let ask = ThrottleRequest { client, connection: self.handle.id, work, waiter: &waiter };
        match limits.ask(&ask, request.now) {
            ThrottleDecision::Go(met, charge) => {
                request.course.met = met;
                Ok(charge)
            }
            ThrottleDecision::Held(hold) => Err(hold),
        }
    }
}
