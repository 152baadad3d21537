//! A connection as the rest of the server sees it, and the messages that it gets from there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use share::Wake;
use share::counts::ConnectionActivity;
use wire::{Mailbox, Now, Peer, Transfer};

use crate::limits::{MAX_SESSIONS_PER_CONNECTION, REMEMBERED_HANDLES};
use crate::state::back_channel::Call;
use crate::state::filehandle::CheckedHandle;
use crate::state::session::Session;

/// A message to a connection, which handles it on its own thread.
#[derive(Debug)]
pub enum Mail {
    /// A suspended COMPOUND may resume.
    Resume {
        /// Identifies the COMPOUND.
        token: u64,
    },
    /// Send a callback to the client.
    Call(Box<Call>),
    /// A session has ended: forget it.
    SessionGone {
        /// The key of the session.
        session: u64,
    },
    /// Close the connection.
    Close,
}

/// A connection as sessions, the status output and the engine see it.
pub struct ConnectionHandle {
    /// Its number.
    pub id: u64,
    /// The addresses of both ends.
    pub peer: Peer,
    /// The time at which it was accepted.
    pub since: Now,
    /// Its operations on each share.
    pub visits: Arc<ConnectionActivity>,
    /// The method by which the data of its large reads is sent.
    pub transfer: Transfer,
    mailbox: Box<dyn Mailbox<Mail>>,
    /// Sessions that it is bound to.
    sessions: Mutex<Vec<Weak<Session>>>,
    /// Filehandles that were checked on it.
    handles: Mutex<[Option<Arc<CheckedHandle>>; REMEMBERED_HANDLES]>,
    /// Requests that it has carried.
    pub requests: AtomicU64,
    /// Bytes that it has received.
    pub received: AtomicU64,
    /// Bytes that it has sent.
    pub sent: AtomicU64,
    /// The time of the last message (monotonic ns).
    heard_ns: AtomicU64,
    /// The next token of a COMPOUND that may be suspended.
    next_token: AtomicU64,
}

impl ConnectionHandle {
    /// For a connection that was accepted now. It reads the messages in `mailbox`.
    #[must_use]
    pub fn new(
        id: u64,
        peer: Peer,
        visits: Arc<ConnectionActivity>,
        mailbox: Box<dyn Mailbox<Mail>>,
        now: Now,
    ) -> ConnectionHandle {
        ConnectionHandle {
            id,
            peer,
            since: now,
            visits,
            transfer: Transfer::default(),
            mailbox,
            sessions: Mutex::default(),
            handles: Mutex::default(),
            requests: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            heard_ns: AtomicU64::new(now.mono_ns),
            next_token: AtomicU64::new(0),
        }
    }

    /// The time of the last message (monotonic ns).
    #[must_use]
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns.load(Ordering::Relaxed)
    }

    /// Counts a message of this many bytes.
    #[inline]
    pub fn received(&self, bytes: usize, now: Now) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.heard_ns.store(now.mono_ns, Ordering::Relaxed);
    }

    /// A token for a COMPOUND that may be suspended.
    pub fn next_token(&self) -> u64 {
        self.next_token.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends the connection a message. Returns false if the connection is gone.
    pub fn post(&self, mail: Mail) -> bool {
        self.mailbox.post(mail)
    }

    /// Notes that it is bound to a session.
    pub fn remember(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|known| known.upgrade().is_some_and(|known| !Arc::ptr_eq(&known, session)));
        if sessions.len() >= MAX_SESSIONS_PER_CONNECTION {
            sessions.remove(0);
        }
        sessions.push(Arc::downgrade(session));
    }

    /// Whether it is bound to a live session.
    #[must_use]
    pub fn carries_session(&self) -> bool {
        let sessions = self.sessions.lock();
        sessions.iter().filter_map(Weak::upgrade).any(|session| !session.has_ended())
    }

    /// Unbinds it from its sessions, which continue without it.
    pub fn leave_sessions(self: &Arc<Self>) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        for session in sessions.iter().filter_map(Weak::upgrade) {
            session.unbind(self);
        }
    }

    fn slot_of(sent: &[u8]) -> usize {
        sent.iter().rev().take(8).fold(0, |sum, byte| sum * 31 + usize::from(*byte)) % REMEMBERED_HANDLES
    }

    /// A filehandle that was checked here before.
    #[must_use]
    pub fn checked_handle(&self, sent: &[u8]) -> Option<Arc<CheckedHandle>> {
        let handles = self.handles.lock();
        let known = handles[ConnectionHandle::slot_of(sent)].as_ref()?;
        (known.handle.bytes() == sent).then(|| Arc::clone(known))
    }

    /// Remembers a filehandle that was checked.
    pub fn remember_handle(&self, known: &Arc<CheckedHandle>) {
        self.handles.lock()[ConnectionHandle::slot_of(known.handle.bytes())] = Some(Arc::clone(known));
    }

    /// Forgets all filehandles, because the exports have changed.
    pub fn forget_handles(&self) {
        *self.handles.lock() = Default::default();
    }
}

impl Wake for ConnectionHandle {
    fn wake(&self, token: u64) {
        self.post(Mail::Resume { token });
    }
}
