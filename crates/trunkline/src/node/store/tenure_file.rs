//! A tenure record in a file, next to a lock that one process at a time has.
//!
//! `NAME.tenure` is the lock (flock). It is never replaced. `NAME.tenure.json` is the record. It is replaced
//! as a whole, and is on the disk before a call returns, so a cut leaves the old record or the new one. Only
//! the owner of the lock writes it. The lock's file is empty until a record exists, so a record that was
//! lost is noticed, and its epochs are not counted again from the beginning.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use tenure::{StoreError, TenureRecord};

use crate::state::owner;

/// The longest record.
const MAX_RECORD: u64 = 1 << 20;

/// The content of the lock's file once a record exists.
const MARK: &str = "The record beside this lock says who owns the virtual server.\n";

/// The two files of a virtual server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenureFile {
    lock: PathBuf,
    record: PathBuf,
}

/// The lock. It lasts until this value is dropped, or the process ends.
#[derive(Debug)]
pub struct TenureLock(File);

impl TenureFile {
    /// The files beside a state directory. They must be on the same storage, which all nodes share.
    ///
    /// # Errors
    /// One line, if the state directory is the root of its file system.
    pub fn beside(state: &Path) -> Result<TenureFile, String> {
        let missing = || format!("{}: a state directory has a name and is in a directory", state.display());
        let resolved = match fs::canonicalize(state) {
            Ok(resolved) => resolved,
            Err(why) if why.kind() == io::ErrorKind::NotFound => state.to_owned(),
            Err(why) => return Err(format!("{}: {why}", state.display())),
        };
        let name = resolved.file_name().ok_or_else(missing)?;
        let parent = resolved.parent().ok_or_else(missing)?;
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
        let of_parent = device(parent).map_err(|why| format!("{}: {why}", parent.display()))?;
        if device(&resolved).is_ok_and(|of_state| of_state != of_parent) {
            return Err(format!(
                "{} is the root of its file system, so no lock of that storage can be beside it; use a \
                 directory in it as the state directory",
                state.display()
            ));
        }
        Ok(TenureFile::at(parent.join(name)))
    }

    /// The files that begin with this path.
    fn at(base: PathBuf) -> TenureFile {
        let with = |end: &str| {
            let mut path = base.clone().into_os_string();
            path.push(end);
            PathBuf::from(path)
        };
        TenureFile { lock: with(".tenure"), record: with(".tenure.json") }
    }

    /// The path of the lock, for messages.
    pub fn path(&self) -> &Path {
        &self.lock
    }

