//! Clients whose time is over. They keep their state until it conflicts with a request. Then the callback
//! that keeps their time is asked to end them.

use std::sync::{Arc, Weak};

use volume::NodeId;
use wire::Now;

use crate::engine::Share;
use crate::{CallResult, Caller, Cause, ClientExpiry, ClientKey, Refusal};

impl Share {
    /// Registers a callback that is asked from now on to end clients whose time is over.
    pub fn register_expiry(&self, keeper: Weak<dyn ClientExpiry>) {
        self.persistence().keepers().enter(keeper);
    }

    /// Ends those of these clients whose time is over. Returns true if one of them had any state. The caller
    /// holds no lock.
    pub fn end_expired(&self, clients: &[ClientKey], now: Now) -> bool {
        if clients.is_empty() {
            return false;
        }
        // Each callback is called, not only the first that ended a client.
        let mut any = false;
        for keeper in self.time_keepers() {
            any |= keeper.end_expired(clients, now);
        }
        any
    }

    /// The callbacks that keep the time of clients.
    pub(crate) fn time_keepers(&self) -> Vec<Arc<dyn ClientExpiry>> {
        self.persistence().keepers().all()
    }

    /// Ends the clients whose time is over and that have any of these files open. Their other state (byte
    /// ranges, rights, marks) belongs to those opens.
    pub(crate) fn end_expired_at(&self, files: &[NodeId], client: Option<ClientKey>, cause: Cause) -> bool {
        let was_unclaimed = self.end_unclaimed_at(files, client, cause);
        if self.persistence().keepers().is_empty() {
            return was_unclaimed;
        }
        let mut clients = Vec::new();
        for file in files.iter().filter_map(|id| self.open_files().get(*id)) {
            file.add_clients(&mut clients);
        }
        clients.sort_unstable();
        clients.dedup();
        self.end_expired(&clients, cause.now) | was_unclaimed
    }

    /// Runs `ask`, which may conflict with state of a client on a file whose time is over. If it does, ends
    /// that client and runs it once more.
    pub(crate) fn retry_past_expired_at<T>(
        &self,
        file: NodeId,
        caller: &Caller<'_>,
        ask: impl Fn() -> CallResult<T>,
    ) -> CallResult<T> {
        self.retry_past_expired(caller, || vec![file], is_conflict, ask)
    }

    /// As [`Share::retry_past_expired_at`], for several files, which are known after `ask` has run.
    pub(crate) fn retry_past_expired<T>(
        &self,
        caller: &Caller<'_>,
        files: impl Fn() -> Vec<NodeId>,
        is_in_the_way: impl Fn(&Refusal) -> bool,
        ask: impl Fn() -> CallResult<T>,
    ) -> CallResult<T> {
        let end = || self.end_expired_at(&files(), Some(caller.client), caller.cause());
        let step = ask();
        let again = match &step {
            CallResult::Done(_) => false,
            // Other clients may conflict too. A waiting request is woken when it is worthwhile.
            CallResult::Wait(ticket) => end() && self.waits().is_over(*ticket),
            CallResult::Refused(why) => is_in_the_way(why) && end(),
        };
        if again { ask() } else { step }
    }
}

/// Whether an open, denial, mark or byte range of another client conflicts.
pub(crate) fn is_conflict(why: &Refusal) -> bool {
    use Refusal::{DeletePending, OwnerAway, RangeConflict, RangeNotGranted, SharingConflict};
    matches!(why, SharingConflict | DeletePending | OwnerAway | RangeConflict | RangeNotGranted)
}
