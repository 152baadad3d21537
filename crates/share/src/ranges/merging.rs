//! Ranges that merge and split: the ranges of one owner are a set of bytes, each shared or exclusive.

use super::index::Index;
use super::table::LockedRange;
use super::{LockOwner, LockRule, RangeKind, RangeRequest};

/// Adds a range without conflicts. It replaces the owner's ranges of these bytes and joins adjacent ones of
/// the same kind.
pub(super) fn lock(held: &mut Index, mut new: LockedRange) {
    if new.range.len == 0 {
        return;
    }
    unlock(held, new.owner, &new.range);
    // One byte more on either side finds the adjacent ranges.
    let (start, end) = (u128::from(new.range.start), new.range.end());
    let around = RangeRequest {
        start: new.range.start.saturating_sub(1),
        len: new.range.len.saturating_add(2),
        kind: new.range.kind,
    };
    let joined: Vec<(u64, LockedRange)> = held
        .overlapping(new.range.kind, around)
        .filter(|(_, one)| is_own(one, new.owner))
        .filter(|(_, one)| one.range.end() == start || end == u128::from(one.range.start))
        .map(|(age, one)| (age, *one))
        .collect();
    for (age, one) in joined {
        held.remove(age);
        new.range.start = new.range.start.min(one.range.start);
        new.range.len = new.range.len.saturating_add(one.range.len);
    }
    held.add(new);
}

/// The range of which a part would be left on either side of these bytes.
pub(super) fn split<'a>(held: &'a Index, owner: LockOwner, range: &RangeRequest) -> Option<&'a LockedRange> {
    let within = |one: &LockedRange| one.range.start < range.start && one.range.end() > range.end();
    let kinds = [RangeKind::Exclusive, RangeKind::Shared].into_iter();
    let mut all = kinds.flat_map(|kind| held.overlapping(kind, *range)).map(|(_, one)| one);
    all.find(|one| is_own(one, owner) && within(one))
}

/// Releases bytes. It is no error if some were not held.
pub(super) fn unlock(held: &mut Index, owner: LockOwner, range: &RangeRequest) {
    for kind in [RangeKind::Exclusive, RangeKind::Shared] {
        let cut: Vec<(u64, LockedRange)> = held
            .overlapping(kind, *range)
            .filter(|(_, one)| is_own(one, owner))
            .map(|(age, one)| (age, *one))
            .collect();
        for (age, one) in cut {
            held.remove(age);
            let (start, end) = (u128::from(one.range.start), one.range.end());
            let pieces = [(start, end.min(u128::from(range.start))), (start.max(range.end()), end)];
            for (from, to) in pieces.into_iter().filter(|(from, to)| from < to) {
                // Both lie inside `one`, so they fit 64 bits.
                if let (Ok(start), Ok(len)) = (u64::try_from(from), u64::try_from(to - from)) {
                    held.add(LockedRange { range: RangeRequest { start, len, kind }, ..one });
                }
            }
        }
    }
}

fn is_own(held: &LockedRange, owner: LockOwner) -> bool {
    held.owner == owner && held.rule == LockRule::Merging
}
