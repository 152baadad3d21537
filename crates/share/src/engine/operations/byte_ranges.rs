//! Byte ranges of an open.

use std::sync::Arc;

use volume::security::Rights;

use crate::caching::grants::Need;
use crate::engine::Share;
use crate::memory::RANGE_BYTES;
use crate::persistence::record::JournalRecord;
use crate::{CallResult, Caller, LockOwner, LockRule, Open, RangeRequest, Refusal};

/// The note that is recorded with an open in one step with a change of its byte ranges; none: no note. The
/// function is called under the lock that orders these changes, after all changes of one request are made. It
/// is called only for an open that is recorded.
pub type RangeNote<'a> = &'a dyn Fn() -> Option<Vec<u8>>;

impl Share {
    /// Locks all of `ranges` or none. Waits only if the caller can, and only for a single range.
    pub fn lock(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
    ) -> CallResult<()> {
        self.lock_recorded(caller, open, owner, rule, ranges, &|| None)
    }

    /// As [`Share::lock`], with a note that is recorded with the open.
    // MS-FSA 2.1.5.8
    pub fn lock_recorded(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
        note: RangeNote<'_>,
    ) -> CallResult<()> {
        let given = open.stream.given();
        let step = self.retry_past_expired_at(open.file.id, caller, || {
            self.lock_now(caller, open, owner, rule, ranges, note)
        });
        if matches!(step, CallResult::Done(())) {
            self.catch_up(&open.file, &open.stream, &open.requester(), Need::Change, given, caller.cause());
        }
        step
    }

    fn lock_now(
        &self,
        caller: &Caller<'_>,
        open: &Arc<Open>,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
        note: RangeNote<'_>,
    ) -> CallResult<()> {
        if let Err(why) = check_has_ranges(open).and_then(|()| check_locker(open)) {
            return CallResult::Refused(why);
        }
        match self.require_for(caller, open, Need::Change) {
            CallResult::Done(()) => {}
            other => return other,
        }
        let account = open.account();
        let mut state = open.file.state.lock();
        if open.is_closed() {
            return CallResult::Refused(Refusal::Gone);
        }
        let stream = state.stream(&open.stream);
        stream.ranges.charge_to(self.client_memory());
        let more = ranges.iter().filter(|range| !stream.ranges.is_conflict(owner, rule, range)).count();
        if more > 0 && !self.client_memory().has_room(account, more * RANGE_BYTES) {
            drop(state);
            return CallResult::Refused(self.refuse_for_memory(caller, account));
        }
        let taken = stream.ranges.lock(owner, open.id, account, rule, ranges);
        stream.publish();
        if taken.is_ok() && open.is_persistent() {
            let taken = JournalRecord::Taken { id: open.id, owner, rule, ranges: ranges.to_vec() };
            self.note_ranges(open, vec![taken], note());
            drop(state);
            self.write_changes();
            return CallResult::Done(());
        }
        match (taken, caller.waiter, ranges) {
            (Ok(()), ..) => CallResult::Done(()),
            (Err(Refusal::RangeNotGranted), Some(waiter), [range]) => {
                let ticket = self.waits().add(waiter, &open.file);
                stream.ranges.wait(ticket, owner, open.id, rule, *range);
                CallResult::Wait(ticket)
            }
            (Err(why), ..) => CallResult::Refused(why),
        }
    }

    /// Releases ranges in order and stops at the first that is not held.
    ///
    /// # Errors
    /// [`Refusal::RangeNotHeld`], [`Refusal::BadRange`].
    pub fn unlock(
        &self,
        open: &Arc<Open>,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
    ) -> Result<(), Refusal> {
        self.unlock_noting(open, owner, rule, ranges, &|| None)
    }

