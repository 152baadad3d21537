//! All byte ranges of one stream: their owners, conflicts, and waiting requests.

use std::collections::VecDeque;
use std::sync::Arc;

use super::index::Index;
use super::{LockOwner, LockRule, RangeKind, RangeRequest, merging};
use crate::memory::MemoryAccount;
use crate::{ClientMemory, Refusal, Ticket};

/// Most ranges that one stream has; more are refused.
pub(crate) const MAX_RANGES: usize = 65_536;

/// A range that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockedRange {
    /// The owner.
    pub owner: LockOwner,
    /// The open through which it was taken. It is released with that open.
    pub open: u64,
    /// The account for it.
    pub account: MemoryAccount,
    /// The rule under which it was taken.
    pub rule: LockRule,
    /// The range and its kind.
    pub range: RangeRequest,
}

/// A request that waits for a range.
#[derive(Debug, Clone, Copy)]
struct WaitingRange {
    ticket: Ticket,
    owner: LockOwner,
    open: u64,
    rule: LockRule,
    range: RangeRequest,
}

/// The purpose of an access to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// To read or write data.
    Data,
    /// To hold the range.
    Hold,
}

/// The ranges of one stream.
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    held: Index,
    queue: VecDeque<WaitingRange>,
}

impl Ranges {
    /// Charges for the memory that ranges take.
    pub fn charge_to(&mut self, memory: &Arc<ClientMemory>) {
        self.held.charge_to(memory);
    }

    /// Whether no range is held.
    pub fn is_empty(&self) -> bool {
        self.held.len() == 0
    }

    /// Whether a range is held that begins before `end`.
    pub fn begins_before(&self, end: u64) -> bool {
        self.held.begins_before(end)
    }

    /// All ranges, oldest first.
    pub fn held(&self) -> impl Iterator<Item = &LockedRange> {
        self.held.iter()
    }

    /// Whether another owner's range conflicts with this access.
    pub fn conflicts(&self, range: &RangeRequest, owner: LockOwner, rule: LockRule, intent: Intent) -> bool {
        self.conflicting(range, owner, rule, intent).next().is_some()
    }

    /// Whether another owner's range conflicts with reading or writing there. With `ignores_merging`, ranges
    /// that merge do not count.
    pub fn hinders(&self, range: &RangeRequest, owner: LockOwner, ignores_merging: bool) -> bool {
        let mut conflicting = self.conflicting(range, owner, LockRule::Exact, Intent::Data);
        conflicting.any(|held| !ignores_merging || held.rule == LockRule::Exact)
    }

    /// A range that conflicts with holding this one.
    pub fn conflict(&self, range: &RangeRequest, owner: LockOwner, rule: LockRule) -> Option<&LockedRange> {
        self.conflicting(range, owner, rule, Intent::Hold).next()
    }

    /// The ranges that conflict with this access.
    fn conflicting(
        &self,
        range: &RangeRequest,
        owner: LockOwner,
        rule: LockRule,
        intent: Intent,
    ) -> impl Iterator<Item = &LockedRange> {
        let wanted = *range;
        // A shared range conflicts with no request for a shared one.
        let shared = (wanted.kind == RangeKind::Exclusive).then_some(RangeKind::Shared);
        std::iter::once(RangeKind::Exclusive)
            .chain(shared)
            .flat_map(move |kind| self.held.overlapping(kind, wanted))
            .map(|(_, held)| held)
            .filter(move |held| conflicts_with(held, &wanted, owner, rule, intent))
    }

    /// Whether an owner already holds exactly this range, so that taking it again takes nothing.
    pub fn is_conflict(&self, owner: LockOwner, rule: LockRule, range: &RangeRequest) -> bool {
        let mut all = self.held.with_bounds(range.kind, range);
        rule == LockRule::Merging && all.any(|(_, held)| held.owner == owner && held.rule == rule)
    }

    /// Takes all of `wanted` or nothing. The ranges of one call count against each other.
    ///
    /// # Errors
    /// [`Refusal::BadRange`], [`Refusal::RangeNotGranted`], [`Refusal::Exhausted`].
    // MS-FSA 2.1.5.8
    pub fn lock(
        &mut self,
        owner: LockOwner,
        open: u64,
        account: MemoryAccount,
        rule: LockRule,
        wanted: &[RangeRequest],
    ) -> Result<(), Refusal> {
        if wanted.iter().any(|range| !range.is_valid()) {
            return Err(Refusal::BadRange);
        }
        if self.held.len() + wanted.len() > MAX_RANGES {
            return Err(Refusal::Exhausted);
        }
        let before = (rule == LockRule::Merging && wanted.len() > 1).then(|| self.held.clone());
        let mut taken = Vec::new();
        for range in wanted {
            if self.conflicts(range, owner, rule, Intent::Hold) {
                match before {
                    Some(before) => self.held = before,
                    None => taken.into_iter().for_each(|age| self.held.remove(age)),
                }
                return Err(Refusal::RangeNotGranted);
            }
            let new = LockedRange { owner, open, account, rule, range: *range };
            match rule {
                LockRule::Exact => taken.push(self.held.add(new)),
                LockRule::Merging => merging::lock(&mut self.held, new),
            }
        }
        Ok(())
    }

