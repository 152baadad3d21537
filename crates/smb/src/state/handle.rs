//! The part of a connection that others reach ([`Handle`]), and the events that it receives besides messages
//! ([`Event`]).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use share::Wake;
use share::counts::ConnectionActivity;
use smb_wire::NtStatus;
use wire::{Frame, Mailbox, Now, Peer, Transfer};

use super::counters::Counters;
use super::index::Claim;
use super::notice::{Notice, OwnNotices};

/// The end of work on the blocking pool. `Ok` has a status with a body, `Err` a status without one.
pub type Completion = Result<NtStatus, NtStatus>;

/// An event for one connection, handled on its own thread.
#[derive(Debug)]
pub enum Event {
    /// A waiting request must be tried again.
    Wake {
        /// The request's async id.
        async_id: u64,
    },
    /// Work on the blocking pool has ended.
    JobDone {
        /// The request's async id.
        async_id: u64,
        /// The frame with the replies so far and the body of this one.
        frame: Frame,
        /// The status of the work.
        completion: Completion,
    },
    /// The client must be sent a break (MS-SMB2 2.2.23).
    Break(Notice),
    /// A session has ended on another connection. This connection must forget it.
    SessionGone {
        /// Its SessionId, by which the connection finds its channel of the session.
        session_id: u64,
    },
    /// The connection must close.
    Close,
}

/// The state of a connection as a path to its client.
#[derive(Debug, Default)]
pub struct ClientPath {
    /// Sessions with an authenticated user on it.
    sessions: AtomicU32,
    /// When the last message came from the client, by the clock of [`Now::mono_ns`].
    heard_ns: AtomicU64,
    /// The client's host did not acknowledge a notice in time, and nothing has come from it since.
    silent: AtomicBool,
    /// Nothing can be sent over the connection any more.
    gone: AtomicBool,
}

impl ClientPath {
    /// Sets the number of sessions that the connection carries.
    pub(crate) fn set_sessions(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        if self.sessions.load(Ordering::Relaxed) != count {
            self.sessions.store(count, Ordering::Relaxed);
        }
    }

    /// Records that a message has come from the client.
    #[inline]
    pub(crate) fn heard(&self, now: Now) {
        self.heard_ns.store(now.mono_ns, Ordering::Relaxed);
        if self.silent.load(Ordering::Relaxed) {
            self.silent.store(false, Ordering::Relaxed);
        }
    }

    /// When the last message came from the client, by the clock of [`Now::mono_ns`].
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns.load(Ordering::Relaxed)
    }

    /// Marks the connection as ended.
    pub(crate) fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether a notice can be sent over it: it has not ended, and it carries a session with an
    /// authenticated user.
    pub(crate) fn is_usable(&self) -> bool {
        !self.gone.load(Ordering::Relaxed) && self.sessions.load(Ordering::Relaxed) > 0
    }

    /// Records that the client's host has not acknowledged a notice in time.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Whether the client's host has fallen silent.
    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }
}

/// The part of a connection that others reach: its mailbox and the values that status shows.
pub struct Handle {
    /// The connection's number.
    pub id: u64,
    /// Both addresses.
    pub peer: Peer,
    /// When the connection was accepted.
    pub since: Now,
    /// Its state as a path to the client.
    pub path: ClientPath,
    /// Its counters.
    pub counters: Counters,
    /// Its counters for each share.
    pub visits: Arc<ConnectionActivity>,
    /// How the data of its large reads is sent.
    pub transfer: Transfer,
    /// The client has announced that it can have several connections (MS-SMB2 2.2.3 Capabilities).
    pub announced_multichannel: AtomicBool,
    mailbox: Arc<dyn Mailbox<Event>>,
    /// Breaks of its client's rights that its own requests have caused.
    pub(crate) own_notices: OwnNotices,
    /// Its requests under way, by async ids.
    pub(crate) left: Mutex<HashMap<u64, Claim>>,
}

impl Handle {
    /// The handle of a new connection.
    pub fn new(
        id: u64,
        peer: Peer,
        since: Now,
        mailbox: Arc<dyn Mailbox<Event>>,
        visits: Arc<ConnectionActivity>,
    ) -> Handle {
        Handle {
            id,
            peer,
            since,
            path: ClientPath::default(),
            counters: Counters::default(),
            visits,
            transfer: Transfer::default(),
            announced_multichannel: AtomicBool::new(false),
            mailbox,
            own_notices: OwnNotices::default(),
            left: Mutex::default(),
        }
    }

    /// Posts an event to the connection's own thread. Returns false if the connection has ended.
    pub fn post(&self, event: Event) -> bool {
        self.mailbox.post(event)
    }

    /// Posts an event that its client must get before the reply that this thread is making.
    pub fn post_ahead(&self, event: Event) -> bool {
        self.mailbox.post_ahead(event)
    }
}

impl Wake for Handle {
    fn wake(&self, token: u64) {
        self.left.lock().remove(&token);
        // A request that waits for another one is answered after it.
        Arc::clone(&self.mailbox).post_behind(Event::Wake { async_id: token });
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).field("peer", &self.peer).finish_non_exhaustive()
    }
}
