//! Times that an open holds fixed: actions through the open do not change them.

use volume::{Time, Times};
use wire::Now;

use crate::engine::Share;
use crate::engine::values::record::{CHANGE_TIME_HOLDS_NS, Record, StoredTime};
use crate::open::FixedTimes;
use crate::{Open, Refusal};

/// Times before an action through an open that holds them fixed.
struct TimesBefore {
    times: Times,
    changed: Option<Time>,
}

impl Share {
    /// Runs an action that changes data, and keeps the times that the open holds fixed.
    ///
    /// # Errors
    /// The errors of `act`; the volume's error.
    pub(crate) fn keeping_times<T>(
        &self,
        open: &Open,
        now: Now,
        act: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let before = self.own_times_of(open)?;
        let done = act()?;
        self.restore_times(open, before, now)?;
        Ok(done)
    }

    /// The times that an open holds fixed, before an action through it moves them.
    ///
    /// # Errors
    /// The volume's error.
    fn own_times_of(&self, open: &Open) -> Result<Option<TimesBefore>, Refusal> {
        let own = open.fixed_times();
        if own.is_empty() {
            return Ok(None);
        }
        let stat = open.node.stat()?;
        let changed =
            if own.contains(FixedTimes::CHANGED) { Some(self.record_of(open)?.changed(&stat)) } else { None };
        let times = Times {
            accessed: own.contains(FixedTimes::ACCESSED).then_some(stat.accessed),
            modified: own.contains(FixedTimes::MODIFIED).then_some(stat.modified),
        };
        Ok(Some(TimesBefore { times, changed }))
    }

    /// Puts the times back after the action.
    ///
    /// # Errors
    /// The volume's error.
    // MS-FSA 2.1.4.17
    fn restore_times(&self, open: &Open, before: Option<TimesBefore>, now: Now) -> Result<(), Refusal> {
        let Some(TimesBefore { times, changed }) = before else {
            return Ok(());
        };
        if times != Times::default() {
            open.node.set_times(times)?;
        }
        if let Some(changed) = changed {
            let _beside = open.file.beside.lock();
            let record = self.record_of(open)?;
            self.store_record(open, Record { changed: Some(change_time(changed, now)), ..record })?;
        }
        Ok(())
    }
}

/// A change time that holds until another action changes the file.
pub(crate) fn change_time(set: Time, now: Now) -> StoredTime {
    StoredTime { set, host: Time::from_wall_ns(now.wall_ns.saturating_add(CHANGE_TIME_HOLDS_NS)) }
}
