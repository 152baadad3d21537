//! The server's tables of Opens that outlive their session.

use std::sync::Arc;

use share::{Cause, Detached};
use smb_wire::Guid;

use super::Server;
use crate::state::Open;
use crate::state::open::NO_SESSION;

impl Server {
    /// Adds a new Open to the index by the ids that it needs beside its volatile id.
    pub(crate) fn enter_index(&self, open: &Open) {
        let (survives, persistent) = {
            let survival = open.survival.lock();
            (survival.survives(), survival.is_persistent())
        };
        let record = open.create_record.get();
        if survives || record.is_some_and(|record| record.create_guid.is_some() || record.instance.is_some())
        {
            self.index.enter(open, persistent);
        }
    }

    /// The persistent Open with this CreateGuid. An Open that waits for its client comes before others.
    pub(crate) fn persistent_open(&self, create: Guid) -> Option<Arc<Open>> {
        let ids = self.index.by_create_guid(create);
        let opens: Vec<Arc<Open>> =
            ids.into_iter().filter_map(|id| Some(self.opens.get(id)?.share())).collect();
        opens.iter().find(|open| open.session_id == NO_SESSION).or(opens.first()).cloned()
    }

    /// Detaches an Open from its ending session, so that its client can reconnect to it. Returns false if
    /// the Open is not kept and must be closed. It is no longer in its session's list.
    // MS-SMB2 3.3.7.1
    // MS-SMB2 3.3.5.6 (exception: a durable Open that could not be reconnected is not kept at LOGOFF either)
    pub(crate) fn preserve(&self, open: &Arc<Open>, cause: Cause) -> bool {
        let Some((engine, file)) = open.file() else { return false };
        // The lock is held, so that no client reconnects while the Open is between two states.
        let survival = open.survival.lock();
        let Some((ms, yields)) = survival.terms() else { return false };
        let until_ns = cause.now.mono_ns.saturating_add(u64::from(ms) * 1_000_000);
        let token = open.id.volatile;
        self.late.end_life(open);
        // The table must have the new Open before the engine may close it.
        if !self.opens.replace(Arc::new(open.without_session())) {
            return true;
        }
        let how = Detached { until_ns, yields, keeper: Arc::clone(&self.reaper), token };
        match engine.detach_open(file, how, cause) {
            Ok(()) => true,
            Err(why) => {
                tracing::debug!(open = open.id.persistent, %why, "a durable Open is not kept");
                false
            }
        }
    }
}
