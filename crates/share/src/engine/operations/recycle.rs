//! The recycle folder for callers: its numbers, its upkeep, and its room when the disk is full.
//! `services/recycle` moves removed files into it.

use wire::Now;

use crate::caching::grants::Requester;
use crate::engine::Share;
use crate::engine::parts::recycle_bin::RecycleSummary;
use crate::{Cause, Refusal};

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
        self.search_recycled(&rules, now, most, &mut told);
        self.report_names(&told, &Requester::NOBODY, now.into());
    }

    /// Runs an action that takes room of the disk and may be done in part. If there is none, the oldest
    /// recycled files are removed for good, and the action runs again.
    ///
    /// # Errors
    /// As `act`.
    pub(crate) fn with_recycle_room<T>(
        &self,
        cause: Cause,
        act: impl Fn() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let mut done = act();
        for _ in 0..MOST_ATTEMPTS {
            if !matches!(done, Err(Refusal::NoSpace)) || !self.make_recycle_room(cause) {
                break;
            }
            done = act();
        }
        done
    }

    /// Makes room for a request that has met a full disk, or the size of the share. Returns whether any was
    /// made.
    #[cold]
    pub(crate) fn make_recycle_room(&self, cause: Cause) -> bool {
        let mut told = Vec::new();
        let is_made = self.purge_for_room(cause.now, &mut told);
        self.report_names(&told, &Requester::NOBODY, cause);
        is_made
    }
}
