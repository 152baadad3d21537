//! The location of directories. Clients move them, and so do programs of the host, also out of the share.
//!
//! A move by a client is fully known: only the moved directory and those below it have another location.
//! After a move by others, each directory is asked for its location again ([`Directories::is_placed`]). A
//! thread that learns a location records it later. So it gives the moves that had been counted then, and a
//! newer record stays ([`Directories::note_found`]).

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use volume::{Name, NodeId};

use super::{Directories, Directory, MAX_PATH, NameChange};

/// The mark of a directory whose location is not known to be right. It is before every move.
const NEVER: u64 = 0;

/// The count of moves by others before the first one.
const FIRST: u64 = NEVER + 1;

/// Counters of moved directories.
pub(super) struct Moves {
    by_others: AtomicU64,
    by_clients: AtomicU64,
}

impl Default for Moves {
    fn default() -> Moves {
        Moves { by_others: AtomicU64::new(FIRST), by_clients: AtomicU64::new(0) }
    }
}

/// The counters of moves at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MoveCounts {
    by_others: u64,
    by_clients: u64,
}

/// The evidence that a directory has a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Evidence {
    /// The name was looked up at this generation of the parent directory.
    LookedUp(u64),
    /// The host gave the location, when these moves were counted.
    Told(MoveCounts),
    /// Either of these, some time ago.
    Before,
}

/// A name in a directory, whether it exists or not.
#[derive(Clone, Copy)]
pub(crate) struct DirectoryEntry<'a> {
    pub parent: &'a Arc<Directory>,
    pub name: &'a Name,
}

/// Begins a change of names in two directories. The locks are taken in one order everywhere.
pub(crate) fn change_both<'a>(
    a: DirectoryEntry<'a>,
    b: DirectoryEntry<'a>,
) -> (NameChange<'a>, Option<NameChange<'a>>) {
    if Arc::ptr_eq(a.parent, b.parent) {
        return (a.parent.change(&[a.name, b.name]), None);
    }
    let (first, second) = if Arc::as_ptr(a.parent) < Arc::as_ptr(b.parent) { (a, b) } else { (b, a) };
    (first.parent.change(&[first.name]), Some(second.parent.change(&[second.name])))
}

/// The location of a directory.
pub(super) struct Location {
    /// None for the root.
    parent_and_name: Option<(Arc<Directory>, Name)>,
    /// The count of moves by others at which this location, and those above it, were known to be right.
    as_of: u64,
    /// The count of moves by clients since which none has moved it. None: it was entered a moment ago, and
    /// any of them may have.
    renamed: Option<u64>,
}

impl Location {
    pub fn new(parent_and_name: Option<(Arc<Directory>, Name)>) -> Location {
        Location { parent_and_name, as_of: NEVER, renamed: None }
    }

    fn is_at(&self, parent: &Directory, name: &Name) -> bool {
        self.parent_and_name.as_ref().is_some_and(|(above, own)| above.id == parent.id && own == name)
    }
}

impl Directory {
    /// The entry of this name in the directory.
    pub fn entry<'a>(self: &'a Arc<Self>, name: &'a Name) -> DirectoryEntry<'a> {
        DirectoryEntry { parent: self, name }
    }

    /// The parent directory and the name there; none for the root.
    pub fn parent_and_name(&self) -> Option<(Arc<Directory>, Name)> {
        self.location.lock().parent_and_name.clone()
    }

    /// Appends its path with slashes, or that of a name in it. It allocates nothing but room in `out`.
    pub fn append_path(self: &Arc<Self>, name: Option<&Name>, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(name) = name {
            out.extend_from_slice(name.as_bytes());
            out.push(b'/');
        }
        self.insert_path(start, out);
    }

