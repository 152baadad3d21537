//! A session on the client's side, and its client ID.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nfs_wire::NfsStat;
use nfs_wire::types::{ClientId, SessionId};

use super::slots::Slots;

/// A session.
#[derive(Debug)]
pub(crate) struct NfsSession {
    pub(crate) id: SessionId,
    pub(crate) client_id: ClientId,
    /// The instance of the server that created it, as [`Opens`](super::opens::Opens) counts them.
    pub(crate) instance: u64,
    /// Whether RECLAIM_COMPLETE was sent in it. Later reclaims belong to another restart.
    pub(crate) is_reclaimed: AtomicBool,
    pub(crate) slots: Arc<Slots>,
    pub(crate) has_back_channel: bool,
    /// The most data that a request and a reply in it have room for.
    pub(crate) room: (u32, u32),
    /// The most operations of a COMPOUND.
    pub(crate) operations: usize,
}

/// A client ID, and the sequence number of the next CREATE_SESSION.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientIdState {
    pub(crate) client_id: ClientId,
    pub(crate) sequence: u32,
    /// Whether RECLAIM_COMPLETE was sent.
    pub(crate) has_reclaimed: bool,
}

/// The reason why another session is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server refuses the present session.
    Session(NfsStat),
    /// The server has kept the session over a restart, but not the opens.
    State,
}
