//! Directories that are served, each with its engine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use volume_posix::PosixVolume;

/// One directory and the engine on it.
#[derive(Clone)]
pub(super) struct Served {
    pub(super) volume: Arc<PosixVolume>,
    pub(super) engine: Arc<share::Share>,
    /// Its share is gone, or at another path by now, and somebody is connected to it still.
    pub(super) is_left: bool,
}

/// Engines by the real path of their directory.
pub(super) type Engines = BTreeMap<PathBuf, Served>;
