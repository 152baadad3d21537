//! The recycle folder in numbers: its files and bytes, what was kept, and what was removed for good and why.
//! It also has the state of the search for the files in the folder ([`FolderSearch`]).

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};

use volume::{Name, NodeId, Time};

use crate::engine::parts::names::directory::Directory;
use crate::ranked::{Mutex, Rank};
use crate::{ChangeFilter, ChangeKind};

/// The most files that a search remembers as the oldest.
const MOST_OLDEST: usize = 4096;
/// The time between two searches of an unchanged folder: it finds files whose time is over, and files that
/// clients have taken out or removed.
const AGAIN_AFTER_NS: u64 = 3600 * 1_000_000_000;

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
    pub parent: Arc<Directory>,
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
}

/// A directory that a search has reached.
pub(crate) struct SearchedDirectory {
    pub directory: Arc<Directory>,
    /// The cookie of the last entry that was looked at.
    pub cookie: u64,
    /// The number of directories between it and the root of the share.
    pub depth: usize,
}

/// A search through the recycle folder that goes on step by step.
#[derive(Default)]
pub(crate) struct FolderSearch {
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
    /// The search under way, while no thread goes on with it.
    running: Option<FolderSearch>,
    /// Whether a thread goes on with it at this moment.
    is_taken: bool,
    /// When the last one ended, on the monotonic clock; none: there was none under these settings.
    ended_ns: Option<u64>,
    /// The files that the last one found as the oldest, the oldest last.
    oldest: Vec<RecycledFile>,
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
    /// Whether a file was kept since the last search for room.
    has_new: AtomicBool,
    search: Mutex<SearchState>,
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

    /// The settings are new: the folder is searched from the beginning.
    pub fn restart(&self) {
        self.told.store(0, Relaxed);
        let mut state = self.search.lock();
        let old = (state.running.take(), std::mem::take(&mut state.oldest));
        state.ended_ns = None;
        drop(state);
        drop(old);
    }

    /// Space has run out: files that were removed since the last search count too.
    pub fn need_room(&self) {
        if self.has_new.swap(false, Relaxed) {
            self.is_over.store(true, Relaxed);
        }
    }

    /// The search to go on with, or an empty one if one is due; none if there is nothing to do now, or
    /// another thread does it. Give it back with [`RecycleBin::put_back`] or [`RecycleBin::end`].
    pub fn take(&self, now_ns: u64) -> Option<FolderSearch> {
        let mut state = self.search.lock();
        if state.is_taken {
            return None;
        }
        let is_due = state.ended_ns.is_none_or(|ended| now_ns.saturating_sub(ended) >= AGAIN_AFTER_NS)
            || self.is_over.load(Relaxed);
        let taken = state.running.take().or_else(|| is_due.then(FolderSearch::default));
        state.is_taken = taken.is_some();
        taken
    }

    /// The search goes on later.
    pub fn put_back(&self, search: FolderSearch) {
        let mut state = self.search.lock();
        state.is_taken = false;
        state.running = Some(search);
    }

    /// The search has seen the whole folder. Returns whether more is kept than `most`.
    pub fn end(&self, search: FolderSearch, now_ns: u64, most: u64) -> bool {
        self.files.store(search.files, Relaxed);
        self.bytes.store(search.bytes, Relaxed);
        let mut oldest = search.oldest.into_sorted_vec();
        oldest.reverse();
        self.is_over.store(false, Relaxed);
        let mut state = self.search.lock();
        state.is_taken = false;
        state.ended_ns = Some(now_ns);
        let old = std::mem::replace(&mut state.oldest, oldest);
        drop(state);
        drop(old);
        search.bytes > most
    }

    /// Takes the oldest file that is known.
    pub fn take_oldest(&self) -> Option<RecycledFile> {
        self.search.lock().oldest.pop()
    }

    /// Whether the known files take more than `most`. Then the folder is searched again soon.
    pub fn note_over(&self, most: u64) -> bool {
        let is_over = self.bytes.load(Relaxed) > most;
        self.is_over.store(is_over, Relaxed);
        is_over
    }
}
