//! Opens that outlive their session: durable, resilient, persistent (MS-SMB2 3.3.1.10, 3.3.7.1).
//!
//! [`Survival`] says whether one does, and for how long; [`Made`] what is remembered of its CREATE. How clients ask is in
//! [`crate::cmd::create`], how they come back in its `reconnect`; what is kept of those that outlive the
//! server, in [`super::persistent`].

use std::sync::atomic::{AtomicU8, Ordering};

use share::ClientKey;
use smb_wire::Guid;
use smb_wire::create::CreateAction;
use smb_wire::create_context::Lease;
use volume::security::Sid;

/// How an Open was asked to be durable.
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
    /// How it was asked for.
    pub version: Version,
    /// How long it is kept without a session, in milliseconds (DurableOpenTimeout).
    pub timeout_ms: u32,
    /// It outlives the server too, and gives way to nobody (IsPersistent).
    pub persistent: bool,
}

/// Whether and for how long an Open outlives its session.
#[derive(Debug, Clone, Default)]
pub struct Survival {
    /// It is kept while it has the right to be kept open, until somebody needs that (IsDurable).
    pub durable: Option<Durable>,
    /// It is kept for so many milliseconds whatever others need (IsResilient, ResiliencyTimeout).
    pub resilient_ms: Option<u32>,
    /// The only user who may come back for it, or have its CREATE answered again (DurableOwner).
    pub owner: Option<Sid>,
}

impl Survival {
    /// Whether it outlives its session at all.
    pub fn survives(&self) -> bool {
        self.durable.is_some() || self.resilient_ms.is_some()
    }

    /// For how many milliseconds it is kept, and whether it gives way to others; none when it is not kept.
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

    /// Whether this user is the one who may come back for it.
    pub fn is_owned_by(&self, user: Option<Sid>) -> bool {
        self.owner.is_some() && self.owner == user
    }
}

/// What is remembered of the CREATE that made an Open.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The client that sent it (ClientGuid).
    pub client: ClientKey,
    /// Names it among its replays (CreateGuid).
    pub create_guid: Option<Guid>,
    /// The lease that was asked for.
    pub lease: Option<Lease>,
    /// What became of the name.
    pub action: CreateAction,
    /// The instance of an application that it is for.
    pub instance: Option<Instance>,
    /// What else it asked for.
    pub asked_for: AskedFor,
}

/// An instance of an application (AppInstanceId).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instance {
    /// Names the application.
    pub id: Guid,
    /// High and low half of what orders its instances (ApplicationInstanceVersionHigh and -Low).
    pub version: Option<(u64, u64)>,
}

/// What was asked for, as CREATE that is sent again must ask (MS-SMB2 3.3.5.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AskedFor {
    /// CreateOptions.
    pub options: u32,
    /// DesiredAccess.
    pub access: u32,
    /// ShareAccess.
    pub share: u32,
}

/// Whether the client has been told of a persistent Open. From then on it is not taken back, whether it was the CREATE
/// that was answered or a replay of it.
#[derive(Debug, Default)]
pub(crate) struct Promise(AtomicU8);

const TOLD: u8 = 1;
const TAKEN_BACK: u8 = 2;

impl Promise {
    /// The client is told of the Open; false when that was taken back before.
    pub(crate) fn tell(&self) -> bool {
        let told = self.0.compare_exchange(0, TOLD, Ordering::AcqRel, Ordering::Acquire);
        told != Err(TAKEN_BACK)
    }

    /// The Open is not to be; false when its client has been told of it.
    pub(crate) fn take_back(&self) -> bool {
        self.0.compare_exchange(0, TAKEN_BACK, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
