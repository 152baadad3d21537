//! Finds data that a target accepts and then silently drops: the setgid bit if the user is not in the group
//! (chmod(2)), and a time that its file system cannot hold (timestamps are cut to its range). The copy of a
//! file or directory with such data is queried once more. Other files need no further request.

use client::remote::Attributes;

use super::Lost;
use crate::context::CopyContext;
use crate::error::FileResult;

/// The times that every file system holds, in nanoseconds: those of a signed 32-bit number of seconds from
/// 1970 on.
const HELD: std::ops::Range<i128> = 0..(1 << 31) * 1_000_000_000;

/// Counts the data of an object with these attributes that the copy at `path` has not kept.
pub(crate) async fn check(shared: &CopyContext, path: &str, attributes: &Attributes) -> FileResult<()> {
    let keep = &shared.plan.keep;
    let special = if keep.attributes { attributes.special() } else { 0 };
    let is_odd = keep.times && !HELD.contains(&attributes.modified);
    if special == 0 && !is_odd {
        return Ok(());
    }
    // A copy that was moved away meanwhile does not matter.
    let Some(there) = shared.target.stat(path).await? else { return Ok(()) };
    let mut lost = Vec::new();
    if there.special() & special != special {
        lost.push(Lost::Special);
    }
    if is_odd && there.modified.div_euclid(100) != attributes.modified.div_euclid(100) {
        lost.push(Lost::Time);
    }
    shared.lose(&lost);
    Ok(())
}

/// Whether [`check`] has anything to examine.
pub(crate) fn is_doubtful(attributes: &Attributes) -> bool {
    attributes.special() != 0 || !HELD.contains(&attributes.modified)
}
