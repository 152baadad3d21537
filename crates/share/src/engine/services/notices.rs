//! Sends the effects that were collected under a lock: notices to holders, and wakes to requests that wait.

use crate::Ticket;
use crate::engine::Share;
use crate::engine::services::detached::AbsentHolder;
use crate::engine::values::effects::Effects;

impl Share {
    /// Sends the effects that were collected under a lock. The caller holds none.
    pub(crate) fn settle(&self, effects: Effects) {
        let Effects { notices, mut wakes, cause } = effects;
        // The state with which others go on must not be older than the state that a crash would restore.
        if notices.is_empty() && wakes.is_empty() {
            self.write_urgent()
        } else {
            self.write_changes()
        }
        for mut notice in notices {
            notice.origin = cause.origin;
            match self.absent(&notice) {
                AbsentHolder::No => {}
                AbsentHolder::GivesWay(opens) => {
                    self.close_yielding(opens, cause);
                    continue;
                }
                AbsentHolder::Stays => continue,
            }
            let holder = self.waits().clients().holder(notice.client);
            let reports_changes = holder.is_some_and(|holder| holder.on_break(&notice));
            if !reports_changes {
                wakes.extend(self.revoke(&notice));
            }
        }
        for ticket in wakes {
            if let Some((waiter, _)) = self.waits().take(ticket) {
                waiter.wake.wake(waiter.token);
            }
        }
    }

    /// Wakes the requests that wait under these tickets. The caller holds no lock.
    pub(crate) fn wake_all(&self, wakes: Vec<Ticket>) {
        if !wakes.is_empty() {
            self.settle(Effects { wakes, ..Effects::default() });
        }
    }
}
