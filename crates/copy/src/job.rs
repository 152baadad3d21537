//! The units of work: a directory to survey, and a file to copy.

use std::sync::Arc;

use client::remote::Attributes;

use crate::name::{self, split};
use crate::tree::listing::TargetName;

/// A directory of the source to survey.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    pub(crate) path: String,
    /// Its path in the source, which differs below a followed link.
    pub(crate) from: String,
    /// The links that led to it.
    pub(crate) trail: Option<Arc<Trail>>,
    pub(crate) attributes: Attributes,
    /// The attributes of the directory in the target, if it exists.
    pub(crate) there: Option<Attributes>,
    /// The permission bits to restore at the end, if it was given others meanwhile and gets none from the
    /// source.
    pub(crate) restore: Option<u32>,
}

/// A file to copy.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Its path in the source.
    pub(crate) from: String,
    /// Its path in the target. It is the same, unless a single file gets another name, or its directory is
    /// staged.
    pub(crate) path: String,
    pub(crate) attributes: Attributes,
    pub(crate) spot: TargetName,
    /// The path in the target of the same file by another name, which gets this name too.
    pub(crate) twin: Option<String>,
}

/// All rights of an owner of a directory.
pub(crate) const OWNERS: u32 = 0o700;

/// A step from the target of a followed link to the next link.
#[derive(Debug)]
pub(crate) struct Trail {
    /// The target of the link.
    pub(crate) entry: String,
    /// The earlier steps.
    pub(crate) above: Option<Arc<Trail>>,
    /// The directory of the link.
    pub(crate) before: String,
}

/// The temporary name of a file. It is the same in every copy of the file in its present state, so the next
/// copy finds the file of a broken one.
pub(crate) fn part_of(path: &str, attributes: &Attributes) -> String {
    let of =
        [attributes.size.to_le_bytes(), (attributes.modified.div_euclid(100) as i64).to_le_bytes()].concat();
    name::part(split(path).1, &of)
}
