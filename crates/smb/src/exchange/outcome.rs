//! The outcome of a request, and the reasons why one is put aside.

use std::sync::Arc;

use share::limits::Hold;
use share::{CallResult, Share, Ticket};
use smb_wire::NtStatus;

use crate::state::Completion;
use crate::state::password_delay::QueuedAttempt;

/// Work for the blocking pool. It appends the body of the reply.
pub type PoolWork = Box<dyn FnOnce(&mut Vec<u8>) -> Completion + Send>;

/// The content of a reply.
pub enum ReplyContent {
    /// This status, with the written body.
    Done(NtStatus),
    /// This error, with the standard error body and this data in it.
    Failed(NtStatus, Vec<u8>),
}

impl From<Completion> for ReplyContent {
    fn from(completion: Completion) -> ReplyContent {
        completion.map_or_else(|status| ReplyContent::Failed(status, Vec::new()), ReplyContent::Done)
    }
}

/// The reason why a request is put aside and answered later.
pub enum ParkReason {
    /// It waits until the engine wakes it, and is tried again. The ticket cancels the wait.
    Wait(Arc<Share>, Ticket),
    /// It is a delayed log-on. Its client gets no interim response.
    LogOnDelay(QueuedAttempt),
    /// It is a token of a log-on that is judged on the blocking pool. The request is tried again afterwards.
    /// Its client gets no interim response.
    LogOn(Box<dyn FnOnce() + Send>),
    /// It needs the user's home, which is found or made on the blocking pool. The request is tried again
    /// afterwards.
    Home(Box<dyn FnOnce() + Send>),
    /// It runs on the blocking pool.
    Work(PoolWork),
    /// It has taken effect and must reach stable storage, on the blocking pool. It is put aside however many
    /// others wait.
    Persist(PoolWork),
    /// The limits of its share delay it. It is carried out afterwards.
    Hold(Hold),
    /// It was carried out, and its reply is delayed. The status belongs to the written body.
    Answer(NtStatus, Hold),
}

/// The outcome of a request so far.
pub enum CommandOutcome {
    /// It is answered.
    Answered(ReplyContent),
    /// It is put aside.
    Parked(ParkReason),
    /// There is no reply.
    Silent,
    /// The connection must end.
    Disconnect(&'static str),
}

impl From<Stop> for CommandOutcome {
    fn from(stop: Stop) -> CommandOutcome {
        match stop {
            Stop::Fail(status) => CommandOutcome::Answered(ReplyContent::Failed(status, Vec::new())),
            Stop::FailWith(status, data) => CommandOutcome::Answered(ReplyContent::Failed(status, data)),
            Stop::Park(aside) => CommandOutcome::Parked(aside),
            Stop::Disconnect(why) => CommandOutcome::Disconnect(why),
        }
    }
}

impl From<Handled> for CommandOutcome {
    fn from(handled: Handled) -> CommandOutcome {
        handled
            .map_or_else(CommandOutcome::from, |status| CommandOutcome::Answered(ReplyContent::Done(status)))
    }
}

/// The reason why a command stops.
pub enum Stop {
    /// An error, with the standard error body.
    Fail(NtStatus),
    /// An error with data of its own in the error body.
    FailWith(NtStatus, Vec<u8>),
    /// The request is put aside.
    Park(ParkReason),
    /// The connection must end. MS-SMB2 requires that explicitly.
    Disconnect(&'static str),
}

/// The result of a command: the status for the written body.
pub type Handled = Result<NtStatus, Stop>;

impl Stop {
    /// Stops with this error if `case` is true.
    #[inline]
    pub fn when(case: bool, status: NtStatus) -> Result<(), Stop> {
        if case { Err(Stop::Fail(status)) } else { Ok(()) }
    }

    /// Stops to run on the blocking pool.
    pub fn work(work: impl FnOnce(&mut Vec<u8>) -> Completion + Send + 'static) -> Stop {
        Stop::Park(ParkReason::Work(Box::new(work)))
    }

    /// Stops to wait for the engine.
    pub fn wait(engine: &Arc<Share>, ticket: Ticket) -> Stop {
        Stop::Park(ParkReason::Wait(Arc::clone(engine), ticket))
    }

    /// Stops until the values of a reply about a persistent Open are on stable storage. Return this instead
    /// of the status; the body is written already. `tell` returns whether the reply still holds, since
    /// another waiter may have revoked its values. If the storage fails, `undo` revokes what was done.
    pub(crate) fn when_persistent(
        engine: &Arc<Share>,
        tell: impl FnOnce() -> bool + Send + 'static,
        undo: impl FnOnce() + Send + 'static,
    ) -> Stop {
        let engine = Arc::clone(engine);
        Stop::Park(ParkReason::Persist(Box::new(move |_body| {
            if let Err(why) = engine.commit_records() {
                tracing::error!(share = %engine.name(), %why, "a persistent open could not be made to last");
                undo();
                return Err(crate::status::of(&why));
            }
            // The status for a request that comes while the first is under way: the client tries again.
            if tell() { Ok(NtStatus::SUCCESS) } else { Err(NtStatus::FILE_NOT_AVAILABLE) }
        })))
    }

    /// Maps a step of the engine: done, refused, or a wait after which the request is tried again.
    pub fn done_or_wait<T>(engine: &Arc<Share>, step: CallResult<T>) -> Result<T, Stop> {
        match step {
            CallResult::Done(done) => Ok(done),
            CallResult::Wait(ticket) => Err(Stop::wait(engine, ticket)),
            CallResult::Refused(refusal) => Err(refusal.into()),
        }
    }
}

impl From<NtStatus> for Stop {
    fn from(status: NtStatus) -> Self {
        Stop::Fail(status)
    }
}

impl From<share::Refusal> for Stop {
    fn from(refusal: share::Refusal) -> Self {
        Stop::Fail(crate::status::of(&refusal))
    }
}

impl From<smb_wire::Malformed> for Stop {
    fn from(malformed: smb_wire::Malformed) -> Self {
        tracing::debug!(%malformed, "refused a request");
        Stop::Fail(crate::status::of_malformed(malformed))
    }
}
