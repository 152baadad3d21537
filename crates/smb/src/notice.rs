//! A notice on its way to a client: over the first usable channel (of a lease, the one on which its holder was last told
//! what it holds), and over the next one when that fails (MS-SMB2 3.3.4.1.6).
//!
//! [`Holder`] is how the engine of a share reaches a client. It makes a [`Notice`], which is posted to one
//! connection after the other, never twice to the same one. A connection sends it with
//! [`Connection::send_notice`] and asks the transport whether the client's host has acknowledged it; if not,
//! or if the connection ends soon, the notice goes on: what the host has acknowledged, the client may not have
//! read when its connection was reset. To hear it twice costs a client at most what it had cached. A notice
//! that is dropped unsent goes on too, so that none is lost in the mailbox of a connection that has just ended.
//! A connection whose host stays silent is closed at last: somebody waits for it.
//!
//! The right is taken away at once when no connection is left. While there is one on which the notice may
//! still arrive, its holder has the usual time to answer.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use share::{BreakNotice, Caching, Share};
use smallvec::SmallVec;
use smb_wire::create::OplockLevel;
use smb_wire::create_context::LeaseState;
use smb_wire::id::LeaseKey;
use smb_wire::oplock_break::{Notification, NotificationFlags, Oplock};
use smb_wire::{Command, FileId, Header};
use wire::{Now, Output};

use crate::connection::{Connection, Handle};
use crate::event::Event;
use crate::exchange::compound;
use crate::limits::{MAX_UNPROVED, RECEIPT_TIME_NS, SILENCE_NS};
use crate::open::Open;
use crate::server::Server;
use crate::table::Held;

/// What is known of a connection as a way to its client.
#[derive(Debug, Default)]
pub struct Way {
    /// Sessions whose users have been proved on it.
    sessions: AtomicU32,
    /// When something last came from the client, by the clock of [`Now::mono_ns`].
    heard_ns: AtomicU64,
    /// The client's host did not acknowledge a notice in time, and nothing has come from there since.
    silent: AtomicBool,
    /// Nothing can be sent any more.
    gone: AtomicBool,
}

impl Way {
    /// How many sessions the connection carries.
    pub(crate) fn set_sessions(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if self.sessions.load(Ordering::Relaxed) != count {
            self.sessions.store(count, Ordering::Relaxed);
        }
    }

    /// Something has come from the client.
    #[inline]
    pub(crate) fn heard(&self, now: Now) {
        self.heard_ns.store(now.mono_ns, Ordering::Relaxed);
        if self.silent.load(Ordering::Relaxed) {
            self.silent.store(false, Ordering::Relaxed);
        }
    }

    /// When something last came from the client, by the clock of [`Now::mono_ns`].
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns.load(Ordering::Relaxed)
    }

    /// The connection is gone.
    pub(crate) fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether the client's host has fallen silent.
    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }
}

/// Tells one client of a share's breaks, whatever connections it has at that time.
pub struct Holder {
    server: Weak<Server>,
    engine: Weak<Share>,
}

impl Holder {
    /// For the clients of one share.
    pub fn new(server: &Arc<Server>, engine: &Arc<Share>) -> Arc<Holder> {
        Arc::new(Holder { server: Arc::downgrade(server), engine: Arc::downgrade(engine) })
    }
}

impl share::Holder for Holder {
    fn on_break(&self, notice: &BreakNotice) -> bool {
        let body = Body {
            server: Weak::clone(&self.server),
            engine: Weak::clone(&self.engine),
            notice: *notice,
            tried: SmallVec::new(),
            now_on: None,
        };
        Box::new(body).send()
    }
}

struct Body {
    server: Weak<Server>,
    engine: Weak<Share>,
    notice: BreakNotice,
    /// Connections it was given to, by their ids.
    tried: SmallVec<[u64; 4]>,
    /// The last of them.
    now_on: Option<Arc<Handle>>,
}

/// A break that one connection is to tell its client.
pub struct Notice(Option<Box<Body>>);

/// What is left of a notice that no further connection is there for.
enum Sent {
    /// Another connection has it.
    Posted,
    /// All that are left had it before.
    Exhausted(Box<Body>),
    /// There is no connection at all.
    Unreachable,
}

impl Body {
    /// The connections over which the client may be told, the first one first.
    fn ways(&self) -> Vec<Arc<Handle>> {
        let Some(server) = self.server.upgrade() else { return Vec::new() };
        let mut ways = if self.notice.keyed {
            // MS-SMB2 3.3.4.7
            server.client(self.notice.client).map_or_else(Vec::new, |client| client.connections())
        } else {
            // MS-SMB2 3.3.4.6
            let open = open_of(&server, &self.notice);
            let session = open.and_then(|open| server.session(open.session_id));
            session.map_or_else(Vec::new, |session| session.channels())
        };
        // A connection on which nobody is logged on has proved nothing of whose it is.
        ways.retain(|handle| {
            !handle.way.gone.load(Ordering::Relaxed) && handle.way.sessions.load(Ordering::Relaxed) > 0
        });
        ways
    }

