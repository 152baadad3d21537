//! The recycle folder in numbers: its files and bytes, what was kept, and what was removed for good and why.
//! It also has the state of the search for the files in the folder ([`FolderSearch`]).
//!
//! The search knows directories by their paths alone. So it holds no descriptor of the host between its
//! steps.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use volume::{Name, NodeId, Time};

use crate::engine::parts::names::directory::Directory;
use crate::ranked::{Mutex, MutexGuard, Rank, ReadGuard, RwLock, WriteGuard};
use crate::{ChangeFilter, ChangeKind};

/// The most files that a search remembers as the oldest. Each takes about 150 bytes of memory.
pub(crate) const MOST_OLDEST: usize = 16_384;
/// The number of locks for removals of names of files with several names. It is a power of two.
const LINK_LOCKS: usize = 16;
/// The time between two searches of an unchanged folder: it finds files whose time is over, and files that
/// clients have taken out or removed.
const AGAIN_AFTER_NS: u64 = 3600 * 1_000_000_000;

/// The time between two searches because room is needed, if no file was kept in between.
const ROOM_AFTER_NS: u64 = 1_000_000_000;

/// The reason why a removed file was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinalRemoval {
    /// Its name is excluded by the rules.
    Excluded,
    /// It takes more storage than the rules allow one file.
    TooLarge,
    /// It has further names, by which its data stays.
    Linked,
    /// It is no regular file.
    Special,
    /// It lies on another file system that is mounted below the share.
    OtherFileSystem,
    /// No room was left for a folder.
    NoSpace,
    /// The folder of this name is none that this server has made.
    ForeignFolder,
    /// The host refused the move.
    Failed,
}

impl FinalRemoval {
    /// All reasons.
    pub const ALL: [FinalRemoval; 8] = [
        FinalRemoval::Excluded,
        FinalRemoval::TooLarge,
        FinalRemoval::Linked,
        FinalRemoval::Special,
        FinalRemoval::OtherFileSystem,
        FinalRemoval::NoSpace,
        FinalRemoval::ForeignFolder,
        FinalRemoval::Failed,
    ];

    /// The reason in one word, for metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            FinalRemoval::Excluded => "excluded",
            FinalRemoval::TooLarge => "too_large",
            FinalRemoval::Linked => "linked",
            FinalRemoval::Special => "special",
            FinalRemoval::OtherFileSystem => "other_file_system",
            FinalRemoval::NoSpace => "no_space",
            FinalRemoval::ForeignFolder => "foreign_folder",
            FinalRemoval::Failed => "failed",
        }
    }
}

/// The recycle folder in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecycleSummary {
    /// Files in the folder, as the last search found them and with the moves since.
    pub files: u64,
    /// Bytes of storage that they take.
    pub bytes: u64,
    /// Files that were moved into the folder.
    pub kept: u64,
    /// Files that were removed from it for good by the bounds of size and age, or because space ran out.
    pub purged: u64,
    /// Files that were removed for good at once, by reason, in the order of [`FinalRemoval::ALL`].
    pub removed: [u64; FinalRemoval::ALL.len()],
}

/// A file in the recycle folder.
#[derive(Clone)]
pub(crate) struct RecycledFile {
    pub changed: Time,
    pub bytes: u64,
    pub id: NodeId,
    /// The names that lead from the recycle folder to its directory.
    pub directory: Arc<[Name]>,
    pub name: Name,
}

