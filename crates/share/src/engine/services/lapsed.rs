//! Clients whose time is over. They keep what they have as long as it is in nobody's way; whoever keeps their time is
//! asked to end them when it may be.

use std::sync::{Arc, Weak};

use volume::NodeId;
use wire::Now;

use crate::engine::Share;
use crate::{Caller, Cause, ClientKey, Lapsing, Refusal, Step};

impl Share {
    /// Asks this one from now on to end clients whose time is over.
    pub fn ask_for_lapsed(&self, keeper: Weak<dyn Lapsing>) {
        self.lasting().keepers().enter(keeper);
    }

    /// Has those of these clients ended whose time is over. True when one of them had something. Called with no lock held.
    pub fn end_lapsed(&self, clients: &[ClientKey], now: Now) -> bool {
        if clients.is_empty() {
            return false;
        }
        // Each is asked, not only the first that had one.
        let mut any = false;
        for keeper in self.time_keepers() {
            any |= keeper.end_lapsed(clients, now);
        }
        any
    }

    /// Those who keep the time of clients.
    pub(crate) fn time_keepers(&self) -> Vec<Arc<dyn Lapsing>> {
        self.lasting().keepers().all()
    }

    /// The same for whoever has any of these files open; what else they have is locked, held and marked through that.
    pub(crate) fn end_lapsed_at(&self, files: &[NodeId], client: Option<ClientKey>, cause: Cause) -> bool {
        let was_unclaimed = self.end_unclaimed_at(files, client, cause);
        if self.lasting().keepers().is_empty() {
            return was_unclaimed;
        }
        let mut clients = Vec::new();
        for file in files.iter().filter_map(|id| self.open_files().get(*id)) {
            file.add_clients(&mut clients);
        }
        clients.sort_unstable();
        clients.dedup();
        self.end_lapsed(&clients, cause.now) | was_unclaimed
    }

    /// Asks something that may meet what a client has of a file whose time is over; then once more.
    pub(crate) fn past_lapsed_at<T>(
        &self,
        file: NodeId,
        caller: &Caller<'_>,
        ask: impl Fn() -> Step<T>,
    ) -> Step<T> {
        self.past_lapsed(caller, || vec![file], is_held, ask)
    }

    /// The same for some files, which are known when it has been asked.
    pub(crate) fn past_lapsed<T>(
        &self,
        caller: &Caller<'_>,
        files: impl Fn() -> Vec<NodeId>,
        is_in_the_way: impl Fn(&Refusal) -> bool,
        ask: impl Fn() -> Step<T>,
    ) -> Step<T> {
        let end = || self.end_lapsed_at(&files(), Some(caller.client), caller.cause());
        let step = ask();
        let again = match &step {
            Step::Done(_) => false,
            // Others may be in the way, too; who waits is woken when it is worth while.
            Step::Wait(ticket) => end() && self.waits().is_over(*ticket),
            Step::Refused(why) => is_in_the_way(why) && end(),
        };
        if again { ask() } else { step }
    }
}

/// Whether somebody's open, denial, mark or byte range is in the way.
pub(crate) fn is_held(why: &Refusal) -> bool {
    use Refusal::{DeletePending, OwnerAway, RangeConflict, RangeNotGranted, SharingConflict};
    matches!(why, SharingConflict | DeletePending | OwnerAway | RangeConflict | RangeNotGranted)
}
