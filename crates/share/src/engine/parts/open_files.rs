//! The table of open files, the number of opens, and the versions of files that were given out.

mod table;
mod versions;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use volume::{NodeId, NodeKind};

use crate::engine::parts::file::File;
use table::OpenFileTable;
pub(crate) use versions::{Versions, number};

/// The opens of a share and their files.
pub(crate) struct OpenFiles {
    files: OpenFileTable,
    versions: Versions,
    next_id: AtomicU64,
    count: AtomicUsize,
    /// How often the host has failed to bring written data to stable storage.
    failed_syncs: AtomicU64,
}

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles {
            files: OpenFileTable::default(),
            versions: Versions::default(),
            next_id: AtomicU64::new(1),
            count: AtomicUsize::new(0),
            failed_syncs: AtomicU64::new(0),
        }
    }
}

impl OpenFiles {
    /// A number that no open had before.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Reserves the numbers below this one for opens from before a restart.
    pub fn begin_ids_at(&self, least: u64) {
        self.next_id.fetch_max(least, Ordering::Relaxed);
    }

    /// The number of opens.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts a new open.
    pub fn count_opened(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a closed open.
    pub fn count_closed(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// The file, if it is open.
    pub fn get(&self, id: NodeId) -> Option<Arc<File>> {
        self.files.get(id)
    }

    /// All files that are open.
    pub fn all(&self) -> Vec<Arc<File>> {
        self.files.all()
    }

    /// Returns the memory that no open file needs. Call it periodically.
    pub fn return_unused(&self) {
        self.files.return_unused();
    }

    /// The file of a node, which is entered in the table if it is not there.
    pub fn enter(&self, id: NodeId, kind: NodeKind) -> FileRef<'_> {
        FileRef::new(self, self.files.enter(id, kind))
    }

    /// Takes a file out of the table if it is not open any more.
    pub fn leave(&self, file: &Arc<File>) {
        if self.files.leave(file) {
            self.versions.closed(file.id, file.changes.load(Ordering::Relaxed));
        }
    }

    /// A file that is not in the table may have been changed.
    pub fn note_changed(&self) {
        self.files.note_changed();
    }

    /// A counter of files that were changed and then closed by all, and of changes that the host reported.
    pub fn changed(&self) -> u64 {
        self.files.changed()
    }

    /// The versions that were given out, for open and closed files.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The host could not store data that was written to a file, which may be open.
    pub fn note_failed_sync(&self, file: Option<&File>) {
        self.failed_syncs.fetch_add(1, Ordering::AcqRel);
        if let Some(file) = file {
            file.failed_syncs.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How often the host could not store written data.
    pub fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Ordering::Acquire)
    }

    /// Whether a directory is marked for removal, so that no object may be created in it.
    pub fn is_going(&self, directory: NodeId) -> bool {
        self.get(directory).is_some_and(|file| {
            let state = file.state.lock();
            state.links.iter().any(|link| link.delete.is_some() || link.removed)
        })
    }
}

/// A file that stays in the table while a request decides about it, whichever opens are closed meanwhile.
///
/// On a slow host a decision takes longer than others have the file open. If the file left the table with the
/// last of them, the decision would have to begin anew each time.
pub(crate) struct FileRef<'a> {
    open_files: &'a OpenFiles,
    file: Arc<File>,
    is_open: bool,
}

impl<'a> FileRef<'a> {
    fn new(open_files: &'a OpenFiles, file: Arc<File>) -> FileRef<'a> {
        FileRef { open_files, file, is_open: false }
    }

    /// Gives the reference up for an open that is among the file's members by now and keeps the file in the
    /// table.
    pub fn into_open(mut self) -> Arc<File> {
        self.is_open = true;
        Arc::clone(&self.file)
    }
}

impl Deref for FileRef<'_> {
    type Target = Arc<File>;

    fn deref(&self) -> &Arc<File> {
        &self.file
    }
}

impl Drop for FileRef<'_> {
    fn drop(&mut self) {
        self.file.references.fetch_sub(1, Ordering::AcqRel);
        if !self.is_open {
            self.open_files.leave(&self.file);
        }
    }
}
