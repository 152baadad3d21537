//! The engine's callbacks to its clients: holders of caching rights, and requests that wait.

use std::sync::Arc;

pub use metering::{ClientKey, Waiter, Wake};

use crate::{BreakNotice, ClientDetails, Identity};

/// A client that holds caching rights and must hear of breaks.
pub trait BreakListener: Send + Sync {
    /// A right is to be released, wholly or in part. The caller holds no lock. Returns false if the notice
    /// cannot reach the client at all. The engine then revokes the right at once.
    fn on_break(&self, notice: &BreakNotice) -> bool;
}

/// Keeps the lease times of clients. State of a client whose time is over is kept only until another client
/// needs the room or the right.
pub trait ClientExpiry: Send + Sync {
    /// Ends those of these clients whose time is over. Returns true if there was one. The caller holds no
    /// lock.
    fn end_expired(&self, clients: &[ClientKey], now: wire::Now) -> bool;

    /// Ends all clients whose time is over, because descriptors, memory or room in a table are short. It also
    /// closes files that are kept open only for speed. Returns true if there was anything to end. The caller
    /// holds no lock.
    fn end_all_expired(&self, now: wire::Now) -> bool;
}

/// The connection of its protocol over which a request came. There is none for losses of a client whose time
/// is over, or of one that yields because a resource is short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The connection, by a number of its protocol.
    pub connection: u64,
    /// Whether the connection makes the call itself and sends its notices before its reply. Otherwise another
    /// thread makes the call, and the connection learns of its end later.
    pub is_itself: bool,
}

/// The time of an action, and the request that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cause {
    /// The time.
    pub now: wire::Now,
    /// The connection of the request; none if there is no request, or if its client does not need to know.
    pub origin: Option<Origin>,
}

impl Cause {
    /// The same cause for work that another thread does on behalf of the connection.
    #[must_use]
    pub fn elsewhere(self) -> Cause {
        let origin = self.origin.map(|origin| Origin { is_itself: false, ..origin });
        Cause { origin, ..self }
    }
}

impl From<wire::Now> for Cause {
    fn from(now: wire::Now) -> Cause {
        Cause { now, origin: None }
    }
}

/// Everything that the engine needs to know of the sender of a request.
#[derive(Debug, Clone)]
pub struct Caller<'a> {
    /// The identity on whose behalf the request is made.
    pub identity: &'a Arc<Identity>,
    /// The client that sent it.
    pub client: ClientKey,
    /// The waiter to wake if the request has to wait. None: the request is refused instead of waiting.
    pub waiter: Option<&'a Waiter>,
    /// The time.
    pub now: wire::Now,
    /// The connection; none if it does not matter to the caller.
    pub origin: Option<Origin>,
    /// The client's session, for the audit. None: that of the open which the request is about.
    pub details: Option<&'a Arc<ClientDetails>>,
}

impl Caller<'_> {
    /// The user and the session for the audit; none if the session is that of the open.
    pub(crate) fn audited_as(&self) -> Option<(&Identity, &ClientDetails)> {
        self.details.map(|details| (&**self.identity, &**details))
    }

    /// The time and the connection of the request.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause { now: self.now, origin: self.origin }
    }
}
