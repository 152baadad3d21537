//! The requests of one frame, from its first byte to its last reply.
//!
//! [`Exchange`] owns the frame, the replies so far and the remaining messages. [`RequestState`] is the
//! request that is being answered. [`Request`] is that request as its command gets it. It ends with a
//! [`CommandOutcome`]. A request that is not answered at once moves with its exchange into the connection's
//! map of such requests, and out of it when it goes on. No other place has a part of it.

pub mod compound;
pub(crate) mod outcome;
pub(crate) mod parked;
pub(crate) mod remaining;
mod request;
mod request_state;
pub(crate) mod transaction;

pub use compound::Compound;
pub use outcome::{CommandOutcome, Handled, ParkReason, PoolWork, ReplyContent, Stop};
use remaining::RemainingMessages;
pub use request::Request;
pub(crate) use request_state::HomeJob;
pub use request_state::RequestState;

/// The requests of one frame, and the replies to them.
pub(crate) struct Exchange<'m> {
    /// The replies so far. Their frame is elsewhere while work runs.
    pub compound: Compound,
    /// The remaining messages, from the current request on. If only the reply of the current request is
    /// awaited, they start with the next one.
    pub remaining: RemainingMessages<'m>,
    /// The first request, if it is resumed.
    pub request: Option<RequestState>,
}

impl Exchange<'_> {
    /// The same exchange with its own copy of the messages, to be kept.
    pub fn keep(self) -> Exchange<'static> {
        Exchange { compound: self.compound, remaining: self.remaining.keep(), request: self.request }
    }
}