    /// Gives it to a connection that did not have it: of what a directory lists, to the one whose request is being
    /// answered; of a lease, to the one over which it was granted, behind that answer. One that has fallen silent
    /// comes last.
    fn post(mut self: Box<Self>) -> Sent {
        let ways = self.ways();
        if ways.is_empty() {
            return Sent::Unreachable;
        }
        // Only now: whoever asked will have been answered when another connection has to be found.
        let origin = self.notice.origin.take().filter(|_| self.notice.entries);
        // MS-SMB2 3.3.4.7 (exception: not simply the first available one)
        let fresh = || ways.iter().filter(|handle| !self.tried.contains(&handle.id));
        let loud = || fresh().filter(|handle| !handle.way.is_silent());
        let next = fresh()
            .find(|handle| origin.is_some_and(|origin| origin.connection == handle.id))
            .or_else(|| loud().find(|handle| self.notice.keyed && self.notice.via == Some(handle.id)))
            .or_else(|| loud().next())
            .or_else(|| fresh().next());
        let Some(next) = next.map(Arc::clone) else { return Sent::Exhausted(self) };
        self.tried.push(next.id);
        self.now_on = Some(Arc::clone(&next));
        // A client whose open holds a lease of its own could have named the directory's (MS-SMB2 2.2.13.2.10). Over its only
        // connection it is told behind the answer, as by other servers.
        let behind = ways.len() == 1 && self.notice.by_keyed;
        let is_own = origin.is_some_and(|origin| origin.connection == next.id && origin.is_itself);
        if is_own && !behind {
            next.own_notices.keep(Notice(Some(self)));
        } else {
            // When it is not taken, it is dropped there, and so goes on to the next.
            next.post_ahead(Event::Break(Notice(Some(self))));
        }
        Sent::Posted
    }

    /// Sends it on its way; false when there is none.
    fn send(self: Box<Self>) -> bool {
        match self.post() {
            Sent::Posted => true,
            // On one of the others its answer may still come.
            Sent::Exhausted(_) => true,
            Sent::Unreachable => false,
        }
    }
}

impl Notice {
    /// It has arrived, or is no longer wanted.
    pub(crate) fn settle(mut self) {
        self.0 = None;
    }

    /// It did not arrive in time: goes to the next connection, or comes back when there is none.
    fn pass_on(mut self) -> Option<Notice> {
        match self.0.take()?.post() {
            Sent::Posted | Sent::Unreachable => None,
            Sent::Exhausted(body) => Some(Notice(Some(body))),
        }
    }

    /// Whether its client still owes an answer, or it needs none.
    fn is_wanted(&self) -> bool {
        let Some(body) = &self.0 else { return false };
        !body.notice.answer || body.engine.upgrade().is_some_and(|engine| engine.awaits(&body.notice))
    }
}

impl Notice {
    /// Whether nobody was told yet of a right that its holder is still known by. It is sent even when no answer is awaited
    /// any more: what was answered was an earlier break, and the client would go on with what it does not hold.
    // MS-SMB2 3.3.4.7
    fn is_news(&self) -> bool {
        let Some(body) = &self.0 else { return false };
        let BreakNotice { client, key, keyed, .. } = body.notice;
        let is_first = body.tried.len() <= 1;
        is_first && keyed && body.engine.upgrade().is_some_and(|engine| engine.holds(client, key, keyed))
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        if !self.is_wanted() {
            return;
        }
        let Some(body) = self.0.take() else { return };
        // Only a connection that ends, or does not keep up and must end, lets go of a notice.
        if let Some(handle) = &body.now_on {
            handle.way.end();
        }
        let (engine, notice) = (Weak::clone(&body.engine), body.notice);
        if !body.send()
            && let Some(engine) = engine.upgrade()
        {
            engine.undelivered(&notice);
        }
    }
}

impl std::fmt::Debug for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Notice").field(&self.0.as_ref().map(|body| body.notice)).finish()
    }
}

/// A notice that was sent on a connection and that the client may not have read.
#[derive(Debug)]
pub(crate) struct Unproved {
    /// The question to the transport after which it goes to another connection if it has not arrived.
    first: u64,
    /// The question after which it counts as read, or this connection is given up.
    last: u64,
    /// Until another connection has it.
    notice: Option<Notice>,
    /// The client's host has it.
    arrived: bool,
}

impl Unproved {
    fn settle(self) {
        if let Some(notice) = self.notice {
            notice.settle();
        }
    }
}

impl Connection {
    /// Sends what the request that is being answered has broken of this client's rights.
    pub(crate) fn send_own_notices(&mut self, now: Now, out: &mut Output<Event>) {
        for notice in self.handle.own_notices.take() {
            self.send_notice(notice, now, out);
        }
    }

