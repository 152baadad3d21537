//! A COMPOUND while it runs (RFC 8881 2.6 and 16.2).
//!
//! [`Run`] owns everything that the operations need. An operation that would have to wait for the device can
//! therefore go to the blocking pool together with the rest of its COMPOUND. This file is below the
//! operations (one file each in [`crate::op`]) and holds what they use. [`dispatch`] is above them: the loop
//! over the operations ([`Run::dispatch`]).
//!
//! [`active`] is a COMPOUND as its connection sees it, [`current`] the current filehandle, [`throttling`] the
//! wait for the limits of a share, [`opens_to_record`] the opens to record before the reply is sent, and
//! [`transactions`] the counting.

pub mod active;
pub mod current;
pub mod dispatch;
pub mod opens_to_record;
mod sampling;
pub mod throttling;
pub mod transactions;

use std::sync::Arc;

use nfs_wire::compound::{Mark, ReplyWriter};
use nfs_wire::op::{OpNum, Outcome};
use nfs_wire::types::{StateId, Verifier};
use nfs_wire::{NfsStat, compound};
use share::{CallResult, Caller, Identity};
use volume::Patience;
use wire::{Frame, Now};

use crate::compound::current::Current;
use crate::compound::opens_to_record::OpensToRecord;
use crate::compound::throttling::ThrottleState;
use crate::compound::transactions::CompoundTransactions;
use crate::config::Export;
use crate::server::ServerRef;
use crate::state::attribute_query::AttributeQuery;
use crate::state::connection_handle::ConnectionHandle;
use crate::state::credentials::RpcCredentials;
use crate::state::filehandle::Handle;
use crate::state::session::Session;
use crate::state::slot;

/// The reason why an operation did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It failed with this status. Its result holds nothing else.
    Fail(NfsStat),
    /// It failed with this status. Its result is written already.
    Written(NfsStat),
    /// It would have to wait for the device. It runs again where waiting is allowed.
    Work,
    /// It waits for the limits of a share, or for the reply of another client. It then runs again.
    Hold,
}

/// The outcome of an operation. On success its result is written.
pub type OpResult = Result<(), Stop>;

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

/// The point that a COMPOUND has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompoundProgress {
    /// All operations are done.
    Done,
    /// The next operation waits for the limits of a share or for another client.
    Hold {
        /// Offset of that operation in bytes, from the start of the operations.
        position: usize,
        /// Number of operations left, with that one.
        left: u32,
    },
    /// The next operation must wait for the device.
    Work {
        /// Offset of that operation in bytes, from the start of the operations.
        position: usize,
        /// Number of operations left, with that one.
        left: u32,
    },
}

/// A slot while its request runs.
#[derive(Debug, Clone, Copy)]
pub struct Serving {
    /// The number of the slot.
    pub slot: u32,
    /// The sequence ID of the request in the slot.
    pub sequence: u32,
    /// Whether the slot keeps the reply.
    pub cache: bool,
}

/// A COMPOUND while it runs.
pub struct Run {
    /// The server.
    pub server: ServerRef,
    /// The connection on which it arrived.
    pub connection: Arc<ConnectionHandle>,
    /// The RPC credentials of the request.
    pub credentials: Arc<RpcCredentials>,
    /// The session. Before SEQUENCE, the one that the connection used last.
    pub session: Option<Arc<Session>>,
    /// The slot, once SEQUENCE has run.
    pub serving: Option<Serving>,
    /// The minor version.
    pub minor: u32,
    /// Number of operations in all.
    pub count: u32,
    /// Bytes of the request, with the RPC header.
    pub request_len: usize,
    /// Distinguishes the request from others in its slot.
    pub mark: u64,
    /// The current filehandle.
    pub current: Option<Current>,
    /// The saved filehandle.
    pub saved: Option<Current>,
    /// The current stateid (RFC 8881 16.2.3.1.2).
    pub stateid: Option<StateId>,
    /// The stateid that was saved with the saved filehandle.
    pub saved_stateid: Option<StateId>,
    /// The time at which the request arrived, or was resumed.
    pub now: Now,
    /// Whether operations may wait for the device.
    pub patience: Patience,
    /// The reply.
    pub writer: ReplyWriter,
    /// Opens that the reply tells of and that are to be recorded first.
    pub opens_to_record: OpensToRecord,
    /// The status of the whole COMPOUND.
    pub status: NfsStat,
    /// The stored reply for a retry. It replaces everything else.
    pub replay: Option<Vec<u8>>,
    /// Whether the current operation is the last one.
    pub is_last: bool,
    /// The operation that follows SEQUENCE.
    pub next_number: Option<OpNum>,
    /// The state of its throttling.
    pub throttle: ThrottleState,
    /// The query to the holder of a delegation that it waits for.
    pub query: Option<Arc<AttributeQuery>>,
    /// Its transactions.
    pub transactions: CompoundTransactions,
    /// The client that the connection turned out to belong to, if that is new.
    pub placement: Option<u128>,
    /// The current operation, or the last one that began, and the position of its result.
    current_op: Option<(Mark, OpNum)>,
    xid: u32,
}

