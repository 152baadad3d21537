//! COMPOUNDs that are held by the limits of a share, or wait for what another client is asked: they stay with their
//! connection until their time has come.

use volume::Patience;
use wire::{Now, Output};

use super::Connection;
use crate::compound::Flow;
use crate::compound::under_way::Held;
use crate::connection::event::Event;

impl Connection {
    /// Puts a held COMPOUND aside.
    pub(super) fn hold(&mut self, mut held: Held, now: Now, out: &mut Output<Event>) {
        let Some(run) = held.under_way.run() else { return };
        let Some(token) = run.pacing.token() else { return };
        // It may have been let go before it was there to be found.
        let may_go_on = run.may_go_on();
        self.held.insert(token, held);
        if may_go_on {
            self.let_go(token, now, out);
        }
    }

    /// The time of a held COMPOUND has come.
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

    /// The connection is gone. What was done and only not answered ends in its slot, where a retry finds it; what was
    /// not begun can be asked for again.
    pub(super) fn end_held(&mut self, now: Now) {
        for (_, mut held) in std::mem::take(&mut self.held) {
            let Some(run) = held.under_way.run() else { continue };
            // A retry is told of it, out of the slot.
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
