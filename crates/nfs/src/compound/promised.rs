//! Opens that answers tell of and that are recorded before those leave: what a client is told it has it can come back for
//! after a restart. One write records all of a batch (`Conversation::before_leaving`).

use std::sync::Arc;

use crate::config::Export;

/// The share in which they were made; they are of one share nearly always.
#[derive(Debug, Default)]
pub struct Promised(Option<Arc<Export>>);

impl Promised {
    /// Has what was opened in a share recorded before the answer leaves; what is promised of another share is recorded now.
    pub fn add(&mut self, export: &Arc<Export>) {
        if self.0.as_ref().is_some_and(|promised| !Arc::ptr_eq(promised, export)) {
            self.keep();
        }
        self.0 = Some(Arc::clone(export));
    }

    /// Takes over what another one has.
    pub fn take_over(&mut self, other: &mut Promised) {
        if let Some(export) = other.0.take() {
            self.add(&export);
        }
    }

    /// Records it now.
    pub fn keep(&mut self) {
        if let Some(export) = self.0.take() {
            export.engine.write_changes();
        }
    }
}
