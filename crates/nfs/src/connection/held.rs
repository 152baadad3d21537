//! COMPOUNDs that wait for the limits of a share or for the reply of another client. They stay with their
//! connection until the wait is over.

use volume::Patience;
use wire::{Now, Output};

use super::Connection;
use crate::compound::Flow;
use crate::compound::under_way::Held;
use crate::connection::event::Event;

impl Connection {
    /// Suspends a COMPOUND.
    pub(super) fn hold(&mut self, mut held: Held, now: Now, out: &mut Output<Event>) {
        let Some(run) = held.under_way.run() else { return };
        let Some(token) = run.pacing.token() else { return };
        // Its wake-up may have come before it was in the table.
        let may_go_on = run.may_go_on();
        self.held.insert(token, held);
        if may_go_on {
            self.let_go(token, now, out);
        }
    }

    /// Resumes a suspended COMPOUND, if its wait is over.
    pub(super) fn let_go(&mut self, token: u64, now: Now, out: &mut Output<Event>) {
        let Some(mut held) = self.held.remove(&token) else { return };
        let Some(run) = held.under_way.run() else { return };
        if !run.may_go_on() {
            self.held.insert(token, held);
            return;
        }
        run.go_on();
        (run.now, run.patience) = (now, Patience::Cached);
        match held.go() {
            None => {}
            Some(Flow::Done) => self.finish(held.under_way, out),
            Some(Flow::Hold { position, left }) => self.hold(held.cut(position, left), now, out),
            Some(Flow::Work { position, left }) => {
                let Held { under_way, rest, left } = held.cut(position, left);
                self.suspend(under_way, &rest, left, out);
            }
        }
    }

    /// Ends all suspended COMPOUNDs, because the connection is gone. One that has run and only lacks its
    /// reply ends in its slot, where a retry finds it. One that has not begun can be sent again.
    pub(super) fn end_held(&mut self, now: Now) {
        for (_, mut held) in std::mem::take(&mut self.held) {
            let Some(run) = held.under_way.run() else { continue };
            // A retry gets the reply from the slot.
            run.promised.keep();
            if !run.end_waiting() {
                continue;
            }
            run.now = now;
            if held.go() == Some(Flow::Done) {
                if let Some(run) = held.under_way.run() {
                    run.promised.keep();
                }
                let _nobody_hears_it = held.under_way.finish();
            }
        }
    }
}