/// The arguments of [`Run::new`].
pub struct Begin {
    /// The server.
    pub server: ServerRef,
    /// The connection.
    pub connection: Arc<ConnectionHandle>,
    /// The RPC credentials of the request.
    pub credentials: Arc<RpcCredentials>,
    /// The session that the connection used last.
    pub session: Option<Arc<Session>>,
    /// The XID of the call.
    pub xid: u32,
    /// The time at which the request arrived.
    pub now: Now,
}

impl Run {
    /// Begins the reply to a call, in `frame`.
    #[must_use]
    pub fn new(begin: Begin, call: &compound::CompoundArgs<'_>, request_len: usize, frame: Frame) -> Run {
        let Begin { server, connection, credentials, session, xid, now } = begin;
        let mark = slot::mark(call.argarray, credentials.mark());
        let is_sys = credentials.is_sys();
        Run {
            server,
            connection,
            credentials,
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
            opens_to_record: OpensToRecord::default(),
            status: NfsStat::Ok,
            replay: None,
            is_last: false,
            next_number: None,
            throttle: ThrottleState::default(),
            query: None,
            transactions: CompoundTransactions::new(now.mono_ns, is_sys),
            placement: None,
            current_op: None,
            xid,
        }
    }

    /// Writes the result of an operation that succeeded.
    pub fn reply<'d, T>(&mut self, number: OpNum, ok: T) -> OpResult
    where
        Result<T, NfsStat>: Outcome<'d>,
    {
        self.writer.put(number, &Ok::<T, NfsStat>(ok));
        Ok(())
    }

    /// The same for an operation whose result is only a status.
    pub fn reply_status(&mut self, number: OpNum) -> OpResult {
        self.writer.put_status(number, NfsStat::Ok);
        Ok(())
    }

    /// Binds the connection to a session. A client with more connections than it may have loses the one that
    /// was silent for longest.
    // RFC 8881 2.10.3.1
    pub fn bind(&mut self, session: &Arc<Session>, fore: bool, back: bool) {
        let is_new = session.bind(&self.connection, fore, back);
        self.connection.remember(session);
        if back {
            self.server.retry_recalls(&session.client, self.now);
        }
        if is_new {
            self.placement = Some(session.client.key.0);
            session.client.make_room(&self.connection, self.server.config().connections_per_client);
        }
    }

    /// The session of the COMPOUND's SEQUENCE.
    ///
    /// # Errors
    /// NFS4ERR_OP_NOT_IN_SESSION if there was none.
    pub fn session(&self) -> Result<&Arc<Session>, NfsStat> {
        let session = self.session.as_ref().filter(|_| self.serving.is_some());
        session.ok_or(NfsStat::OpNotInSession)
    }

    /// The item of the current filehandle, in its export. None for the pseudo root.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE, NFS4ERR_STALE, or the status of the engine's error.
    pub fn current_item(&mut self) -> Result<Option<(Arc<Export>, share::Item)>, NfsStat> {
        let current = self.current.as_mut().ok_or(NfsStat::NoFileHandle)?;
        current.item(&self.server, self.now)
    }

    /// The same for operations that the pseudo root does not allow.
    ///
    /// # Errors
    /// As above; and `on_root` for the pseudo root.
    pub fn item(&mut self, on_root: NfsStat) -> Result<(Arc<Export>, share::Item), NfsStat> {
        self.current_item()?.ok_or(on_root)
    }

