//! Watches: the changes below a directory that a client wants to hear of, and those that it has not taken
//! yet.

use std::sync::Arc;

use bitflags::bitflags;

use crate::Identity;
use crate::engine::parts::watched_tree::WatchedTree;
use crate::ranked::{Mutex, Rank};

bitflags! {
    /// The kinds of changes to report (numbered as in NT).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct ChangeFilter: u32 {
        /// A file was created, removed or renamed.
        const FILE_NAME = 0x001;
        /// A directory was created, removed or renamed.
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
        /// A stream was created, removed or renamed.
        const STREAM_NAME = 0x200;
        /// Size of a stream.
        const STREAM_SIZE = 0x400;
        /// Contents of a stream.
        const STREAM_WRITE = 0x800;
    }
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// A name was added.
    Added,
    /// A name was removed.
    Removed,
    /// A property of it changed.
    Modified,
    /// It was renamed, and this is its old name.
    RenamedFrom,
    /// It was renamed, and this is its new name.
    RenamedTo,
    /// A stream was added.
    StreamAdded,
    /// A stream was removed.
    StreamRemoved,
    /// A stream changed.
    StreamModified,
}

/// One change, as one watch reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The kind.
    pub kind: ChangeKind,
    /// The path: components from the watched directory.
    pub path: Vec<volume::Name>,
    /// The stream, if the change concerns one.
    pub stream: Option<volume::Name>,
}

impl Change {
    /// Twelve bytes and the name in two bytes for each of its characters, as a listing will take.
    fn listed_len(&self) -> usize {
        let names: usize = self.path.iter().chain(&self.stream).map(|name| 1 + name.as_bytes().len()).sum();
        12 + 2 * names
    }
}

/// The changes that a watch has collected and not returned yet.
#[derive(Debug, Default)]
struct Pending {
    changes: Vec<Change>,
    bytes: usize,
    overflowed: bool,
    ended: Option<crate::Refusal>,
    waiting: Vec<crate::Ticket>,
}

/// A watch on a directory. It belongs to one open and collects until that is closed.
pub struct DirectoryWatch {
    /// The directory.
    pub(crate) directory: volume::NodeId,
    /// The user who watches.
    pub(crate) identity: Arc<Identity>,
    filter: ChangeFilter,
    pub(crate) recursive: bool,
    max_bytes: usize,
    pending: Mutex<Pending>,
    /// Directories whose changes the host must report as long as the watch lives.
    pub(crate) tree: Mutex<Option<Arc<WatchedTree>>>,
}

impl std::fmt::Debug for DirectoryWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("directory", &self.directory)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

/// The result of taking the changes of a watch.
pub(crate) enum CollectedChanges {
    Changes(Vec<Change>),
    Refused(crate::Refusal),
    Nothing,
}

impl DirectoryWatch {
    pub(crate) fn new(
        directory: volume::NodeId,
        identity: Arc<Identity>,
        filter: ChangeFilter,
        recursive: bool,
        max_bytes: usize,
    ) -> DirectoryWatch {
        DirectoryWatch {
            directory,
            identity,
            filter,
            recursive,
            max_bytes,
            pending: Mutex::of_default(Rank::WatchPending),
            tree: Mutex::of_default(Rank::WatchTree),
        }
    }

    /// The kinds of changes to report.
    #[must_use]
    pub fn filter(&self) -> ChangeFilter {
        self.filter
    }

    /// Adds changes that are taken together, if the filter selects them. Returns the requests to wake.
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

    /// Takes the collected changes. If there are none, `wait` gives the ticket to wake.
    pub(crate) fn take(
        &self,
        wait: impl FnOnce() -> Option<crate::Ticket>,
    ) -> (CollectedChanges, Option<crate::Ticket>) {
        let mut pending = self.pending.lock();
        if let Some(why) = &pending.ended {
            return (CollectedChanges::Refused(why.clone()), None);
        }
        if pending.overflowed {
            (pending.overflowed, pending.bytes) = (false, 0);
            return (CollectedChanges::Refused(crate::Refusal::WatchOverflow), None);
        }
        if !pending.changes.is_empty() {
            pending.bytes = 0;
            return (CollectedChanges::Changes(std::mem::take(&mut pending.changes)), None);
        }
        let ticket = wait();
        pending.waiting.extend(ticket);
        (CollectedChanges::Nothing, ticket)
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

    fn nobody() -> Arc<Identity> {
        Arc::new(Identity {
            name: String::new(),
            sid: volume::security::well_known::NULL,
            groups: Vec::new(),
            uid: 0,
            gid: 0,
            host_groups: Vec::new(),
            actor: None,
            administrator: false,
            unbound: false,
            limit: volume::security::Rights::empty(),
            home: None,
        })
    }

    fn watch(max_bytes: usize) -> DirectoryWatch {
        let id = volume::NodeId { device: 1, inode: 1 };
        DirectoryWatch::new(id, nobody(), ChangeFilter::FILE_NAME, false, max_bytes)
    }

    fn added(name: &str) -> Change {
        Change {
            kind: ChangeKind::Added,
            path: vec![volume::Name::new(name.as_bytes()).unwrap()],
            stream: None,
        }
    }

    fn taken(watch: &DirectoryWatch) -> Result<Vec<Change>, Option<Refusal>> {
        match watch.take(|| None).0 {
            CollectedChanges::Changes(changes) => Ok(changes),
            CollectedChanges::Refused(why) => Err(Some(why)),
            CollectedChanges::Nothing => Err(None),
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
