//! The requests of one frame under way, from the first byte to the last answer.
//!
//! [`Exchange`] owns the frame with the answers so far and what is left of the messages; [`UnderWay`] is the request that is
//! being answered. [`run`] is the loop. A request that is not answered at once is moved into the map of those that are
//! [`parked`], with its exchange, and is moved out of it when it goes on ([`parking`]): nothing of it is anywhere else.

pub(crate) mod announcing;
pub mod compound;
pub mod outcome;
pub(crate) mod parked;
pub(crate) mod parking;
mod rest;
mod run;

use smb_wire::Header;
use wire::Now;

pub use compound::Compound;
use rest::Rest;

use crate::brake::Queued;
use crate::changing::Looking;
use crate::counting::Course;
use crate::sequence::Outstanding;

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
    fn keep(self) -> Exchange<'static> {
        Exchange { compound: self.compound, rest: self.rest.keep(), request: self.request }
    }
}

/// A request under way, from when it is taken up until it is answered, whether it is put aside in between or not.
pub struct UnderWay {
    /// Its header.
    pub header: Header,
    /// Its number, if it has waited or is about to.
    pub async_id: Option<u64>,
    /// Whether it was looked at before: it has waited, or was held.
    pub resumed: bool,
    /// Whether it has waited and its client was told so.
    pub announced: bool,
    /// Whether it is signed with its channel's key; or, on a connection that does not carry its session, with the
    /// session's own. So is its answer then.
    pub signed: bool,
    /// What is known of it for limits and counts.
    pub course: Course,
    /// Where the header of its answer will stand.
    pub at: usize,
    /// Its place among the log-ons, if it has waited for its turn.
    pub(crate) turn: Option<Queued>,
    /// Counts among the requests on its Open while it is put aside; while work runs, the work does.
    pub(crate) outstanding: Option<Outstanding>,
    /// The Open that it needs when it is held, which no CLOSE behind it ends meanwhile.
    pub(crate) keeps: Option<Looking>,
}

impl UnderWay {
    /// One that has just come, of so many bytes.
    fn new(header: &Header, signed: bool, len: usize, now: Now) -> UnderWay {
        UnderWay {
            header: *header,
            async_id: None,
            resumed: false,
            announced: false,
            signed,
            course: Course::new(len, now),
            at: 0,
            turn: None,
            outstanding: None,
            keeps: None,
        }
    }

    /// The number under which its client was told STATUS_PENDING.
    fn told(&self) -> Option<u64> {
        self.async_id.filter(|_| self.announced)
    }
}
