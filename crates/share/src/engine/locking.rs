//! Byte ranges of an open.

use std::sync::Arc;

use super::Share;
use super::waits::Effects;
use crate::caching::grants::Need;
use crate::{Caller, LockOwner, LockRule, Open, RangeRequest, Refusal, Step};

impl Share {
    /// Takes all of `ranges` or none. Waits only when the caller can, and for one range alone.
    // MS-FSA 2.1.5.8
    pub fn lock(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
    ) -> Step<()> {
        if let Err(why) = check_lockable(open) {
            return Step::Refused(why);
        }
        match self.require_for(caller, open, Need::Change) {
            Step::Done(()) => {}
            other => return other,
        }
        let mut state = open.file.state.lock();
        if open.is_closed() {
            return Step::Refused(Refusal::Gone);
        }
        let stream = state.stream(&open.stream);
        let taken = stream.ranges.lock(owner, open.id, rule, ranges);
        stream.publish();
        match (taken, caller.waiter, ranges) {
            (Ok(()), ..) => Step::Done(()),
            (Err(Refusal::RangeNotGranted), Some(waiter), [range]) => {
                let ticket = self.waits.add(waiter, &open.file);
                stream.ranges.wait(ticket, owner, open.id, rule, *range);
                Step::Wait(ticket)
            }
            (Err(why), ..) => Step::Refused(why),
        }
    }

    /// Releases ranges in order and stops at the first that is not held.
    ///
    /// # Errors
    /// [`Refusal::RangeNotHeld`], [`Refusal::BadRange`].
    // MS-FSA 2.1.5.9
    pub fn unlock(
        &self,
        open: &Arc<Open>,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
    ) -> Result<(), Refusal> {
        check_lockable(open)?;
        let mut state = open.file.state.lock();
        let stream = state.stream(&open.stream);
        let released = stream.ranges.unlock(owner, rule, ranges);
        let wakes = stream.ranges.ready();
        stream.publish();
        drop(state);
        self.settle(Effects { notices: Vec::new(), wakes });
        released
    }
}

fn check_lockable(open: &Open) -> Result<(), Refusal> {
    if open.is_closed() {
        return Err(Refusal::Gone);
    }
    if open.is_directory() { Err(Refusal::Invalid) } else { Ok(()) }
}