    /// Takes the lock, unless a process has it.
    pub fn lock(&self) -> Result<Option<TenureLock>, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&self.lock).map_err(|why| self.unreachable(&why))?;
        owner::keep(&file, self.parent()).map_err(|why| self.unreachable(&why))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(TenureLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(why) => Err(self.unreachable(&why.into())),
        }
    }

    /// Whether a process has the lock. The look takes a shared lock for a moment.
    pub fn is_locked(&self) -> Result<bool, StoreError> {
        let file = match File::open(&self.lock) {
            Ok(file) => file,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(why) => return Err(self.unreachable(&why)),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(why) => Err(self.unreachable(&why.into())),
        }
    }

    /// Whether this is still the lock that others would take.
    pub fn is_in_place(&self, lock: &TenureLock) -> Result<bool, StoreError> {
        let own = lock.0.metadata().map_err(|why| self.unreachable(&why))?;
        match fs::metadata(&self.lock) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(why) => Err(self.unreachable(&why)),
        }
    }

    /// The record, or none before the first owner.
    pub fn read(&self) -> Result<Option<TenureRecord>, StoreError> {
        match fs::metadata(&self.record) {
            Ok(meta) if meta.len() > MAX_RECORD => Err(self.damaged("it is too long")),
            Ok(_) => {
                let text = fs::read(&self.record).map_err(|why| self.unreachable(&why))?;
                let odd = |why: serde_json::Error| self.damaged(&why.to_string());
                serde_json::from_slice(&text).map(Some).map_err(odd)
            }
            Err(why) if why.kind() == io::ErrorKind::NotFound => match fs::metadata(&self.lock) {
                Ok(lock) if lock.len() > 0 => Err(StoreError::Refused(format!(
                    "{} is missing, though the virtual server has had an owner; bring it back, or remove {} \
                     if no node may serve from an older epoch any more",
                    self.record.display(),
                    self.lock.display()
                ))),
                _ => Ok(None),
            },
            Err(why) => Err(self.unreachable(&why)),
        }
    }

    /// Replaces the record. It is on the disk then.
    pub fn write(&self, lock: &TenureLock, record: &TenureRecord) -> Result<(), StoreError> {
        let text = serde_json::to_vec(record).map_err(|why| StoreError::Refused(why.to_string()))?;
        self.replace(lock, &text).map_err(|why| self.unreachable(&why))
    }

    fn replace(&self, lock: &TenureLock, text: &[u8]) -> io::Result<()> {
        let new = self.record.with_extension("json.new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        owner::keep(&file, self.parent())?;
        file.write_all(text)?;
        volume_posix::store_file(&file)?;
        fs::rename(&new, &self.record)?;
        File::open(self.parent())?.sync_all()?;
        if lock.0.metadata()?.len() == 0 {
            (&lock.0).write_all(MARK.as_bytes())?;
            lock.0.sync_all()?;
        }
        Ok(())
    }

    fn parent(&self) -> &Path {
        self.lock.parent().unwrap_or(&self.lock)
    }

    fn damaged(&self, why: &str) -> StoreError {
        let (record, lock) = (self.record.display(), self.lock.display());
        StoreError::Refused(format!(
            "{record} is no record of a tenure: {why}; bring it back, or remove it and {lock} if no node may \
             serve from an older epoch any more"
        ))
    }

    fn unreachable(&self, why: &io::Error) -> StoreError {
        StoreError::Unreachable(format!("{}: {why}", self.lock.display()))
    }
}

#[cfg(test)]
mod tests {
    use tenure::Epoch;

    use super::*;

    #[test]
    fn the_files_are_beside_the_state_directory_and_on_its_storage() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let files = TenureFile::beside(&state).unwrap();
        fs::create_dir(&state).unwrap();
        assert_eq!(TenureFile::beside(&state).unwrap(), files);
        assert_eq!(files.path().file_name().unwrap(), "state.tenure");
        for root in ["/proc", "/"] {
            assert!(TenureFile::beside(Path::new(root)).is_err(), "{root}");
        }
    }

    #[test]
    fn a_record_that_was_lost_or_damaged_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let files = TenureFile::beside(&dir.path().join("state")).unwrap();
        assert_eq!(files.read(), Ok(None));
        let lock = files.lock().unwrap().unwrap();
        assert_eq!(files.read(), Ok(None));
        let record = TenureRecord { epoch: Epoch(7), ..TenureRecord::default() };
        files.write(&lock, &record).unwrap();
        assert_eq!(files.read(), Ok(Some(record.clone())));
        for content in ["", "{\"epoch\":", "[]", &" ".repeat(2 << 20)] {
            fs::write(dir.path().join("state.tenure.json"), content).unwrap();
            assert!(matches!(files.read(), Err(StoreError::Refused(_))), "{:.9}", content);
        }
        fs::remove_file(dir.path().join("state.tenure.json")).unwrap();
        let error = files.read().unwrap_err().to_string();
        assert!(error.contains("state.tenure.json is missing"), "{error}");
        // A write that was cut has left its new file.
        fs::write(dir.path().join("state.tenure.json.new"), "{").unwrap();
        files.write(&lock, &record).unwrap();
        assert_eq!(files.read(), Ok(Some(record)));
    }

    #[test]
    fn one_process_has_the_lock_and_finds_that_it_was_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let files = TenureFile::beside(&dir.path().join("state")).unwrap();
        assert_eq!(files.is_locked(), Ok(false));
        let lock = files.lock().unwrap().unwrap();
        assert!(files.lock().unwrap().is_none());
        assert_eq!((files.is_locked(), files.is_in_place(&lock)), (Ok(true), Ok(true)));
        fs::remove_file(files.path()).unwrap();
        assert_eq!(files.is_in_place(&lock), Ok(false));
        let other = files.lock().unwrap().unwrap();
        assert_eq!((files.is_in_place(&lock), files.is_in_place(&other)), (Ok(false), Ok(true)));
    }
}
