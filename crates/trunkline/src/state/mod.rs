//! The state directory: what must survive between runs, and is no configuration.
//!
//! Start with [`StateDir::open`], which makes the directory, holds its lock and refuses one of another
//! version. [`store`] keeps users and the server's identity in it.
//!
//! Layout: `version`, `lock`, `state.redb`, `control.sock`, `first-password`, `admin-token`, `changes.toml`, `volumes/N/` for each
//! directory that was ever served, `volumes/N.opens` where opens outlive the server. Everything is open to its owner only.

mod lock;
pub mod store;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::config::os_error;
use store::{Store, StoreError};

/// First and only line of `version`.
const VERSION: &str = "trunkline state 1";

/// Why a state directory cannot be used; one line that names it.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The host refused.
    #[error("state directory {dir}: {what}; see --state-dir")]
    Host {
        /// The directory.
        dir: String,
        /// What the host says.
        what: String,
    },
    /// There is something else in it.
    #[error("state directory {0}: it holds other files and no `version`; give an empty one with --state-dir")]
    Foreign(String),
    /// It was written by another version of the program.
    #[error(
        "state directory {dir}: it is of version `{found}`, this program knows `{VERSION}`; give another one with --state-dir"
    )]
    Version {
        /// The directory.
        dir: String,
        /// What its file `version` says.
        found: String,
    },
    /// Another server holds it.
    #[error("state directory {0}: another server is running on it; give this one its own with --state-dir")]
    Locked(String),
    /// Its content cannot be read.
    #[error("state directory {dir}: {source}")]
    Store {
        /// The directory.
        dir: String,
        /// What is wrong.
        source: StoreError,
    },
}

/// A state directory that this process alone holds.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    store: Store,
    /// The exclusive lock; given back by the host when the process ends, however it ends.
    _lock: File,
}

impl StateDir {
    /// Opens `path`, which is made when it is missing.
    ///
    /// # Errors
    /// [`StateError`]; a directory that is refused is left as it was.
    pub fn open(path: &Path) -> Result<StateDir, StateError> {
        let host = |e: io::Error| host_error(path, &e);
        let fresh = is_fresh(path)?;
        if fresh {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(host)?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).map_err(host)?;
        let lock = lock(path)?;
        if fresh {
            write_private(&path.join("version"), format!("{VERSION}\n").as_bytes()).map_err(host)?;
        }
        let store = Store::open(&path.join("state.redb")).map_err(|source| store_error(path, source))?;
        Ok(StateDir { path: path.to_path_buf(), store, _lock: lock })
    }

    /// Opens `path` only if it is there already.
    ///
    /// # Errors
    /// As [`StateDir::open`].
    pub fn open_existing(path: &Path) -> Result<Option<StateDir>, StateError> {
        if is_fresh(path)? { Ok(None) } else { StateDir::open(path).map(Some) }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Users and identity.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where what belongs to the served directory `path` and does not fit into it is kept; made when it
    /// is missing. It goes with the directory, not with the share's name.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn volume_dir(&self, path: &Path) -> Result<PathBuf, StateError> {
        let number = self.store.volume(path).map_err(|source| store_error(&self.path, source))?;
        let dir = self.path.join("volumes").join(number.to_string());
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        made.map(|()| dir).map_err(|e| host_error(&self.path, &e))
    }

    /// The number of `path`, a directory or something that is kept apart by a path of its own; never given twice.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn number(&self, path: &Path) -> Result<u32, StateError> {
        self.store.volume(path).map_err(|source| store_error(&self.path, source))
    }

    /// Thirty-two random bytes that stay the same as long as the directory lives, in a file open to its owner
    /// only.
    ///
    /// # Errors
    /// What the host says.
    pub fn secret(&self, name: &str) -> io::Result<[u8; 32]> {
        match fs::read(self.path.join(name)) {
            Ok(kept) => kept.try_into().map_err(|_| {
                let path = self.path.join(name);
                io::Error::other(format!("{} is damaged; restore or remove it", path.display()))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made = auth::crypto::random();
                self.write_file(name, &made)?;
                Ok(made)
            }
            Err(error) => Err(error),
        }
    }

    /// Random text that stays the same as long as the file does, which is open to its owner only and may be edited.
    ///
    /// # Errors
    /// What the host says.
    pub fn token(&self, name: &str) -> io::Result<String> {
        match fs::read_to_string(self.path.join(name)) {
            Ok(kept) => Ok(kept.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let made: [u8; 24] = auth::crypto::random();
                let text: String = made.iter().map(|byte| format!("{byte:02x}")).collect();
                self.write_file(name, format!("{text}\n").as_bytes())?;
                Ok(text)
            }
            Err(error) => Err(error),
        }
    }

    /// Where it is recorded what clients have open in the served directory `path`, if that is to outlive
    /// the server.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn opens_path(&self, path: &Path) -> Result<PathBuf, StateError> {
        Ok(self.volume_dir(path)?.with_extension("opens"))
    }

    /// Where the NFS clients of an endpoint are recorded.
    ///
    /// # Errors
    /// [`StateError`]
    pub fn clients_path(&self, endpoint: &str) -> Result<PathBuf, StateError> {
        let number = self.number(&Path::new(":nfs-clients").join(endpoint))?;
        Ok(self.path.join(format!("nfs-clients.{number}")))
    }

    /// Writes `content` to the file `name`, open to its owner only, whole or not at all.
    ///
    /// # Errors
    /// What the host says.
    pub fn write_file(&self, name: &str, content: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        write_private(&path, content)?;
        Ok(path)
    }
}

fn host_error(path: &Path, error: &io::Error) -> StateError {
    StateError::Host { dir: path.display().to_string(), what: os_error(error) }
}

fn store_error(path: &Path, source: StoreError) -> StateError {
    StateError::Store { dir: path.display().to_string(), source }
}

/// Whether nothing is in `path` yet; otherwise it must be a state directory of this version.
fn is_fresh(path: &Path) -> Result<bool, StateError> {
    match fs::read_to_string(path.join("version")) {
        Ok(found) if found.trim_end() == VERSION => Ok(false),
        Ok(found) => {
            let found = found.lines().next().unwrap_or_default().chars().take(80).collect();
            Err(StateError::Version { dir: path.display().to_string(), found })
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => match fs::read_dir(path) {
            // A first start that was interrupted leaves the lock alone behind.
            Ok(entries) => {
                let foreign = entries.flatten().any(|entry| entry.file_name() != "lock");
                if foreign { Err(StateError::Foreign(path.display().to_string())) } else { Ok(true) }
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

/// Writes a file that only its owner can read, whole or not at all.
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
    }
}
