//! A request under way.

use smb_wire::Header;
use wire::Now;

use super::course::Course;
use crate::state::brake::Queued;
use crate::state::open::changing::{Looking, Outstanding};

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
    pub(crate) fn new(header: &Header, signed: bool, len: usize, now: Now) -> UnderWay {
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
    pub(crate) fn told(&self) -> Option<u64> {
        self.async_id.filter(|_| self.announced)
    }
}
