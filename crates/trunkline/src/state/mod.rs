//! The state directory: data that must survive a restart and is not configuration.
//!
//! Start with [`StateDir::open`], which creates the directory, takes its lock and refuses other versions.
//! [`store`] keeps the users and the server's identity.
//!
//! Layout: `version`, `lock`, `state.redb`, `control.sock`, `first-password`, `admin-token`, `handle-key`,
//! `changes.toml`, `volumes/N/` for each directory that was ever served, and `volumes/N.opens` for persistent
//! opens. Only the owner can access any of it. [`files`] reports changes of the smaller files.
//! are not what was written.

#[cfg(test)]
mod damage;
mod files;
mod lock;
pub mod store;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config::os_error;
pub use files::{ADMIN_TOKEN, FIRST_PASSWORD};
use store::{Store, StoreError};

/// First and only line of `version`.
const VERSION: &str = "trunkline state 1";

/// The files that an interrupted first start may leave.
const BEGINNINGS: [&str; 5] = ["lock", "state.new", "state.redb", "state.generation", "version.new"];

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
    /// It contains other files.
    #[error("state directory {0}: it holds other files and no `version`; give an empty one with --state-dir")]
    Foreign(String),
    /// It is a state directory without its file `version`.
    #[error(
        "state directory {0}: `version` is missing beside `state.redb`; restore it, or write `{VERSION}` \
         into it, if it is of this version"
    )]
    NoVersion(String),
    /// It was written by another version of the program.
    #[error(
        "state directory {dir}: it is of version `{found}`, this program knows `{VERSION}`; give another one \
         with --state-dir"
    )]
    Version {
        /// The directory.
        dir: String,
        /// The content of its file `version`.
        found: String,
    },
    /// Another server holds it.
    #[error("state directory {0}: another server is running on it; give this one its own with --state-dir")]
    Locked(String),
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
    /// The exclusive lock. The host releases it when the process ends in any way.
    _lock: File,
}

impl StateDir {
    /// Opens `path`, and creates it if it is missing.
    ///
    /// # Errors
    /// [`StateError`]. A directory that is refused stays unchanged.
    pub fn open(path: &Path) -> Result<StateDir, StateError> {
        let host = |e: io::Error| host_error(path, &e);
        let fresh = is_fresh(path)?;
        if fresh {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(host)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(host)?;
        let lock = lock(path)?;
        let database = path.join("state.redb");
        let failed = |source| store_error(path, source);
        if fresh {
            if !database.try_exists().map_err(host)? {
                Store::make(&database).map_err(failed)?;
            }
            // `version` is written last, so that it never exists without the other files.
            write_private(&path.join("version"), format!("{VERSION}\n").as_bytes()).map_err(host)?;
        }
        let store = Store::open(&database).map_err(failed)?;
        Ok(StateDir { path: path.to_path_buf(), store, _lock: lock })
    }

    /// Opens `path` only if it exists.
    ///
    /// # Errors
    /// As [`StateDir::open`].
    pub fn open_existing(path: &Path) -> Result<Option<StateDir>, StateError> {
        if is_fresh(path)? { Ok(None) } else { StateDir::open(path).map(Some) }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
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

fn host_error(path: &Path, error: &io::Error) -> StateError {
    StateError::Host { dir: path.display().to_string(), what: os_error(error) }
}

fn store_error(path: &Path, why: StoreError) -> StateError {
    StateError::Store { dir: path.display().to_string(), why }
}

/// Whether `path` is still empty. Otherwise it must be a state directory of this version.
fn is_fresh(path: &Path) -> Result<bool, StateError> {
    let shown = || path.display().to_string();
    match fs::read(path.join("version")) {
        Ok(found) if found.trim_ascii_end() == VERSION.as_bytes() => Ok(false),
        Ok(found) => {
            let found = String::from_utf8_lossy(&found);
            let found = found.lines().next().unwrap_or_default().chars().take(80).collect();
            Err(StateError::Version { dir: shown(), found })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => match fs::read_dir(path) {
            Ok(entries) => {
                let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
                let is_begun = names.iter().all(|name| BEGINNINGS.iter().any(|known| name == known));
                match names.iter().any(|name| name == "state.redb") {
                    _ if is_begun => Ok(true),
                    true => Err(StateError::NoVersion(shown())),
                    false => Err(StateError::Foreign(shown())),
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(e) => Err(host_error(path, &e)),
        },
        Err(e) => Err(host_error(path, &e)),
    }
}

fn lock(path: &Path) -> Result<File, StateError> {
    let taken = lock::take(&path.join("lock"), lock::PATIENCE).map_err(|e| host_error(path, &e))?;
    taken.ok_or_else(|| StateError::Locked(path.display().to_string()))
}

/// Writes a file that only its owner can read, completely or not at all.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
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
        let state = StateDir::open(&path).unwrap();
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
        assert!(error.contains("`trunkline state 9`") && error.contains("--state-dir"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::rename(dir.path().join("version"), dir.path().join("letter.txt")).unwrap();
        assert!(matches!(StateDir::open(dir.path()).unwrap_err(), StateError::Foreign(_)));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
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
