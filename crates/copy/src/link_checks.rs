//! Remembers which directories of a share are links.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The directories of a share that were queried, and whether they are links.
#[derive(Debug, Default)]
pub(crate) struct LinkChecks(Mutex<HashMap<String, bool>>);

impl LinkChecks {
    pub(crate) fn known(&self, path: &str) -> Option<bool> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(path).copied()
    }

    pub(crate) fn learn(&self, path: &str, is_link: bool) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), is_link);
        is_link
    }
}
