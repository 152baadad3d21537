//! A break on its way to a client. It goes over the first usable channel, and over the next one when that
//! fails (MS-SMB2 3.3.4.1.6). The break of a lease goes first over the channel on which its holder last
//! heard of it.
//!
//! [`Holder`] is the engine's link to the clients of a share. It makes a [`Notice`] and posts it to one
//! connection after the other, never twice to the same one. A connection sends it (`connection/notices.rs`)
//! and asks the transport whether the client's host has acknowledged it. If the host has not, or if the
//! connection ends soon, the notice goes to the next connection. A host may have acknowledged bytes that its
//! client has not read when the connection was reset. A second copy costs a client at most its cached data.
//! A notice that is dropped unsent goes on too, so that none is lost in the mailbox of an ended connection.
//! A connection whose host stays silent is closed in the end, since another client waits for it.
//!
//! The server revokes the right at once when no connection is left. While one is left over which the notice
//! may still arrive, the holder has the usual time to answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::{BreakNotice, Share};
use smallvec::SmallVec;

use super::handle::{Event, Handle};
use super::open::Open;
use super::server::Server;
use crate::table::EntryGuard;

/// Sends a share's breaks to the clients, over the connections that they have at that time.
pub struct Holder {
    server: Weak<Server>,
    engine: Weak<Share>,
}

impl Holder {
    /// The holder for the clients of one share.
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
    /// The ids of the connections that it was posted to.
    tried: SmallVec<[u64; 4]>,
    /// The last of those connections.
    now_on: Option<Arc<Handle>>,
}

/// A break that one connection must send to its client.
pub struct Notice(Option<Box<Body>>);

/// The result of posting a notice.
enum PostResult {
    /// Another connection has it now.
    Posted,
    /// All remaining connections had it before.
    Exhausted(Box<Body>),
    /// The client has no connection.
    Unreachable,
}

impl Body {
    /// The connections over which the client may be notified, the first choice first.
    fn paths(&self) -> Vec<Arc<Handle>> {
        let Some(server) = self.server.upgrade() else { return Vec::new() };
        let mut paths = if self.notice.keyed {
            // MS-SMB2 3.3.4.7
            server.client(self.notice.client).map_or_else(Vec::new, |client| client.connections())
        } else {
            // MS-SMB2 3.3.4.6
            let open = open_of(&server, &self.notice);
            let session = open.and_then(|open| server.session(open.session_id));
            session.map_or_else(Vec::new, |session| session.channels())
        };
        paths.retain(|handle| handle.path.is_usable());
        paths
    }

    /// Posts the notice to a connection that did not have it yet. A directory's break goes to the connection
    /// whose request is being answered. A lease break goes to the connection on which the lease was granted,
    /// after that reply. Silent connections come last.
    fn post(mut self: Box<Self>) -> PostResult {
        let paths = self.paths();
        if paths.is_empty() {
            return PostResult::Unreachable;
        }
        // The origin is used once only: its request will have been answered when another connection is
        // needed.
        let origin = self.notice.origin.take().filter(|_| self.notice.entries);
        // MS-SMB2 3.3.4.7 (exception: not simply the first available channel)
        let fresh = || paths.iter().filter(|handle| !self.tried.contains(&handle.id));
        let loud = || fresh().filter(|handle| !handle.path.is_silent());
        let next = fresh()
            .find(|handle| origin.is_some_and(|origin| origin.connection == handle.id))
            .or_else(|| loud().find(|handle| self.notice.keyed && self.notice.via == Some(handle.id)))
            .or_else(|| loud().next())
            .or_else(|| fresh().next());
        let Some(next) = next.map(Arc::clone) else { return PostResult::Exhausted(self) };
        self.tried.push(next.id);
        self.now_on = Some(Arc::clone(&next));
        // A client whose open holds a lease of its own could have named the directory's lease (MS-SMB2
        // 2.2.13.2.10). On a client's only connection the notice follows the reply, as with other servers.
        let behind = paths.len() == 1 && self.notice.by_keyed;
        let is_own = origin.is_some_and(|origin| origin.connection == next.id && origin.is_itself);
        if is_own && !behind {
            next.own_notices.keep(Notice(Some(self)));
        } else {
            // If the mailbox does not take it, it is dropped there, and so goes on to the next connection.
            next.post_ahead(Event::Break(Notice(Some(self))));
        }
        PostResult::Posted
    }

