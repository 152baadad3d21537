//! The ranges that are held on one stream, found by overlap and by age.
//!
//! A stream may have [`MAX_RANGES`] of them, and each READ and WRITE is checked
//! against them. Shared and exclusive ranges have a tree each: a request for a shared range does not look at
//! other shared ones.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use iset::IntervalMap;

use super::table::{LockedRange, MAX_RANGES};
use super::{RangeKind, RangeRequest};
use crate::memory::{ClientMemory, MemoryAccount, RANGE_BYTES};

/// All ranges of a stream.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The memory that ranges are charged to; none: they are not.
    memory: Option<Arc<ClientMemory>>,
    by_age: BTreeMap<u64, LockedRange>,
    shared: IntervalMap<u128, u64>,
    exclusive: IntervalMap<u128, u64>,
    /// The age of the next one.
    next: u64,
}

impl Index {
    /// Charges for the ranges, those that are held and those to come.
    pub fn charge_to(&mut self, memory: &Arc<ClientMemory>) {
        if self.memory.is_none() {
            self.by_age.values().for_each(|held| memory.add(held.account, RANGE_BYTES));
            self.memory = Some(Arc::clone(memory));
        }
    }

    /// Whether an account may have one more.
    pub fn has_room(&self, account: MemoryAccount) -> bool {
        self.len() < MAX_RANGES
            && self.memory.as_ref().is_none_or(|memory| memory.has_room(account, RANGE_BYTES))
    }

    pub fn len(&self) -> usize {
        self.by_age.len()
    }

    /// All ranges, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &LockedRange> {
        self.by_age.values()
    }

    /// Whether a range begins before `end`.
    pub fn begins_before(&self, end: u64) -> bool {
        let first =
            |tree: &IntervalMap<u128, u64>| tree.smallest().is_some_and(|(at, _)| at.start < u128::from(end));
        first(&self.shared) || first(&self.exclusive)
    }

    /// Adds a range and returns its age.
    pub fn add(&mut self, held: LockedRange) -> u64 {
        let age = self.next;
        self.next += 1;
        self.tree(held.range.kind).force_insert(span(&held.range), age);
        if let Some(memory) = &self.memory {
            memory.add(held.account, RANGE_BYTES);
        }
        self.by_age.insert(age, held);
        age
    }

    /// Removes a range.
    pub fn remove(&mut self, age: u64) {
        if let Some(held) = self.by_age.remove(&age) {
            self.tree(held.range.kind).remove_where(span(&held.range), |one| *one == age);
            if let Some(memory) = &self.memory {
                memory.remove(held.account, RANGE_BYTES);
            }
        }
    }

    /// Removes the ranges that `goes` selects. Returns true if there was one.
    pub fn remove_where(&mut self, goes: impl Fn(&LockedRange) -> bool) -> bool {
        let ages: Vec<u64> = self.by_age.iter().filter(|(_, held)| goes(held)).map(|(age, _)| *age).collect();
        ages.iter().for_each(|age| self.remove(*age));
        !ages.is_empty()
    }

    /// The ranges of a kind that share a byte with the range, or touch it from inside as one without bytes
    /// does.
    pub fn overlapping(
        &self,
        kind: RangeKind,
        range: RangeRequest,
    ) -> impl Iterator<Item = (u64, &LockedRange)> {
        let tree = match kind {
            RangeKind::Shared => &self.shared,
            RangeKind::Exclusive => &self.exclusive,
        };
        let found = tree.values(span(&range)).filter_map(|age| Some((*age, self.by_age.get(age)?)));
        found.filter(move |(_, held)| held.range.overlaps(&range))
    }

    /// The ranges of a kind with exactly these bounds.
    pub fn with_bounds(
        &self,
        kind: RangeKind,
        range: &RangeRequest,
    ) -> impl Iterator<Item = (u64, &LockedRange)> {
        let tree = match kind {
            RangeKind::Shared => &self.shared,
            RangeKind::Exclusive => &self.exclusive,
        };
        let (start, len) = (range.start, range.len);
        let found = tree.values_at(span(range)).filter_map(|age| Some((*age, self.by_age.get(age)?)));
        found.filter(move |(_, held)| (held.range.start, held.range.len) == (start, len))
    }

    fn tree(&mut self, kind: RangeKind) -> &mut IntervalMap<u128, u64> {
        match kind {
            RangeKind::Shared => &mut self.shared,
            RangeKind::Exclusive => &mut self.exclusive,
        }
    }
}

impl Clone for Index {
    /// The copy is charged too.
    fn clone(&self) -> Index {
        let mut copy = Index {
            memory: None,
            by_age: self.by_age.clone(),
            shared: self.shared.clone(),
            exclusive: self.exclusive.clone(),
            next: self.next,
        };
        if let Some(memory) = &self.memory {
            copy.charge_to(memory);
        }
        copy
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            self.by_age.values().for_each(|held| memory.remove(held.account, RANGE_BYTES));
        }
    }
}

/// The interval of a range in a tree, which has no empty ones.
fn span(range: &RangeRequest) -> Range<u128> {
    let start = u128::from(range.start);
    start..range.end().max(start + 1)
}
