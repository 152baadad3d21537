//! Opens that a reply tells the client of, and opens that it closes or changes. They are recorded before the
//! reply is sent, because the client may rely on that after a restart. One write records all opens of a batch
//! (`Conversation::before_sending`).

use std::sync::Arc;

use crate::config::Export;
use crate::server::Server;

/// The export of the opens. Nearly always there is only one.
#[derive(Debug, Default)]
pub struct OpensToRecord(Option<Arc<Export>>);

impl OpensToRecord {
    /// Adds the new opens of an export. If opens of another export are waiting, those are recorded now.
    pub fn add(&mut self, server: &Server, export: &Arc<Export>) {
        if self.0.as_ref().is_some_and(|opens_to_record| !Arc::ptr_eq(opens_to_record, export)) {
            self.record(server);
        }
        self.0 = Some(Arc::clone(export));
    }

    /// Takes the opens of another set.
    pub fn append(&mut self, server: &Server, other: &mut OpensToRecord) {
        if let Some(export) = other.0.take() {
            self.add(server, &export);
        }
    }

    /// Records the opens now.
    pub fn record(&mut self, server: &Server) {
        if let Some(export) = self.0.take() {
            export.engine.write_changes();
            if export.engine.are_records_failing() {
                // A client learns of a lost open with its next request. LOCK and delegations look themselves.
                let _ = server.forget_client_ids();
            }
            server.record_forgotten_ids();
        }
    }
}
