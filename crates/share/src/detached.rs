//! Opens whose client has gone and may come back. This module has the time for which they are kept, and the
//! callback when they end.
//!
//! The engine's work with them is in `engine::services::detached`.

use std::sync::Arc;

/// Hears that the engine has closed a detached open.
pub trait LossListener: Send + Sync {
    /// The open that was left under `token` was closed: its time was over, or it yielded to another request.
    /// The caller holds no lock. There is one call for each such open, and none for an open that was
    /// reclaimed.
    fn on_lost(&self, token: u64);
}

/// The terms on which an open without its client is kept.
#[derive(Clone)]
pub struct Detached {
    /// The end of its time, in nanoseconds on the monotonic clock.
    pub until_ns: u64,
    /// Whether the open is closed as soon as another request needs its caching right. Otherwise such requests
    /// wait until it is reclaimed or its time is over.
    pub yields: bool,
    /// The callback for the case that the engine closes it.
    pub keeper: Arc<dyn LossListener>,
    /// The token for that callback.
    pub token: u64,
}

impl std::fmt::Debug for Detached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Detached").field("until_ns", &self.until_ns).field("yields", &self.yields).finish()
    }
}
