//! What is open: the table of open files, how many opens there are, and what was told of files.

mod table;
mod versions;

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use volume::{NodeId, NodeKind};

use crate::engine::parts::file::File;
use table::Table;
pub(crate) use versions::{Versions, number};

/// The opens of a share and the files they are of.
pub(crate) struct OpenFiles {
    files: Table,
    versions: Versions,
    next_id: AtomicU64,
    count: AtomicUsize,
    /// How often the host has refused to bring written data to stable storage.
    failed_syncs: AtomicU64,
}

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles {
            files: Table::default(),
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

    /// Numbers below this one are those of opens from before a restart.
    pub fn begin_ids_at(&self, least: u64) {
        self.next_id.fetch_max(least, Ordering::Relaxed);
    }

    /// How many opens there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// There is one open more.
    pub fn came(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// There is one open less.
    pub fn went(&self) {
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

    /// The file of a node, entered in the table when it is not there.
    pub fn enter(&self, id: NodeId, kind: NodeKind) -> FileRef<'_> {
        FileRef::new(self, self.files.enter(id, kind))
    }

    /// Takes a file out of the table that nobody has open any more.
    pub fn leave(&self, file: &Arc<File>) {
        if self.files.leave(file) {
            self.versions.closed(file.id, file.changes.load(Ordering::Relaxed));
        }
    }

    /// A file that is not in the table may have been changed.
    pub fn note_changed(&self) {
        self.files.note_changed();
    }

    /// How many files were changed and have been closed by all, and how often the host told of a change.
    pub fn changed(&self) -> u64 {
        self.files.changed()
    }

    /// What was told of files, whether they are open or not.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// The host could not store what was written to a file, which may be open.
    pub fn note_failed_sync(&self, file: Option<&File>) {
        self.failed_syncs.fetch_add(1, Ordering::AcqRel);
        if let Some(file) = file {
            file.failed_syncs.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How often it could not.
    pub fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Ordering::Acquire)
    }

    /// Whether a directory is to be removed, so that nothing may be made in it.
    pub fn is_going(&self, directory: NodeId) -> bool {
        self.get(directory).is_some_and(|file| {
            let state = file.state.lock();
            state.links.iter().any(|link| link.delete.is_some() || link.removed)
        })
    }
}

/// A file that stays in the table while somebody decides about it, whoever closes it meanwhile.
///
/// On a slow host a decision takes longer than others have the file open. If the file left the table with the last of
/// them, the decision would have to begin anew each time.
pub(crate) struct FileRef<'a> {
    open_files: &'a OpenFiles,
    file: Arc<File>,
    is_open: bool,
}

impl<'a> FileRef<'a> {
    fn new(open_files: &'a OpenFiles, file: Arc<File>) -> FileRef<'a> {
        FileRef { open_files, file, is_open: false }
    }

    /// Gives the reference up for an open that is among the file's members by now and keeps the file in the table.
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
