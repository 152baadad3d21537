//! Mutual exclusion between changes of one client's states of one file.
//!
//! NFSv4.1 does not number the requests of an open-owner. A client therefore sends OPEN, CLOSE and
//! DELEGRETURN of one file at the same time over several connections. Each of them looks up the client's
//! states of the file and then changes them. It holds a lock over both steps.
//!
//! Lock order: this lock comes before `OpenState::changing`, `LockState::freed` and every lock of the
//! engine. A thread holds at most one of them. Callbacks of the engine (a recall, a wake) take none.

use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::{Mutex, MutexGuard};
use volume::NodeId;

/// Number of locks. The files of all clients are spread over them.
const LOCKS: usize = 256;

/// One lock on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct PaddedMutex(Mutex<()>);

/// The locks for the states of all clients.
pub struct StateLocks(Box<[PaddedMutex]>);

/// The exclusive right to change the states of a client on a file. It ends when the guard is dropped.
pub struct StateLockGuard<'a>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, ()>);

impl Default for StateLocks {
    fn default() -> StateLocks {
        StateLocks((0..LOCKS).map(|_| PaddedMutex::default()).collect())
    }
}

impl StateLocks {
    /// Waits for the lock on the states that a client (by its client ID) has of a file in an export.
    pub fn lock(&self, client: u64, export: u32, node: NodeId) -> StateLockGuard<'_> {
        let mut hasher = DefaultHasher::new();
        (client, export, node).hash(&mut hasher);
        StateLockGuard(self.0[hasher.finish() as usize % LOCKS].0.lock())
    }
}
