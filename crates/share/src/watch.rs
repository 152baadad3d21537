//! Watches: who wants to hear of changes below a directory, and what they have not taken yet.

use std::sync::Arc;

use bitflags::bitflags;

use crate::engine::parts::watched_tree::WatchedTree;
use crate::ranked::{Mutex, Rank};

bitflags! {
    /// Which changes are wanted (numbered as NT numbers them).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ChangeFilter: u32 {
        /// A file was made, removed or renamed.
        const FILE_NAME = 0x001;
        /// A directory was made, removed or renamed.
        const DIR_NAME = 0x002;
        /// Attribute bits changed.
        const ATTRIBUTES = 0x004;
        /// The size changed.
        const SIZE = 0x008;
        /// Modification time.
        const LAST_WRITE = 0x010;
        /// Access time.
        const LAST_ACCESS = 0x020;
        /// Creation time.
        const CREATION = 0x040;
        /// Extended attributes.
        const EA = 0x080;
        /// Security descriptor.
        const SECURITY = 0x100;
        /// A stream was made, removed or renamed.
        const STREAM_NAME = 0x200;
        /// Size of a stream.
        const STREAM_SIZE = 0x400;
        /// Contents of a stream.
        const STREAM_WRITE = 0x800;
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// A name was added.
    Added,
    /// A name was removed.
    Removed,
    /// Something about it changed.
    Modified,
    /// It was renamed; this is its old name.
    RenamedFrom,
    /// It was renamed; this is its new name.
    RenamedTo,
    /// A stream was added.
    StreamAdded,
    /// A stream was removed.
    StreamRemoved,
    /// A stream changed.
    StreamModified,
}

/// One change, told to one watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// Where: components from the watched directory.
    pub path: Vec<volume::Name>,
    /// The stream, where one is meant.
    pub stream: Option<volume::Name>,
}

impl Change {
    /// Twelve bytes and the name in two bytes for each of its characters, as a listing will take.
    fn listed_len(&self) -> usize {
        let names: usize = self.path.iter().chain(&self.stream).map(|name| 1 + name.as_bytes().len()).sum();
        12 + 2 * names
    }
}

/// What one watch has not given out yet.
#[derive(Debug, Default)]
struct Pending {
    changes: Vec<Change>,
    bytes: usize,
    overflowed: bool,
    ended: Option<crate::Refusal>,
    waiting: Vec<crate::Ticket>,
}

/// A watch on a directory. It belongs to one open and collects until that is closed.
pub struct Watch {
    /// The directory.
    pub(crate) directory: volume::NodeId,
    filter: ChangeFilter,
    pub(crate) recursive: bool,
    max_bytes: usize,
    pending: Mutex<Pending>,
    /// Directories that must be told of as long as it lives.
    pub(crate) tree: Mutex<Option<Arc<WatchedTree>>>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("directory", &self.directory)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

/// What a watch answers when it is asked for its changes.
pub(crate) enum Taken {
    Changes(Vec<Change>),
    Refused(crate::Refusal),
    Nothing,
}

impl Watch {
    pub(crate) fn new(
        directory: volume::NodeId,
        filter: ChangeFilter,
        recursive: bool,
        max_bytes: usize,
    ) -> Watch {
        Watch {
            directory,
            filter,
            recursive,
            max_bytes,
            pending: Mutex::of_default(Rank::WatchPending),
            tree: Mutex::of_default(Rank::WatchTree),
        }
    }

    /// Which changes are wanted.
    #[must_use]
    pub fn filter(&self) -> ChangeFilter {
        self.filter
    }

    /// Adds changes that are taken together, if they are wanted, and says whom to wake.
    pub(crate) fn add(&self, changes: Vec<Change>, what: ChangeFilter) -> Vec<crate::Ticket> {
        if !self.filter.intersects(what) {
            return Vec::new();
        }
        let mut pending = self.pending.lock();
        if pending.overflowed || pending.ended.is_some() {
            return Vec::new();
        }
        let mut has_more = false;
        for change in changes {
            if pending.changes.last() == Some(&change) {
                continue;
            }
            has_more = true;
            pending.bytes += change.listed_len();
            pending.changes.push(change);
        }
        if !has_more {
            return Vec::new();
        }
        if pending.bytes > self.max_bytes {
            pending.overflow();
        }
        std::mem::take(&mut pending.waiting)
    }