    /// Restores ranges that an open held before a restart, and charges `account` for them.
    pub fn restore<'a>(
        &mut self,
        memory: &Arc<ClientMemory>,
        account: MemoryAccount,
        held: impl Iterator<Item = &'a LockedRange>,
    ) {
        self.charge_to(memory);
        for held in held {
            self.held.add(LockedRange { account, ..*held });
        }
    }

    /// Releases ranges in order and stops at the first that is not held.
    ///
    /// # Errors
    /// [`Refusal::BadRange`], [`Refusal::RangeNotHeld`], [`Refusal::Exhausted`] if it would leave two ranges
    /// of one and there is no room for that. Ranges released before stay released.
    // MS-FSA 2.1.5.9
    pub fn unlock(
        &mut self,
        owner: LockOwner,
        rule: LockRule,
        ranges: &[RangeRequest],
    ) -> Result<(), Refusal> {
        for range in ranges {
            if !range.is_valid() {
                return Err(Refusal::BadRange);
            }
            match rule {
                LockRule::Merging => self.unlock_merging(owner, range)?,
                LockRule::Exact => self.unlock_exact(owner, range)?,
            }
        }
        Ok(())
    }

    /// A range that is left on both sides of these bytes becomes two, for which there must be room.
    fn unlock_merging(&mut self, owner: LockOwner, range: &RangeRequest) -> Result<(), Refusal> {
        let split = merging::split(&self.held, owner, range);
        if split.is_some_and(|one| !self.held.has_room(one.account)) {
            return Err(Refusal::Exhausted);
        }
        merging::unlock(&mut self.held, owner, range);
        Ok(())
    }

    /// An exclusive range is released before a shared one with the same bounds; of shared ones the newest.
    fn unlock_exact(&mut self, owner: LockOwner, range: &RangeRequest) -> Result<(), Refusal> {
        let own = |kind| {
            let all = self.held.with_bounds(kind, range);
            all.filter(|(_, held)| held.owner == owner && held.rule == LockRule::Exact).map(|(age, _)| age)
        };
        let found = own(RangeKind::Exclusive).min().or_else(|| own(RangeKind::Shared).max());
        self.held.remove(found.ok_or(Refusal::RangeNotHeld)?);
        Ok(())
    }

    /// Releases all ranges that were taken through an open. Returns true if there was one.
    pub fn release_open(&mut self, open: u64) -> bool {
        self.held.remove_where(|held| held.open == open)
    }

    /// Takes out the requests that wait on behalf of an open.
    pub fn drain_open(&mut self, open: u64) -> Vec<Ticket> {
        self.take_out(|queued| queued.open == open)
    }

    /// Takes out the requests that wait for this very range on behalf of an open.
    pub fn take_same(&mut self, open: u64, start: u64, len: u64) -> Vec<Ticket> {
        self.take_out(|queued| queued.open == open && (queued.range.start, queued.range.len) == (start, len))
    }

    fn take_out(&mut self, which: impl Fn(&WaitingRange) -> bool) -> Vec<Ticket> {
        let mut taken = Vec::new();
        self.queue.retain(|queued| {
            let goes = which(queued);
            if goes {
                taken.push(queued.ticket);
            }
            !goes
        });
        taken
    }

    /// Puts a request at the end of the queue.
    pub fn wait(&mut self, ticket: Ticket, owner: LockOwner, open: u64, rule: LockRule, range: RangeRequest) {
        self.queue.push_back(WaitingRange { ticket, owner, open, rule, range });
    }

    /// Takes a request out of the queue. Returns true if it was there.
    pub fn forget(&mut self, ticket: Ticket) -> bool {
        let before = self.queue.len();
        self.queue.retain(|queued| queued.ticket != ticket);
        before != self.queue.len()
    }

    /// Takes out, oldest first, the requests that can be granted now, each on top of those before it.
    pub fn ready(&mut self) -> Vec<Ticket> {
        let mut ready = Vec::new();
        let mut promised = Ranges::default();
        let mut queue = std::mem::take(&mut self.queue);
        queue.retain(|queued| {
            let WaitingRange { owner, rule, ref range, .. } = *queued;
            let fits = !self.conflicts(range, owner, rule, Intent::Hold)
                && promised.lock(owner, 0, MemoryAccount::NOBODY, rule, std::slice::from_ref(range)).is_ok();
            if fits {
                ready.push(queued.ticket);
            }
            !fits
        });
        self.queue = queue;
        ready
    }
}

/// Whether a held range conflicts with this access.
// MS-FSA 2.1.4.10
fn conflicts_with(
    held: &LockedRange,
    range: &RangeRequest,
    owner: LockOwner,
    rule: LockRule,
    intent: Intent,
) -> bool {
    if !held.range.overlaps(range) {
        return false;
    }
    let is_own = held.owner == owner;
    if is_own && (held.rule == LockRule::Merging || rule == LockRule::Merging) {
        return false;
    }
    match (held.range.kind, range.kind) {
        (RangeKind::Exclusive, wanted) => {
            !is_own || (wanted == RangeKind::Exclusive && intent == Intent::Hold)
        }
        (RangeKind::Shared, wanted) => wanted == RangeKind::Exclusive,
    }
}

#[cfg(test)]
mod tests;
