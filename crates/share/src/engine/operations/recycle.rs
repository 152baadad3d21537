//! The recycle folder for callers: its numbers, its upkeep, and its room when the disk is full.
//! `services/recycle` moves removed files into it.

use volume::NodeId;
use wire::Now;

use crate::caching::grants::Requester;
use crate::engine::Share;
use crate::engine::parts::recycle_bin::RecycleSummary;
use crate::{Cause, Open, Refusal};

/// How often a request makes room.
const MOST_ATTEMPTS: usize = 8;

impl Share {
    /// The recycle folder in numbers; none if the share keeps no removed files.
    pub fn recycle_summary(&self) -> Option<RecycleSummary> {
        self.settings().recycle.is_some().then(|| self.recycle_bin().summary())
    }

    /// Goes on with the search for files in the recycle folder that are to be removed for good, for at most
    /// `most` entries. The upkeep of a share calls it periodically.
    pub fn purge_recycled(&self, now: Now, most: usize) {
        let Some(rules) = self.config().recycle.clone() else { return };
        let mut told = Vec::new();
        // A request that makes room goes on with it itself.
        if let Some(_turn) = self.recycle_bin().try_turn() {
            self.search_recycled(&rules, now, most, &mut told);
        }
        self.report_names(&told, &Requester::NOBODY, now.into());
    }

    /// Runs an action on a file that takes room of the disk and may be done in part. If there is too little
    /// for the `needed` bytes, the oldest recycled files are removed for good, and the action runs again.
    ///
    /// # Errors
    /// As `act`.
    pub(crate) fn with_recycle_room<T>(
        &self,
        open: &Open,
        needed: impl Fn() -> u64,
        cause: Cause,
        act: impl Fn() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut done = act();
        for attempt in 0..MOST_ATTEMPTS {
            if !matches!(done, Err(Refusal::NoSpace))
                || !self.make_recycle_room(open.file.id, needed(), attempt, cause)
            {
                break;
            }
            done = act();
        }
        done
    }

    /// Makes room for a request that needs `needed` bytes and has met a full disk, or the size of the share,
    /// at its attempt number `attempt` from 0. `on` is an object on the same file system. Returns whether the
    /// request is to be tried again.
    #[cold]
    pub(crate) fn make_recycle_room(&self, on: NodeId, needed: u64, attempt: usize, cause: Cause) -> bool {
        // The recycle folder takes no room of a file system that is mounted below.
        if attempt >= MOST_ATTEMPTS || on.device != self.root().id.device {
            return false;
        }
        let mut told = Vec::new();
        let is_made = self.purge_for_room(needed, attempt, cause.now, &mut told);
        self.report_names(&told, &Requester::NOBODY, cause);
        is_made
    }
}
