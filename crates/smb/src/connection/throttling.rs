//! Throttling on a limited share. Each request asks the limits of its share. It may be delayed but is never
//! refused. Other requests of the connection are answered meanwhile.
//!
//! A READ and a request on names or Opens waits before it is carried out. The response to a WRITE waits
//! after the write, since its data is here already. The client gets no STATUS_PENDING: it would have to keep
//! more state for a request that is only late.
//!
//! A request that breaks, cancels or waits by itself is never throttled, and neither is FLUSH.

use share::Share;
use share::limits::{Charge, Hold, MeteredWork, ShareLimits, ThrottleDecision, ThrottleRequest};
use smb_wire::NtStatus;

use super::Connection;
use crate::counting::is_metadata;
use crate::exchange::{ParkReason, Request, Stop};
use crate::state::{Tree, TreeTarget};

impl Connection {
    /// Passes or throttles a request on names or Opens of a tree.
    pub(crate) fn pace_metadata(&self, request: &mut Request<'_>, tree: &Tree) -> Result<(), Stop> {
        match &tree.target {
            TreeTarget::Disk { engine, .. } if is_metadata(request.header.command()) => {
                self.pace(request, engine, MeteredWork::Metadata).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Passes or throttles a request. A throttled one is tried again when its time has come, and passes
    /// then.
    #[inline]
    pub(crate) fn pace(
        &self,
        request: &mut Request<'_>,
        engine: &Share,
        work: MeteredWork,
    ) -> Result<Charge, Stop> {
        if request.transaction.has_passed {
            return Ok(std::mem::take(&mut request.transaction.charge));
        }
        let Some(limits) = engine.limits() else { return Ok(Charge::default()) };
        request.transaction.has_passed = true;
        self.ask(request, &limits, work).map_err(|hold| Stop::Park(ParkReason::Hold(hold)))
    }

    /// Throttles the response of a request that was carried out.
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
            // The charge is owed even if the connection is lost before the time has come.
            Err(hold) => Err(Stop::Park(ParkReason::Answer(NtStatus::SUCCESS, hold.is_done()))),
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
                request.transaction.met = met;
                Ok(charge)
            }
            ThrottleDecision::Held(hold) => Err(hold),
        }
    }
}
