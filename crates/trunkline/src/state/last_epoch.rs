//! The last epoch in which a node has served a state directory, in its file `epoch`.
//!
//! A tenure store counts epochs up. One that gives an epoch again has lost its record, and with it the former
//! owners that nobody has fenced. Nothing is served then until an administrator has looked. The refusal of
//! that store stays, since each further attempt counts the store's new epochs up.
//!
//! A slip in `server` or `tenure` asks another store, which does not know the directory either. The file
//! names the store that counted the last epoch, so the message can tell. The refusal of the wrong store
//! does not concern the right one.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tenure::Epoch;

use super::{StateDir, write_private};
use crate::config::os_error;

/// The name of the file.
pub(super) const NAME: &str = "epoch";

/// The settings in `[node]` that say which record of a tenure store counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreName {
    /// `tenure`
    pub tenure: String,
    /// `server`
    pub server: String,
}

impl fmt::Display for StoreName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`server = \"{}\"` and `tenure = \"{}\"`", self.server, self.tenure)
    }
}

/// An epoch that a tenure store has given for the directory.
#[derive(Debug, Clone)]
pub struct GivenEpoch {
    /// The epoch.
    pub epoch: Epoch,
    /// Whether the store knew the GUID of the directory. It never forgets it.
    pub is_known: bool,
    /// The store.
    pub store: StoreName,
}

/// The content of the file, in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LastEpoch {
    epoch: Epoch,
    is_known: bool,
    /// The store that has given the epoch. Files of older programs do not have it.
    #[serde(default)]
    store: Option<StoreName>,
    /// The stores of later starts that were refused.
    #[serde(default)]
    refused: Vec<StoreName>,
}

impl LastEpoch {
    /// Whether a store that has counted this epoch has given `next` after it.
    fn permits(&self, next: &GivenEpoch) -> bool {
        let is_later = self.epoch < next.epoch && !self.refused.contains(&next.store);
        is_later && (next.is_known || !(self.is_known || self.is_of_other_store(next)))
    }

    fn is_of_other_store(&self, next: &GivenEpoch) -> bool {
        self.store.as_ref().is_some_and(|store| *store != next.store)
    }

    /// The reason why `next` is refused, and what to do.
    fn refusal(&self, next: &GivenEpoch, path: &Path) -> String {
        let (path, last, given, store) = (path.display(), self.epoch.0, next.epoch.0, &next.store);
        let mend = format!("remove {path} once no other node serves this state directory or writes to it");
        if let Some(before) = self.store.as_ref().filter(|before| **before != *store && !next.is_known) {
            return format!(
                "{path} says that this state directory was last served with {before} (epoch {last}), and \
                 [node] now has {store}, whose store does not know it (it gave epoch {given}): correct \
                 [node]; or, if its new values are meant, {mend}"
            );
        }
        let what = match last < given {
            // The store counts up with each attempt.
            true if self.refused.contains(store) => {
                "gave an earlier epoch again at a start before".to_owned()
            }
            true => format!("gave epoch {given} without knowing this state directory"),
            false => format!("gave epoch {given}"),
        };
        format!(
            "the tenure store of {store} {what}, and {path} says that epoch {last} has been served: the \
             store has lost its record; bring it back and remove {path}, or {mend}"
        )
    }
}

impl StateDir {
    /// Notes that the directory is served in this epoch.
    ///
    /// # Errors
    /// The store has lost its record or is a wrong one, or the host's error, in one line.
    pub fn note_epoch(&self, given: &GivenEpoch) -> Result<(), String> {
        let path = self.path.join(NAME);
        let GivenEpoch { epoch, is_known, ref store } = *given;
        let next = LastEpoch { epoch, is_known, store: Some(store.clone()), refused: Vec::new() };
        let Some(mut last) = self.last_epoch(&path)? else { return write(&path, &next) };
        if last.permits(given) {
            return write(&path, &next);
        }
        let why = last.refusal(given, &path);
        if !last.refused.contains(store) {
            last.refused.push(store.clone());
            write(&path, &last)?;
        }
        Err(why)
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

fn write(path: &Path, last: &LastEpoch) -> Result<(), String> {
    let text = serde_json::to_vec(last).map_err(|why| why.to_string())?;
    write_private(path, &text).map_err(|error| format!("{}: {}", path.display(), os_error(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_that_comes_again_is_refused_until_somebody_has_looked() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        let note = |epoch, is_known| state.note_epoch(&given("files", epoch, is_known));
        // The first owner may end before the store has heard of the GUID.
        note(1, false).unwrap();
        note(2, false).unwrap();
        note(5, true).unwrap();
        let why = note(5, true).unwrap_err();
        assert!(why.contains("gave epoch 5") && why.contains("state/epoch says that epoch 5"), "{why}");
        // The store counts up meanwhile.
        let why = note(6, true).unwrap_err();
        assert!(why.contains("gave an earlier epoch again at a start before"), "{why}");
        fs::remove_file(dir.path().join("state/epoch")).unwrap();
        note(6, true).unwrap();
        // A store that was made anew may count that far before the first start.
        let why = note(7, false).unwrap_err();
        assert!(why.contains("gave epoch 7 without knowing this state directory"), "{why}");
    }

    #[test]
    fn a_slip_in_a_name_is_told_of_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        for known in [false, true] {
            let next = if known { 41 } else { 1 };
            state.note_epoch(&given("files", next, known)).unwrap();
            // The wrong store counts up with each attempt, and may pass the right one.
            for epoch in 1..50 {
                let why = state.note_epoch(&given("flies", epoch, false)).unwrap_err();
                let both = why.contains("`server = \"files\"`") && why.contains("`server = \"flies\"`");
                assert!(both && why.contains("state/epoch") && why.contains("correct [node]"), "{why}");
            }
            state.note_epoch(&given("files", next + 1, known)).unwrap();
        }
        // A store that knows the directory has counted its epochs, under whatever name.
        state.note_epoch(&given("renamed", 43, true)).unwrap();
    }

    #[test]
    fn a_slip_does_not_wipe_out_the_refusal_of_a_store_that_has_lost_its_record() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        state.note_epoch(&given("files", 41, true)).unwrap();
        state.note_epoch(&given("files", 40, true)).unwrap_err();
        state.note_epoch(&given("flies", 1, false)).unwrap_err();
        state.note_epoch(&given("files", 42, true)).unwrap_err();
    }

    /// An epoch that etcd has given to a virtual server.
    fn given(server: &str, epoch: u64, is_known: bool) -> GivenEpoch {
        let store = StoreName { tenure: "etcd".to_owned(), server: server.to_owned() };
        GivenEpoch { epoch: Epoch(epoch), is_known, store }
    }

    #[test]
    fn a_damaged_epoch_is_told_of() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(&dir.path().join("state")).unwrap();
        for content in ["", "7", "{\"epoch\":7}"] {
            fs::write(dir.path().join("state/epoch"), content).unwrap();
            let why = state.note_epoch(&given("files", 8, true)).unwrap_err();
            assert!(why.contains("state/epoch: it is not the last epoch"), "{why}");
        }
    }
}
