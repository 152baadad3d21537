//! A COMPOUND under way (RFC 8881 2.6 and 16.2).
//!
//! [`Run`] owns everything that the operations need, so that the rest of a COMPOUND that would have to wait for the
//! device can go to the blocking pool as a whole. This file is below the operations, each of which is a file in [`crate::op`]: it
//! has what they use. [`go`] is above them: the loop over the operations ([`Run::go`]).
//!
//! [`under_way`] is a COMPOUND as its connection holds it; [`current`] the current filehandle; [`pacing`] its wait for the limits of a
//! share; [`promised`] what must be recorded before its answer leaves; [`course`] what is counted of it.

pub mod course;
pub mod current;
pub mod go;
mod noting;
pub mod pacing;
pub mod promised;
pub mod under_way;

use std::sync::Arc;

use nfs_wire::compound::{Mark, ReplyWriter};
use nfs_wire::op::{OpNum, Outcome};
use nfs_wire::types::{StateId, Verifier};
use nfs_wire::{NfsStat, compound};
use share::{CallResult, Caller, Identity};
use volume::Patience;
use wire::{Frame, Now};

use crate::compound::course::Course;
use crate::compound::current::Current;
use crate::compound::pacing::Pacing;
use crate::compound::promised::Promised;
use crate::config::Export;
use crate::server::Near;
use crate::state::filehandle::Handle;
use crate::state::question::Question;
use crate::state::session::Session;
use crate::state::slot;
use crate::state::way::Way;
use crate::state::who::Who;

/// Why an operation did not end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// With this status and nothing else.
    Fail(NfsStat),
    /// With this status; the result is written already.
    Told(NfsStat),
    /// It would have to wait for the device: to be done again where that is allowed.
    Work,
    /// It is held by the limits of a share, or until another client has answered, and then done again.
    Hold,
}

/// How an operation ended; when well, its result is written.
pub type Done = Result<(), Stop>;

impl From<NfsStat> for Stop {
    fn from(status: NfsStat) -> Stop {
        Stop::Fail(status)
    }
}

impl From<share::Refusal> for Stop {
    fn from(why: share::Refusal) -> Stop {
        if why == share::Refusal::WouldBlock { Stop::Work } else { Stop::Fail(crate::status::of(&why)) }
    }
}

/// How far a COMPOUND came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// To its end.
    Done,
    /// To an operation that is held by the limits of a share: as below.
    Hold {
        /// In bytes from where the operations began.
        position: usize,
        /// Operations.
        left: u32,
    },
    /// To an operation that must wait for the device: where it begins in the operations, and how many are left with
    /// it.
    Work {
        /// In bytes from where the operations began.
        position: usize,
        /// Operations.
        left: u32,
    },
}

/// A slot whose request is being done.
#[derive(Debug, Clone, Copy)]
pub struct Serving {
    /// The slot.
    pub slot: u32,
    /// The request's number in it.
    pub sequence: u32,
    /// Whether the reply is kept.
    pub cache: bool,
}

