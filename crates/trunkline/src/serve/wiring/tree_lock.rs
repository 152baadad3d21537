//! The lock on a served directory, by which two virtual servers never serve the same tree.
//!
//! Each has a tenure and a state directory of its own, so neither of these keeps them apart. The lock is on
//! the directory itself (flock), so it excludes other nodes where the storage's locks do.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::config::os_error;

/// The time to wait for a former owner's process, which keeps its locks until it has ended.
const PATIENCE: Duration = Duration::from_secs(3);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Locks the directory of a share. None if its storage has no such locks.
///
/// # Errors
/// Another server serves it, or the host's error, in one line.
pub fn lock(share: &str, path: &Path) -> Result<Option<Arc<File>>, String> {
    lock_within(share, path, PATIENCE)
}

fn lock_within(share: &str, path: &Path, patience: Duration) -> Result<Option<Arc<File>>, String> {
    let failed = |error: &io::Error| format!("share `{share}`: {}: {}", path.display(), os_error(error));
    let directory = File::open(path).map_err(|error| failed(&error))?;
    let until = Instant::now() + patience;
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(Arc::new(directory))),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => {
                return Err(format!(
                    "share `{share}`: another server has locked {}; if it is another virtual server, \
                     give each its own directory; if it is the former owner, it has not ended yet",
                    path.display()
                ));
            }
            Err(
                Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::NOLCK | Errno::ISDIR | Errno::BADF,
            ) => {
                tracing::warn!(share, path = %path.display(), "the storage has no locks on directories, so \
                               nothing keeps another virtual server from this one");
                return Ok(None);
            }
            Err(errno) => return Err(failed(&errno.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_never_have_the_same_tree() {
        let dir = tempfile::tempdir().unwrap();
        let first = lock_within("docs", dir.path(), Duration::ZERO).unwrap();
        assert!(first.is_some());
        let refused = lock_within("docs", dir.path(), Duration::ZERO).unwrap_err();
        assert!(refused.contains("another server has locked"), "{refused}");
        drop(first);
        assert!(lock_within("docs", dir.path(), Duration::ZERO).unwrap().is_some());
    }
}
