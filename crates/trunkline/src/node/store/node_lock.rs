//! The lock on the node itself, which one process for each virtual server has.
//!
//! A tenure store gives a tenure at once to a process on the same boot of the same node as the owner, since
//! that is a restart in place. This lock shows that the former process is gone: a living one keeps it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::state::lock::{self, LockUse, Patience};

/// The attempts to lock a file that somebody removes meanwhile.
const ATTEMPTS: usize = 5;

/// The lock. It lasts until this value is dropped, or the process ends.
#[derive(Debug)]
pub struct NodeLock {
    _file: File,
}

/// The reason why the lock cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum NodeLockError {
    /// Another process of this node has it.
    #[error(
        "another process on this node serves the virtual server `{server}`: it has {}; end that one, or give \
         this one another `name` and `run_dir` in [node] if both are wanted on one machine",
        path.display()
    )]
    Busy {
        /// The virtual server.
        server: String,
        /// The file.
        path: PathBuf,
    },
    /// The host failed.
    #[error("the lock of this node cannot be taken: {}: {error}; see `run_dir` in [node]", path.display())]
    Host {
        /// The file or directory.
        path: PathBuf,
        /// The host's error.
        error: io::Error,
    },
}

impl NodeLock {
    /// Takes the lock of a virtual server in `directory`, which must be on this node and equal for all its
    /// processes. It waits for a process that has been killed and has not ended yet.
    ///
    /// # Errors
    /// [`NodeLockError`].
    pub fn take(directory: &Path, server: &str) -> Result<NodeLock, NodeLockError> {
        let path = directory.join(format!("node-{server}.lock"));
        let failed = |at: &Path| {
            let path = at.to_owned();
            |error| NodeLockError::Host { path, error }
        };
        DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed(directory))?;
        for _ in 0..ATTEMPTS {
            let taken = lock::take(&path, LockUse::Server, Patience::default()).map_err(failed(&path))?;
            let Ok(file) = taken else {
                return Err(NodeLockError::Busy { server: server.to_owned(), path });
            };
            // A service manager may remove the directory of a service that it ends.
            let own = file.metadata().map_err(failed(&path))?;
            if fs::metadata(&path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
                return Ok(NodeLock { _file: file });
            }
        }
        Err(failed(&path)(io::Error::other("somebody removes it all the time")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_it_for_each_virtual_server() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("run/trunkline");
        let first = NodeLock::take(&at, "one").unwrap();
        let error = NodeLock::take(&at, "one").unwrap_err();
        assert!(matches!(error, NodeLockError::Busy { .. }), "{error}");
        NodeLock::take(&at, "two").unwrap();
        drop(first);
        NodeLock::take(&at, "one").unwrap();
    }

    #[test]
    fn a_directory_that_is_none_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("run"), "").unwrap();
        let error = NodeLock::take(&dir.path().join("run"), "one").unwrap_err();
        assert!(matches!(error, NodeLockError::Host { .. }), "{error}");
    }
}