/// A COMPOUND under way.
pub struct Run {
    /// The server.
    pub server: Near,
    /// The connection it came on.
    pub way: Arc<Way>,
    /// Who asks.
    pub who: Arc<Who>,
    /// The session; before SEQUENCE the one that the connection used last.
    pub session: Option<Arc<Session>>,
    /// The slot, from SEQUENCE on.
    pub serving: Option<Serving>,
    /// Minor version.
    pub minor: u32,
    /// Operations in all.
    pub count: u32,
    /// Bytes of the request, with the header of RPC.
    pub request_len: usize,
    /// Tells the request from others in its slot.
    pub mark: u64,
    /// The current filehandle.
    pub current: Option<Current>,
    /// The saved filehandle.
    pub saved: Option<Current>,
    /// The current stateid (RFC 8881 16.2.3.1.2).
    pub stateid: Option<StateId>,
    /// The stateid that was saved with the saved filehandle.
    pub saved_stateid: Option<StateId>,
    /// The time.
    pub now: Now,
    /// Whether operations may wait for the device.
    pub patience: Patience,
    /// The reply.
    pub writer: ReplyWriter,
    /// Opens that its answer tells of.
    pub promised: Promised,
    /// What the whole COMPOUND comes to.
    pub status: NfsStat,
    /// What a retry is answered with, in place of everything else.
    pub replay: Option<Vec<u8>>,
    /// Whether the operation that is done now is the last.
    pub is_last: bool,
    /// The operation behind SEQUENCE.
    pub next_number: Option<OpNum>,
    /// How far it is with the limits of its shares.
    pub pacing: Pacing,
    /// What it has asked the holder of a delegation and waits for.
    pub question: Option<Arc<Question>>,
    /// What is counted of it.
    pub course: Course,
    /// Whose connection it is found to be, where that was not known before.
    pub placement: Option<u128>,
    /// The operation that is done now or was begun last, and where its result begins.
    doing: Option<(Mark, OpNum)>,
    xid: u32,
}

/// What a COMPOUND begins with.
pub struct Begin {
    /// The server.
    pub server: Near,
    /// The connection.
    pub way: Arc<Way>,
    /// Who asks.
    pub who: Arc<Who>,
    /// The session that the connection used last.
    pub session: Option<Arc<Session>>,
    /// The call's number.
    pub xid: u32,
    /// The time.
    pub now: Now,
}

impl Run {
    /// Begins the reply to a call, in `frame`.
    #[must_use]
    pub fn new(begin: Begin, call: &compound::Call<'_>, request_len: usize, frame: Frame) -> Run {
        let Begin { server, way, who, session, xid, now } = begin;
        let mark = slot::mark(call.argarray, who.mark());
        let is_sys = who.is_sys();
        Run {
            server,
            way,
            who,
            session,
            serving: None,
            minor: call.minorversion,
            count: call.count,
            request_len,
            mark,
            current: None,
            saved: None,
            stateid: None,
            saved_stateid: None,
            now,
            patience: Patience::Cached,
            writer: ReplyWriter::begin(frame, xid, call.tag),
            promised: Promised::default(),
            status: NfsStat::Ok,
            replay: None,
            is_last: false,
            next_number: None,
            pacing: Pacing::default(),
            question: None,
            course: Course::new(now.mono_ns, is_sys),
            placement: None,
            doing: None,
            xid,
        }
    }

    /// Writes the result of an operation that ended well.
    pub fn answer<'d, T>(&mut self, number: OpNum, ok: T) -> Done
    where
        Result<T, NfsStat>: Outcome<'d>,
    {
        self.writer.put(number, &Ok::<T, NfsStat>(ok));
        Ok(())
    }

    /// The same for one without a result.
    pub fn plain(&mut self, number: OpNum) -> Done {
        self.writer.put_status(number, NfsStat::Ok);
        Ok(())
    }

    /// Binds the connection to a session. A client that has more connections than it may have loses the one that was
    /// silent for longest.
    // RFC 8881 2.10.3.1
    pub fn bind(&mut self, session: &Arc<Session>, fore: bool, back: bool) {
        let is_new = session.bind(&self.way, fore, back);
        self.way.remember(session);
        if back {
            self.server.look_after_recalls(&session.client, self.now);
        }
        if is_new {
            self.placement = Some(session.client.key.0);
            session.client.make_room(&self.way, self.server.config().connections_per_client);
        }
    }

    /// The session that SEQUENCE named.
    ///
    /// # Errors
    /// NFS4ERR_OP_NOT_IN_SESSION without one.
    pub fn session(&self) -> Result<&Arc<Session>, NfsStat> {
        let session = self.session.as_ref().filter(|_| self.serving.is_some());
        session.ok_or(NfsStat::OpNotInSession)
    }

