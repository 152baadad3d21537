//! The state directory: data that must survive a restart and is not configuration.
//!
//! Start with [`StateDir::open`], which creates the directory, takes its lock and refuses other versions.
//! [`store`] keeps the users and the server's identity.
//!
//! Layout: `version`, `lock`, `state.redb`, `control.sock`, `first-password`, `admin-token`, `handle-key`,
//! `changes.toml`, `volumes/N/` for each directory that was ever served, and `volumes/N.opens` for
//! persistent opens, and `epoch` where nodes take turns ([`last_epoch`]). Only the owner can access any of
//! it. [`files`] reports changes of the smaller files.
//!
//! [`version`] has the table of versions, and [`migration`] leads from one to another. [`replacement`]
//! replaces files all or none. [`snapshot`] reads the whole directory at one moment, for a backup. [`loss`]
//! ends a server whose directory another machine has taken over.

#[cfg(test)]
mod damage;
pub mod disk;
mod files;
mod last_epoch;
pub mod listing;
pub mod lock;
pub mod loss;
pub mod migration;
pub mod owner;
pub mod replacement;
pub mod snapshot;
pub mod store;
pub mod version;
#[cfg(test)]
mod version_tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config::own_error;
use disk::Disk;
pub use files::{ADMIN_TOKEN, FIRST_PASSWORD};
pub use last_epoch::{GivenEpoch, StoreName};
use lock::{LockHolder, LockUse, Patience};
use snapshot::OpenJournals;
use store::{Store, StoreError};
use version::{CURRENT, KnownVersions, PROGRAM, VERSION_FILE, VersionFile};

/// The files that an interrupted first start may leave.
const BEGINNINGS: [&str; 5] = ["lock", "state.new", "state.redb", "state.generation", "version.new"];

/// The directory that a new file system of its own has.
const LOST_AND_FOUND: &str = "lost+found";

/// The reason why a state directory cannot be used, as one line that names it.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// An error of the host.
    #[error("state directory {dir}: {what}; see --state-dir")]
    Host {
        /// The directory.
        dir: String,
        /// The host's message.
        what: String,
    },
    /// It does not exist or is empty.
    #[error("there is no state in {0}; see --state-dir")]
    Missing(String),
    /// It contains other files.
    #[error("state directory {0}: it holds other files and no `version`; give an empty one with --state-dir")]
    Foreign(String),
    /// It is a state directory without its file `version`.
    #[error(
        "state directory {0}: `version` is missing beside `state.redb`; restore it, or write \
         `trunkline state {newest}` into it, if it is of this version", newest = CURRENT.newest
    )]
    NoVersion(String),
    /// Its file `version` cannot be read.
    #[error(
        "state directory {dir}: it is of version `{found}`, which no trunkline has written; restore the file \
         `version`, or give another directory with --state-dir"
    )]
    Version {
        /// The directory.
        dir: String,
        /// The content of its file `version`.
        found: String,
    },
    /// A newer program wrote it.
    #[error(
        "state directory {dir}: its version is {found}, written by {program}; this is {PROGRAM}, which knows \
         versions up to {known}: install the newer program again, or run its `trunkline state downgrade` \
         first, or restore a backup of version {known} with `trunkline restore --replace`"
    )]
    Newer {
        /// The directory.
        dir: String,
        /// Its version.
        found: u32,
        /// The program that wrote it.
        program: String,
        /// The newest version that this program knows.
        known: u32,
    },
    /// A program wrote it that is too old to be followed by this one.
    #[error(
        "state directory {dir}: its version is {found}, and this is {PROGRAM}, which knows version {known} \
         and up: start a release in between on it first, or restore a newer backup, or give another one with \
         --state-dir"
    )]
    TooOld {
        /// The directory.
        dir: String,
        /// Its version.
        found: u32,
        /// The oldest version that this program can migrate.
        known: u32,
    },
    /// It cannot be migrated.
    #[error(
        "state directory {dir}: it cannot be brought from version {from} to version {to}: {why}; it stays \
             as it is"
    )]
    Migration {
        /// The directory.
        dir: String,
        /// Its version.
        from: u32,
        /// The wanted version.
        to: u32,
        /// The reason.
        why: migration::MigrationError,
    },
    /// Another server holds it.
    #[error("state directory {0}: a server is running on it; stop it, or give another one with --state-dir")]
    Locked(String),
    /// A command holds it.
    #[error(
        "state directory {dir}: a trunkline command (process {pid}) works on it; try again when it has \
         ended, or give another directory with --state-dir"
    )]
    Busy {
        /// The directory.
        dir: String,
        /// The command's process.
        pid: u32,
    },
    /// Its content cannot be read.
    #[error("state directory {dir}: {why}")]
    Store {
        /// The directory.
        dir: String,
        /// The reason.
        why: StoreError,
    },
}

