//! Way: a connection as others see it, and what they tell it.

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

/// What others tell a connection, which it does on its own thread.
#[derive(Debug)]
pub enum Mail {
    /// A COMPOUND that is held may go on.
    LetGo {
        /// Which one.
        token: u64,
    },
    /// Call the client.
    Call(Box<Call>),
    /// A session has ended: forget it here.
    SessionGone {
        /// The session.
        session: u64,
    },
    /// Close the connection.
    Close,
}

/// How others see a connection: sessions, status, the engine.
pub struct Way {
    /// Its number.
    pub id: u64,
    /// Both ends.
    pub peer: Peer,
    /// When it was accepted.
    pub since: Now,
    /// What it has done on which share.
    pub visits: Arc<ConnectionActivity>,
    /// How the data of its large reads leaves.
    pub transfer: Transfer,
    mailbox: Box<dyn Mailbox<Mail>>,
    /// Sessions that it is bound to.
    sessions: Mutex<Vec<Weak<Session>>>,
    /// Handles that were checked on it.
    handles: Mutex<[Option<Arc<CheckedHandle>>; REMEMBERED_HANDLES]>,
    /// Requests that it has carried.
    pub requests: AtomicU64,
    /// Bytes that it has received.
    pub received: AtomicU64,
    /// Bytes that it has sent.
    pub sent: AtomicU64,
    /// When something came on it last (monotonic ns).
    heard_ns: AtomicU64,
    /// Counts COMPOUNDs that ask the limits of a share.
    next_held: AtomicU64,
}

impl Way {
    /// Of a connection that was accepted now; it reads what is put into `mailbox`.
    #[must_use]
    pub fn new(
        id: u64,
        peer: Peer,
        visits: Arc<ConnectionActivity>,
        mailbox: Box<dyn Mailbox<Mail>>,
        now: Now,
    ) -> Way {
        Way {
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
            next_held: AtomicU64::new(0),
        }
    }

    /// When something came on it last (monotonic ns).
    #[must_use]
    pub fn heard_ns(&self) -> u64 {
        self.heard_ns.load(Ordering::Relaxed)
    }

    /// A message of so many bytes has come on it.
    #[inline]
    pub fn received(&self, bytes: usize, now: Now) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
        self.heard_ns.store(now.mono_ns, Ordering::Relaxed);
    }

    /// A number for a COMPOUND that may be held.
    pub fn next_held(&self) -> u64 {
        self.next_held.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the connection something. False when it is gone.
    pub fn post(&self, mail: Mail) -> bool {
        self.mailbox.post(mail)
    }

    /// Remembers that it is bound to a session.
    pub fn remember(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        sessions.retain(|known| known.upgrade().is_some_and(|known| !Arc::ptr_eq(&known, session)));
        if sessions.len() >= MAX_SESSIONS_PER_CONNECTION {
            sessions.remove(0);
        }
        sessions.push(Arc::downgrade(session));
    }

    /// Whether it is bound to a session that is there.
    #[must_use]
    pub fn carries_session(&self) -> bool {
        let sessions = self.sessions.lock();
        sessions.iter().filter_map(Weak::upgrade).any(|session| !session.has_ended())
    }

    /// It is gone: its sessions go on without it.
    pub fn leave_sessions(self: &Arc<Self>) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        for session in sessions.iter().filter_map(Weak::upgrade) {
            session.unbind(self);
        }
    }

    fn place_of(sent: &[u8]) -> usize {
        sent.iter().rev().take(8).fold(0, |sum, byte| sum * 31 + usize::from(*byte)) % REMEMBERED_HANDLES
    }

    /// A handle that was checked here before.
    #[must_use]
    pub fn known(&self, sent: &[u8]) -> Option<Arc<CheckedHandle>> {
        let handles = self.handles.lock();
        let known = handles[Way::place_of(sent)].as_ref()?;
        (known.handle.bytes() == sent).then(|| Arc::clone(known))
    }

    /// Remembers a handle that was checked.
    pub fn remember_handle(&self, known: &Arc<CheckedHandle>) {
        self.handles.lock()[Way::place_of(known.handle.bytes())] = Some(Arc::clone(known));
    }

    /// Forgets all handles, since exports have changed.
    pub fn forget_handles(&self) {
        *self.handles.lock() = Default::default();
    }
}

impl Wake for Way {
    fn wake(&self, token: u64) {
        self.post(Mail::LetGo { token });
    }
}
