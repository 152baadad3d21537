//! A notice on its way to a client: over the first usable channel (of a lease, the one on which its holder was last told
//! what it holds), and over the next one when that fails (MS-SMB2 3.3.4.1.6).
//!
//! [`Holder`] is how the engine of a share reaches a client. It makes a [`Notice`], which is posted to one
//! connection after the other, never twice to the same one. A connection sends it (`connection/notices.rs`) and asks the
//! transport whether the client's host has acknowledged it; if not,
//! or if the connection ends soon, the notice goes on: what the host has acknowledged, the client may not have
//! read when its connection was reset. To hear it twice costs a client at most what it had cached. A notice
//! that is dropped unsent goes on too, so that none is lost in the mailbox of a connection that has just ended.
//! A connection whose host stays silent is closed at last: somebody waits for it.
//!
//! The right is taken away at once when no connection is left. While there is one on which the notice may
//! still arrive, its holder has the usual time to answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::{BreakNotice, Share};
use smallvec::SmallVec;

use super::handle::{Event, Handle};
use super::open::Open;
use super::server::Server;
use crate::table::Held;

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

impl share::BreakListener for Holder {
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
        ways.retain(|handle| handle.way.is_usable());
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
        // The answer may still come over one that had it before.
        !matches!(self.post(), Sent::Unreachable)
    }
}

impl Notice {
    /// It has arrived, or is no longer wanted.
    pub(crate) fn settle(mut self) {
        self.0 = None;
    }

    /// It did not arrive in time: goes to the next connection, or comes back when there is none.
    pub(crate) fn pass_on(mut self) -> Option<Notice> {
        match self.0.take()?.post() {
            Sent::Posted | Sent::Unreachable => None,
            Sent::Exhausted(body) => Some(Notice(Some(body))),
        }
    }

    /// The break that it tells.
    pub(crate) fn broken(&self) -> Option<BreakNotice> {
        self.0.as_ref().map(|body| body.notice)
    }

    /// Whether its client still owes an answer, or it needs none.
    pub(crate) fn is_wanted(&self) -> bool {
        let Some(body) = &self.0 else { return false };
        !body.notice.answer || body.engine.upgrade().is_some_and(|engine| engine.awaits(&body.notice))
    }

    /// Whether nobody was told yet of a right that its holder is still known by. It is sent even when no answer is awaited
    /// any more: what was answered was an earlier break, and the client would go on with what it does not hold.
    // MS-SMB2 3.3.4.7
    pub(crate) fn is_news(&self) -> bool {
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
        f.debug_tuple("Notice").field(&self.broken()).finish()
    }
}

/// The Open that a right belongs to, which may have another volatile id than when it was made.
pub(crate) fn open_of(server: &Server, notice: &BreakNotice) -> Option<Held<Open>> {
    let (persistent, volatile) = ((notice.key.0 >> 64) as u64, notice.key.0 as u64);
    let volatile = server.index.by_durable_id(persistent).unwrap_or(volatile);
    server.opens.get(volatile).filter(|open| open.id.persistent == persistent)
}

/// The notices of one connection that leave before the answer to the request that has caused them.
///
/// Linux's client lists a directory from memory until it is told, also what it has changed itself. Over another channel the
/// notice would come as late as that channel is full, and the client would list what it has long removed.
///
/// Whoever asks the engine says over which connection ([`share::Origin`]), and the notice says so too. While the connection
/// itself asks, the notice is kept here until it has the answer. A job of its on the blocking pool asks in its place: then the
/// notice comes through the connection's mailbox, and the job's end behind it.
#[derive(Debug, Default)]
pub(crate) struct OwnNotices {
    /// Whether there are any.
    any: AtomicBool,
    kept: Mutex<Vec<Notice>>,
}

impl OwnNotices {
    /// Keeps a notice until the connection takes it, which it does before it answers.
    pub fn keep(&self, notice: Notice) {
        let mut kept = self.kept.lock();
        kept.push(notice);
        self.any.store(true, Ordering::Release);
    }

    /// What was kept.
    #[inline]
    pub fn take(&self) -> Vec<Notice> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut kept = self.kept.lock();
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut kept)
    }
}
