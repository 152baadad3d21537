//! The opens from before a restart that were not restored yet, by their files.
//!
//! A file's opens are restored together, by the thread that begins with the file. Others that need the file
//! wait for that thread. If the host fails to open the file, its opens come back to the table. Those who have
//! waited fail with the same reason, and the next who needs the file tries again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use volume::Name;

use super::ReclaimOwner;
use crate::caching::grants::Holder;
use crate::persistence::ledger::Ledger;
use crate::ranked::{Condition, Mutex, Rank};
use crate::{OpenRestorer, Refusal};

/// The longest wait for another thread that restores the opens of a file. A store that stands still may keep
/// that thread for ever.
const MOST_WAIT: Duration = Duration::from_secs(20);

/// The opens that were not restored yet.
pub(crate) struct Unrestored {
    /// The number of files, readable without the lock.
    left: AtomicUsize,
    /// The number of their opens.
    opens: AtomicUsize,
    table: Mutex<UnrestoredTable>,
    /// The opens of a file are restored.
    finished: Condition,
    /// That files fail was logged.
    pub told_failing: AtomicBool,
}

impl Default for Unrestored {
    fn default() -> Unrestored {
        Unrestored {
            left: AtomicUsize::new(0),
            opens: AtomicUsize::new(0),
            table: Mutex::of_default(Rank::Unrestored),
            finished: Condition::default(),
            told_failing: AtomicBool::new(false),
        }
    }
}

#[derive(Default)]
struct UnrestoredTable {
    /// The files by their inode numbers.
    files: BTreeMap<u64, UnrestoredFile>,
    by_open: HashMap<u64, u64>,
    by_holder: HashMap<Holder, u64>,
    /// No thread of the background has begun with this file or a later one in this round.
    next: u64,
    /// The number of files that the host failed to open at the last attempt.
    failing: usize,
    restorer: Option<Arc<dyn OpenRestorer>>,
}

/// A file with such opens.
#[derive(Default)]
struct UnrestoredFile {
    /// The ids, in ascending order.
    opens: Vec<u64>,
    /// The clients and users that reclaim opens by their identity, one for each such open.
    owners: Vec<ReclaimOwner>,
    paths: Vec<Vec<Name>>,
    is_under_way: bool,
    /// The number of attempts that have failed, and the reason of the last one.
    attempts: u64,
    failure: Option<Refusal>,
}

/// The turn of a thread to restore the opens of a file. It ends when this is dropped. The opens are restored
/// then, or come back to the table if the turn has failed.
pub(crate) struct FileTurn<'a> {
    unrestored: &'a Unrestored,
    inode: u64,
    /// The ids of the opens, in ascending order.
    pub opens: Vec<u64>,
    /// The owners of those that are reclaimed by their identity.
    pub owners: Vec<ReclaimOwner>,
    /// Takes the restored opens over.
    pub restorer: Arc<dyn OpenRestorer>,
    failure: Option<Refusal>,
}

impl UnrestoredTable {
    fn begin<'a>(&mut self, unrestored: &'a Unrestored, inode: u64) -> Option<FileTurn<'a>> {
        let restorer = Arc::clone(self.restorer.as_ref()?);
        let file = self.files.get_mut(&inode)?;
        file.is_under_way = true;
        let (opens, owners) = (std::mem::take(&mut file.opens), std::mem::take(&mut file.owners));
        Some(FileTurn { unrestored, inode, opens, owners, restorer, failure: None })
    }
}

impl Unrestored {
    /// Enters all opens of a ledger. Returns the owners of those that are reclaimed by their identity, one
    /// for each open.
    pub fn enter(&self, ledger: &Ledger) -> Vec<ReclaimOwner> {
        let (mut table, mut owners) = (self.table.lock(), Vec::new());
        for (id, entry) in &ledger.live {
            let made = &entry.made;
            let owner = made.address.is_empty().then_some((made.client, made.user));
            owners.extend(owner);
            let file = table.files.entry(made.inode).or_default();
            file.opens.push(*id);
            file.owners.extend(owner);
            for path in &made.paths {
                if !file.paths.contains(path) {
                    file.paths.push(path.clone());
                }
            }
            table.by_open.insert(*id, made.inode);
            if let Some(holder) = entry.holder() {
                table.by_holder.insert(holder, made.inode);
            }
        }
        self.opens.store(ledger.live.len(), Ordering::Relaxed);
        self.left.store(table.files.len(), Ordering::Release);
        owners
    }

    /// Sets who takes the opens over. None is restored before.
    pub fn restore_for(&self, restorer: Arc<dyn OpenRestorer>) {
        let mut table = self.table.lock();
        if !table.files.is_empty() {
            table.restorer = Some(restorer);
        }
    }

