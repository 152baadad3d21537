//! A connection: it carries bytes, and owns nothing that outlives it (RFC 8881 2.10.3.1).
//!
//! The connection reads a call up to its COMPOUND, which then runs at once. Work that must wait for the
//! device continues on the blocking pool and comes back as [`Event::Answered`]. Start with
//! `Connection::receive`.

mod callbacks;
mod counters;
pub mod event;
pub mod service;
mod suspended;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_wire::NfsStat;
use nfs_wire::compound::{self, CompoundArgs, Operations};
use nfs_wire::op::Args;
use nfs_wire::rpc::record::{MARK, RecordMark};
use nfs_wire::rpc::{
    Accepted, CallError, Message, NFS_PROGRAM, NFS_V4, PROC_COMPOUND, PROC_NULL, Rejected, RpcCall, RpcReply,
};
use share::counts::ConnectionCounters;
use volume::Patience;
use wire::{Frame, Mailbox, Now, Output, Peer};

use crate::compound::active::{ActiveCompound, Finished, SuspendedCompound};
use crate::compound::opens_to_record::OpensToRecord;
use crate::compound::{Begin, CompoundProgress, Run};
use crate::connection::event::{Event, EventMailbox};
use crate::limits::{MAX_IO, MAX_REMEMBERED_CREDENTIALS, MAX_WORKING};
use crate::server::{Server, ServerRef};
use crate::state::back_channel::{self, Call as ClientCall};
use crate::state::connection_handle::ConnectionHandle;
use crate::state::credentials::RpcCredentials;
use crate::state::session::Session;

/// Bytes to reserve for a reply without data.
const SMALL_REPLY: usize = 900;
/// Bytes to reserve for a reply beside its data.
const AROUND_DATA: usize = 400;
/// Operations to look at when the size of a reply is estimated.
const LOOKED_AT: usize = 4;

/// One connection.
pub struct Connection {
    pub(crate) server: ServerRef,
    pub(crate) handle: Arc<ConnectionHandle>,
    /// Credentials that it was used with, the most recent first.
    recent_credentials: Vec<Arc<RpcCredentials>>,
    /// The session that it carried last.
    session: Option<Arc<Session>>,
    /// The version of the exports that its filehandles were checked against.
    exports: u64,
    working: usize,
    /// Opens that the replies of this batch tell of. A retry on another connection may get such a reply from
    /// the slot a moment earlier; its open is then recorded within that moment.
    pub(crate) opens_to_record: OpensToRecord,
    /// The counters of its operations.
    pub(crate) counters: ConnectionCounters,
    /// COMPOUNDs that wait for the limits of shares.
    pub(crate) suspended: HashMap<u64, SuspendedCompound>,
    /// Bytes of memory that those hold.
    pub(crate) suspended_bytes: usize,
    /// Callbacks that the client has not answered yet.
    calls: HashMap<u32, ClientCall>,
    next_xid: u32,
}

impl Connection {
    /// A connection that has just been accepted. None if there are too many.
    pub fn new(
        server: &Arc<Server>,
        peer: Peer,
        mailbox: Arc<dyn Mailbox<Event>>,
        now: Now,
    ) -> Option<Connection> {
        let id = server.enter_connection()?;
        let counters = ConnectionCounters::new(&server.counts);
        let handle = ConnectionHandle::new(
            id,
            peer,
            Arc::clone(counters.activity()),
            Box::new(EventMailbox(mailbox)),
            now,
        );
        let exports = server.exports().version;
        Some(Connection {
            server: Arc::new(Arc::clone(server)),
            handle: Arc::new(handle),
            recent_credentials: Vec::new(),
            session: None,
            exports,
            working: 0,
            opens_to_record: OpensToRecord::default(),
            counters,
            suspended: HashMap::new(),
            suspended_bytes: 0,
            calls: HashMap::new(),
            next_xid: 1,
        })
    }

