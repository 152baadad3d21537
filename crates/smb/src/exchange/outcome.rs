//! How a request ends, and why one is put aside.

use std::sync::Arc;

use share::limits::Hold;
use share::{CallResult, Share, Ticket};
use smb_wire::NtStatus;
use smb_wire::rpc::PipeError;

use crate::state::Completion;
use crate::state::brake::Queued;

/// Work for the blocking pool; it appends the body of the answer.
pub type Work = Box<dyn FnOnce(&mut Vec<u8>) -> Completion + Send>;

/// What is answered.
pub enum Answered {
    /// This status, with the body that was written.
    Done(NtStatus),
    /// This error, with the standard error body and these data in it.
    Failed(NtStatus, Vec<u8>),
}

impl From<Completion> for Answered {
    fn from(completion: Completion) -> Answered {
        completion.map_or_else(|status| Answered::Failed(status, Vec::new()), Answered::Done)
    }
}

/// Why a request is put aside, and answered later.
pub enum Aside {
    /// It is tried again when the engine wakes it. The engine, and the ticket to take the wait back with.
    Wait(Arc<Share>, Ticket),
    /// It is a log-on that waits for its turn, without a word to its client.
    Turn(Queued),
    /// It runs on the blocking pool.
    Work(Work),
    /// The same for what has taken effect and is only to be made to last: it is put aside whatever else waits.
    Lasting(Work),
    /// It is held by the limits of its share, and then done.
    Hold(Hold),
    /// It is done, and its answer is held: the status that goes with the body that was written.
    Answer(NtStatus, Hold),
}

/// How a request ended, or that it has not.
pub enum Outcome {
    /// It is answered.
    Answered(Answered),
    /// It is put aside.
    Aside(Aside),
    /// There is no answer at all.
    Silent,
    /// The connection must end.
    Disconnect(&'static str),
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Outcome {
        match stop {
            Stop::Fail(status) => Outcome::Answered(Answered::Failed(status, Vec::new())),
            Stop::FailWith(status, data) => Outcome::Answered(Answered::Failed(status, data)),
            Stop::Aside(aside) => Outcome::Aside(aside),
            Stop::Disconnect(why) => Outcome::Disconnect(why),
        }
    }
}

impl From<Handled> for Outcome {
    fn from(handled: Handled) -> Outcome {
        handled.map_or_else(Outcome::from, |status| Outcome::Answered(Answered::Done(status)))
    }
}

/// Why a command goes no further.
pub enum Stop {
    /// An error, with the standard error body.
    Fail(NtStatus),
    /// An error with data of its own in the error body.
    FailWith(NtStatus, Vec<u8>),
    /// It is put aside.
    Aside(Aside),
    /// The connection must end (MS-SMB2 asks for it by name).
    Disconnect(&'static str),
}

/// What a command answers: the status that goes with the body it wrote.
pub type Handled = Result<NtStatus, Stop>;

impl Stop {
    /// Goes no further in this case, with this error.
    #[inline]
    pub fn when(case: bool, status: NtStatus) -> Result<(), Stop> {
        if case { Err(Stop::Fail(status)) } else { Ok(()) }
    }

    /// It runs on the blocking pool.
    pub fn work(work: impl FnOnce(&mut Vec<u8>) -> Completion + Send + 'static) -> Stop {
        Stop::Aside(Aside::Work(Box::new(work)))
    }

    /// It waits for the engine.
    pub fn wait(engine: &Arc<Share>, ticket: Ticket) -> Stop {
        Stop::Aside(Aside::Wait(Arc::clone(engine), ticket))
    }

    /// The answer, whose body is written, once everything it says of the Open is on stable storage. To be
    /// returned in its place where the Open is persistent. `tell` says whether what it tells still holds, since somebody
    /// else who waited may have taken it back; when this one fails, `undo` takes back what was done.
    pub(crate) fn when_lasting(
        engine: &Arc<Share>,
        tell: impl FnOnce() -> bool + Send + 'static,
        undo: impl FnOnce() + Send + 'static,
    ) -> Stop {
        let engine = Arc::clone(engine);
        Stop::Aside(Aside::Lasting(Box::new(move |_body| {
            if let Err(why) = engine.commit_records() {
                tracing::error!(share = %engine.name(), %why, "a persistent open could not be made to last");
                undo();
                return Err(crate::status::of(&why));
            }
            // As what comes while the first is under way: it is to be tried again.
            if tell() { Ok(NtStatus::SUCCESS) } else { Err(NtStatus::FILE_NOT_AVAILABLE) }
        })))
    }

    /// What the engine answers: done, refused, or to be tried again when it wakes the request.
    pub fn unless_done<T>(engine: &Arc<Share>, step: CallResult<T>) -> Result<T, Stop> {
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

impl From<PipeError> for Stop {
    fn from(error: PipeError) -> Stop {
        Stop::Fail(match error {
            PipeError::Busy => NtStatus::PIPE_BUSY,
            PipeError::Empty => NtStatus::PIPE_EMPTY,
            PipeError::Disconnected => NtStatus::PIPE_DISCONNECTED,
        })
    }
}