impl PartialEq for RecycledFile {
    fn eq(&self, other: &RecycledFile) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RecycledFile {}

impl PartialOrd for RecycledFile {
    fn partial_cmp(&self, other: &RecycledFile) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RecycledFile {
    fn cmp(&self, other: &RecycledFile) -> std::cmp::Ordering {
        (self.changed, self.id).cmp(&(other.changed, other.id))
    }
}

/// A change of a name that watches and holders are to hear of when no lock is held.
pub(crate) struct NameReport {
    pub directory: Arc<Directory>,
    pub name: Name,
    pub kind: ChangeKind,
    pub what: ChangeFilter,
    /// The file, if it was removed from the recycle folder for good.
    pub purged: Option<NodeId>,
}

/// A directory that a search has reached.
pub(crate) struct SearchedDirectory {
    /// The names that lead to it from the recycle folder.
    pub path: Arc<[Name]>,
    /// The cookie of the last entry that was looked at.
    pub cookie: u64,
}

/// A search through the recycle folder that goes on step by step.
#[derive(Default)]
pub(crate) struct FolderSearch {
    /// The number of the settings under which it began.
    generation: u64,
    /// The directories that remain, the next one last.
    pub left: Vec<SearchedDirectory>,
    pub files: u64,
    pub bytes: u64,
    /// The oldest files that were found, the youngest of them first.
    oldest: BinaryHeap<RecycledFile>,
}

impl FolderSearch {
    /// Notes a file that stays for now.
    pub fn add(&mut self, file: RecycledFile) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(file.bytes);
        self.oldest.push(file);
        if self.oldest.len() > MOST_OLDEST {
            self.oldest.pop();
        }
    }
}

/// The state of the search.
#[derive(Default)]
struct SearchState {
    /// The number of the settings in force. A search that began under others is of no use.
    generation: u64,
    /// The search under way, while no thread goes on with it.
    running: Option<FolderSearch>,
    /// When the last one ended, on the monotonic clock; none: there was none under these settings.
    ended_ns: Option<u64>,
    /// The files that the last one found as the oldest, the oldest last.
    oldest: Vec<RecycledFile>,
    /// The storage that these take, in bytes.
    oldest_bytes: u64,
}

/// The recycle folder of a share.
pub(crate) struct RecycleBin {
    files: AtomicU64,
    bytes: AtomicU64,
    kept: AtomicU64,
    purged: AtomicU64,
    removed: [AtomicU64; FinalRemoval::ALL.len()],
    /// A bit for each reason that the log has told under these settings.
    told: AtomicU8,
    /// More is kept than the rules allow, as far as is known.
    is_over: AtomicBool,
    /// Whether the folder has got files that the last search cannot have found.
    has_new: AtomicBool,
    search: Mutex<SearchState>,
    /// Held by the thread that goes on with the search, or makes room.
    turn: Mutex<()>,
    /// Held while a client moves a directory (as one of many), and while a file is purged (alone).
    moves: RwLock<()>,
    /// Held while one of several names of a file is removed for good, by the number of the file.
    links: [Mutex<()>; LINK_LOCKS],
}

impl Default for RecycleBin {
    fn default() -> RecycleBin {
        RecycleBin {
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            purged: AtomicU64::new(0),
            removed: Default::default(),
            told: AtomicU8::new(0),
            is_over: AtomicBool::new(false),
            has_new: AtomicBool::new(false),
            search: Mutex::of_default(Rank::RecycleSearch),
            turn: Mutex::of_default(Rank::RecycleTurn),
            moves: RwLock::new(Rank::RecycleMoves, ()),
            links: std::array::from_fn(|_| Mutex::of_default(Rank::LinkRemoval)),
        }
    }
}

impl RecycleBin {
    /// The numbers now.
    pub fn summary(&self) -> RecycleSummary {
        RecycleSummary {
            files: self.files.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            kept: self.kept.load(Relaxed),
            purged: self.purged.load(Relaxed),
            removed: std::array::from_fn(|at| self.removed[at].load(Relaxed)),
        }
    }

    /// A file was moved into the folder.
    pub fn count_kept(&self, bytes: u64, most: u64) {
        self.kept.fetch_add(1, Relaxed);
        self.has_new.store(true, Relaxed);
        self.files.fetch_add(1, Relaxed);
        if self.bytes.fetch_add(bytes, Relaxed).saturating_add(bytes) > most {
            self.is_over.store(true, Relaxed);
        }
    }

    /// A file was removed from the folder, by a client or (with `is_purged`) by the bounds.
    pub fn count_gone(&self, bytes: u64, is_purged: bool) {
        self.purged.fetch_add(u64::from(is_purged), Relaxed);
        let less = |count: &AtomicU64, by: u64| {
            let _ = count.fetch_update(Relaxed, Relaxed, |now| Some(now.saturating_sub(by)));
        };
        less(&self.files, 1);
        less(&self.bytes, bytes);
    }

    /// A file was removed for good at once. True if the log has not told this reason yet.
    pub fn count_removed(&self, why: FinalRemoval) -> bool {
        self.removed[why as usize].fetch_add(1, Relaxed);
        let bit = 1 << why as u8;
        self.told.load(Relaxed) & bit == 0 && self.told.fetch_or(bit, Relaxed) & bit == 0
    }

