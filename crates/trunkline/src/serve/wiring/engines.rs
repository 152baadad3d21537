//! The directories that the server serves, each with its engine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use volume_posix::PosixVolume;

use super::tree_lock::TreeLock;

/// A directory that is served, and the engine on it.
#[derive(Clone)]
pub(super) struct ServedDirectory {
    pub(super) volume: Arc<PosixVolume>,
    pub(super) engine: Arc<share::Share>,
    /// The share was removed or moved to another path, and clients are still connected to it.
    pub(super) is_left: bool,
    /// Keeps other virtual servers from the directory. None for a server of one machine.
    pub(super) _lock: Option<Arc<TreeLock>>,
}

/// The served directories by their real path.
pub(super) type EnginesByPath = BTreeMap<PathBuf, ServedDirectory>;

/// Engines with the real paths of their directories.
pub(super) type EngineList = [(PathBuf, Arc<share::Share>)];
