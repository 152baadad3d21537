//! Periodic work, and work that is due at a time.

use wire::Now;

use crate::engine::Share;
use crate::engine::values::effects::Effects;

impl Share {
    /// The next time at which [`Share::tick`] has work to do, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waits().next_time().into_iter().chain(self.persistence().detached().next_end()).min()
    }

    /// Does the work that is due. Closes detached opens whose time is over, revokes rights whose holders did
    /// not answer, wakes requests that wait for a program of the host, and takes in the host's events.
    pub fn tick(&self, now: Now) {
        self.end_detached(now);
        self.settle(Effects {
            notices: Vec::new(),
            wakes: self.waits().take_due(now.mono_ns),
            cause: now.into(),
        });
        while let Some(file) = self.waits().update_fixed_times(now.mono_ns) {
            if let Some(file) = file {
                self.expire(&file, now);
            }
        }
        self.maintain(now);
    }

    /// Takes in the host's events since the last call, and releases cached state that was not used lately.
    /// The upkeep of a share calls it periodically.
    pub fn maintain(&self, now: Now) {
        self.take_in(now.into());
        self.cache().drop_idle();
        self.directories().drop_idle();
        self.open_files().return_unused();
        self.end_unreported(now);
        self.volume().release_unused();
        self.relieve_if_short(now);
    }
}
