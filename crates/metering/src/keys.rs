//! The numbers by which requests are known here: their client, their file and the waiter to wake.

use std::sync::Arc;

/// Identifies a client across its connections and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(pub u128);

/// Identifies a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileNumber {
    /// The file system within the host.
    pub device: u64,
    /// The file within it.
    pub inode: u64,
}

/// Wakes a request that waits.
pub trait Wake: Send + Sync {
    /// The request that waits under `token` is to be tried again. The caller holds no lock. There is one call
    /// for each wait. It may come before the call that returned the wait has returned.
    fn wake(&self, token: u64);
}

/// The means to wake one request.
#[derive(Clone)]
pub struct Waiter {
    /// The target of the wake-up.
    pub wake: Arc<dyn Wake>,
    /// The token that it gets.
    pub token: u64,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("token", &self.token).finish_non_exhaustive()
    }
}
