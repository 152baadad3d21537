//! The content of a state directory at one moment, while the server changes it.
//!
//! No share notes a change of its opens at that moment, and all that were noted before are in the journals
//! (`serve/wiring/rest.rs`). [`StateDir::snapshot`] locks all open journals and then notes the records of
//! the database, which are in memory. So a change that has been confirmed to anybody is in one of them, and
//! no change comes between. Clients wait for some microseconds ([`Snapshot::held`]). The bytes are read
//! afterwards: journals only grow, and a replaced one is another file (`volume_posix::try_at_one_moment`).
//!
//! The smaller files are also in the database (`files.rs`), and are taken from there. The caller makes sure
//! that no change of users, accounts and shares is half done.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use volume_posix::{JournalSnapshot, PosixJournal, try_at_one_moment};

use super::listing::member_names;
use super::store::StoreError;
use super::store::image::{StoreFiles, StoreImage};
use super::version::VERSION_FILE;
use super::{FIRST_PASSWORD, StateDir};

/// The journals that this process has open, by their paths.
#[derive(Debug, Default)]
pub struct OpenJournals(Mutex<BTreeMap<PathBuf, Weak<PosixJournal>>>);

impl OpenJournals {
    /// Adds a journal. It is forgotten when nobody uses it any more.
    pub fn add(&self, path: &Path, journal: &Arc<PosixJournal>) {
        let mut all = self.0.lock();
        all.retain(|_, journal| journal.strong_count() > 0);
        all.insert(path.to_owned(), Arc::downgrade(journal));
    }

    fn all(&self) -> (Vec<PathBuf>, Vec<Arc<PosixJournal>>) {
        let all = self.0.lock();
        all.iter().filter_map(|(path, journal)| Some((path.clone(), journal.upgrade()?))).unzip()
    }
}

/// A state directory at one moment.
#[derive(Debug)]
pub struct Snapshot {
    dir: PathBuf,
    records: StoreImage,
    /// The open journals by their names below the directory.
    journals: BTreeMap<String, JournalSnapshot>,
    names: Vec<String>,
    held: Duration,
}

/// A file of a snapshot.
pub struct SnapshotFile {
    /// The path below the state directory.
    pub name: String,
    /// The number of bytes.
    pub size: u64,
    /// The content.
    pub data: Box<dyn Read>,
}

/// The reason why a state directory cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A file cannot be read.
    #[error("{0}: {1}")]
    Host(PathBuf, io::Error),
    /// A journal is being written. It can be tried again.
    #[error("the record of opens is being written; try again")]
    Busy,
    /// The opens cannot be written.
    #[error("the state cannot be read at one moment: {0}")]
    Unwritten(String),
    /// The database cannot be copied.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl StateDir {
    /// The content of the directory now. `at_rest` calls its argument while no client changes anything, and
    /// returns the time for which clients had to wait. It returns none if it was not done.
    ///
    /// # Errors
    /// [`SnapshotError`]
    pub fn snapshot(
        &self,
        at_rest: impl FnOnce(&mut dyn FnMut() -> bool) -> Result<Option<Duration>, String>,
    ) -> Result<Snapshot, SnapshotError> {
        let names = member_names(&self.path).map_err(|e| SnapshotError::Host(self.path.clone(), e))?;
        let (paths, journals) = self.journals.all();
        let mut noted = None;
        let held = at_rest(&mut || {
            noted = try_at_one_moment(&journals, || self.store.snapshot());
            noted.is_some()
        });
        let held = held.map_err(SnapshotError::Unwritten)?.ok_or(SnapshotError::Busy)?;
        let (mut records, journals) = noted.ok_or(SnapshotError::Busy)?;
        // It is no part of a backup; see `listing.rs`.
        records.forget_file(FIRST_PASSWORD);
        let journals = paths.iter().map(|path| self.name_of(path)).zip(journals).collect();
        Ok(Snapshot { dir: self.path.clone(), records, journals, names, held })
    }

    /// The content of a directory that no server uses.
    ///
    /// # Errors
    /// [`SnapshotError`]
    pub fn snapshot_alone(&self) -> Result<Snapshot, SnapshotError> {
        self.snapshot(|read| {
            read();
            Ok(Some(Duration::ZERO))
        })
    }
}

impl Snapshot {
    /// The time for which clients that change their opens had to wait.
    pub fn held(&self) -> Duration {
        self.held
    }

    /// The records of the database.
    pub fn records(&self) -> &StoreImage {
        &self.records
    }

    /// The files, one after the other.
    ///
    /// # Errors
    /// [`SnapshotError`], or that of `take`.
    pub fn read<E: From<SnapshotError>>(
        mut self,
        take: &mut dyn FnMut(SnapshotFile) -> Result<(), E>,
    ) -> Result<(), E> {
        let StoreFiles { database, generation } = self.records.to_files().map_err(SnapshotError::from)?;
        let recorded = self.records.files();
        let in_memory = |name: &str, content: Vec<u8>| SnapshotFile {
            name: name.to_owned(),
            size: content.len() as u64,
            data: Box::new(Cursor::new(content)),
        };
        take(in_memory("state.redb", database))?;
        take(in_memory("state.generation", generation))?;
        for (name, journal) in std::mem::take(&mut self.journals) {
            self.names.retain(|other| *other != name);
            if journal.size() > 0 {
                take(SnapshotFile { name, size: journal.size(), data: Box::new(journal) })?;
            }
        }
        // `version` comes last, as in the directory itself.
        self.names.sort_by_key(|name| name == VERSION_FILE);
        for name in self.names.iter().filter(|name| !name.starts_with("state.")) {
            let file = match recorded.get(name).filter(|content| !content.is_empty()) {
                Some(content) => in_memory(name, content.clone()),
                None => match self.open(name)? {
                    Some(file) => file,
                    // It was removed after the moment, or was being written before it.
                    None => continue,
                },
            };
            take(file)?;
        }
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Option<SnapshotFile>, SnapshotError> {
        let path = self.dir.join(name);
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        match opened {
            Ok((size, file)) => Ok(Some(SnapshotFile { name: name.to_owned(), size, data: Box::new(file) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(SnapshotError::Host(path, error)),
        }
    }
}
