//! The last epoch in which a node has served a state directory, in its file `epoch`.
//!
//! A tenure store counts epochs up. One that gives an epoch again has lost its record, and with it the former
//! owners that nobody has fenced. Nothing is served then until an administrator has looked. The refusal
//! stays, since each further attempt counts the store's new epochs up.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure::Epoch;

use super::{StateDir, write_private};
use crate::config::os_error;

/// The name of the file.
pub(super) const NAME: &str = "epoch";

/// The content of the file, in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct LastEpoch {
    epoch: Epoch,
    /// Whether the tenure store knew the GUID of the directory. It never forgets it.
    is_known: bool,
    /// Whether a later start was refused.
    #[serde(default)]
    is_refused: bool,
}

impl LastEpoch {
    /// Whether a store that has counted this epoch has given `next` after it.
    fn permits(self, next: LastEpoch) -> bool {
        !self.is_refused && self.epoch < next.epoch && (next.is_known || !self.is_known)
    }
}

impl StateDir {
    /// Notes that the directory is served in this epoch. `is_known` says whether the tenure store knew the
    /// GUID of the directory when it gave the epoch.
    ///
    /// # Errors
    /// The store has lost its record, or the host's error, in one line.
    pub fn note_epoch(&self, epoch: Epoch, is_known: bool) -> Result<(), String> {
        let path = self.path.join(NAME);
        let next = LastEpoch { epoch, is_known, is_refused: false };
        let Some(last) = self.last_epoch(&path)? else { return write(&path, next) };
        if last.permits(next) {
            return write(&path, next);
        }
        write(&path, LastEpoch { is_refused: true, ..last })?;
        let path = path.display();
        Err(format!(
            "the tenure store gave epoch {}, and {path} says that epoch {} has been served: the store has \
             lost its record; bring it back and remove {path}, or remove {path} once no other node serves \
             this state directory or writes to it",
            epoch.0, last.epoch.0
        ))
    }

    fn last_epoch(&self, path: &Path) -> Result<Option<LastEpoch>, String> {
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("{}: {}", path.display(), os_error(&error))),
        };
        serde_json::from_slice(&text).map(Some).map_err(|why| {
            format!(
                "{}: it is not the last epoch of this state directory: {why}; remove it if the tenure store \
                 has not lost its record",
                path.display()
            )
        })
    }
}

fn write(path: &Path, last: LastEpoch) -> Result<(), String> {
    let text = serde_json::to_vec(&last).map_err(|why| why.to_string())?;
    write_private(path, &text).map_err(|error| format!("{}: {}", path.display(), os_error(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_that_comes_again_is_refused_until_somebody_has_looked() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        // The first owner may end before the store has heard of the GUID.
        state.note_epoch(Epoch(1), false).unwrap();
        state.note_epoch(Epoch(2), false).unwrap();
        state.note_epoch(Epoch(5), true).unwrap();
        let why = state.note_epoch(Epoch(5), true).unwrap_err();
        assert!(why.contains("gave epoch 5") && why.contains("state/epoch says that epoch 5"), "{why}");
        // The store counts up meanwhile.
        assert!(state.note_epoch(Epoch(6), true).is_err());
        fs::remove_file(dir.path().join("state/epoch")).unwrap();
        state.note_epoch(Epoch(6), true).unwrap();
        // A store that was made anew may count that far before the first start.
        assert!(state.note_epoch(Epoch(7), false).is_err());
    }

    #[test]
    fn a_damaged_epoch_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        for content in ["", "7", "{\"epoch\":7}"] {
            fs::write(dir.path().join("state/epoch"), content).unwrap();
            let why = state.note_epoch(Epoch(8), true).unwrap_err();
            assert!(why.contains("state/epoch: it is not the last epoch"), "{why}");
        }
    }
}
