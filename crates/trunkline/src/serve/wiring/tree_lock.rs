//! The locks on served directories, by which two virtual servers never serve the same file.
//!
//! Each has a tenure and a state directory of its own, so neither of these keeps them apart. The locks are on
//! the directories themselves (flock), so they exclude other nodes where the storage's locks do. A served
//! directory has an exclusive lock, and the directories that it is in have shared ones, up to the root of the
//! mount. So a second server finds the first one, whether its directory is the same, inside or around.
//!
//! A lock belongs to an open file, and one process may serve nested directories. So each process has one
//! table of locked directories ([`TreeLocks`]), and locks none twice.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::config::os_error;

/// The time to wait for a former owner's process, which keeps its locks until it has ended.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The directories that this process has locked.
static OF_PROCESS: LazyLock<Arc<TreeLocks>> = LazyLock::new(Arc::default);

/// Locks the directory of a share. None if its storage has no such locks.
///
/// # Errors
/// Another server serves it, a directory in it or one around it, or the host's error, in one line.
pub fn lock(share: &str, path: &Path) -> Result<Option<Arc<TreeLock>>, String> {
    Ok(OF_PROCESS.lock(share, path, PATIENCE)?.map(Arc::new))
}

/// A file, by its device and inode number.
type FileKey = (u64, u64);

/// The locked directories of one process.
#[derive(Debug, Default)]
struct TreeLocks(Mutex<HashMap<FileKey, LockedDirectory>>);

/// A directory with a lock, and the number of those who need it.
#[derive(Debug)]
struct LockedDirectory {
    file: File,
    /// The served ones: this very directory.
    served: usize,
    /// The served directories in it.
    inside: usize,
}

/// The locks of one served directory. They last until this value is dropped, or the process ends.
#[derive(Debug)]
pub struct TreeLock {
    locks: Arc<TreeLocks>,
    /// The locked directories from the served one upwards.
    keys: Vec<FileKey>,
}

/// A reason why a directory is not locked.
enum Obstacle {
    /// Another process has a lock on this directory.
    Busy(PathBuf),
    /// The storage has no locks on directories.
    Unsupported,
    Host(PathBuf, io::Error),
}

impl TreeLocks {
    fn lock(
        self: &Arc<TreeLocks>,
        share: &str,
        path: &Path,
        patience: Duration,
    ) -> Result<Option<TreeLock>, String> {
        let until = Instant::now() + patience;
        loop {
            match self.try_lock(path) {
                Ok(lock) => return Ok(Some(lock)),
                Err(Obstacle::Busy(_)) if Instant::now() < until => thread::sleep(PAUSE),
                Err(Obstacle::Busy(busy)) => return Err(refusal(share, path, &busy)),
                Err(Obstacle::Unsupported) => {
                    tracing::warn!(share, path = %path.display(), "the storage has no locks on directories, \
                                   so nothing keeps another virtual server from this one");
                    return Ok(None);
                }
                Err(Obstacle::Host(at, error)) => {
                    return Err(format!("share `{share}`: {}: {}", at.display(), os_error(&error)));
                }
            }
        }
    }

    /// Tries once. After a failure, nothing more is locked than before. Directories around the served one are
    /// locked as far as this process may open and lock them.
    fn try_lock(self: &Arc<TreeLocks>, path: &Path) -> Result<TreeLock, Obstacle> {
        let host = |error| Obstacle::Host(path.to_owned(), error);
        let real = path.canonicalize().map_err(host)?;
        let device = real.metadata().map_err(host)?.dev();
        let mut lock = TreeLock { locks: Arc::clone(self), keys: Vec::new() };
        for directory in real.ancestors() {
            let is_served = lock.keys.is_empty();
            match self.lock_one(directory, device, is_served) {
                Ok(Some(key)) => lock.keys.push(key),
                Ok(None) => break,
                Err(obstacle @ Obstacle::Busy(_)) => return Err(obstacle),
                Err(obstacle) if is_served => return Err(obstacle),
                Err(_) => break,
            }
        }
        Ok(lock)
    }

    /// Locks one directory. None if it is on another device.
    fn lock_one(&self, path: &Path, device: u64, is_served: bool) -> Result<Option<FileKey>, Obstacle> {
        let host = |error| Obstacle::Host(path.to_owned(), error);
        let file = File::open(path).map_err(host)?;
        let found = file.metadata().map_err(host)?;
        if found.dev() != device {
            return Ok(None);
        }
        let key = (found.dev(), found.ino());
        self.enter(key, file, is_served, path)?;
        Ok(Some(key))
    }

