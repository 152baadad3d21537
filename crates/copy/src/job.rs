//! What is to be copied: a directory that is to be looked at, and a file.

use std::sync::Arc;

use client::remote::Attributes;

use crate::name::{self, split};
use crate::tree::facts::Spot;

/// A directory of the source that is to be looked at.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    pub(crate) path: String,
    /// Where the source has it, which is elsewhere below a link that was followed.
    pub(crate) from: String,
    /// The links that have led there.
    pub(crate) trail: Option<Arc<Trail>>,
    pub(crate) facts: Attributes,
    /// What the target has in its place.
    pub(crate) there: Option<Attributes>,
    /// The permission bits that it gets back at the end where it has none of the source's, if it was given others meanwhile.
    pub(crate) restore: Option<u32>,
}

/// A file that is to be copied.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Where the source has it.
    pub(crate) from: String,
    /// Where the target gets it: the same, unless one file alone is given another name, or its directory has none yet.
    pub(crate) path: String,
    pub(crate) facts: Attributes,
    pub(crate) spot: Spot,
    /// Where the target has the same file by another name, which is given this one too.
    pub(crate) twin: Option<String>,
}

/// All that an owner may do with a directory.
pub(crate) const OWNERS: u32 = 0o700;

/// A way from where a followed link has led to the next one.
#[derive(Debug)]
pub(crate) struct Trail {
    /// Where it has led.
    pub(crate) entry: String,
    /// The ways before this one.
    pub(crate) above: Option<Arc<Trail>>,
    /// The directory in which the link was.
    pub(crate) before: String,
}

/// The name that a file has while it is made: the same in every copy of it as it is now, so that the next one finds what
/// a broken one has left.
pub(crate) fn part_of(path: &str, facts: &Attributes) -> String {
    let of = [facts.size.to_le_bytes(), (facts.modified.div_euclid(100) as i64).to_le_bytes()].concat();
    name::part(split(path).1, &of)
}
