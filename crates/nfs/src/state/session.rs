//! A session: slots, and the connections that carry it (RFC 8881 2.10).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nfs_wire::op::create_session::ChannelAttrs;
use nfs_wire::types::SessionId;
use parking_lot::Mutex;
use share::ClientDetails;
use wire::table::Keyed;

use crate::state::back_channel::{self, BackChannel};
use crate::state::callback::{CallbackCredentials, CallbackParams};
use crate::state::client::Client;
use crate::state::connection_handle::{ConnectionHandle, Mail};
use crate::state::reply_memory::ReplyReservation;
use crate::state::slot::Slot;

/// One session.
pub struct Session {
    /// The session ID.
    pub id: SessionId,
    /// The client that it belongs to.
    pub client: Arc<Client>,
    /// The properties of its client that audit events have.
    pub details: Arc<ClientDetails>,
    /// Its slots.
    pub slots: Box<[Slot]>,
    /// Limits of the fore channel.
    pub fore: ChannelAttrs,
    /// Limits of the back channel.
    pub back: ChannelAttrs,
    /// The slots of the back channel.
    pub calls: BackChannel,
    calling: Mutex<CallbackParams>,
    ended: AtomicBool,
    bound: Mutex<Vec<Bound>>,
    /// Whether any of them carries callbacks. Each SEQUENCE reads this, and a lock would move between
    /// threads.
    has_back: AtomicBool,
    /// The memory for the replies of its slots, until the session ends.
    kept: Mutex<Option<ReplyReservation>>,
}

/// A connection that is bound to a session.
pub struct Bound {
    /// The connection.
    pub connection: Arc<ConnectionHandle>,
    /// Whether it carries requests of the client.
    pub fore: bool,
    /// Whether it carries callbacks.
    pub back: bool,
}

impl Keyed for Session {
    fn key(&self) -> u64 {
        key_of(&self.id)
    }
}

/// The key in the table of sessions that a session ID names.
#[must_use]
pub fn key_of(id: &SessionId) -> u64 {
    let mut key = [0; 8];
    key.copy_from_slice(&id[8..]);
    u64::from_be_bytes(key)
}

/// A new session ID for a key in the table. Anybody who knows the ID of a session may use it and end it (RFC
/// 8881 2.10.8.3), so only its client knows half of the ID.
#[must_use]
pub fn id_of(key: u64) -> SessionId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&auth::crypto::random::<8>());
    id[8..].copy_from_slice(&key.to_be_bytes());
    id
}

impl Session {
    /// A new session.
    #[must_use]
    pub fn new(
        id: SessionId,
        client: Arc<Client>,
        details: ClientDetails,
        fore: ChannelAttrs,
        back: ChannelAttrs,
        calling: CallbackParams,
        kept: ReplyReservation,
    ) -> Session {
        Session {
            id,
            client,
            details: Arc::new(details),
            slots: (0..fore.maxrequests).map(|_| Slot::default()).collect(),
            fore,
            back,
            calls: BackChannel::new(back.maxrequests),
            calling: Mutex::new(calling),
            ended: AtomicBool::new(false),
            bound: Mutex::default(),
            has_back: AtomicBool::new(false),
            kept: Mutex::new(Some(kept)),
        }
    }

    /// The parameters of its callbacks.
    #[must_use]
    pub fn calling(&self) -> CallbackParams {
        self.calling.lock().clone()
    }

    /// Changes the parameters of its callbacks.
    pub fn call_as(&self, program: u32, credentials: CallbackCredentials) {
        let mut calling = self.calling.lock();
        (calling.program, calling.credentials) = (program, credentials);
    }

    /// Whether it was destroyed.
    #[inline]
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends it. Its connections forget it.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // The slots themselves are freed once its connections have forgotten the session.
        let part = self.kept.lock().take();
        drop(part);
        let mut bound = self.bound.lock();
        for bound in bound.drain(..) {
            bound.connection.post(Mail::SessionGone { session: self.key() });
        }
        self.publish(&bound);
        drop(bound);
        back_channel::end(self);
    }

    /// Binds a connection, or extends what it is bound for. Returns true if it was not bound before.
    // RFC 8881 2.10.3.1
    pub fn bind(&self, connection: &Arc<ConnectionHandle>, fore: bool, back: bool) -> bool {
        let mut bound = self.bound.lock();
        let is_new = match bound.iter_mut().find(|known| Arc::ptr_eq(&known.connection, connection)) {
            Some(known) => {
                known.fore |= fore;
                known.back |= back;
                false
            }
            None => {
                bound.push(Bound { connection: Arc::clone(connection), fore, back });
                true
            }
        };
        self.publish(&bound);
        is_new
    }

    /// Updates the values that are read without the lock. The caller holds the lock.
    fn publish(&self, bound: &[Bound]) {
        self.has_back.store(bound.iter().any(|bound| bound.back), Ordering::Release);
    }

    /// Unbinds a connection that is gone or carries another session.
    pub fn unbind(&self, connection: &Arc<ConnectionHandle>) {
        let mut bound = self.bound.lock();
        bound.retain(|known| !Arc::ptr_eq(&known.connection, connection));
        self.publish(&bound);
    }

    /// Whether a connection is bound to it.
    #[must_use]
    pub fn is_bound(&self, connection: &Arc<ConnectionHandle>) -> bool {
        self.bound.lock().iter().any(|known| Arc::ptr_eq(&known.connection, connection))
    }

    /// The connections that carry callbacks.
    #[must_use]
    pub fn back_connections(&self) -> Vec<Arc<ConnectionHandle>> {
        self.bound
            .lock()
            .iter()
            .filter(|bound| bound.back)
            .map(|bound| Arc::clone(&bound.connection))
            .collect()
    }

    /// Whether a callback can be sent.
    #[inline]
    #[must_use]
    pub fn has_back_channel(&self) -> bool {
        self.has_back.load(Ordering::Acquire)
    }

    /// Its connections, and whether each carries requests and callbacks, for status.
    #[must_use]
    pub fn connections(&self) -> Vec<(Arc<ConnectionHandle>, bool, bool)> {
        self.bound
            .lock()
            .iter()
            .map(|bound| (Arc::clone(&bound.connection), bound.fore, bound.back))
            .collect()
    }

    /// Number of slots in which a request runs.
    #[must_use]
    pub fn busy_slots(&self) -> usize {
        self.slots.iter().filter(|slot| slot.is_busy()).count()
    }
}
