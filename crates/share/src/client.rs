//! Whom the engine tells: holders of caching rights, and requests that wait.

use std::sync::Arc;

pub use metering::{ClientKey, Waiter, Wake};

use crate::{BreakNotice, Identity};

/// Somebody who holds caching rights and must hear of breaks.
pub trait Holder: Send + Sync {
    /// A right is to be given back, wholly or in part. Called with no lock held. False when the notice
    /// cannot reach the client at all: the engine then takes the right away at once.
    fn on_break(&self, notice: &BreakNotice) -> bool;
}

/// Somebody who keeps the time of clients: what a client has whose time is over is kept for it only as long as nobody else
/// wants it.
pub trait Lapsing: Send + Sync {
    /// Ends those of these clients whose time is over. True when there was one. Called with no lock held.
    fn end_lapsed(&self, clients: &[ClientKey], now: wire::Now) -> bool;

    /// Ends all whose time is over, since descriptors, memory or room in a table are short, and gives back files that are kept for
    /// speed alone. True when there was anything. Called with no lock held.
    fn end_all_lapsed(&self, now: wire::Now) -> bool;
}

/// Over which connection of its protocol a request came. What somebody else loses by it whose time is over, or who gives way when
/// something is short, has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The connection, by a number of its protocol.
    pub connection: u64,
    /// The connection makes the call itself, and sends what it is told before it answers. Else somebody does so in its place,
    /// of whose end it hears later.
    pub is_itself: bool,
}

/// When something is done, and for whose request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cause {
    /// The time.
    pub now: wire::Now,
    /// Over which connection it was asked for; none: by nobody, or by somebody to whom that is all the same.
    pub origin: Option<Origin>,
}

impl Cause {
    /// For what somebody does in the place of the connection.
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

/// Everything the engine needs to know of whoever makes a request.
#[derive(Debug, Clone)]
pub struct Caller<'a> {
    /// Who asks.
    pub identity: &'a Arc<Identity>,
    /// Through which client.
    pub client: ClientKey,
    /// How to wake this request should it have to wait; none: it is refused instead of waiting.
    pub waiter: Option<&'a Waiter>,
    /// The time.
    pub now: wire::Now,
    /// Over which connection; none: to whoever asks it is all the same.
    pub origin: Option<Origin>,
}

impl Caller<'_> {
    /// When it is asked for, and over which connection.
    #[must_use]
    pub fn cause(&self) -> Cause {
        Cause { now: self.now, origin: self.origin }
    }
}
