//! Opens that outlive their session, as the server's tables have them.

use std::sync::Arc;

use share::{Cause, Detached};
use smb_wire::Guid;

use super::Server;
use crate::state::Open;
use crate::state::open::NO_SESSION;

impl Server {
    /// Makes a new Open known by the names that it needs beside its id.
    pub(crate) fn enter_index(&self, open: &Open) {
        let (survives, persistent) = {
            let survival = open.survival.lock();
            (survival.survives(), survival.is_persistent())
        };
        let made = open.made.get();
        if survives || made.is_some_and(|made| made.create_guid.is_some() || made.instance.is_some()) {
            self.index.enter(open, persistent);
        }
    }

    /// The persistent Open that a CREATE of this name has made: one that waits for its client, if there is one.
    pub(crate) fn persistent_open(&self, create: Guid) -> Option<Arc<Open>> {
        let ids = self.index.by_create_guid(create);
        let opens: Vec<Arc<Open>> =
            ids.into_iter().filter_map(|id| Some(self.opens.get(id)?.share())).collect();
        opens.iter().find(|open| open.session_id == NO_SESSION).or(opens.first()).cloned()
    }

    /// Lets go of an Open whose session ends, so that its client can come back for it; false when it is
    /// not to be kept, and to be closed. The session has it no more.
    // MS-SMB2 3.3.7.1
    // MS-SMB2 3.3.5.6 (exception: a durable Open that could not be taken up again is not kept at LOGOFF either)
    pub(crate) fn preserve(&self, open: &Arc<Open>, cause: Cause) -> bool {
        let Some((engine, file)) = open.file() else { return false };
        // Held, so that nobody comes back for it while it is neither here nor there.
        let survival = open.survival.lock();
        let Some((ms, yields)) = survival.terms() else { return false };
        let until_ns = cause.now.mono_ns.saturating_add(u64::from(ms) * 1_000_000);
        let token = open.id.volatile;
        self.late.end_life(open);
        // The table must be right before the engine may close it.
        if !self.opens.replace(Arc::new(open.without_session())) {
            return true;
        }
        let how = Detached { until_ns, yields, keeper: Arc::clone(&self.reaper), token };
        match engine.leave(file, how, cause) {
            Ok(()) => true,
            Err(why) => {
                tracing::debug!(open = open.id.persistent, %why, "a durable Open is not kept");
                false
            }
        }
    }
}
