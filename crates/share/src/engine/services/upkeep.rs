//! What time brings, and what is done now and then.

use wire::Now;

use crate::engine::Share;
use crate::engine::values::effects::Effects;

impl Share {
    /// When [`Share::tick`] has something to do because of time, on the monotonic clock.
    pub fn next_deadline(&self) -> Option<u64> {
        self.waits().next_time().into_iter().chain(self.lasting().detached().next_end()).min()
    }

    /// Does what time brings: closes detached opens whose time is over, takes away rights whose holders
    /// did not answer, wakes who waits for a program of the host, and takes in what happened there.
    pub fn tick(&self, now: Now) {
        self.end_detached(now);
        self.settle(Effects {
            notices: Vec::new(),
            wakes: self.waits().take_due(now.mono_ns),
            cause: now.into(),
        });
        while let Some(file) = self.waits().take_over(now.mono_ns) {
            if let Some(file) = file {
                self.expire(&file, now.mono_ns);
            }
        }
        self.before_batch(now);
    }

    /// Takes in what happened on the host since the last call, and lets go of what nobody asks for any more. For who looks
    /// after a share now and then.
    pub fn before_batch(&self, now: Now) {
        self.take_in(now.into());
        self.cache().drop_idle();
        self.directories().drop_idle();
        self.end_untold(now);
        self.volume().release_unused();
        self.relieve_if_short(now);
    }
}
