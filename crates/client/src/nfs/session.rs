//! A session as the client has it, and the client ID it is of.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nfs_wire::NfsStat;
use nfs_wire::types::{ClientId, SessionId};

use super::slots::Slots;

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) client_id: ClientId,
    /// The instance of the server that made it, as [`Opens`](super::opens::Opens) counts them.
    pub(crate) instance: u64,
    /// Whether it has been said in it that nothing is to be claimed: what is to be claimed later is of another restart.
    pub(crate) is_reclaimed: AtomicBool,
    pub(crate) slots: Arc<Slots>,
    pub(crate) has_back_channel: bool,
    /// The most data that a request of it, and a reply, has room for.
    pub(crate) room: (u32, u32),
    /// How many operations a COMPOUND may have.
    pub(crate) operations: usize,
}

/// A client ID and the number that the next CREATE_SESSION has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) client_id: ClientId,
    pub(crate) sequence: u32,
    /// Whether the server has been told that all is claimed.
    pub(crate) has_reclaimed: bool,
}

/// Why another session is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The server refuses the one there is.
    Session(NfsStat),
    /// The server has kept the session over a restart, and not what was open.
    State,
}
