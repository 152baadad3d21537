//! A mark beside a journal in a file of the host: an empty file.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use volume::Result;
use volume::journal::CompleteMark;

use super::sync_directory;
use crate::errno::failure_of;

/// The mark of a journal. It is set as long as its file exists.
#[derive(Debug)]
pub struct PosixMark(PathBuf);

impl PosixMark {
    /// The mark of the journal at `journal`.
    #[must_use]
    pub fn beside(journal: &Path) -> PosixMark {
        PosixMark(journal.with_added_extension("complete"))
    }
}

impl CompleteMark for PosixMark {
    fn is_set(&self) -> bool {
        self.0.exists()
    }

    fn set(&self) -> Result<()> {
        File::create(&self.0).map(drop).map_err(|why| failure_of(&why))
    }

    fn clear(&self) -> Result<()> {
        match fs::remove_file(&self.0) {
            Err(why) if why.kind() != ErrorKind::NotFound => Err(failure_of(&why)),
            // The removal may have been tried before and not been stored.
            _ => sync_directory(&self.0).map_err(|why| failure_of(&why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_a_file_beside_its_journal() {
        let directory = tempfile::tempdir().unwrap();
        let mark = PosixMark::beside(&directory.path().join("clients.journal"));
        assert!(!mark.is_set() && mark.clear().is_ok());
        mark.set().unwrap();
        assert!(mark.is_set() && directory.path().join("clients.journal.complete").exists());
        mark.clear().unwrap();
        assert!(!mark.is_set());
        let nowhere = PosixMark::beside(&directory.path().join("none/clients.journal"));
        assert!(nowhere.set().is_err() && !nowhere.is_set());
    }
}