    /// What the current filehandle leads to in its export; none for the pseudo root.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE, NFS4ERR_STALE; as the engine says.
    pub fn found(&mut self) -> Result<Option<(Arc<Export>, share::Item)>, NfsStat> {
        let current = self.current.as_mut().ok_or(NfsStat::NoFileHandle)?;
        current.item(&self.server, self.now)
    }

    /// The same where the pseudo root will not do.
    ///
    /// # Errors
    /// Also `on_root` for the pseudo root.
    pub fn item(&mut self, on_root: NfsStat) -> Result<(Arc<Export>, share::Item), NfsStat> {
        self.found()?.ok_or(on_root)
    }

    /// The current filehandle as it goes over the wire.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE; NFS4ERR_NOTSUPP for what can have none.
    #[inline]
    pub fn handle(&mut self) -> Result<Handle, NfsStat> {
        self.current.as_mut().ok_or(NfsStat::NoFileHandle)?.handle(&self.server, self.now)
    }

    /// The current filehandle.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE.
    pub fn current(&self) -> Result<&Current, NfsStat> {
        self.current.as_ref().ok_or(NfsStat::NoFileHandle)
    }

    /// Refuses a change of an export that is only to be read.
    ///
    /// # Errors
    /// NFS4ERR_ROFS.
    pub fn check_writable(&self, export: &Export) -> Result<(), NfsStat> {
        if export.read_only { Err(NfsStat::RoFs) } else { Ok(()) }
    }

    /// Who asks, for an export.
    #[must_use]
    pub fn identity(&self, export: &Arc<Export>) -> Arc<Identity> {
        self.who.identity(export)
    }

    /// Asks the engine of an export something that may meet somebody else's right. Who would have to wait is told to
    /// come again: the break has begun, or somebody may claim after a restart what is in the way.
    ///
    /// # Errors
    /// NFS4ERR_DELAY, NFS4ERR_GRACE; as the engine says.
    pub fn ask<T>(
        &self,
        export: &Arc<Export>,
        question: impl Fn(&share::Share, &Caller<'_>) -> CallResult<T>,
    ) -> Result<T, Stop> {
        let identity = self.identity(export);
        let client = self.session()?.client.key;
        let waiter = self.server.nobody();
        let caller =
            Caller { identity: &identity, client, waiter: Some(waiter), now: self.now, origin: None };
        match question(&export.engine, &caller) {
            CallResult::Done(done) => Ok(done),
            CallResult::Wait(ticket) => {
                let is_for_absent = self.server.grace.is_on() && export.engine.waits_for_absent(ticket);
                export.engine.cancel(ticket);
                Err(Stop::Fail(if is_for_absent { NfsStat::Grace } else { NfsStat::Delay }))
            }
            CallResult::Refused(why) => Err(why.into()),
        }
    }

    /// Asks the engine something that never waits.
    ///
    /// # Errors
    /// As the engine says.
    pub fn tell<T>(
        &self,
        export: &Arc<Export>,
        question: impl FnOnce(&share::Share, &Caller<'_>) -> Result<T, share::Refusal>,
    ) -> Result<T, Stop> {
        let identity = self.identity(export);
        let client = self.session()?.client.key;
        let caller = Caller { identity: &identity, client, waiter: None, now: self.now, origin: None };
        Ok(question(&export.engine, &caller)?)
    }

    /// Tells a client whether what it wrote to an export may have been lost since. To be asked for before something is
    /// written, and after it was brought to stable storage.
    // RFC 8881 18.3.3, 18.32.3
    #[must_use]
    pub fn write_verifier(&self, export: &Export) -> Verifier {
        self.server.config().instance.wrapping_add(export.engine.failed_syncs()).to_be_bytes()
    }

    /// Makes sure that the operation may wait for the device from here on.
    ///
    /// # Errors
    /// [`Stop::Work`] when it may not: it is done again where it may.
    pub fn may_wait(&self) -> Result<(), Stop> {
        if self.patience == Patience::Block { Ok(()) } else { Err(Stop::Work) }
    }
}
