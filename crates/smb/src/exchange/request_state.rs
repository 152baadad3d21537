//! The state of a request from its arrival to its reply.

use std::sync::Arc;

use parking_lot::Mutex;
use smb_wire::Header;
use volume::Name;
use wire::Now;

use super::transaction::TransactionState;
use crate::config::Homes;
use crate::connection::setup::LogOnJob;
use crate::state::open::pending::{Outstanding, ReadInProgress};
use crate::state::password_delay::QueuedAttempt;

/// A request from its arrival to its reply, including the time when it is put aside.
pub struct RequestState {
    /// Its header.
    pub header: Header,
    /// Its async id, if it has waited or may have to.
    pub async_id: Option<u64>,
    /// Whether it was tried before: it has waited or was delayed.
    pub resumed: bool,
    /// Whether its client got an interim response.
    pub announced: bool,
    /// Whether it is signed with its channel's key, or with the session's key if the connection does not
    /// carry its session. If so, its reply is signed too.
    pub signed: bool,
    /// Its state for limits and counts.
    pub transaction: TransactionState,
    /// The position of its reply's header.
    pub at: usize,
    /// Its place among the delayed log-ons, if it has waited there.
    pub(crate) queued_attempt: Option<QueuedAttempt>,
    /// The token of its log-on that is judged on the blocking pool.
    pub(crate) log_on_job: Option<LogOnJob>,
    /// The search for the home that its tree connect needs, on the blocking pool.
    pub(crate) home_job: Option<HomeJob>,
    /// Counts it as outstanding on its Open while it is put aside. While work runs, the work has this value.
    pub(crate) outstanding: Option<Outstanding>,
    /// The Open that a delayed request needs. It keeps a later CLOSE from ending the Open.
    pub(crate) keeps: Option<ReadInProgress>,
}

impl RequestState {
    /// A new request of `len` bytes.
    pub(crate) fn new(header: &Header, signed: bool, len: usize, now: Now) -> RequestState {
        RequestState {
            header: *header,
            async_id: None,
            resumed: false,
            announced: false,
            signed,
            transaction: TransactionState::new(len, now),
            at: 0,
            queued_attempt: None,
            log_on_job: None,
            home_job: None,
            outstanding: None,
            keeps: None,
        }
    }

    /// The async id that its client got with STATUS_PENDING.
    pub(crate) fn pending_id(&self) -> Option<u64> {
        self.async_id.filter(|_| self.announced)
    }
}

/// The search for a user's home on the blocking pool. Its request is tried again when the result is there.
pub(crate) struct HomeJob {
    /// The homes of the share.
    pub homes: Arc<dyn Homes>,
    /// The outcome, or the reason why the user has no home.
    pub result: Arc<Mutex<Option<Result<Name, String>>>>,
}
