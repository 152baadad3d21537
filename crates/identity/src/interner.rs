//! One copy of each group's ids, however many users are members.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crate::account::GroupIds;

/// The number of groups below which nothing is swept.
const SWEEP_FROM: usize = 1024;

/// The ids of the groups of all users that are remembered.
#[derive(Debug, Default)]
pub(crate) struct GroupInterner {
    state: Mutex<Interned>,
}

#[derive(Debug, Default)]
struct Interned {
    groups: HashSet<Arc<GroupIds>>,
    sweep_at: usize,
}

impl GroupInterner {
    /// The shared list of these groups.
    pub(crate) fn list(&self, groups: impl IntoIterator<Item = GroupIds>) -> Arc<[Arc<GroupIds>]> {
        let mut state = crate::sync::lock(&self.state);
        let list = groups.into_iter().map(|group| state.shared(group)).collect();
        state.sweep();
        list
    }

    /// Whether a user has this group.
    pub(crate) fn contains(&self, group: &GroupIds) -> bool {
        crate::sync::lock(&self.state).groups.contains(group)
    }
}

impl Interned {
    fn shared(&mut self, group: GroupIds) -> Arc<GroupIds> {
        if let Some(known) = self.groups.get(&group) {
            return Arc::clone(known);
        }
        let group = Arc::new(group);
        self.groups.insert(Arc::clone(&group));
        group
    }

    /// Forgets the groups that no user has any more, whenever the number has doubled.
    fn sweep(&mut self) {
        if self.groups.len() > self.sweep_at.max(SWEEP_FROM) {
            self.groups.retain(|group| Arc::strong_count(group) > 1);
            self.sweep_at = self.groups.len() * 2;
        }
    }
}