    /// The settings are new: the folder is searched from the beginning, and a search under way is of no use.
    pub fn restart(&self) {
        self.told.store(0, Relaxed);
        let mut state = self.search.lock();
        let generation = state.generation + 1;
        let old = std::mem::replace(&mut *state, SearchState { generation, ..SearchState::default() });
        drop(state);
        drop(old);
    }

    /// The files in the folder are not those that the last search found.
    pub fn note_new(&self) {
        self.has_new.store(true, Relaxed);
    }

    /// The right to go on with the search, and to make room. Waits for the thread that has it.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// As [`RecycleBin::turn`]; none if another thread has it.
    pub fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.try_lock()
    }

    /// No file is purged while this is held. A client that moves a directory holds it.
    pub fn hold_purges(&self) -> ReadGuard<'_, ()> {
        self.moves.read()
    }

    /// No client moves a directory while this is held.
    pub fn hold_moves(&self) -> WriteGuard<'_, ()> {
        self.moves.write()
    }

    /// Lets one thread at a time remove a name of a file that has several.
    pub fn link_removal(&self, file: NodeId) -> MutexGuard<'_, ()> {
        self.links[file.inode as usize & (LINK_LOCKS - 1)].lock()
    }

    /// Room is needed, and the known files are not enough: a search is due if there may be others.
    pub fn need_room(&self, now_ns: u64) {
        let mut state = self.search.lock();
        let has_new = self.has_new.swap(false, Relaxed);
        let is_old = state.ended_ns.is_none_or(|ended| now_ns.saturating_sub(ended) >= ROOM_AFTER_NS);
        if has_new || is_old && self.files.load(Relaxed) > state.oldest.len() as u64 {
            state.ended_ns = None;
        }
    }

    /// The search to go on with, or an empty one if one is due; none if there is nothing to do now. Give it
    /// back with [`RecycleBin::put_back`] or [`RecycleBin::end`]. The caller has the turn.
    pub fn take(&self, now_ns: u64) -> Option<FolderSearch> {
        let mut state = self.search.lock();
        let is_due = state.ended_ns.is_none_or(|ended| now_ns.saturating_sub(ended) >= AGAIN_AFTER_NS)
            || self.is_over.load(Relaxed);
        let generation = state.generation;
        let new = || FolderSearch { generation, ..FolderSearch::default() };
        state.running.take().or_else(|| is_due.then(new))
    }

    /// The search goes on later, unless the settings are others by now.
    pub fn put_back(&self, search: FolderSearch) {
        let mut state = self.search.lock();
        if state.generation == search.generation {
            state.running = Some(search);
        }
    }

    /// The search has seen the whole folder. Returns whether more is kept than `most`. The result of a search
    /// that began under other settings does not count.
    pub fn end(&self, search: FolderSearch, now_ns: u64, most: u64) -> bool {
        let mut oldest = search.oldest.into_sorted_vec();
        oldest.reverse();
        let mut state = self.search.lock();
        if state.generation != search.generation {
            return false;
        }
        self.files.store(search.files, Relaxed);
        self.bytes.store(search.bytes, Relaxed);
        self.is_over.store(false, Relaxed);
        state.ended_ns = Some(now_ns);
        state.oldest_bytes = oldest.iter().map(|file| file.bytes).sum();
        let old = std::mem::replace(&mut state.oldest, oldest);
        drop(state);
        drop(old);
        search.bytes > most
    }

    /// Whether the oldest files that are known take at least `bytes` of storage, and there is one.
    pub fn can_give(&self, bytes: u64) -> bool {
        let state = self.search.lock();
        !state.oldest.is_empty() && state.oldest_bytes >= bytes
    }

    /// Takes the oldest file that is known.
    pub fn take_oldest(&self) -> Option<RecycledFile> {
        let mut state = self.search.lock();
        let oldest = state.oldest.pop()?;
        state.oldest_bytes = state.oldest_bytes.saturating_sub(oldest.bytes);
        // The next search finds further ones before they are needed.
        if state.oldest.len() == MOST_OLDEST / 4 && self.files.load(Relaxed) > state.oldest.len() as u64 + 1 {
            self.is_over.store(true, Relaxed);
        }
        Some(oldest)
    }

    /// Whether the known files take more than `most`. Then the folder is searched again soon.
    pub fn note_over(&self, most: u64) -> bool {
        let is_over = self.bytes.load(Relaxed) > most;
        self.is_over.store(is_over, Relaxed);
        is_over
    }
}