    /// Locks one directory for one more served one: this very directory, or one in it.
    fn enter(&self, key: FileKey, file: File, is_served: bool, path: &Path) -> Result<(), Obstacle> {
        let mut table = self.0.lock();
        let (served, inside) = (usize::from(is_served), usize::from(!is_served));
        let Some(locked) = table.get_mut(&key) else {
            flock(&file, mode(served)).map_err(|errno| obstacle(path, errno))?;
            table.insert(key, LockedDirectory { file, served, inside });
            return Ok(());
        };
        if is_served && locked.served == 0 {
            // The host gives the shared lock up before it tries the exclusive one.
            flock(&locked.file, mode(1)).map_err(|errno| {
                let restored = flock(&locked.file, mode(0));
                restored.err().map_or_else(|| obstacle(path, errno), |errno| obstacle(path, errno))
            })?;
        }
        locked.served += served;
        locked.inside += inside;
        Ok(())
    }

    fn leave(&self, key: FileKey, was_served: bool) {
        let mut table = self.0.lock();
        let Some(locked) = table.get_mut(&key) else { return };
        match was_served {
            true => locked.served -= 1,
            false => locked.inside -= 1,
        }
        if locked.served + locked.inside == 0 {
            table.remove(&key);
        } else if was_served
            && locked.served == 0
            && let Err(errno) = flock(&locked.file, mode(0))
        {
            tracing::warn!(%errno, "the lock of a directory around a share is lost");
        }
    }
}

impl Drop for TreeLock {
    fn drop(&mut self) {
        for (at, key) in self.keys.iter().enumerate() {
            self.locks.leave(*key, at == 0);
        }
    }
}

/// The lock of a directory that is itself served so many times.
fn mode(served: usize) -> FlockOperation {
    match served {
        0 => FlockOperation::NonBlockingLockShared,
        _ => FlockOperation::NonBlockingLockExclusive,
    }
}

fn obstacle(path: &Path, errno: Errno) -> Obstacle {
    match errno {
        Errno::WOULDBLOCK => Obstacle::Busy(path.to_owned()),
        Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::NOLCK | Errno::ISDIR | Errno::BADF => {
            Obstacle::Unsupported
        }
        errno => Obstacle::Host(path.to_owned(), errno.into()),
    }
}

fn refusal(share: &str, path: &Path, busy: &Path) -> String {
    let what = match path.canonicalize().is_ok_and(|real| real == busy) {
        true => format!("another server has locked {}, or serves a directory in it", path.display()),
        false => format!("another server has locked {}, which {} is in", busy.display(), path.display()),
    };
    format!(
        "share `{share}`: {what}; if it is another virtual server, give each its own directories, none \
         inside of another's; if it is the former owner, it has not ended yet"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The locks of another process.
    fn other() -> Arc<TreeLocks> {
        Arc::default()
    }

    fn lock(locks: &Arc<TreeLocks>, path: &Path) -> Result<TreeLock, String> {
        locks.lock("docs", path, Duration::ZERO).map(|lock| lock.expect("the storage has locks"))
    }

    #[test]
    fn two_servers_never_have_the_same_or_nested_trees() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let outer = dir.path().join("a");
        let (one, two) = (other(), other());
        for (first, second, why) in [
            (&outer, &outer, "has locked"),
            (&outer, &inner, "which"),
            (&inner, &outer, "or serves a directory in it"),
        ] {
            let held = lock(&one, first).unwrap();
            let refused = lock(&two, second).unwrap_err();
            assert!(refused.contains("another server") && refused.contains(why), "{refused}");
            // An attempt that failed leaves no lock.
            assert!(two.0.lock().is_empty());
            drop(held);
            drop(lock(&two, second).unwrap());
        }
    }

    #[test]
    fn one_server_has_nested_trees_and_gives_each_back() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, inner, beside) = (dir.path().join("a"), dir.path().join("a/b"), dir.path().join("a/c"));
        [&inner, &beside].into_iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
        for outer_first in [true, false] {
            let (one, two) = (other(), other());
            let mut order = [&outer, &inner];
            if !outer_first {
                order.reverse();
            }
            let mut locks: Vec<_> = order.into_iter().map(|path| lock(&one, path).unwrap()).collect();
            assert!(lock(&two, &beside).is_err());
            // The one around is given back, and the one in it stays.
            drop(locks.remove(usize::from(!outer_first)));
            assert!(lock(&two, &outer).is_err());
            assert!(lock(&two, &inner).is_err());
            drop(lock(&two, &beside).unwrap());
            drop(locks);
            assert!(one.0.lock().is_empty());
            drop(lock(&two, &outer).unwrap());
        }
    }

    #[test]
    fn an_attempt_to_lock_around_a_served_directory_keeps_its_locks() {
        let dir = tempfile::tempdir().unwrap();
        let (outer, mine, theirs) = (dir.path().join("a"), dir.path().join("a/b"), dir.path().join("a/c"));
        [&mine, &theirs].into_iter().for_each(|path| std::fs::create_dir_all(path).unwrap());
        let (one, two) = (other(), other());
        let _mine = lock(&one, &mine).unwrap();
        let theirs = lock(&two, &theirs).unwrap();
        assert!(lock(&one, &outer).is_err());
        drop(theirs);
        assert!(lock(&two, &outer).is_err());
        drop(lock(&one, &outer).unwrap());
    }
}