/// A state directory that this process has locked.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    store: Store,
    journals: OpenJournals,
    /// The exclusive lock. The host releases it when the process ends in any way.
    lock: File,
}

impl StateDir {
    /// Opens `path`, and creates it if it is missing. A directory of an earlier version is migrated.
    ///
    /// # Errors
    /// [`StateError`]. A directory that is refused stays unchanged.
    pub fn open(path: &Path) -> Result<StateDir, StateError> {
        StateDir::open_for(path, LockUse::Command)
    }

    /// Like [`StateDir::open`], for a server or a command.
    pub fn open_for(path: &Path, lock_use: LockUse) -> Result<StateDir, StateError> {
        StateDir::open_as(path, lock_use, &CURRENT, &Disk::default())
    }

    /// Like [`StateDir::open_for`], as a program that knows these versions.
    pub fn open_as(
        path: &Path,
        lock_use: LockUse,
        known: &KnownVersions,
        disk: &Disk,
    ) -> Result<StateDir, StateError> {
        let host = |e: io::Error| host_error(path, &e);
        let mut held = None;
        if replacement::is_begun(path) {
            held = Some(lock(path, lock_use)?);
            replacement::recover(path, disk).map_err(host)?;
        }
        let version = version_of(path, known)?;
        if version.is_none() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(host)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(host)?;
        let lock = held.map_or_else(|| lock(path, lock_use), Ok)?;
        let database = path.join("state.redb");
        let failed = |source| store_error(path, source);
        match version {
            None => {
                if !database.try_exists().map_err(host)? {
                    Store::make(&database).map_err(failed)?;
                }
                // `version` is written last, so that it never exists without the other files.
                let text = VersionFile::text(known.newest);
                write_private(&path.join(VERSION_FILE), text.as_bytes()).map_err(host)?;
            }
            Some(from) if from < known.newest => migrate(path, from, known, disk)?,
            Some(_) => {}
        }
        let store = Store::open(&database).map_err(failed)?;
        Ok(StateDir { path: path.to_path_buf(), store, journals: OpenJournals::default(), lock })
    }

    /// Opens `path` only if it exists.
    ///
    /// # Errors
    /// As [`StateDir::open`].
    pub fn open_existing(path: &Path) -> Result<Option<StateDir>, StateError> {
        StateDir::open_existing_for(path, LockUse::Command)
    }

    /// Like [`StateDir::open_existing`], for a server or a command.
    pub fn open_existing_for(path: &Path, lock_use: LockUse) -> Result<Option<StateDir>, StateError> {
        let is_there = replacement::is_begun(path) || version_of(path, &CURRENT)?.is_some();
        if is_there { StateDir::open_for(path, lock_use).map(Some) } else { Ok(None) }
    }

