//! The exports that are served, by number and name.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::Export;

/// The exports that are served now.
#[derive(Debug, Default)]
pub struct Exports {
    by_id: HashMap<u32, Arc<Export>>,
    /// In the order of the configuration.
    list: Vec<Arc<Export>>,
    /// Grows with each change. It is the change attribute of the pseudo root.
    pub version: u64,
}

impl Exports {
    /// Replaces an earlier list, with a higher version.
    pub(super) fn new(list: Vec<Arc<Export>>, version: u64) -> Exports {
        let by_id = list.iter().map(|export| (export.id, Arc::clone(export))).collect();
        Exports { by_id, list, version }
    }

    /// The export with this number.
    #[must_use]
    pub fn get(&self, id: u32) -> Option<&Arc<Export>> {
        self.by_id.get(&id)
    }

    /// The export with this name.
    #[must_use]
    pub fn named(&self, name: &[u8]) -> Option<&Arc<Export>> {
        self.list.iter().find(|export| export.name.as_bytes() == name)
    }

    /// All exports.
    #[must_use]
    pub fn list(&self) -> &[Arc<Export>] {
        &self.list
    }
}
