//! Opens whose client is gone and may come back: for how long they are kept, and who hears when they end.
//!
//! What the engine does with them is in `engine::services::absent`.

use std::sync::Arc;

/// Hears that the engine has closed an open that was detached.
pub trait Keeper: Send + Sync {
    /// The open that was left under `token` was closed: its time was over, or it gave way to somebody.
    /// Called with no lock held, once for each such open; never for one that was reclaimed.
    fn on_lost(&self, token: u64);
}

/// How an open is kept whose client is gone.
#[derive(Clone)]
pub struct Detached {
    /// Until when, in nanoseconds on the monotonic clock.
    pub until_ns: u64,
    /// Whether it is closed as soon as somebody needs its caching right. Otherwise they wait until it is
    /// reclaimed or its time is over.
    pub yields: bool,
    /// Who hears when the engine closes it.
    pub keeper: Arc<dyn Keeper>,
    /// What to tell them.
    pub token: u64,
}

impl std::fmt::Debug for Detached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Detached").field("until_ns", &self.until_ns).field("yields", &self.yields).finish()
    }
}
