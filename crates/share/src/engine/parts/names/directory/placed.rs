//! Whether directories stand where they are said to: clients move them, and others do, also out of the share.
//!
//! A move by a client is known with all it does: only the directory that was moved stands elsewhere, and those below it with it.
//! After a move by others each directory is asked for its place again ([`Directories::is_placed`]). A thread that learns a
//! place notes it later, so it says as of which moves it is true, and a newer note stays ([`Directories::note_found`]).

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use volume::{Name, NodeId};

use super::{Directories, Directory};

/// The mark of a directory of which nobody knows whether it stands where it is said to; before every move.
const NEVER: u64 = 0;

/// How often others have moved a directory when they have not.
const FIRST: u64 = NEVER + 1;

/// How often directories were moved.
pub(super) struct Moves {
    by_others: AtomicU64,
    by_clients: AtomicU64,
}

impl Default for Moves {
    fn default() -> Moves {
        Moves { by_others: AtomicU64::new(FIRST), by_clients: AtomicU64::new(0) }
    }
}

/// The moves that were counted at some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    by_others: u64,
    by_clients: u64,
}

/// How it is known that a directory has a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Evidence {
    /// The name was looked up when the directory that has it was of this generation.
    LookedUp(u64),
    /// The host said where it stands, when these moves were counted.
    Told(Counted),
    /// Either of these, some time ago.
    Before,
}

/// A name in a directory, whether anything has it or not.
#[derive(Clone, Copy)]
pub(crate) struct DirectoryEntry<'a> {
    pub parent: &'a Arc<Directory>,
    pub name: &'a Name,
}

/// The place where a directory stands.
pub(super) struct Standing {
    /// None for the root.
    place: Option<(Arc<Directory>, Name)>,
    /// As of which move by others it is known that this one and those above it stand where they are said to.
    as_of: u64,
    /// Since which move by clients none has moved it. None: it was entered a moment ago, and any of them may have.
    renamed: Option<u64>,
}

impl Standing {
    pub fn new(place: Option<(Arc<Directory>, Name)>) -> Standing {
        Standing { place, as_of: NEVER, renamed: None }
    }

    fn is_at(&self, parent: &Directory, name: &Name) -> bool {
        self.place.as_ref().is_some_and(|(above, own)| above.id == parent.id && own == name)
    }
}

impl Directory {
    /// This name in it.
    pub fn entry<'a>(self: &'a Arc<Self>, name: &'a Name) -> DirectoryEntry<'a> {
        DirectoryEntry { parent: self, name }
    }

    /// The directory above and the name there; none for the root.
    pub fn place(&self) -> Option<(Arc<Directory>, Name)> {
        self.standing.lock().place.clone()
    }
}

impl Directories {
    /// Others may have moved a directory: of each, and of those above it, it is asked where it stands before it is used by
    /// its address again.
    pub fn note_moved(&self) {
        self.moves.by_others.fetch_add(1, Ordering::AcqRel);
    }

    /// To be taken before it is asked where a directory stands, and given with what is said ([`Evidence::Told`]).
    pub fn moves(&self) -> Counted {
        Counted {
            by_others: self.moves.by_others.load(Ordering::Acquire),
            by_clients: self.moves.by_clients.load(Ordering::Acquire),
        }
    }

    /// Whether others have moved no directory since it was known where this one stands.
    pub fn is_placed(&self, directory: &Directory) -> bool {
        self.is_placed_as_of(directory, self.moves.by_others.load(Ordering::Acquire))
    }

    fn is_placed_as_of(&self, directory: &Directory, moved: u64) -> bool {
        directory.id == self.root.id || directory.standing.lock().as_of == moved
    }

    /// A client has moved a directory to this name; `before` was taken before that, and both names are still locked.
    pub fn note_renamed(&self, id: NodeId, to: DirectoryEntry<'_>, before: Counted) {
        let DirectoryEntry { parent, name } = to;
        // Before it is looked for: a thread that enters it after that sees this one counted.
        let renamed = self.moves.by_clients.fetch_add(1, Ordering::AcqRel) + 1;
        let as_of = if self.is_placed_as_of(parent, before.by_others) { before.by_others } else { NEVER };
        if let Some(directory) = self.get(id) {
            let place = Some((Arc::clone(parent), name.clone()));
            let old = mem::replace(
                &mut *directory.standing.lock(),
                Standing { place, as_of, renamed: Some(renamed) },
            );
            drop(old);
        }
        // Others may have moved the new parent out of the share, and with it goes what is below this one.
        if !self.is_placed(parent) {
            self.note_moved();
        }
    }

    /// Takes note that a directory was found under this name, unless something newer is known of it.
    pub(super) fn note_found(&self, directory: &Arc<Directory>, entry: DirectoryEntry<'_>, found: Evidence) {
        let DirectoryEntry { parent, name } = entry;
        if directory.id == self.root.id || parent.is_within(directory.id) {
            return;
        }
        // Before the name is looked at: what is moved after that has another number.
        let counted = if let Evidence::Told(counted) = found { counted } else { self.moves() };
        let is_sure = self.is_placed_as_of(parent, counted.by_others);
        let as_of = if is_sure { counted.by_others } else { NEVER };
        let is_there = {
            let standing = directory.standing.lock();
            let is_there = standing.is_at(parent, name);
            if is_there && standing.as_of >= as_of {
                return;
            }
            is_there
        };
        let is_first = counted.by_others == FIRST && counted.by_clients == 0;
        let holds = match found {
            _ if is_there && is_first => true,
            Evidence::Told(_) => true,
            Evidence::LookedUp(generation) if parent.generation() == generation => true,
            // The host is asked only where the place would be wrong; how long it is sure may stay unknown.
            Evidence::LookedUp(_) => !is_there && parent.holds(name, directory.id),
            Evidence::Before => parent.holds(name, directory.id),
        };
        if !holds {
            return;
        }
        let mut standing = directory.standing.lock();
        let renamed = *standing.renamed.get_or_insert_with(|| self.moves().by_clients);
        if renamed > counted.by_clients || standing.as_of > counted.by_others {
            return;
        }
        standing.as_of = as_of;
        let old = standing.place.replace((Arc::clone(parent), name.clone()));
        drop(standing);
        drop(old);
    }
}
