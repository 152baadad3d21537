//! Whose request it is, what it is about, and how it is woken.

use std::sync::Arc;

/// Tells one client from another, across its connections and sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientKey(pub u128);

/// Tells one file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileNumber {
    /// The file system within the host.
    pub device: u64,
    /// The file within it.
    pub inode: u64,
}

/// Wakes a request that waits.
pub trait Wake: Send + Sync {
    /// The request that waits under `token` is to be tried again. Called with no lock held, once for
    /// each wait; may come before the call has returned that said to wait.
    fn wake(&self, token: u64);
}

/// How to wake one request.
#[derive(Clone)]
pub struct Waiter {
    /// Whom to tell.
    pub wake: Arc<dyn Wake>,
    /// What to tell them.
    pub token: u64,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter").field("token", &self.token).finish_non_exhaustive()
    }
}
