//! Tenures by a lock on a file of the storage that the nodes share (flock).
//!
//! Use it for storage on which such a lock excludes other nodes, such as CephFS, or which one node at a time
//! mounts, such as XFS on a shared disk. A term has no end: the lock lasts as long as the process, or until
//! the storage fences it. A former owner that has not released the lock is among those to fence, unless it
//! was on the same boot. That is right for a disk that one node at a time mounts, too: nobody may mount it
//! before the former node is fenced.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure::{Claim, Epoch, StoreError, TakeOutcome, Taken, TenureRecord, TenureStore};

use super::tenure_file::{TenureFile, TenureLock};

/// The pause between two looks at the lock.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The attempts to take the lock. The look of another node takes it for a moment.
const ATTEMPTS: u32 = 5;

/// The pause between two attempts to take the lock.
const ATTEMPT_PAUSE: Duration = Duration::from_millis(5);

/// The tenure store in a file of the shared storage, for one virtual server.
#[derive(Debug)]
pub struct FlockStore {
    files: TenureFile,
    tenure: Mutex<Option<(TenureLock, Epoch)>>,
    /// The state of the files that the caller knows of. A watch waits for another one.
    known: Mutex<Option<FileState>>,
}

/// The state of the files at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileState {
    is_locked: bool,
    record: Option<TenureRecord>,
}

impl FlockStore {
    /// A store in these files.
    #[must_use]
    pub fn new(files: TenureFile) -> FlockStore {
        FlockStore { files, tenure: Mutex::new(None), known: Mutex::new(None) }
    }

    fn owned(&self, is_locked: bool, record: Option<TenureRecord>) -> TakeOutcome {
        *self.known.lock() = Some(FileState { is_locked, record: record.clone() });
        TakeOutcome::Owned(record.unwrap_or_default())
    }

    /// The outcome for a node that must wait whatever the lock says.
    pub(super) fn waits(&self) -> Result<TakeOutcome, StoreError> {
        Ok(self.owned(self.files.is_locked()?, self.files.read()?))
    }

    fn lock(&self) -> Result<Option<TenureLock>, StoreError> {
        for attempt in 1.. {
            match self.files.lock()? {
                // Somebody may have replaced the file between the two steps.
                Some(lock) if self.files.is_in_place(&lock)? => return Ok(Some(lock)),
                _ if attempt == ATTEMPTS => break,
                _ => thread::sleep(ATTEMPT_PAUSE),
            }
        }
        Ok(None)
    }

    /// Writes a record as the owner.
    fn write(&self, record: &TenureRecord) -> Result<(), StoreError> {
        let tenure = self.tenure.lock();
        let (lock, _) = self.own(tenure.as_ref(), record.epoch)?;
        self.files.write(lock, record)
    }

    /// The tenure, if this process has one of this epoch and the lock is the one that others would take.
    fn own<'a>(
        &self,
        tenure: Option<&'a (TenureLock, Epoch)>,
        epoch: Epoch,
    ) -> Result<&'a (TenureLock, Epoch), StoreError> {
        let path = self.files.path().display();
        let no = |why: String| Err(StoreError::NotOwner(why));
        match tenure {
            Some(tenure) if tenure.1 == epoch => match self.files.is_in_place(&tenure.0)? {
                true => Ok(tenure),
                false => no(format!(
                    "somebody has removed or replaced {path} under it; that file must stay as long as a \
                    node runs"
                )),
            },
            _ => no(format!("this process has no tenure of epoch {} by {path}", epoch.0)),
        }
    }

    /// Whether the files differ from what the caller knows. A caller that knows nothing waits for a free
    /// lock.
    pub(super) fn has_news(&self) -> Result<bool, StoreError> {
        let known = self.known.lock().clone();
        let now = FileState { is_locked: self.files.is_locked()?, record: self.files.read()? };
        Ok(match known {
            Some(known) => (known.is_locked && !now.is_locked) || known.record != now.record,
            None => !now.is_locked,
        })
    }
}