    /// Inserts its path at `start` of `out`, before a name of which each part ends with a slash. The last
    /// slash is removed. Each lock is held for a copy alone: moves by others may make a ring of directories.
    pub fn insert_path(self: &Arc<Self>, start: usize, out: &mut Vec<u8>) {
        let (mut at, mut depth) = (Arc::clone(self), 0);
        while depth < MAX_PATH {
            let before = out.len();
            let parent = match &at.location.lock().parent_and_name {
                Some((parent, name)) => {
                    out.extend_from_slice(name.as_bytes());
                    Arc::clone(parent)
                }
                None => break,
            };
            out.push(b'/');
            let added = out.len() - before;
            out[start..].rotate_right(added);
            (at, depth) = (parent, depth + 1);
        }
        if out.len() > start {
            out.pop();
        }
    }
}

impl Directories {
    /// Others may have moved a directory. Each directory, and those above it, is asked for its location
    /// before it is used by its address again.
    pub fn note_moved(&self) {
        self.moves.by_others.fetch_add(1, Ordering::AcqRel);
    }

    /// The counters of moves. Take them before asking for a directory's location. Pass them on with the
    /// answer ([`Evidence::Told`]).
    pub fn moves(&self) -> MoveCounts {
        MoveCounts {
            by_others: self.moves.by_others.load(Ordering::Acquire),
            by_clients: self.moves.by_clients.load(Ordering::Acquire),
        }
    }

    /// Whether others have moved no directory since this location was known to be right.
    pub fn is_placed(&self, directory: &Directory) -> bool {
        self.is_placed_as_of(directory, self.moves.by_others.load(Ordering::Acquire))
    }

    fn is_placed_as_of(&self, directory: &Directory, moved: u64) -> bool {
        directory.id == self.root.id || directory.location.lock().as_of == moved
    }

    /// A client has moved a directory to this name. `before` was taken before the move, and both names are
    /// still locked.
    pub fn note_renamed(&self, id: NodeId, to: DirectoryEntry<'_>, before: MoveCounts) {
        let DirectoryEntry { parent, name } = to;
        // Before the directory is looked for: a thread that enters it after that sees this move counted.
        let renamed = self.moves.by_clients.fetch_add(1, Ordering::AcqRel) + 1;
        let as_of = if self.is_placed_as_of(parent, before.by_others) { before.by_others } else { NEVER };
        if let Some(directory) = self.get(id) {
            let parent_and_name = Some((Arc::clone(parent), name.clone()));
            let old = mem::replace(
                &mut *directory.location.lock(),
                Location { parent_and_name, as_of, renamed: Some(renamed) },
            );
            drop(old);
        }
        // Others may have moved the new parent out of the share, and all directories below this one with it.
        if !self.is_placed(parent) {
            self.note_moved();
        }
    }

    /// Records that a directory was found under this name, unless a newer location is known.
    pub(super) fn note_found(&self, directory: &Arc<Directory>, entry: DirectoryEntry<'_>, found: Evidence) {
        let DirectoryEntry { parent, name } = entry;
        if directory.id == self.root.id || parent.is_within(directory.id) {
            return;
        }
        // Before the name is checked: a later move has another number.
        let counted = if let Evidence::Told(counted) = found { counted } else { self.moves() };
        let is_sure = self.is_placed_as_of(parent, counted.by_others);
        let as_of = if is_sure { counted.by_others } else { NEVER };
        let is_there = {
            let location = directory.location.lock();
            let is_there = location.is_at(parent, name);
            if is_there && location.as_of >= as_of {
                return;
            }
            is_there
        };
        let is_first = counted.by_others == FIRST && counted.by_clients == 0;
        let holds = match found {
            _ if is_there && is_first => true,
            Evidence::Told(_) => true,
            Evidence::LookedUp(generation) if parent.generation() == generation => true,
            // The host is asked only if the recorded location would be wrong. How long it has been right may
            // stay unknown.
            Evidence::LookedUp(_) => !is_there && parent.holds(name, directory.id),
            Evidence::Before => parent.holds(name, directory.id),
        };
        if !holds {
            return;
        }
        let mut location = directory.location.lock();
        let renamed = *location.renamed.get_or_insert_with(|| self.moves().by_clients);
        if renamed > counted.by_clients || location.as_of > counted.by_others {
            return;
        }
        location.as_of = as_of;
        let old = location.parent_and_name.replace((Arc::clone(parent), name.clone()));
        drop(location);
        drop(old);
    }
}
