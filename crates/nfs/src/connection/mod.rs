//! Connection: carries bytes, and owns nothing that outlives it (RFC 8881 2.10.3.1).
//!
//! A call is read here up to its COMPOUND, which then runs at once; what must wait for the device goes on on the
//! blocking pool and comes back as [`Event::Answered`].

mod callbacks;
pub mod event;
mod held;
mod noting;
pub mod service;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nfs_wire::NfsStat;
use nfs_wire::compound::{self, Call as Compound, Operations};
use nfs_wire::op::Args;
use nfs_wire::rpc::record::{MARK, RecordMark};
use nfs_wire::rpc::{
    Accepted, Call, CallError, Message, NFS_PROGRAM, NFS_V4, PROC_COMPOUND, PROC_NULL, Rejected, Reply,
};
use share::counts::ConnectionCounters;
use volume::Patience;
use wire::{Frame, Mailbox, Now, Output, Peer};

use crate::compound::promised::Promised;
use crate::compound::under_way::{Finished, Held, UnderWay};
use crate::compound::{Begin, Flow, Run};
use crate::connection::event::{Event, Letterbox};
use crate::limits::{MAX_IO, MAX_REMEMBERED_CREDENTIALS, MAX_WORKING};
use crate::server::{Near, Server};
use crate::state::back_channel::{self, Call as ClientCall};
use crate::state::session::Session;
use crate::state::way::Way;
use crate::state::who::Who;

/// Room for a reply without data in bytes.
const SMALL_REPLY: usize = 900;
/// Room around data in bytes.
const AROUND_DATA: usize = 400;
/// Operations that are looked at to see how much room the reply needs.
const LOOKED_AT: usize = 4;

/// One connection.
pub struct Connection {
    pub(crate) server: Near,
    pub(crate) way: Arc<Way>,
    /// Credentials that it was used with, the last one first.
    known: Vec<Arc<Who>>,
    /// The session that it carried last.
    session: Option<Arc<Session>>,
    /// The exports' version that its handles were checked against.
    exports: u64,
    working: usize,
    /// Opens that answers of this batch tell of. A retry on another connection may be told a moment earlier, out of the
    /// slot; what it is told is then recorded within that moment.
    pub(crate) promised: Promised,
    /// Where its operations are counted.
    pub(crate) desk: ConnectionCounters,
    /// What is held by the limits of shares.
    pub(crate) held: HashMap<u64, Held>,
    /// Bytes that these keep.
    pub(crate) held_bytes: usize,
    /// Calls that the client has not answered yet.
    calls: HashMap<u32, ClientCall>,
    next_xid: u32,
}

impl Connection {
    /// A connection that has just been accepted; none when there are too many.
    pub fn new(
        server: &Arc<Server>,
        peer: Peer,
        mailbox: Arc<dyn Mailbox<Event>>,
        now: Now,
    ) -> Option<Connection> {
        let id = server.enter_connection()?;
        let desk = ConnectionCounters::new(&server.counts);
        let way = Way::new(id, peer, Arc::clone(desk.activity()), Box::new(Letterbox(mailbox)), now);
        let exports = server.exports().version;
        Some(Connection {
            server: Arc::new(Arc::clone(server)),
            way: Arc::new(way),
            known: Vec::new(),
            session: None,
            exports,
            working: 0,
            promised: Promised::default(),
            desk,
            held: HashMap::new(),
            held_bytes: 0,
            calls: HashMap::new(),
            next_xid: 1,
        })
    }

