//! Opens that outlive their session: durable, resilient, persistent (MS-SMB2 3.3.1.10, 3.3.7.1).
//!
//! [`Survival`] says whether an Open does, and for how long. [`CreateRecord`] is the record of its CREATE.
//! [`crate::cmd::create`] has the contexts that ask for a durable Open, and its `reconnect` has the
//! reconnect. [`super::persistent`] has the record of an Open that outlives the server.

use std::sync::atomic::{AtomicU8, Ordering};

use share::ClientKey;
use smb_wire::Guid;
use smb_wire::create::CreateAction;
use smb_wire::create_context::Lease;
use volume::security::Sid;

/// The create context that asked for a durable Open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST.
    One,
    /// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2.
    Two,
}

/// A durable Open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    /// The context that asked for it.
    pub version: Version,
    /// How long the server keeps it without a session, in milliseconds (DurableOpenTimeout).
    pub timeout_ms: u32,
    /// It outlives the server too, and does not end for a conflicting open (IsPersistent).
    pub persistent: bool,
}

/// Whether and for how long an Open outlives its session.
#[derive(Debug, Clone, Default)]
pub struct Survival {
    /// The server keeps it while its lease or oplock lasts, until a conflicting open comes (IsDurable).
    pub durable: Option<Durable>,
    /// The server keeps it for this many milliseconds, also against conflicting opens (IsResilient,
    /// ResiliencyTimeout).
    pub resilient_ms: Option<u32>,
    /// The only user who may reconnect to it or replay its CREATE (DurableOwner).
    pub owner: Option<Sid>,
}

impl Survival {
    /// Whether it outlives its session.
    pub fn survives(&self) -> bool {
        self.durable.is_some() || self.resilient_ms.is_some()
    }

    /// How long it is kept, in milliseconds, and whether it ends for a conflicting open. `None` if it is not
    /// kept.
    pub(crate) fn terms(&self) -> Option<(u32, bool)> {
        // MS-SMB2 3.3.7.1
        match (self.resilient_ms, self.durable) {
            (Some(ms), _) => Some((ms, false)),
            (None, Some(durable)) => Some((durable.timeout_ms, !durable.persistent)),
            (None, None) => None,
        }
    }

    /// Whether it outlives the server.
    pub fn is_persistent(&self) -> bool {
        self.durable.is_some_and(|durable| durable.persistent)
    }

    /// Whether this user may reconnect to it.
    pub fn is_owned_by(&self, user: Option<Sid>) -> bool {
        self.owner.is_some() && self.owner == user
    }
}

/// The record of the CREATE that made an Open.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateRecord {
    /// The client that sent it (ClientGuid).
    pub client: ClientKey,
    /// The CREATE's identity for replays (CreateGuid).
    pub create_guid: Option<Guid>,
    /// The requested lease.
    pub lease: Option<Lease>,
    /// The effect of the CREATE on its file.
    pub action: CreateAction,
    /// The application instance that the Open belongs to.
    pub instance: Option<Instance>,
    /// The other parameters of the CREATE.
    pub asked_for: ReplayParameters,
}

/// An instance of an application (AppInstanceId).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance {
    /// The application's id.
    pub id: Guid,
    /// The version of the instance, as high and low half (ApplicationInstanceVersionHigh and -Low).
    pub version: Option<(u64, u64)>,
}

/// The parameters that a replay of a CREATE must repeat (MS-SMB2 3.3.5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayParameters {
    /// CreateOptions.
    pub options: u32,
    /// DesiredAccess.
    pub access: u32,
    /// ShareAccess.
    pub share: u32,
}

/// Whether the client was told of a persistent Open, by the response to its CREATE or to a replay of it.
/// From then on the Open cannot be revoked.
#[derive(Debug, Default)]
pub(crate) struct RevocationState(AtomicU8);

const TOLD: u8 = 1;
const TAKEN_BACK: u8 = 2;

impl RevocationState {
    /// Marks the Open as told to the client. Returns false if it was revoked before.
    pub(crate) fn tell(&self) -> bool {
        let told = self.0.compare_exchange(0, TOLD, Ordering::AcqRel, Ordering::Acquire);
        told != Err(TAKEN_BACK)
    }

    /// Revokes the Open. Returns false if its client was told of it before.
    pub(crate) fn take_back(&self) -> bool {
        self.0.compare_exchange(0, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