    /// Some changes were lost.
    pub(crate) fn overflow(&self) -> Vec<crate::Ticket> {
        let mut pending = self.pending.lock();
        pending.overflow();
        std::mem::take(&mut pending.waiting)
    }

    /// No more changes will come.
    pub(crate) fn end(&self, why: crate::Refusal) -> Vec<crate::Ticket> {
        let mut pending = self.pending.lock();
        pending.ended.get_or_insert(why);
        std::mem::take(&mut pending.waiting)
    }

    /// Takes what there is; when there is nothing, `wait` gives the ticket to be woken.
    pub(crate) fn take(
        &self,
        wait: impl FnOnce() -> Option<crate::Ticket>,
    ) -> (Taken, Option<crate::Ticket>) {
        let mut pending = self.pending.lock();
        if let Some(why) = &pending.ended {
            return (Taken::Refused(why.clone()), None);
        }
        if pending.overflowed {
            (pending.overflowed, pending.bytes) = (false, 0);
            return (Taken::Refused(crate::Refusal::WatchOverflow), None);
        }
        if !pending.changes.is_empty() {
            pending.bytes = 0;
            return (Taken::Changes(std::mem::take(&mut pending.changes)), None);
        }
        let ticket = wait();
        pending.waiting.extend(ticket);
        (Taken::Nothing, ticket)
    }
}

impl Pending {
    fn overflow(&mut self) {
        self.changes.clear();
        self.bytes = 0;
        self.overflowed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Refusal, Ticket};

    fn watch(max_bytes: usize) -> Watch {
        Watch::new(volume::NodeId { device: 1, inode: 1 }, ChangeFilter::FILE_NAME, false, max_bytes)
    }

    fn added(name: &str) -> Change {
        Change {
            kind: ChangeKind::Added,
            path: vec![volume::Name::new(name.as_bytes()).unwrap()],
            stream: None,
        }
    }

    fn taken(watch: &Watch) -> Result<Vec<Change>, Option<Refusal>> {
        match watch.take(|| None).0 {
            Taken::Changes(changes) => Ok(changes),
            Taken::Refused(why) => Err(Some(why)),
            Taken::Nothing => Err(None),
        }
    }

    #[test]
    fn only_what_is_wanted_is_kept_and_it_is_taken_once() {
        let watch = watch(1000);
        watch.add(vec![added("a")], ChangeFilter::FILE_NAME);
        watch.add(vec![added("b")], ChangeFilter::SIZE);
        assert_eq!(taken(&watch), Ok(vec![added("a")]));
        assert_eq!(taken(&watch), Err(None));
    }

    #[test]
    fn too_many_changes_are_told_as_such_and_then_collecting_goes_on() {
        let watch = watch(40);
        for name in ["a", "b", "c"] {
            watch.add(vec![added(name)], ChangeFilter::FILE_NAME);
        }
        assert_eq!(taken(&watch), Err(Some(Refusal::WatchOverflow)));
        watch.add(vec![added("d")], ChangeFilter::FILE_NAME);
        assert_eq!(taken(&watch), Ok(vec![added("d")]));
    }

    #[test]
    fn who_waits_is_woken_by_a_change_and_by_the_end() {
        let watch = watch(1000);
        assert_eq!(watch.take(|| Some(Ticket(7))).1, Some(Ticket(7)));
        assert_eq!(watch.add(vec![added("a")], ChangeFilter::SIZE), []);
        assert_eq!(watch.add(vec![added("a")], ChangeFilter::FILE_NAME), [Ticket(7)]);
        assert!(taken(&watch).is_ok());
        watch.take(|| Some(Ticket(8)));
        assert_eq!(watch.end(Refusal::Gone), [Ticket(8)]);
        assert_eq!(taken(&watch), Err(Some(Refusal::Gone)));
    }
}