    /// Whether it carries requests of a session that is there.
    pub(crate) fn carries_session(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.has_ended()) || self.way.carries_session()
    }

    /// Whether the session that was used here last is of a client that has opened something.
    pub(crate) fn works_for_known_client(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.client.is_proved())
    }

    /// Whether a message that begins so is a COMPOUND that begins with a SEQUENCE. Its session need not be there: a client whose
    /// server has begun anew sends its WRITE until it is told NFS4ERR_BADSESSION, and would send it for ever to one that closes.
    pub(crate) fn names_session(&self, head: &[u8]) -> bool {
        let Ok(Message::Call(Ok(call))) = Message::parse(head) else { return false };
        let is_compound =
            (call.program, call.version, call.procedure) == (NFS_PROGRAM, NFS_V4, PROC_COMPOUND);
        let Some(request) = is_compound.then(|| Compound::parse(call.body).ok()).flatten() else {
            return false;
        };
        matches!(request.operations().next(), Some(Ok(Args::Sequence(_))))
    }

    /// Answers one message.
    pub(crate) fn receive(&mut self, message: &[u8], now: Now, out: &mut Output<Event>) {
        self.way.received(message.len(), now);
        match Message::parse(message) {
            Ok(Message::Call(Ok(call))) => self.call(&call, message.len(), now, out),
            // RFC 5531 9
            Ok(Message::Call(Err(CallError::RpcMismatch { xid }))) => {
                self.send_reply(&Reply::rpc_mismatch(xid), out);
            }
            Ok(Message::Call(Err(CallError::Garbage { xid }))) => {
                self.send_reply(&Reply::accepted(xid, Accepted::GarbageArgs), out);
            }
            Ok(Message::Reply(reply)) => self.called(&reply, now),
            Err(malformed) => {
                tracing::debug!(%malformed, peer = %self.way.peer.remote, "closes a connection");
                out.close = true;
            }
        }
    }

    fn call(&mut self, call: &Call<'_>, len: usize, now: Now, out: &mut Output<Event>) {
        let answer = |accepted| Reply::accepted(call.xid, accepted);
        let reply = match (call.program, call.version, call.procedure) {
            (NFS_PROGRAM, NFS_V4, PROC_COMPOUND) => return self.compound(call, len, now, out),
            (NFS_PROGRAM, NFS_V4, PROC_NULL) => answer(Accepted::Success(&[])),
            (NFS_PROGRAM, NFS_V4, _) => answer(Accepted::ProcUnavail),
            (NFS_PROGRAM, ..) => answer(Accepted::ProgMismatch { low: NFS_V4, high: NFS_V4 }),
            _ => answer(Accepted::ProgUnavail),
        };
        self.send_reply(&reply, out);
    }

    fn compound(&mut self, call: &Call<'_>, len: usize, now: Now, out: &mut Output<Event>) {
        let who = match self.who(call) {
            Ok(who) => who,
            Err(rejected) => return self.send_reply(&Reply::rejected(call.xid, rejected), out),
        };
        let Ok(request) = Compound::parse(call.body) else {
            return self.send_reply(&Reply::accepted(call.xid, Accepted::GarbageArgs), out);
        };
        let version = self.server.exports().version;
        if version != self.exports {
            self.exports = version;
            self.way.forget_handles();
        }
        let frame = out.pool.take(room_for(&request));
        let begin = Begin {
            server: Arc::clone(&self.server),
            way: Arc::clone(&self.way),
            who,
            session: self.session.take(),
            xid: call.xid,
            now,
        };
        let mut under_way = UnderWay::new(Run::new(begin, &request, len, frame));
        let Some(run) = under_way.run() else { return };
        run.course.sampled = self.desk.sample(request.count.into());
        // RFC 8881 16.2.3
        if !(1..=2).contains(&request.minorversion) {
            run.status = NfsStat::MinorVersMismatch;
            return self.finish(under_way, out);
        }
        let flow = run.go(request.operations());
        if let Some(client) = run.placement.take() {
            out.placement = Some(client);
        }
        match flow {
            Flow::Done => self.finish(under_way, out),
            Flow::Work { position, left } => {
                let rest = request.argarray.get(position..).unwrap_or_default();
                self.suspend(under_way, rest, left, out);
            }
            Flow::Hold { position, left } => {
                self.session.clone_from(&run.session);
                let rest = request.argarray.get(position..).unwrap_or_default().to_vec();
                self.hold(Held { under_way, rest, left }, now, out);
            }
        }
    }

    /// Who a call's credential says that makes it.
    fn who(&mut self, call: &Call<'_>) -> Result<Arc<Who>, Rejected> {
        if let Some(at) = self.known.iter().position(|who| who.is(&call.credential)) {
            self.known[..=at].rotate_right(1);
            return Ok(Arc::clone(&self.known[0]));
        }
        let who = Who::read(&call.credential, self.way.peer.remote).map_err(Rejected::AuthError)?;
        let who = Arc::new(who);
        self.known.truncate(MAX_REMEMBERED_CREDENTIALS - 1);
        self.known.insert(0, Arc::clone(&who));
        Ok(who)
    }

    /// Sends the rest of a COMPOUND to the blocking pool.
    pub(crate) fn suspend(
        &mut self,
        mut under_way: UnderWay,
        rest: &[u8],
        left: u32,
        out: &mut Output<Event>,
    ) {
        let Some(run) = under_way.run() else { return };
        self.session.clone_from(&run.session);
        if self.working >= MAX_WORKING {
            // The operation is answered with "come again", as a client can bear; nothing was done by it.
            run.status = NfsStat::Delay;
            let number = rest.first_chunk().map_or(0, |word| u32::from_be_bytes(*word));
            run.writer.put_status(number, NfsStat::Delay);
            return self.finish(under_way, out);
        }
        self.working += 1;
        run.patience = Patience::Block;
        let rest = rest.to_vec();
        out.run(move || {
            if let Some(run) = under_way.run() {
                let flow = run.go(Operations::<Args<'_>>::new(&rest, run.minor, left));
                if let Flow::Hold { position, left: still } = flow {
                    return Event::Held(Box::new(Held { under_way, rest, left }.cut(position, still)));
                }
                debug_assert_eq!(flow, Flow::Done, "what may wait needs not be done again");
                run.promised.keep();
            }
            Event::Answered { finished: under_way.finish().map(Box::new) }
        });
    }

    /// A COMPOUND is over: its answer leaves with the others.
    pub(crate) fn finish(&mut self, mut under_way: UnderWay, out: &mut Output<Event>) {
        if let Some(run) = under_way.run() {
            self.promised.take_over(&mut run.promised);
        }
        let Some(Finished { frame, session, course }) = under_way.finish() else { return };
        self.note(course);
        self.session = session.filter(|session| !session.has_ended());
        self.send(frame, out);
    }

    /// What ran on the blocking pool is answered.
    pub(crate) fn answered(&mut self, finished: Option<Box<Finished>>, out: &mut Output<Event>) {
        self.working = self.working.saturating_sub(1);
        if let Some(finished) = finished {
            let Finished { frame, course, .. } = *finished;
            self.note(course);
            self.send(frame, out);
        }
    }

    /// What ran on the blocking pool is held by the limits of a share.
    pub(crate) fn held_by_a_job(&mut self, held: Held, now: Now, out: &mut Output<Event>) {
        self.working = self.working.saturating_sub(1);
        self.hold(held, now, out);
    }

    /// How many of its requests are neither answered nor being answered.
    pub(crate) fn under_way(&self) -> usize {
        self.working + self.held.len()
    }

    /// A session is gone.
    pub(crate) fn forget_session(&mut self, key: u64) {
        use wire::table::Keyed;
        self.session = self.session.take().filter(|session| session.key() != key);
    }

    /// The connection is gone: sessions go on without it.
    pub(crate) fn closed(&mut self, now: Now) {
        self.way.leave_sessions();
        // Who was called here is called elsewhere, or when they are there again.
        for (_, call) in self.calls.drain() {
            back_channel::lost(&call, self.way.id, now);
        }
        self.server.leave_connection();
    }

    fn send(&self, frame: Frame, out: &mut Output<Event>) {
        self.way.sent.fetch_add(frame.len() as u64, Ordering::Relaxed);
        out.frames.push(frame);
    }

    fn send_reply(&self, reply: &Reply<'_>, out: &mut Output<Event>) {
        let mut frame = out.pool.take(SMALL_REPLY);
        frame.tail().extend_from_slice(&[0; MARK]);
        reply.write(frame.tail());
        let mark = RecordMark::whole(frame.len() - MARK);
        frame.bytes_mut()[..MARK].copy_from_slice(&mark);
        self.send(frame, out);
    }
}

/// Room that the reply is likely to need.
fn room_for(request: &compound::Call<'_>) -> usize {
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
