//! Whether the directories of shares can still be used.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use volume::{Failure, NodeId, Volume};

use super::engines::EnginesByPath;
use crate::config::os_error;
use crate::serve::server::ServedPath;

/// The directories that are served, each with the check of it.
pub fn served(engines: &EnginesByPath) -> Vec<ServedPath> {
    let current = engines.iter().filter(|(_, served)| !served.is_left);
    let one = |(path, served): (&std::path::PathBuf, &super::engines::ServedDirectory)| {
        let (volume, own_path) = (std::sync::Arc::clone(&served.volume), path.clone());
        let check = Box::new(move || usable(&*volume, &own_path));
        ServedPath { share: served.engine.name(), path: path.clone(), check }
    };
    current.map(one).collect()
}

/// Whether clients reach the directory that an administrator finds under `path`.
fn usable(volume: &dyn Volume, path: &Path) -> Result<(), String> {
    let root = volume.root().map_err(|failure| match failure {
        Failure::Stale => "the directory was removed; create it and restart the server".to_owned(),
        other => other.to_string(),
    })?;
    root.stat().map_err(|failure| failure.to_string())?;
    let found = fs::metadata(path).map_err(|error| os_error(&error))?;
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let found = NodeId { device: u64::from(major) << 32 | u64::from(minor), inode: found.ino() };
    if found != root.id() {
        return Err(
            "another directory is there since the server started; restart the server to serve it".to_owned()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use volume_posix::PosixVolume;

    #[test]
    fn a_directory_that_was_removed_or_replaced_cannot_be_used() {
        let dir = tempfile::tempdir().unwrap();
        let (path, sidecar) = (dir.path().join("docs"), dir.path().join("sidecar"));
        fs::create_dir(&path).unwrap();
        let volume = PosixVolume::open(&path, &sidecar).unwrap();
        assert_eq!(usable(&volume, &path), Ok(()));
        fs::rename(&path, dir.path().join("old")).unwrap();
        assert_eq!(usable(&volume, &path).unwrap_err(), "no such file or directory");
        fs::create_dir(&path).unwrap();
        assert!(usable(&volume, &path).unwrap_err().contains("another directory"));
        fs::remove_dir(dir.path().join("old")).unwrap();
        assert!(usable(&volume, &path).unwrap_err().contains("was removed"));
    }
}