    /// Whether it carries requests of a live session.
    pub(crate) fn carries_session(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.has_ended()) || self.handle.carries_session()
    }

    /// Whether the session that was used here last belongs to a client that has opened something.
    pub(crate) fn works_for_known_client(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.client.is_proved())
    }

    /// Whether the head of a message is a COMPOUND that begins with SEQUENCE. Its session need not exist.
    /// After a restart of the server a client sends its WRITE until it gets NFS4ERR_BADSESSION, and would
    /// send it for ever if the connection were closed instead.
    pub(crate) fn names_session(&self, head: &[u8]) -> bool {
        let Ok(Message::Call(Ok(call))) = Message::parse(head) else { return false };
        let is_compound =
            (call.program, call.version, call.procedure) == (NFS_PROGRAM, NFS_V4, PROC_COMPOUND);
        let Some(request) = is_compound.then(|| CompoundArgs::parse(call.body).ok()).flatten() else {
            return false;
        };
        matches!(request.operations().next(), Some(Ok(Args::Sequence(_))))
    }

    /// Handles a message from the client.
    pub(crate) fn receive(&mut self, message: &[u8], now: Now, out: &mut Output<Event>) {
        self.handle.received(message.len(), now);
        match Message::parse(message) {
            Ok(Message::Call(Ok(call))) => self.call(&call, message.len(), now, out),
            // RFC 5531 9
            Ok(Message::Call(Err(CallError::RpcMismatch { xid }))) => {
                self.send_reply(&RpcReply::rpc_mismatch(xid), out);
            }
            Ok(Message::Call(Err(CallError::Garbage { xid }))) => {
                self.send_reply(&RpcReply::accepted(xid, Accepted::GarbageArgs), out);
            }
            Ok(Message::Reply(reply)) => self.called(&reply, now),
            Err(malformed) => {
                tracing::debug!(%malformed, peer = %self.handle.peer.remote, "closes a connection");
                out.close = true;
            }
        }
    }

    fn call(&mut self, call: &RpcCall<'_>, len: usize, now: Now, out: &mut Output<Event>) {
        let answer = |accepted| RpcReply::accepted(call.xid, accepted);
        let reply = match (call.program, call.version, call.procedure) {
            (NFS_PROGRAM, NFS_V4, PROC_COMPOUND) => return self.compound(call, len, now, out),
            (NFS_PROGRAM, NFS_V4, PROC_NULL) => answer(Accepted::Success(&[])),
            (NFS_PROGRAM, NFS_V4, _) => answer(Accepted::ProcUnavail),
            (NFS_PROGRAM, ..) => answer(Accepted::ProgMismatch { low: NFS_V4, high: NFS_V4 }),
            _ => answer(Accepted::ProgUnavail),
        };
        self.send_reply(&reply, out);
    }

    fn compound(&mut self, call: &RpcCall<'_>, len: usize, now: Now, out: &mut Output<Event>) {
        let credentials = match self.credentials(call) {
            Ok(credentials) => credentials,
            Err(rejected) => return self.send_reply(&RpcReply::rejected(call.xid, rejected), out),
        };
        let Ok(request) = CompoundArgs::parse(call.body) else {
            return self.send_reply(&RpcReply::accepted(call.xid, Accepted::GarbageArgs), out);
        };
        let version = self.server.exports().version;
        if version != self.exports {
            self.exports = version;
            self.handle.forget_handles();
        }
        let frame = out.pool.take(room_for(&request));
        let begin = Begin {
            server: Arc::clone(&self.server),
            connection: Arc::clone(&self.handle),
            credentials,
            session: self.session.take(),
            xid: call.xid,
            now,
        };
        let mut active = ActiveCompound::new(Run::new(begin, &request, len, frame));
        let Some(run) = active.run() else { return };
        run.transactions.sampled = self.counters.sample(request.count.into());
        // RFC 8881 16.2.3
        if !(1..=2).contains(&request.minorversion) {
            run.status = NfsStat::MinorVersMismatch;
            return self.finish(active, out);
        }
        let progress = run.dispatch(request.operations());
        if let Some(client) = run.placement.take() {
            out.placement = Some(client);
        }
        match progress {
            CompoundProgress::Done => self.finish(active, out),
            CompoundProgress::Work { position, left } => {
                let rest = request.argarray.get(position..).unwrap_or_default();
                self.run_on_pool(active, rest, left, out);
            }
            CompoundProgress::Hold { position, left } => {
                self.session.clone_from(&run.session);
                let rest = request.argarray.get(position..).unwrap_or_default().to_vec();
                self.suspend(SuspendedCompound { active, rest, left }, now, out);
            }
        }
    }

    /// The credentials of a call.
    fn credentials(&mut self, call: &RpcCall<'_>) -> Result<Arc<RpcCredentials>, Rejected> {
        if let Some(at) =
            self.recent_credentials.iter().position(|credentials| credentials.is(&call.credential))
        {
            self.recent_credentials[..=at].rotate_right(1);
            return Ok(Arc::clone(&self.recent_credentials[0]));
        }
        let credentials =
            RpcCredentials::read(&call.credential, self.handle.peer.remote).map_err(Rejected::AuthError)?;
        let credentials = Arc::new(credentials);
        self.recent_credentials.truncate(MAX_REMEMBERED_CREDENTIALS - 1);
        self.recent_credentials.insert(0, Arc::clone(&credentials));
        Ok(credentials)
    }

    /// Sends the rest of a COMPOUND to the blocking pool.
    pub(crate) fn run_on_pool(
        &mut self,
        mut active: ActiveCompound,
        rest: &[u8],
        left: u32,
        out: &mut Output<Event>,
    ) {
        let Some(run) = active.run() else { return };
        self.session.clone_from(&run.session);
        if self.working >= MAX_WORKING {
            // The operation gets NFS4ERR_DELAY, which a client can handle. The operation has done nothing.
            run.status = NfsStat::Delay;
            let number = rest.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
            run.writer.put_status(number, NfsStat::Delay);
            return self.finish(active, out);
        }
        self.working += 1;
        run.patience = Patience::Block;
        let rest = rest.to_vec();
        out.run(move || {
            if let Some(run) = active.run() {
                let progress = run.dispatch(Operations::<Args<'_>>::new(&rest, run.minor, left));
                if let CompoundProgress::Hold { position, left: still } = progress {
                    return Event::Suspended(Box::new(
                        SuspendedCompound { active, rest, left }.advance(position, still),
                    ));
                }
                debug_assert_eq!(progress, CompoundProgress::Done, "what may wait needs not be done again");
                run.opens_to_record.record(&run.server);
            }
            Event::Answered { finished: active.finish().map(Box::new) }
        });
    }

    /// A COMPOUND has ended. Its reply leaves with the others of the batch.
    pub(crate) fn finish(&mut self, mut active: ActiveCompound, out: &mut Output<Event>) {
        if let Some(run) = active.run() {
            self.opens_to_record.append(&run.server, &mut run.opens_to_record);
        }
        let Some(Finished { frame, session, transactions }) = active.finish() else { return };
        self.note(transactions);
        self.session = session.filter(|session| !session.has_ended());
        self.send(frame, out);
    }

    /// A COMPOUND on the blocking pool has ended.
    pub(crate) fn answered(&mut self, finished: Option<Box<Finished>>, out: &mut Output<Event>) {
        self.working = self.working.saturating_sub(1);
        if let Some(finished) = finished {
            let Finished { frame, transactions, .. } = *finished;
            self.note(transactions);
            self.send(frame, out);
        }
    }

    /// A COMPOUND on the blocking pool must wait for the limits of a share.
    pub(crate) fn suspended_on_pool(
        &mut self,
        suspended: SuspendedCompound,
        now: Now,
        out: &mut Output<Event>,
    ) {
        self.working = self.working.saturating_sub(1);
        self.suspend(suspended, now, out);
    }

    /// The number of its requests that run on the blocking pool or wait.
    pub(crate) fn requests_in_progress(&self) -> usize {
        self.working + self.suspended.len()
    }

    /// Forgets a session that has ended.
    pub(crate) fn forget_session(&mut self, key: u64) {
        use wire::table::Keyed;
        self.session = self.session.take().filter(|session| session.key() != key);
    }

    /// The connection is gone. Its sessions continue without it.
    pub(crate) fn closed(&mut self, now: Now) {
        self.handle.leave_sessions();
        // Callbacks of this connection are sent over another one, or once the client has one again.
        for (_, call) in self.calls.drain() {
            back_channel::connection_lost(&call, self.handle.id, now);
        }
        self.server.leave_connection();
    }

    fn send(&self, frame: Frame, out: &mut Output<Event>) {
        self.handle.sent.fetch_add(frame.len() as u64, Ordering::Relaxed);
        out.frames.push(frame);
    }

    fn send_reply(&self, reply: &RpcReply<'_>, out: &mut Output<Event>) {
        let mut frame = out.pool.take(SMALL_REPLY);
        frame.tail().extend_from_slice(&[0; MARK]);
        reply.write(frame.tail());
        let mark = RecordMark::whole(frame.len() - MARK);
        frame.bytes_mut()[..MARK].copy_from_slice(&mark);
        self.send(frame, out);
    }
}

/// The bytes that the reply is likely to need.
fn room_for(request: &compound::CompoundArgs<'_>) -> usize {
    let data = request.operations().take(LOOKED_AT).find_map(|operation| match operation {
        Ok(Args::Read(read)) => Some(read.count),
        Ok(Args::ReadPlus(read)) => Some(read.count),
        Ok(Args::ReadDir(list)) => Some(list.maxcount),
        _ => None,
    });
    match data {
        Some(bytes) => bytes.min(MAX_IO) as usize + AROUND_DATA,
        None => SMALL_REPLY,
    }
}