    /// Sends the notice. Returns false if the client has no connection.
    fn send(self: Box<Self>) -> bool {
        // The acknowledgment may still come over a connection that had the notice before.
        !matches!(self.post(), PostResult::Unreachable)
    }
}

impl Notice {
    /// Ends the notice: it has arrived, or is not needed any more.
    pub(crate) fn settle(mut self) {
        self.0 = None;
    }

    /// The notice did not arrive in time. It goes to the next connection, or comes back if there is none.
    pub(crate) fn pass_on(mut self) -> Option<Notice> {
        match self.0.take()?.post() {
            PostResult::Posted | PostResult::Unreachable => None,
            PostResult::Exhausted(body) => Some(Notice(Some(body))),
        }
    }

    /// The break in the notice.
    pub(crate) fn broken(&self) -> Option<BreakNotice> {
        self.0.as_ref().map(|body| body.notice)
    }

    /// Whether the client still owes an acknowledgment, or the break needs none.
    pub(crate) fn is_wanted(&self) -> bool {
        let Some(body) = &self.0 else { return false };
        !body.notice.answer
            || body.engine.upgrade().is_some_and(|engine| engine.awaits_acknowledgment(&body.notice))
    }

    /// Whether no connection has sent the notice yet although its holder still has the right. Such a notice
    /// is sent even if no acknowledgment is awaited any more. The acknowledgment was for an earlier break,
    /// and without the notice the client would use a right that it has lost.
    // MS-SMB2 3.3.4.7
    pub(crate) fn must_be_sent(&self) -> bool {
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
        // Only a connection that ends, or that must end because it is too slow, drops a notice.
        if let Some(handle) = &body.now_on {
            handle.path.end();
        }
        let (engine, notice) = (Weak::clone(&body.engine), body.notice);
        if !body.send()
            && let Some(engine) = engine.upgrade()
        {
            engine.break_undelivered(&notice);
        }
    }
}

impl std::fmt::Debug for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Notice").field(&self.broken()).finish()
    }
}

/// The Open that a right belongs to. Its volatile id may have changed since the break was made.
pub(crate) fn open_of(server: &Server, notice: &BreakNotice) -> Option<EntryGuard<Open>> {
    let (persistent, volatile) = ((notice.key.0 >> 64) as u64, notice.key.0 as u64);
    let volatile = server.index.by_durable_id(persistent).unwrap_or(volatile);
    server.opens.get(volatile).filter(|open| open.id.persistent == persistent)
}

/// The notices of one connection that leave before the reply to the request that caused them.
///
/// Linux's client lists a directory from memory until it gets the break, also after changes of its own. Over
/// another channel the notice would wait behind the queued data of that channel, and the client would list
/// removed files.
///
/// A caller of the engine names its connection ([`share::Origin`]), and the notice carries that origin.
/// While the connection's own thread makes the call, the notice is kept here until the call returns. On the
/// blocking pool a job makes the call for the connection. Then the notice comes through the connection's
/// mailbox, and the end of the job follows it.
#[derive(Debug, Default)]
pub(crate) struct OwnNotices {
    /// Whether any notice is kept.
    any: AtomicBool,
    kept: Mutex<Vec<Notice>>,
}

impl OwnNotices {
    /// Keeps a notice until the connection takes it. The connection does so before it sends its reply.
    pub fn keep(&self, notice: Notice) {
        let mut kept = self.kept.lock();
        kept.push(notice);
        self.any.store(true, Ordering::Release);
    }

    /// Takes all kept notices.
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