    /// The current filehandle in wire format.
    ///
    /// # Errors
    /// NFS4ERR_NOFILEHANDLE; NFS4ERR_NOTSUPP for an item that can have none.
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

    /// Refuses to change an export that is read-only.
    ///
    /// # Errors
    /// NFS4ERR_ROFS.
    pub fn check_writable(&self, export: &Export) -> Result<(), NfsStat> {
        if export.read_only { Err(NfsStat::RoFs) } else { Ok(()) }
    }

    /// The identity of the requester in an export.
    #[must_use]
    pub fn identity(&self, export: &Arc<Export>) -> Arc<Identity> {
        self.credentials.identity(export)
    }

    /// Looks up the groups of the requester where the export has them from the server.
    ///
    /// # Errors
    /// [`Stop::Work`] if that may not happen here. NFS4ERR_DELAY or NFS4ERR_ACCESS while they are not known.
    pub fn look_up_groups(&self, export: &Arc<Export>) -> Result<(), Stop> {
        let status = || self.credentials.groups_status(export, self.now);
        let status = match status() {
            Some(status) => status,
            None => {
                self.may_wait()?;
                self.credentials.look_up_groups(export, self.now);
                status().unwrap_or(NfsStat::Delay)
            }
        };
        if status.is_ok() { Ok(()) } else { Err(Stop::Fail(status)) }
    }

    /// Sends the engine of an export a request that may conflict with the rights of another client. A request
    /// that would have to wait fails: NFS4ERR_DELAY if a break has begun, NFS4ERR_GRACE if a client may still
    /// reclaim the right in conflict.
    ///
    /// # Errors
    /// NFS4ERR_DELAY, NFS4ERR_GRACE, or the status of the engine's error.
    pub fn ask<T>(
        &self,
        export: &Arc<Export>,
        request: impl Fn(&share::Share, &Caller<'_>) -> CallResult<T>,
    ) -> Result<T, Stop> {
        let identity = self.identity(export);
        let session = self.session()?;
        let (client, details) = (session.client.key, Some(&session.details));
        let waiter = self.server.no_wait_waiter();
        let caller = Caller {
            identity: &identity,
            client,
            waiter: Some(waiter),
            now: self.now,
            origin: None,
            details,
        };
        match request(&export.engine, &caller) {
            CallResult::Done(done) => Ok(done),
            CallResult::Wait(ticket) => {
                let is_for_absent = self.server.grace.is_on() && export.engine.waits_for_absent(ticket);
                export.engine.cancel(ticket);
                Err(Stop::Fail(if is_for_absent { NfsStat::Grace } else { NfsStat::Delay }))
            }
            CallResult::Refused(why) => Err(why.into()),
        }
    }

    /// Sends the engine of an export a request that never waits.
    ///
    /// # Errors
    /// The status of the engine's error.
    pub fn ask_now<T>(
        &self,
        export: &Arc<Export>,
        request: impl FnOnce(&share::Share, &Caller<'_>) -> Result<T, share::Refusal>,
    ) -> Result<T, Stop> {
        let identity = self.identity(export);
        let session = self.session()?;
        let (client, details) = (session.client.key, Some(&session.details));
        let caller =
            Caller { identity: &identity, client, waiter: None, now: self.now, origin: None, details };
        Ok(request(&export.engine, &caller)?)
    }

    /// The verifier by which a client sees that unstable writes to an export may be lost. Read it before a
    /// write, and again after a write was brought to stable storage.
    // RFC 8881 18.3.3, 18.32.3
    #[must_use]
    pub fn write_verifier(&self, export: &Export) -> Verifier {
        self.server.config().instance.wrapping_add(export.engine.failed_syncs()).to_be_bytes()
    }

    /// Makes sure that the operation may wait for the device from here on.
    ///
    /// # Errors
    /// [`Stop::Work`] if it may not. The operation then runs again where it may.
    pub fn may_wait(&self) -> Result<(), Stop> {
        if self.patience == Patience::Block { Ok(()) } else { Err(Stop::Work) }
    }
}
