//! Ranges that merge and split: what one owner holds is a set of bytes, each shared or exclusive.

use super::table::Held;
use super::{LockOwner, LockRule, RangeRequest};

/// Adds a range that conflicts with nobody: it replaces what the owner held of these bytes and joins
/// what touches it and is of the same kind.
pub(super) fn lock(held: &mut Vec<Held>, mut new: Held) {
    if new.range.len == 0 {
        return;
    }
    cut(held, new.owner, &new.range);
    held.retain(|one| {
        let joins = is_own(one, new.owner)
            && one.range.kind == new.range.kind
            && (one.range.end() == u128::from(new.range.start)
                || new.range.end() == u128::from(one.range.start));
        if joins {
            new.range.start = new.range.start.min(one.range.start);
            new.range.len = new.range.len.saturating_add(one.range.len);
        }
        !joins
    });
    held.push(new);
}

/// Gives bytes back; that some were not held is no error.
pub(super) fn unlock(held: &mut Vec<Held>, owner: LockOwner, range: &RangeRequest) {
    cut(held, owner, range);
}

fn is_own(held: &Held, owner: LockOwner) -> bool {
    held.owner == owner && held.rule == LockRule::Merging
}

/// Takes `range` out of everything `owner` holds.
fn cut(held: &mut Vec<Held>, owner: LockOwner, range: &RangeRequest) {
    let mut rest = Vec::new();
    held.retain(|one| {
        if !is_own(one, owner) || !one.range.overlaps(range) {
            return true;
        }
        let (start, end) = (u128::from(one.range.start), one.range.end());
        let pieces = [(start, end.min(u128::from(range.start))), (start.max(range.end()), end)];
        for (from, to) in pieces.into_iter().filter(|(from, to)| from < to) {
            // Both lie inside `one`, so they fit 64 bits.
            if let (Ok(start), Ok(len)) = (u64::try_from(from), u64::try_from(to - from)) {
                rest.push(Held { range: RangeRequest { start, len, kind: one.range.kind }, ..*one });
            }
        }
        false
    });
    held.extend(rest);
}
