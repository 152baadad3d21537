//! The fanotify groups of this process. All volumes share one, since a host has few of them for each user
//! (`fs.fanotify.max_user_groups`).
//!
//! Some directories need a group of their own. An event names its file system by a number, and the kernel
//! accepts marks of one number only in a group if other directories of that file system have other numbers
//! (fanotify_mark(2), EXDEV): those of btrfs subvolumes.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::io::Result;

use super::group::EventGroup;
use super::reader;

static GROUPS: Mutex<BTreeMap<GroupScope, Weak<EventGroup>>> = Mutex::new(BTreeMap::new());

/// The directories that a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GroupScope {
    /// Those of all file systems that have one number each.
    Common,
    /// Those of one device. Each btrfs subvolume is one.
    Device(u64),
}

impl GroupScope {
    /// The group for directories of this device, by the kind and number of their file system.
    pub fn of(device: u64, kind: &str, file_system: u64) -> GroupScope {
        // The kernel refuses such a mark in a group with others, but an empty group would take it and then
        // refuse the others.
        if kind == "btrfs" || file_system == 0 { GroupScope::Device(device) } else { GroupScope::Common }
    }
}

/// The group for these directories. It is closed when nobody uses it any more.
pub(super) fn open(scope: GroupScope) -> Result<Arc<EventGroup>> {
    let mut groups = GROUPS.lock();
    if let Some(group) = groups.get(&scope).and_then(Weak::upgrade) {
        return Ok(group);
    }
    let group = Arc::new(EventGroup::open()?);
    reader::follow(&group)?;
    groups.retain(|_, group| group.strong_count() > 0);
    groups.insert(scope, Arc::downgrade(&group));
    Ok(group)
}
