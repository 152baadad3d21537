//! Requests that wait for the operations under way on an Open ([`crate::state::open::pending`]).

use std::sync::Arc;

use share::{Identity, Share};
use smb_wire::NtStatus;

use super::Connection;
use crate::exchange::{Request, Stop};
use crate::limits::LATE_CHANGES_NS;
use crate::path::ParsedPath;
use crate::state::durable::Instance;
use crate::state::open::pending::PendingUntil;
use crate::state::{Open, Session};

impl Connection {
    /// Makes a request wait, for a limited time, until no change is under way through an Open that its
    /// session has left.
    ///
    /// # Errors
    /// The wait. After the time limit it is the status that asks the client to try again later. (MS-SMB2
    /// 3.3.5.2.10 has that status for a repeated request while the original is under way.)
    pub(crate) fn await_changes(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        if self.wait_for(request, open, PendingUntil::Unchanged)? {
            return Ok(());
        }
        let why = "Create refused: a change of a session that has ended is still being carried out";
        self.log_refusal(request.session_id, NtStatus::FILE_NOT_AVAILABLE, why, request.now);
        Err(Stop::Fail(NtStatus::FILE_NOT_AVAILABLE))
    }

    /// Makes a CLOSE wait, for a limited time, for the operations under way on its Open. No section of the
    /// specification asks for that. But no section lets a request from before the CLOSE fail because the
    /// Open is closed.
    ///
    /// # Errors
    /// The wait.
    pub(crate) fn await_operations(&self, request: &mut Request<'_>, open: &Open) -> Result<(), Stop> {
        // A refused CLOSE would leave its Open behind, since clients forget the handle in any case.
        if !self.has_room_to_wait() {
            return Ok(());
        }
        self.wait_for(request, open, PendingUntil::Idle).map(|_| ())
    }

    /// Whether the operations are over. Returns false after the time limit.
    fn wait_for(&self, request: &mut Request<'_>, open: &Open, until: PendingUntil) -> Result<bool, Stop> {
        let Some((engine, _)) = open.file().filter(|_| !open.is_over(until)) else { return Ok(true) };
        let until_ns = request.transaction.arrived_ns.saturating_add(LATE_CHANGES_NS);
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

    /// Makes a CREATE wait for late changes of its file. They are those of its own client's Opens, or of an
    /// earlier instance of its application.
    pub(crate) fn await_late_changes(
        &self,
        request: &mut Request<'_>,
        session: &Session,
        (engine, user): (&Arc<Share>, &Identity),
        target: &ParsedPath,
        instance: Option<Instance>,
    ) -> Result<(), Stop> {
        let is_earlier = |open: &Open| {
            let record = open.create_record.get().and_then(|record| record.instance);
            instance.zip(record).is_some_and(|(one, other)| one.id == other.id)
        };
        for (client, open) in self.server.late.all() {
            let Some((own, file)) = open.file() else { continue };
            let is_its = client == session.client || is_earlier(&open);
            if is_its && Arc::ptr_eq(own, engine) && target.is_path_of(user, engine, file) {
                self.await_changes(request, &open)?;
            }
        }
        Ok(())
    }
}