    /// As [`Share::unlock`], with a note that is recorded with the open if all are released.
    ///
    /// # Errors
    /// As [`Share::unlock`].
    // MS-FSA 2.1.5.9
    pub fn unlock_noting(
        &self,
        open: &Arc<Open>,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
        note: RangeNote<'_>,
    ) -> Result<(), Refusal> {
        check_has_ranges(open)?;
        let mut state = open.file.state.lock();
        let stream = state.stream(&open.stream);
        let mut released = Ok(());
        let mut changes = Vec::new();
        for range in ranges {
            released = stream.ranges.unlock(owner, rule, std::slice::from_ref(range));
            if released.is_err() {
                break;
            }
            if open.is_persistent() {
                changes.push(JournalRecord::Released { id: open.id, owner, rule, range: *range });
            }
        }
        if !changes.is_empty() {
            self.note_ranges(open, changes, released.is_ok().then(note).flatten());
        }
        let wakes = stream.ranges.ready();
        stream.publish();
        drop(state);
        self.write_changes();
        self.wake_all(wakes);
        released
    }
}

impl Share {
    /// Wakes the requests that wait for this very range through the same open, so that they try again. Their
    /// wish may be met already.
    pub fn retry_waiters(&self, open: &Arc<Open>, start: u64, len: u64) {
        let mut state = open.file.state.lock();
        let wakes = state.stream(&open.stream).ranges.take_same(open.id, start, len);
        drop(state);
        self.wake_all(wakes);
    }

    /// A request that was woken for a range of an open's stream does not want it any more. Wakes the waiters
    /// that can have it now.
    pub fn wake_ready_waiters(&self, open: &Arc<Open>) {
        let mut state = open.file.state.lock();
        let wakes = state.stream(&open.stream).ranges.ready();
        drop(state);
        self.wake_all(wakes);
    }

    /// Of the ranges that were locked through an open, keeps only those of `changes`. They are locked (true)
    /// or released again in their order. All of them were held before.
    pub fn keep_ranges(&self, open: &Arc<Open>, changes: &[(LockOwner, RangeRequest, bool)]) {
        let account = open.account();
        let mut state = open.file.state.lock();
        if open.is_closed() {
            return;
        }
        let stream = state.stream(&open.stream);
        let before: Vec<_> = stream.ranges.held().filter(|h| h.open == open.id).copied().collect();
        stream.ranges.release_open(open.id);
        for (owner, range, is_taken) in changes {
            let ranges = std::slice::from_ref(range);
            // The conflicts at the time of locking do not count now.
            let _ = if *is_taken {
                stream.ranges.lock(*owner, open.id, account, LockRule::Merging, ranges)
            } else {
                stream.ranges.unlock(*owner, LockRule::Merging, ranges)
            };
        }
        let after: Vec<_> = stream.ranges.held().filter(|h| h.open == open.id).copied().collect();
        let mut wakes = Vec::new();
        if before != after {
            wakes = stream.ranges.ready();
            stream.publish();
            if open.is_persistent() {
                for held in before {
                    let (owner, rule, range) = (held.owner, held.rule, held.range);
                    self.note_change(JournalRecord::Released { id: open.id, owner, rule, range });
                }
                for held in after {
                    let (owner, rule, ranges) = (held.owner, held.rule, vec![held.range]);
                    self.note_change(JournalRecord::Taken { id: open.id, owner, rule, ranges });
                }
            }
        }
        drop(state);
        self.write_changes();
        self.wake_all(wakes);
    }
}

/// Whether the open has data to lock.
fn check_has_ranges(open: &Open) -> Result<(), Refusal> {
    if open.is_closed() {
        return Err(Refusal::Gone);
    }
    if open.is_directory() { Err(Refusal::Invalid) } else { Ok(()) }
}

/// Whether the open may do anything with the data. A range stops all other clients. If it needed no right,
/// anyone could use it to stop the file's owner.
fn check_locker(open: &Open) -> Result<(), Refusal> {
    let data = Rights::READ_DATA | Rights::WRITE_DATA | Rights::APPEND_DATA | Rights::EXECUTE;
    if open.granted.intersects(data) { Ok(()) } else { Err(Refusal::AccessDenied) }
}
