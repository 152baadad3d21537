//! What others hold of a connection ([`Handle`]), and what reaches it besides messages ([`Event`]).

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

/// How work ended: with a body and this status, or without one and that status.
pub type Completion = Result<NtStatus, NtStatus>;

/// Something for one connection to do, on its own thread.
#[derive(Debug)]
pub enum Event {
    /// A request that waits is to be tried again.
    Wake {
        /// The request's async id.
        async_id: u64,
    },
    /// Work on the blocking pool is done.
    JobDone {
        /// The request's async id.
        async_id: u64,
        /// The frame with the answers so far and this one's body.
        frame: Frame,
        /// How it ended.
        completion: Completion,
    },
    /// Tell the client to give a caching right back (MS-SMB2 2.2.23).
    Break(Notice),
    /// A session has ended on another connection: forget it here.
    SessionGone {
        /// The session.
        session_id: u64,
    },
    /// Close the connection.
    Close,
}

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

    /// Whether a client can be told anything over it: it is not gone, and a session's user was proved on it.
    pub(crate) fn is_usable(&self) -> bool {
        !self.gone.load(Ordering::Relaxed) && self.sessions.load(Ordering::Relaxed) > 0
    }

    /// The client's host has not acknowledged a notice in time.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    /// Whether the client's host has fallen silent.
    pub fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }
}

/// The end of a connection that others hold: how to reach it, and what status shows of it.
pub struct Handle {
    /// Counts connections.
    pub id: u64,
    /// Both addresses.
    pub peer: Peer,
    /// When it was accepted.
    pub since: Now,
    /// How good it is for reaching the client.
    pub way: Way,
    /// What it has done.
    pub counters: Counters,
    /// What it has done on which share.
    pub visits: Arc<ConnectionActivity>,
    /// How the data of its large reads leaves.
    pub transfer: Transfer,
    /// The client has said that it can have several connections (MS-SMB2 2.2.3 Capabilities).
    pub announced_multichannel: AtomicBool,
    mailbox: Arc<dyn Mailbox<Event>>,
    /// What its own requests have broken of its client's rights.
    pub(crate) own_notices: OwnNotices,
    /// What it has left under way, by async ids.
    pub(crate) left: Mutex<HashMap<u64, Claim>>,
}

impl Handle {
    /// The end of a connection that has just been accepted.
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
            way: Way::default(),
            counters: Counters::default(),
            visits,
            transfer: Transfer::default(),
            announced_multichannel: AtomicBool::new(false),
            mailbox,
            own_notices: OwnNotices::default(),
            left: Mutex::default(),
        }
    }

    /// Posts to the connection's own thread; false when it is gone.
    pub fn post(&self, event: Event) -> bool {
        self.mailbox.post(event)
    }

    /// The same for what the client there is to be told before the one that is being answered here.
    pub fn post_ahead(&self, event: Event) -> bool {
        self.mailbox.post_ahead(event)
    }
}

impl Wake for Handle {
    fn wake(&self, token: u64) {
        self.left.lock().remove(&token);
        self.mailbox.post(Event::Wake { async_id: token });
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("id", &self.id).field("peer", &self.peer).finish_non_exhaustive()
    }
}
