//! Opens that outlive their session: durable, resilient, persistent (MS-SMB2 3.3.1.10, 3.3.7.1).
//!
//! [`Survival`] says whether one does, and for how long; [`Made`] what is remembered of its CREATE.
//! [`Server::preserve`] lets go of an Open without closing it. How clients ask is in
//! [`crate::cmd::create`], how they come back in its `reconnect`; what is kept of those that outlive the
//! server, in [`crate::persistent`].

use std::sync::{Arc, Weak};

use share::{Cause, ClientKey, Detached, Keeper};
use smb_wire::Guid;
use smb_wire::create::CreateAction;
use smb_wire::create_context::Lease;
use volume::security::Sid;

use crate::open::{NO_SESSION, Open};
use crate::persistent::AskedFor;
use crate::server::Server;
use crate::session::Session;

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
    fn terms(&self) -> Option<(u32, bool)> {
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

    /// Whether `session` is of the user who may come back for it.
    pub fn is_owned_by(&self, session: &Session) -> bool {
        let user = session.proved().map(|proved| proved.identity.sid);
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

/// Takes Opens out of the server's tables that an engine has closed.
pub(crate) struct Reaper(pub Weak<Server>);

impl Keeper for Reaper {
    fn on_lost(&self, token: u64) {
        if let Some(server) = self.0.upgrade()
            && let Some(open) = server.opens.remove(token)
        {
            server.index.remove(&open);
            tracing::debug!(open = open.id.persistent, "an Open without a session was closed");
        }
    }
}

impl Server {
    /// Makes a new Open known by the names that it needs beside its id.
    pub(crate) fn enter_index(&self, open: &Open) {
        let (survives, persistent) = {
            let survival = open.survival.lock();
            (survival.survives(), survival.is_persistent())
        };
        let made = open.made.get();
        if survives || made.is_some_and(|made| made.create_guid.is_some() || made.instance.is_some()) {
            self.index.enter(open, persistent);
        }
    }

    /// The persistent Open that a CREATE of this name has made: one that waits for its client, if there is one.
    pub(crate) fn persistent_open(&self, create: Guid) -> Option<Arc<Open>> {
        let ids = self.index.by_create_guid(create);
        let opens: Vec<Arc<Open>> =
            ids.into_iter().filter_map(|id| Some(self.opens.get(id)?.share())).collect();
        opens.iter().find(|open| open.session_id == NO_SESSION).or(opens.first()).cloned()
    }

    /// Lets go of an Open whose session ends, so that its client can come back for it; false when it is
    /// not to be kept, and to be closed. The session has it no more.
    // MS-SMB2 3.3.7.1
    // MS-SMB2 3.3.5.6 (exception: a durable Open that could not be taken up again is not kept at LOGOFF either)
    pub(crate) fn preserve(&self, open: &Arc<Open>, cause: Cause) -> bool {
        let Some((engine, file)) = open.file() else { return false };
        // Held, so that nobody comes back for it while it is neither here nor there.
        let survival = open.survival.lock();
        let Some((ms, yields)) = survival.terms() else { return false };
        let until_ns = cause.now.mono_ns.saturating_add(u64::from(ms) * 1_000_000);
        let token = open.id.volatile;
        self.late.end_life(open);
        // The table must be right before the engine may close it.
        if !self.opens.replace(Arc::new(open.without_session())) {
            return true;
        }
        let how = Detached { until_ns, yields, keeper: Arc::clone(&self.reaper), token };
        match engine.leave(file, how, cause) {
            Ok(()) => true,
            Err(why) => {
                tracing::debug!(open = open.id.persistent, %why, "a durable Open is not kept");
                false
            }
        }
    }
}