impl TenureStore for FlockStore {
    fn take(&self, claim: &Claim) -> Result<TakeOutcome, StoreError> {
        let mut tenure = self.tenure.lock();
        *self.known.lock() = None;
        let lock = match tenure.take() {
            Some((lock, _)) if self.files.is_in_place(&lock)? => lock,
            _ => match self.lock()? {
                Some(lock) => lock,
                None => return Ok(self.owned(true, self.files.read()?)),
            },
        };
        let record = self.files.read()?;
        if record.as_ref().is_some_and(|record| claim.respects_reservation_of(record)) {
            return Ok(self.owned(false, record));
        }
        let record = record.unwrap_or_default().taken_by(claim.owner.clone());
        self.files.write(&lock, &record)?;
        *tenure = Some((lock, record.epoch));
        Ok(TakeOutcome::Taken(Taken { record, term: None }))
    }

    fn renew(&self, epoch: Epoch) -> Result<Option<Duration>, StoreError> {
        self.own(self.tenure.lock().as_ref(), epoch).map(|_| None)
    }

    fn update(&self, record: &TenureRecord) -> Result<(), StoreError> {
        self.write(record)
    }

    fn release(&self, record: &TenureRecord) -> Result<(), StoreError> {
        self.write(record)?;
        *self.tenure.lock() = None;
        *self.known.lock() = Some(FileState { is_locked: false, record: Some(record.clone()) });
        Ok(())
    }

    fn watch(&self, within: Duration) -> Result<(), StoreError> {
        let end = Instant::now() + within;
        // The last attempt may have failed though the lock is free. The next one is not made at once.
        let mut is_due = self.known.lock().is_some();
        loop {
            if is_due && self.has_news()? {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(PAUSE.min(left));
            is_due = true;
        }
    }

    fn record(&self) -> Result<Option<(TenureRecord, bool)>, StoreError> {
        let is_locked = self.tenure.lock().is_some() || self.files.is_locked()?;
        Ok(self.files.read()?.map(|record| (record, is_locked)))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::suite::{self, Backing, claim};
    use super::*;

    struct FlockDirectory(tempfile::TempDir);

    fn store(dir: &Path) -> FlockStore {
        FlockStore::new(TenureFile::beside(&dir.join("state")).unwrap())
    }

    impl Backing for FlockDirectory {
        fn store(&self) -> Box<dyn TenureStore> {
            Box::new(store(self.0.path()))
        }

        fn end_term(&self, owner: Box<dyn TenureStore>) {
            drop(owner);
        }

        fn has_terms(&self) -> bool {
            false
        }
    }

    #[test]
    fn it_keeps_the_contract_of_a_store() {
        suite::run(&FlockDirectory(tempfile::tempdir().unwrap()));
    }

    #[test]
    fn an_owner_whose_lock_was_replaced_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let first = store(dir.path());
        first.take(&claim("a", "1")).unwrap();
        assert_eq!(first.renew(Epoch(1)), Ok(None));
        std::fs::remove_file(dir.path().join("state.tenure")).unwrap();
        assert!(matches!(first.renew(Epoch(1)), Err(StoreError::NotOwner(_))));
        let second = store(dir.path());
        assert!(matches!(second.take(&claim("b", "2")), Ok(TakeOutcome::Taken(_))));
        assert!(matches!(first.update(&TenureRecord::default()), Err(StoreError::NotOwner(_))));
        // The former owner must be fenced before it is believed again.
        assert!(matches!(first.take(&claim("a", "1")), Ok(TakeOutcome::Owned(_))));
    }

    #[test]
    fn a_storage_that_fails_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let store = FlockStore::new(TenureFile::beside(&dir.path().join("state")).unwrap());
        drop(dir);
        assert!(matches!(store.take(&claim("a", "1")), Err(StoreError::Unreachable(_))));
    }
}