    /// Sends a notice, or hands it to another connection when this one does not carry the session any more.
    pub(crate) fn send_notice(&mut self, notice: Notice, now: Now, out: &mut Output<Event>) {
        if !notice.is_wanted() && !notice.is_news() {
            return notice.settle();
        }
        let Some(broken) = notice.0.as_ref().map(|body| body.notice) else { return };
        let sent = if broken.keyed {
            self.send_lease_break(&broken, out)
        } else {
            self.send_oplock_break(&broken, out)
        };
        if !sent {
            if let Some(notice) = notice.pass_on() {
                notice.settle();
            }
            return;
        }
        let first = self.next_receipt;
        self.next_receipt += 2;
        out.ask_receipt(first, now.mono_ns.saturating_add(RECEIPT_TIME_NS));
        out.ask_receipt(first + 1, now.mono_ns.saturating_add(SILENCE_NS));
        self.unproved.push_back(Unproved { first, last: first + 1, notice: Some(notice), arrived: false });
        if self.unproved.len() > MAX_UNPROVED
            && self.unproved.front().is_some_and(|oldest| oldest.arrived)
            && let Some(oldest) = self.unproved.pop_front()
        {
            oldest.settle();
        }
    }

    /// The transport says whether what was queued before question `token` has arrived.
    pub(crate) fn take_receipt(&mut self, token: u64, arrived: bool, out: &mut Output<Event>) {
        let at = self.unproved.iter().position(|sent| sent.first == token || sent.last == token);
        let Some(at) = at else { return };
        let sent = &mut self.unproved[at];
        if arrived && !self.controls.deaf {
            sent.arrived = true;
            if (sent.last == token || sent.notice.is_none())
                && let Some(read) = self.unproved.remove(at)
            {
                read.settle();
            }
            return;
        }
        self.handle.way.silent.store(true, Ordering::Relaxed);
        match sent.notice.take() {
            Some(notice) if notice.is_wanted() => sent.notice = notice.pass_on(),
            Some(notice) => notice.settle(),
            None => {}
        }
        if sent.last == token {
            self.hang_up("the client's host has not acknowledged a break notice", out);
        }
    }

    // MS-SMB2 3.3.4.6
    fn send_oplock_break(&self, notice: &BreakNotice, out: &mut Output<Event>) -> bool {
        let Some(open) = open_of(&self.server, notice) else { return false };
        let (file_id, at) = (open.id, self.channel_of(open.session_id));
        let Some(at) = at else { return false };
        let oplock_level =
            if notice.to.contains(Caching::READ) { OplockLevel::LevelII } else { OplockLevel::None };
        let mut frame = out.pool.take(128);
        Header::notification(Command::OplockBreak).push(frame.tail());
        Notification::Oplock(Oplock { oplock_level, file_id }).write(frame.tail());
        let session = &self.channels[at].session;
        if session.sealing_required.load(Ordering::Relaxed) {
            compound::seal(&mut frame, session);
        }
        compound::prefix(&mut frame);
        out.frames.push(frame);
        true
    }

    // MS-SMB2 3.3.4.7
    fn send_lease_break(&self, notice: &BreakNotice, out: &mut Output<Event>) -> bool {
        if self.channels.is_empty() {
            return false;
        }
        let mut frame = out.pool.take(128);
        Header::notification(Command::OplockBreak).push(frame.tail());
        let flags = if notice.answer { NotificationFlags::ACK_REQUIRED } else { NotificationFlags::empty() };
        Notification::Lease {
            new_epoch: notice.epoch,
            flags,
            key: LeaseKey(notice.key.0.to_le_bytes()),
            current_state: LeaseState::from_bits_retain(u32::from(notice.from.bits())),
            new_state: LeaseState::from_bits_retain(u32::from(notice.to.bits())),
        }
        .write(frame.tail());
        // The notice names no session; it is sealed where any session here asks for it.
        let mut sessions = self.channels.iter().map(|channel| &channel.session);
        if let Some(session) = sessions.find(|session| session.sealing_required.load(Ordering::Relaxed)) {
            compound::seal(&mut frame, session);
        }
        compound::prefix(&mut frame);
        out.frames.push(frame);
        true
    }
}

/// The key of a caching right that belongs to one Open: the FileId under which it was made.
#[must_use]
pub fn oplock_key(id: FileId) -> share::CacheKey {
    share::CacheKey((u128::from(id.persistent) << 64) | u128::from(id.volatile))
}

/// The Open that a right belongs to, which may have another volatile id than when it was made.
fn open_of(server: &Server, notice: &BreakNotice) -> Option<Held<Open>> {
    let (persistent, volatile) = ((notice.key.0 >> 64) as u64, notice.key.0 as u64);
    let volatile = server.index.by_durable_id(persistent).unwrap_or(volatile);
    server.opens.get(volatile).filter(|open| open.id.persistent == persistent)
}
