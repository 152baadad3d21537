//! Requests that wait until what was asked of an Open before is over ([`crate::state::open::changing`]).

use std::sync::Arc;

use share::Share;
use smb_wire::NtStatus;

use super::Connection;
use crate::exchange::{Request, Stop};
use crate::limits::LATE_CHANGES_NS;
use crate::path::Target;
use crate::state::durable::Instance;
use crate::state::open::changing::Until;
use crate::state::{Open, Session};

impl Connection {
    /// Lets a request wait until nothing is being changed through an Open that its session has left, but not for ever.
    ///
    /// # Errors
    /// The wait; or, when that took too long, the status with which a client is told to try again later (MS-SMB2
    /// 3.3.5.2.10 has it for what is sent again while a request of before is under way).
    pub(crate) fn outlast(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        if self.wait_for(request, open, Until::Unchanged)? {
            return Ok(());
        }
        let why = "Create refused: a change of a session that has ended is still being carried out";
        self.complain(request.session_id, NtStatus::FILE_NOT_AVAILABLE, why, request.now);
        Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE))
    }

    /// Lets a CLOSE wait until what was asked of its Open before is over, but not for ever. No section asks for that, and
    /// none lets what came before the CLOSE be told that the Open is closed.
    ///
    /// # Errors
    /// The wait.
    pub(crate) fn let_finish(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        // A CLOSE that is refused would leave its Open behind: clients forget the handle whatever they are told.
        if !self.has_room_to_wait() {
            return Ok(());
        }
        self.wait_for(request, open, Until::Idle).map(|_| ())
    }

    /// Whether it is over; false when that took too long.
    fn wait_for(&self, request: &mut Request<'_>, open: &Open, until: Until) -> Result<bool, Stop> {
        let Some((engine, _)) = open.file().filter(|_| !open.is_over(until)) else { return Ok(true) };
        let until_ns = request.course.arrived_ns.saturating_add(LATE_CHANGES_NS);
        if request.now.mono_ns >= until_ns {
            return Ok(false);
        }
        let waiter = self.waiter_for(request);
        let ticket = engine.wait_until(&waiter, until_ns);
        if open.await_end(engine, ticket, until) {
            return Err(Stop::wait(engine, ticket));
        }
        engine.cancel(ticket);
        Ok(true)
    }

    /// The same for a CREATE of a file that its own client had open, or an earlier instance of its application.
    pub(crate) fn outlast_late(
        &self,
        request: &mut Request<'_>,
        session: &Session,
        engine: &Arc<Share>,
        target: &Target,
        instance: Option<Instance>,
    ) -> Result<(), Stop> {
        let is_earlier = |open: &Open| {
            let made = open.made.get().and_then(|made| made.instance);
            instance.zip(made).is_some_and(|(one, other)| one.id == other.id)
        };
        for (client, open) in self.server.late.all() {
            let Some((own, file)) = open.file() else { continue };
            let is_its = client == session.client || is_earlier(&open);
            if is_its && Arc::ptr_eq(own, engine) && target.is_path_of(engine, file) {
                self.outlast(request, &open)?;
            }
        }
        Ok(())
    }
}