    /// Brings the directory `path` down to version `to`, for an older program. Returns its version before.
    ///
    /// # Errors
    /// [`StateError`]. The directory is unchanged then.
    pub fn downgrade(
        path: &Path,
        to: Option<u32>,
        known: &KnownVersions,
        disk: &Disk,
    ) -> Result<(u32, u32), StateError> {
        let missing = || StateError::Missing(path.display().to_string());
        // Nothing is written to a directory that has no state.
        if !replacement::is_begun(path) {
            version_of(path, known)?.ok_or_else(missing)?;
        }
        let _lock = lock(path, LockUse::Command)?;
        replacement::recover(path, disk).map_err(|e| host_error(path, &e))?;
        let from = version_of(path, known)?.ok_or_else(missing)?;
        let to = to.unwrap_or(from.saturating_sub(1));
        let failed = |why| migration_error(path, (from, to), why);
        migration::down(path, from, to, known, disk).map_err(failed)?;
        Ok((from, to))
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The journals that are open, for a backup.
    pub fn journals(&self) -> &OpenJournals {
        &self.journals
    }

    /// The database of users and identity.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The sidecar directory of the served directory `path`, which is created if it is missing. It belongs to
    /// the directory, not to the share's name.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn volume_dir(&self, path: &Path) -> Result<PathBuf, StateError> {
        let number = self.store.volume(path).map_err(|source| store_error(&self.path, source))?;
        let dir = self.path.join("volumes").join(number.to_string());
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        let made = made.and_then(|()| owner::keep_in_place(&self.path.join("volumes")));
        let made = made.and_then(|()| owner::keep_in_place(&dir));
        made.map(|()| dir).map_err(|e| host_error(&self.path, &e))
    }

    /// The number of `path`, which is a directory or another key in the form of a path. Numbers are never
    /// reused.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn number(&self, path: &Path) -> Result<u32, StateError> {
        self.store.volume(path).map_err(|source| store_error(&self.path, source))
    }

    /// Gives each of these paths a number if it has none. It waits for the disk only once.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn give_numbers<'a>(&self, paths: impl Iterator<Item = &'a Path>) -> Result<(), StateError> {
        self.store.give_volumes(paths).map_err(|source| store_error(&self.path, source))
    }

    /// The journal of the persistent opens in the served directory `path`.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn opens_path(&self, path: &Path) -> Result<PathBuf, StateError> {
        Ok(self.volume_dir(path)?.with_extension("opens"))
    }

    /// The journal of the NFS client records of an endpoint.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn clients_path(&self, endpoint: &str) -> Result<PathBuf, StateError> {
        let number = self.number(&Path::new(":nfs-clients").join(endpoint))?;
        Ok(self.path.join(format!("nfs-clients.{number}")))
    }
}

fn migrate(path: &Path, from: u32, known: &KnownVersions, disk: &Disk) -> Result<(), StateError> {
    let failed = |why| migration_error(path, (from, known.newest), why);
    let backup = migration::up(path, from, known, disk).map_err(failed)?;
    tracing::info!(
        path = %path.display(), from, to = known.newest, backup = %backup.display(),
        "the state directory was brought to the version of this program"
    );
    Ok(())
}

fn migration_error(path: &Path, (from, to): (u32, u32), why: migration::MigrationError) -> StateError {
    StateError::Migration { dir: path.display().to_string(), from, to, why }
}

fn host_error(path: &Path, error: &io::Error) -> StateError {
    StateError::Host { dir: path.display().to_string(), what: own_error(error) }
}

fn store_error(path: &Path, why: StoreError) -> StateError {
    StateError::Store { dir: path.display().to_string(), why }
}

/// The version of the state directory `path`, which the program knows. None if it is still empty.
fn version_of(path: &Path, known: &KnownVersions) -> Result<Option<u32>, StateError> {
    let dir = || path.display().to_string();
    match version::read(path).map_err(|e| host_error(path, &e))? {
        None => is_empty(path).map(|()| None),
        Some(Err(found)) => Err(StateError::Version { dir: dir(), found }),
        Some(Ok(VersionFile { version: found, program })) if found > known.newest => {
            let program = program.unwrap_or_else(|| "a newer trunkline".to_owned());
            Err(StateError::Newer { dir: dir(), found, program, known: known.newest })
        }
        Some(Ok(VersionFile { version: found, .. })) if found < known.oldest() => {
            Err(StateError::TooOld { dir: dir(), found, known: known.oldest() })
        }
        Some(Ok(VersionFile { version, .. })) => Ok(Some(version)),
    }
}

