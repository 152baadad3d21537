//! Log-ons under way on a connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use auth::{Acceptor, Step};
use parking_lot::Mutex;
use share::Identity;

use crate::config::kerberos::PrincipalRefusal;
use crate::limits::MAX_SETUPS;
use crate::state::{Server, Session};

/// A log-on under way on one connection.
pub(crate) struct Setup {
    /// Its number among the log-ons of this connection.
    pub number: u64,
    /// The session that it authenticates.
    pub session: Arc<Session>,
    /// The pre-authentication hash of this connection and session (MS-SMB2 3.3.1.7).
    pub preauth: [u8; 64],
    /// The exchange of tokens. `None` while a token is judged on the blocking pool.
    pub acceptor: Option<Acceptor>,
    pub purpose: Purpose,
    pub _share: SetupShare,
}

/// One of the unfinished log-ons that the server allows. The drop of this value ends it.
pub(crate) struct SetupShare(Arc<Server>);

impl SetupShare {
    /// Counts a log-on. Returns `None` if there are too many.
    pub fn take(server: &Arc<Server>) -> Option<SetupShare> {
        let before = server.setups.fetch_add(1, Ordering::Relaxed);
        // The value is dropped at once if there is one too many.
        Some(SetupShare(Arc::clone(server))).filter(|_| before < MAX_SETUPS)
    }
}

impl Drop for SetupShare {
    fn drop(&mut self) {
        self.0.setups.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Setup {
    /// Whether it binds this connection to a session that others carry.
    pub fn binds(&self) -> bool {
        self.purpose == Purpose::Bind
    }
}

/// A token that was judged on the blocking pool, with the exchange that it belongs to.
pub(crate) struct JudgedToken {
    pub acceptor: Acceptor,
    pub step: Step,
    /// The user, if the token proves a password.
    pub user: Option<String>,
    /// The identity of the ticket's principal, if the client has proved itself.
    pub identity: Option<Result<Arc<Identity>, PrincipalRefusal>>,
}

/// A token of a log-on on the blocking pool. Its request is tried again when the result is there.
pub(crate) struct LogOnJob {
    /// The number of the log-on. Another one of the same session may have taken its place meanwhile.
    pub setup: u64,
    pub result: Arc<Mutex<Option<JudgedToken>>>,
}

impl LogOnJob {
    /// Whether the job has ended. Its request may be woken before, since it has waited for another one.
    pub(crate) fn has_ended(&self) -> bool {
        Arc::strong_count(&self.result) == 1 || self.result.lock().is_some()
    }
}

/// The purpose of a log-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A new session.
    New,
    /// To reauthenticate a session that is in use here.
    Again,
    /// To bind this connection to a session of other connections.
    Bind,
}
