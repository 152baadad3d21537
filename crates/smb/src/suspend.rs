//! Requests that are not answered at once: they wait for the engine, or run on the blocking pool.

use std::sync::Arc;

use share::limits::Hold;
use share::{Share, Ticket};
use smb_wire::{Command, FileId, Header, NtStatus};

use crate::brake::Queued;
use crate::compound::Compound;
use crate::connection::Connection;
use crate::counting::Course;
use crate::pacing::Held;
use crate::sequence::Outstanding;

/// How work ended: with a body and this status, or without one and that status.
pub type Completion = Result<NtStatus, NtStatus>;

/// Work for the blocking pool; it appends the body of the answer.
pub type Work = Box<dyn FnOnce(&mut Vec<u8>) -> Completion + Send>;

/// Why a command did not answer with a body.
pub enum Stop {
    /// An error, with the standard error body.
    Fail(NtStatus),
    /// An error with data of its own in the error body.
    FailWith(NtStatus, Vec<u8>),
    /// It waits; tried again when the engine wakes it. The engine and ticket to cancel it with.
    Wait(Option<(Arc<Share>, Ticket)>),
    /// It is a log-on that waits for its turn, without a word to its client.
    Later(Queued),
    /// It runs on the blocking pool.
    Work(Work),
    /// The same for what has taken effect and is only to be made to last: it is put aside whatever else waits.
    Lasting(Work),
    /// It is held by the limits of its share, and then done.
    Hold(Hold),
    /// It is done, and its answer is held: the status that goes with the body that was written.
    Answer(NtStatus, Hold),
    /// There is no answer at all.
    Silent,
    /// The connection must end (MS-SMB2 asks for it by name).
    Disconnect(&'static str),
}

impl Stop {
    /// Whether the request is put aside and answered later.
    pub fn puts_aside(&self) -> bool {
        matches!(
            self,
            Stop::Wait(_)
                | Stop::Later(_)
                | Stop::Work(_)
                | Stop::Lasting(_)
                | Stop::Hold(_)
                | Stop::Answer(..)
        )
    }
}

/// What a command answers: the status that goes with the body it wrote.
pub type Handled = Result<NtStatus, Stop>;

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

impl Connection {
    /// The connection is gone: what waits is taken back. But a CREATE that its client may replay on another
    /// channel keeps its name while it would have waited: until then the replay is told to come back, as it
    /// would be had the channel not been lost.
    // MS-SMB2 3.3.7.1
    pub(crate) fn let_go_of_waiting(&mut self) {
        self.controls.end();
        for (async_id, mut waiting) in self.suspended.take_all() {
            let Some((engine, ticket)) = waiting.ticket else { continue };
            let session = self.server.session(waiting.header.session_id());
            let has_others = session.is_some_and(|session| session.channels().len() > 1);
            match waiting.compound.claim.take().filter(|_| has_others) {
                Some(claim) => {
                    self.handle.left.lock().insert(async_id, claim);
                    // It may have been woken before it was there to be found.
                    if !engine.is_waiting(ticket) {
                        self.handle.left.lock().remove(&async_id);
                    }
                }
                None => self.take_back(&engine, ticket, waiting.compound.related.file_id),
            }
        }
    }

    /// Takes back what waits on an Open. If that was woken before, it was for a byte range that it might have had: the
    /// next is woken in its place.
    pub(crate) fn take_back(&self, engine: &Share, ticket: Ticket, id: Option<FileId>) {
        if engine.cancel(ticket) {
            return;
        }
        let open = id.and_then(|id| self.server.opens.get(id.volatile).filter(|open| open.id == id));
        if let Some((engine, file)) = open.as_ref().and_then(|open| open.file()) {
            engine.pass_turn(file);
        }
    }
}

/// A frame whose answering has stopped at one request.
pub struct Suspended {
    /// The answers so far. Its frame is away while work runs.
    pub compound: Compound,
    /// Where its header will stand, while work runs.
    pub at: usize,
    /// The request's own header.
    pub header: Header,
    /// The request and what follows it in its frame; only what follows while work runs.
    pub rest: Vec<u8>,
    /// The signatures that were taken out of `rest`.
    pub signatures: Vec<[u8; 16]>,
    /// Whether the client was told STATUS_PENDING.
    pub announced: bool,
    /// Whether the answer is signed.
    pub signed: bool,
    /// How to take the wait back.
    pub ticket: Option<(Arc<Share>, Ticket)>,
    /// Whether work runs or is done, which cannot be taken back.
    pub working: bool,
    /// Counts among the requests on its Open; while work runs, the work does.
    pub outstanding: Option<Outstanding>,
    /// What is known of it for limits and counts.
    pub course: Course,
    /// What it is held by.
    pub held: Option<Held>,
}

impl Suspended {
    /// Whether others wait for what it does, and little is answered to it and nothing behind it.
    pub fn is_brief(&self) -> bool {
        let changes = matches!(self.header.command(), Command::Create | Command::Lock | Command::SetInfo);
        changes && self.held.is_none() && self.header.next_command() == 0
    }
}
