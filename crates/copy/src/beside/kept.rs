//! Finds out what a target takes and then does not keep, without a word: setgid of who is not in the group (chmod(2)), a time that its
//! file system cannot hold (timestamps are cut to its range). Where a file or directory has such a thing, the copy is looked
//! at once more. Others have no further request for it.

use client::remote::Attributes;

use super::Lost;
use crate::error::Done;
use crate::shared::Shared;

/// The times that every file system holds, in nanoseconds: those of a signed 32-bit number of seconds from 1970 on.
const HELD: std::ops::Range<i128> = 0..(1 << 31) * 1_000_000_000;

/// Counts what the copy at `path` has not kept of something with these facts.
pub(crate) async fn check(shared: &Shared, path: &str, facts: &Attributes) -> Done<()> {
    let keep = &shared.plan.keep;
    let special = if keep.attributes { facts.special() } else { 0 };
    let is_odd = keep.times && !HELD.contains(&facts.modified);
    if special == 0 && !is_odd {
        return Ok(());
    }
    // A copy that was moved away meanwhile is no matter of this one.
    let Some(there) = shared.target.stat(path).await? else { return Ok(()) };
    let mut lost = Vec::new();
    if there.special() & special != special {
        lost.push(Lost::Special);
    }
    if is_odd && there.modified.div_euclid(100) != facts.modified.div_euclid(100) {
        lost.push(Lost::Time);
    }
    shared.lose(&lost);
    Ok(())
}

/// Whether [`check`] has anything to look at.
pub(crate) fn is_doubtful(facts: &Attributes) -> bool {
    facts.special() != 0 || !HELD.contains(&facts.modified)
}
