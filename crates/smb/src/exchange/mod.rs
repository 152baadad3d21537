//! The requests of one frame under way, from the first byte to the last answer.
//!
//! [`Exchange`] owns the frame with the answers so far and what is left of the messages; [`UnderWay`] is the request that is
//! being answered, and [`Request`] that request at its command, which ends with an [`Outcome`]. One that is not answered at
//! once is moved into the map of those that are parked, with its exchange, and is moved out of it when it goes on: nothing of
//! it is anywhere else.

pub mod compound;
pub(crate) mod course;
pub(crate) mod outcome;
pub(crate) mod parked;
mod request;
pub(crate) mod rest;
mod under_way;

pub use compound::Compound;
pub use outcome::{Answered, Aside, Handled, Outcome, Stop, Work};
pub use request::Request;
use rest::Rest;
pub use under_way::UnderWay;

/// The requests of one frame, and the answers to them.
pub(crate) struct Exchange<'m> {
    /// The answers so far. Its frame is away while work runs.
    pub compound: Compound,
    /// What is left of the frame, from the request under way on; while its answer is all that is awaited, from the next on.
    pub rest: Rest<'m>,
    /// The first one, if it was looked at before.
    pub request: Option<UnderWay>,
}

impl Exchange<'_> {
    /// The same with messages of its own, to be kept.
    pub fn keep(self) -> Exchange<'static> {
        Exchange { compound: self.compound, rest: self.rest.keep(), request: self.request }
    }
}
