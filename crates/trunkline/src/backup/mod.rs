//! `trunkline backup` and `trunkline restore`: the state directory in one file, and back.
//!
//! Start with [`create::create`] and [`restore::restore`]. The state is that of one moment
//! (`state/snapshot.rs`), also while the server runs. [`sidecar`] adds the sidecar data of the shares'
//! files, by the paths of the files: on another disk their inode numbers are others. The archive's form is
//! in `archive/mod.rs`.

pub mod create;
pub mod restore;
pub mod sidecar;

use std::io;
use std::path::{Path, PathBuf};

use crate::archive::{ArchiveError, Summary};
use crate::state::snapshot::SnapshotError;
use crate::state::version::{CURRENT, PROGRAM};

/// The reason why a backup or a restore was not done, as one line.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The archive cannot be used.
    #[error("{0}: {1}")]
    Archive(PathBuf, ArchiveError),
    /// The archive is of a newer state version.
    #[error(
        "{path}: it is a backup of state version {found}, made by {program}; this is {PROGRAM}, which knows \
         versions up to {newest}: restore it with that program",
        newest = CURRENT.newest
    )]
    Newer {
        /// The archive.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The program that wrote it.
        program: String,
    },
    /// The archive is of a version that this program cannot migrate.
    #[error(
        "{path}: it is a backup of state version {found}; this is {PROGRAM}, which knows version {oldest} \
         and up: restore it with {program} and start a release in between on it",
        oldest = CURRENT.oldest()
    )]
    TooOld {
        /// The archive.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The program that wrote it.
        program: String,
    },
    /// The archive has no state.
    #[error("{0}: it lacks `{1}`; take another backup")]
    Lacks(PathBuf, &'static str),
    /// The state directory is not empty.
    #[error(
        "state directory {0}: it is not empty; --replace keeps its files in a folder `replaced-…` \
         and restores the backup"
    )]
    NotEmpty(PathBuf),
    /// The directory has files that are no state.
    #[error(
        "state directory {0}: it holds other files and no `version`; give another one with \
         --state-dir"
    )]
    Foreign(PathBuf),
    /// There is no state directory.
    #[error("there is no state directory {0}; see --state-dir")]
    NoState(PathBuf),
    /// It belongs to another user.
    #[error("state directory {dir}: it belongs to user id {owner}; run this command as that user")]
    OtherOwner {
        /// The directory.
        dir: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Standard output is closed or /dev/null.
    #[error(
        "standard output is closed or /dev/null, so that the backup would be lost; give a file or a pipe"
    )]
    Nowhere,
    /// The backup would lie in the state directory.
    #[error(
        "{file}: it lies in the state directory {dir}, and would be lost together with it; give a file \
         elsewhere, best on another disk"
    )]
    Inside {
        /// The file.
        file: PathBuf,
        /// The state directory.
        dir: PathBuf,
    },
    /// The state cannot be read.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The state directory is refused.
    #[error(transparent)]
    State(#[from] crate::state::StateError),
    /// The server refuses to make a backup.
    #[error("{0}: {1}")]
    Server(PathBuf, admin::ClientError),
    /// The state did not come as a whole.
    #[error("state directory {0}: the backup is not complete, since {1}; the server's log has the reason")]
    Interrupted(PathBuf, ArchiveError),
    /// The host refuses something.
    #[error("{0}: {1}")]
    Host(PathBuf, io::Error),
    /// Sidecar data cannot be read or written.
    #[error("the sidecar data of {0}: {1}")]
    Sidecar(PathBuf, String),
}

/// Files whose sidecar data was left out, with examples for a person.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The number of files.
    pub count: u64,
    /// The first of them, at most [`LeftOut::MOST`].
    pub examples: Vec<String>,
}

impl LeftOut {
    /// The number of examples.
    const MOST: usize = 10;

    fn add(&mut self, example: String) {
        self.count += 1;
        if self.examples.len() < LeftOut::MOST {
            self.examples.push(example);
        }
    }
}

/// Refuses to work on another user's state directory. Files that root creates there could not be read by the
/// server, and notes in the attributes of files belong to the user who runs it.
fn check_owner(dir: &Path) -> Result<(), BackupError> {
    use std::os::unix::fs::MetadataExt;
    let owner = match dir.metadata() {
        Ok(meta) => meta.uid(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BackupError::Host(dir.to_owned(), error)),
    };
    if owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(BackupError::OtherOwner { dir: dir.to_owned(), owner })
}

/// A line about an archive.
pub fn shown(summary: &Summary) -> String {
    let Summary { manifest, state_files, sidecar_files, bytes, sha256 } = summary;
    format!(
        "state version {} of server {} at {}, by {}: {state_files} files of the state, {sidecar_files} files \
         with sidecar data, {bytes} bytes; sha256 of its checksums {sha256}",
        manifest.state_version,
        manifest.server_guid.escape_debug(),
        manifest.time.escape_debug(),
        manifest.program.escape_debug()
    )
}