    /// Whether all opens are restored.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// The number of files whose opens are not restored yet.
    pub fn file_count(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// The number of opens that are not restored yet.
    pub fn open_count(&self) -> usize {
        self.opens.load(Ordering::Relaxed)
    }

    /// Whether a file with this inode number has such opens.
    pub fn has_file(&self, inode: u64) -> bool {
        !self.is_empty() && self.table.lock().files.contains_key(&inode)
    }

    /// The inode number of the file of an open.
    pub fn file_of(&self, open: u64) -> Option<u64> {
        self.table.lock().by_open.get(&open).copied()
    }

    /// The inode number of the file on which this holder has a caching right.
    pub fn file_held_by(&self, holder: &Holder) -> Option<u64> {
        self.table.lock().by_holder.get(holder).copied()
    }

    /// The inode numbers of the files whose names are in this directory or below.
    pub fn below(&self, directory: &[Name]) -> Vec<u64> {
        let table = self.table.lock();
        let is_below = |file: &UnrestoredFile| file.paths.iter().any(|path| path.starts_with(directory));
        table.files.iter().filter(|(_, file)| is_below(file)).map(|(inode, _)| *inode).collect()
    }

    /// The reason why the host last failed to open one of these files, if that was so.
    pub fn failure_among(&self, files: &[u64]) -> Option<Refusal> {
        let table = self.table.lock();
        files.iter().find_map(|inode| table.files.get(inode)?.failure.clone())
    }

    /// The reason why the host last failed to open any file; none if no file is left.
    pub fn any_failure(&self) -> Option<Refusal> {
        let table = self.table.lock();
        let failure = table.files.values().find_map(|file| file.failure.clone());
        if table.files.is_empty() { None } else { Some(failure.unwrap_or(Refusal::Io)) }
    }

    /// Whether the host failed to open a file at the last attempt.
    pub fn is_failing(&self) -> bool {
        self.table.lock().failing > 0
    }

    /// Begins with a file. If another thread is at it, waits until it is done. None if nothing of the file is
    /// left then. The caller holds no lock.
    ///
    /// # Errors
    /// The host's error, if the other thread met one; [`Refusal::Io`] if it is not done for long.
    pub fn begin(&self, inode: u64) -> Result<Option<FileTurn<'_>>, Refusal> {
        let mut table = self.table.lock();
        let Some(attempts) = table.files.get(&inode).map(|file| file.attempts) else { return Ok(None) };
        let is_busy = |table: &mut UnrestoredTable| {
            table.files.get(&inode).is_some_and(|file| file.is_under_way && file.attempts == attempts)
        };
        if !table.wait_while(&self.finished, is_busy, MOST_WAIT) {
            return Err(Refusal::Io);
        }
        match table.files.get(&inode) {
            Some(file) if file.attempts != attempts => Err(file.failure.clone().unwrap_or(Refusal::Io)),
            _ => Ok(table.begin(self, inode)),
        }
    }

    /// Begins with a file with which no thread has begun in this round. None if there is none.
    pub fn begin_next(&self) -> Option<FileTurn<'_>> {
        let mut table = self.table.lock();
        let waiting = table.files.range(table.next..).find(|(_, file)| !file.is_under_way);
        let inode = *waiting?.0;
        table.next = inode.saturating_add(1);
        table.begin(self, inode)
    }

    /// Begins another round over the files that are left.
    pub fn begin_round(&self) {
        self.table.lock().next = 0;
    }

    /// Waits until other threads are done with the files with which they have begun, but not for ever. The
    /// caller holds no lock.
    pub fn await_others(&self) {
        let is_any = |table: &mut UnrestoredTable| table.files.values().any(|file| file.is_under_way);
        let _in_time = self.table.lock().wait_while(&self.finished, is_any, MOST_WAIT);
    }

    /// Takes out all files with which no thread has begun. Returns the ids of their opens, and the owners.
    pub fn give_up(&self) -> (Vec<u64>, Vec<ReclaimOwner>) {
        let mut table = self.table.lock();
        let left = table.files.extract_if(.., |_, file| !file.is_under_way).map(|(_, file)| file);
        let (mut opens, mut owners, mut failing) = (Vec::new(), Vec::new(), 0);
        for file in left {
            opens.extend(file.opens);
            owners.extend(file.owners);
            failing += usize::from(file.failure.is_some());
        }
        table.failing -= failing;
        let emptied = self.count(&mut table, opens.len());
        drop(table);
        drop(emptied);
        (opens, owners)
    }

    /// Counts opens that have left the table. An empty table is returned. Its drop may do work, so it happens
    /// after the lock is released.
    fn count(&self, table: &mut UnrestoredTable, opens: usize) -> Option<UnrestoredTable> {
        self.opens.fetch_sub(opens, Ordering::Relaxed);
        self.left.store(table.files.len(), Ordering::Release);
        table.files.is_empty().then(|| std::mem::take(table))
    }
}

impl FileTurn<'_> {
    /// Ends the turn without success. The opens come back to the table.
    pub fn fail(mut self, why: Refusal) {
        self.failure = Some(why);
    }
}

impl Drop for FileTurn<'_> {
    fn drop(&mut self) {
        let mut table = self.unrestored.table.lock();
        let mut emptied = None;
        match (self.failure.take(), table.files.get_mut(&self.inode)) {
            (Some(why), Some(file)) => {
                (file.opens, file.owners) =
                    (std::mem::take(&mut self.opens), std::mem::take(&mut self.owners));
                file.is_under_way = false;
                file.attempts += 1;
                let is_new = file.failure.replace(why).is_none();
                table.failing += usize::from(is_new);
            }
            _ => {
                let file = table.files.remove(&self.inode);
                table.failing -= usize::from(file.is_some_and(|file| file.failure.is_some()));
                emptied = self.unrestored.count(&mut table, self.opens.len());
            }
        }
        drop(table);
        drop(emptied);
        self.unrestored.finished.notify_all();
    }
}
