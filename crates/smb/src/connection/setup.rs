//! Log-ons under way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::Acceptor;

use crate::limits::MAX_SETUPS;
use crate::state::{Server, Session};

/// A log-on under way on one connection.
pub(crate) struct Setup {
    /// The session it is for.
    pub session: Arc<Session>,
    /// The pre-authentication hash of this connection and session (MS-SMB2 3.3.1.7).
    pub preauth: [u8; 64],
    pub acceptor: Acceptor,
    pub purpose: Purpose,
    pub _share: SetupShare,
}

/// One of the log-ons that may be half done at one time, until it is dropped.
pub(crate) struct SetupShare(Arc<Server>);

impl SetupShare {
    /// None when there are too many.
    pub fn take(server: &Arc<Server>) -> Option<SetupShare> {
        let before = server.setups.fetch_add(1, Ordering::Relaxed);
        // Dropped again when it is one too many.
        Some(SetupShare(Arc::clone(server))).filter(|_| before < MAX_SETUPS)
    }
}

impl Drop for SetupShare {
    fn drop(&mut self) {
        self.0.setups.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Setup {
    /// Whether it adds this connection to a session that others carry.
    pub fn binds(&self) -> bool {
        self.purpose == Purpose::Bind
    }
}

/// What a log-on is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A new session.
    New,
    /// The session is in use here, and its user proves themselves once more.
    Again,
    /// The session is in use on other connections, and this one is to be a channel of it.
    Bind,
}
