//! The opens from before a restart that were not restored yet, by their files.
//!
//! A file's opens are restored together, by the thread that begins with the file. Others that need the file
//! wait for that thread.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use volume::Name;

use super::ReclaimOwner;
use crate::OpenRestorer;
use crate::caching::grants::Holder;
use crate::persistence::ledger::Ledger;
use crate::ranked::{Condition, Mutex, Rank};

/// The opens that were not restored yet.
pub(crate) struct Unrestored {
    /// The number of files, readable without the lock.
    left: AtomicUsize,
    /// The number of their opens.
    opens: AtomicUsize,
    table: Mutex<UnrestoredTable>,
    /// The opens of a file are restored.
    finished: Condition,
}

impl Default for Unrestored {
    fn default() -> Unrestored {
        Unrestored {
            left: AtomicUsize::new(0),
            opens: AtomicUsize::new(0),
            table: Mutex::of_default(Rank::Unrestored),
            finished: Condition::default(),
        }
    }
}

#[derive(Default)]
struct UnrestoredTable {
    /// The files by their inode numbers.
    files: BTreeMap<u64, UnrestoredFile>,
    by_open: HashMap<u64, u64>,
    by_holder: HashMap<Holder, u64>,
    /// No thread of the background has begun with this file or a later one.
    next: u64,
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
}

/// The turn of a thread to restore the opens of a file. It ends when this is dropped.
pub(crate) struct FileTurn<'a> {
    unrestored: &'a Unrestored,
    inode: u64,
    /// The ids of the opens, in ascending order.
    pub opens: Vec<u64>,
    /// The owners of those that are reclaimed by their identity.
    pub owners: Vec<ReclaimOwner>,
    /// Takes the restored opens over.
    pub restorer: Arc<dyn OpenRestorer>,
}

impl UnrestoredTable {
    fn begin<'a>(&mut self, unrestored: &'a Unrestored, inode: u64) -> Option<FileTurn<'a>> {
        let restorer = Arc::clone(self.restorer.as_ref()?);
        let file = self.files.get_mut(&inode)?;
        file.is_under_way = true;
        let (opens, owners) = (std::mem::take(&mut file.opens), std::mem::take(&mut file.owners));
        Some(FileTurn { unrestored, inode, opens, owners, restorer })
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

    /// Begins with a file. If another thread is at it, waits until it is done. None if nothing of the file is
    /// left then. The caller holds no lock.
    pub fn begin(&self, inode: u64) -> Option<FileTurn<'_>> {
        let mut table = self.table.lock();
        while table.files.get(&inode)?.is_under_way {
            table.wait(&self.finished);
        }
        table.begin(self, inode)
    }

    /// Begins with a file with which no thread has begun. None if there is none.
    pub fn begin_next(&self) -> Option<FileTurn<'_>> {
        let mut table = self.table.lock();
        let waiting = table.files.range(table.next..).find(|(_, file)| !file.is_under_way);
        let inode = *waiting?.0;
        table.next = inode.saturating_add(1);
        table.begin(self, inode)
    }

    /// Waits until other threads have restored the opens of the files with which they have begun. The caller
    /// holds no lock.
    pub fn await_others(&self) {
        let mut table = self.table.lock();
        while table.files.values().any(|file| file.is_under_way) {
            table.wait(&self.finished);
        }
    }
}

impl Drop for FileTurn<'_> {
    fn drop(&mut self) {
        let _dropped;
        let mut table = self.unrestored.table.lock();
        table.files.remove(&self.inode);
        self.unrestored.opens.fetch_sub(self.opens.len(), Ordering::Relaxed);
        self.unrestored.left.store(table.files.len(), Ordering::Release);
        if table.files.is_empty() {
            // Its drop may do work, so it happens after the lock is released.
            _dropped = std::mem::take(&mut *table);
        }
        drop(table);
        self.unrestored.finished.notify_all();
    }
}
