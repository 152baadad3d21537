//! COMPOUNDs that wait for the limits of a share or for the reply of another client. They stay with their
//! connection until the wait is over.

use volume::Patience;
use wire::{Now, Output};

use super::Connection;
use crate::compound::CompoundProgress;
use crate::compound::active::SuspendedCompound;
use crate::connection::event::Event;

impl Connection {
    /// Suspends a COMPOUND.
    pub(super) fn suspend(&mut self, mut suspended: SuspendedCompound, now: Now, out: &mut Output<Event>) {
        let Some(run) = suspended.active.run() else { return };
        let Some(token) = run.throttle.token() else { return };
        // Its wake-up may have come before it was in the table.
        let may_resume = run.may_resume();
        self.suspended.insert(token, suspended);
        if may_resume {
            self.resume(token, now, out);
        }
    }

    /// Resumes a suspended COMPOUND, if its wait is over.
    pub(super) fn resume(&mut self, token: u64, now: Now, out: &mut Output<Event>) {
        let Some(mut suspended) = self.suspended.remove(&token) else { return };
        let Some(run) = suspended.active.run() else { return };
        if !run.may_resume() {
            self.suspended.insert(token, suspended);
            return;
        }
        run.end_wait();
        (run.now, run.patience) = (now, Patience::Cached);
        match suspended.dispatch() {
            None => {}
            Some(CompoundProgress::Done) => self.finish(suspended.active, out),
            Some(CompoundProgress::Hold { position, left }) => {
                self.suspend(suspended.advance(position, left), now, out)
            }
            Some(CompoundProgress::Work { position, left }) => {
                let SuspendedCompound { active, rest, left } = suspended.advance(position, left);
                self.run_on_pool(active, &rest, left, out);
            }
        }
    }

    /// Ends all suspended COMPOUNDs, because the connection is gone. One that has run and only lacks its
    /// reply ends in its slot, where a retry finds it. One that has not begun can be sent again.
    pub(super) fn end_suspended(&mut self, now: Now) {
        for (_, mut suspended) in std::mem::take(&mut self.suspended) {
            let Some(run) = suspended.active.run() else { continue };
            // A retry gets the reply from the slot.
            run.opens_to_record.record(&run.server);
            if !run.end_waiting() {
                continue;
            }
            run.now = now;
            if suspended.dispatch() == Some(CompoundProgress::Done) {
                if let Some(run) = suspended.active.run() {
                    run.opens_to_record.record(&run.server);
                }
                let _nobody_hears_it = suspended.active.finish();
            }
        }
    }
}