/// Refuses a directory that has other files than an interrupted first start leaves.
fn is_empty(path: &Path) -> Result<(), StateError> {
    let shown = || path.display().to_string();
    match fs::read_dir(path) {
        Ok(entries) => {
            let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
            names.retain(|name| name != LOST_AND_FOUND);
            let is_begun = names.iter().all(|name| BEGINNINGS.iter().any(|known| name == known));
            match names.iter().any(|name| name == "state.redb") {
                _ if is_begun => Ok(()),
                true => Err(StateError::NoVersion(shown())),
                false => Err(StateError::Foreign(shown())),
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(host_error(path, &e)),
    }
}

/// Takes the lock of `path`, or refuses it because a server or a command works on it.
pub fn lock(path: &Path, lock_use: LockUse) -> Result<File, StateError> {
    let taken = lock::take(&path.join("lock"), lock_use, Patience::default());
    let dir = path.display().to_string();
    taken.map_err(|e| host_error(path, &e))?.map_err(|holder| match holder {
        LockHolder::Server => StateError::Locked(dir),
        LockHolder::Command(pid) => StateError::Busy { dir, pid },
    })
}

/// Writes a file that only its owner can read, completely or not at all.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    owner::keep(&file, path.parent().unwrap_or(path))?;
    file.write_all(content)?;
    volume_posix::store_file(&file)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn it_is_made_private_and_held_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/state");
        assert!(StateDir::open_existing(&path).unwrap().is_none());
        assert!(!path.exists());
        let state = StateDir::open_for(&path, LockUse::Server).unwrap();
        assert_eq!((mode(&path), mode(&path.join("state.redb"))), (0o700, 0o600));
        let second = StateDir::open(&path).unwrap_err();
        assert!(matches!(second, StateError::Locked(_)), "{second}");
        drop(state);
        assert!(StateDir::open_existing(&path).unwrap().is_some());
    }

    #[test]
    fn another_version_and_other_files_are_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("version"), "trunkline state 9\nx").unwrap();
        let error = StateDir::open(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("version is 9, written by a newer trunkline") && error.contains("downgrade"),
            "{error}"
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::rename(dir.path().join("version"), dir.path().join("letter.txt")).unwrap();
        assert!(matches!(StateDir::open(dir.path()).unwrap_err(), StateError::Foreign(_)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_system_of_its_own_is_an_empty_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(LOST_AND_FOUND)).unwrap();
        assert!(StateDir::open(dir.path()).is_ok());
        assert!(StateDir::open(dir.path()).is_ok());
    }

    #[test]
    fn an_interrupted_first_start_is_taken_up_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("lock"), "").unwrap();
        assert!(StateDir::open(dir.path()).is_ok());
        // Only the last file is missing.
        let identity = StateDir::open(dir.path()).unwrap().store().identity();
        fs::remove_file(dir.path().join("version")).unwrap();
        fs::write(dir.path().join("state.new"), "half").unwrap();
        assert_eq!(StateDir::open(dir.path()).unwrap().store().identity(), identity);
    }

    #[test]
    fn a_database_or_a_version_that_is_missing_is_told_and_nothing_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let identity = state.store().identity();
        state.volume_dir(Path::new("/srv/a")).unwrap();
        drop(state);
        let aside = dir.path().with_extension("aside");
        for (missing, wanted) in [
            ("state.redb", "state.redb: it is missing beside `version`"),
            ("version", "`version` is missing beside `state.redb`"),
        ] {
            fs::rename(dir.path().join(missing), &aside).unwrap();
            for opened in
                [StateDir::open(dir.path()), StateDir::open_existing(dir.path()).map(Option::unwrap)]
            {
                let error = opened.unwrap_err().to_string();
                assert!(error.contains(wanted) && error.contains("restore it"), "{error}");
                assert!(!dir.path().join(missing).exists());
            }
            fs::rename(&aside, dir.path().join(missing)).unwrap();
        }
        assert_eq!(StateDir::open(dir.path()).unwrap().store().identity(), identity);
    }
}
