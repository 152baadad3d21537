//! One at a time: what one client changes of its states of one file.
//!
//! Version 4.1 has no numbers of open-owners, so that a client sends OPEN, CLOSE and DELEGRETURN of one file at the same
//! time over several connections. Each looks up what the client has of the file and then changes it; a turn is held over both.
//!
//! A turn comes before `OpenState::changing`, `LockState::freed` and every lock of the engine. Who holds one takes no other,
//! and what the engine calls back (a recall, a wake) takes none.

use std::hash::{DefaultHasher, Hash, Hasher};

use parking_lot::{Mutex, MutexGuard};
use volume::NodeId;

/// Locks among which the files of all clients are spread.
const LOCKS: usize = 256;

/// One lock, alone in its cache line.
#[derive(Default)]
#[repr(align(64))]
struct Lock(Mutex<()>);

/// The locks.
pub struct Turns(Box<[Lock]>);

/// A client's turn with a file; over when dropped.
pub struct Turn<'a>(#[expect(dead_code, reason = "held, not used")] MutexGuard<'a, ()>);

impl Default for Turns {
    fn default() -> Turns {
        Turns((0..LOCKS).map(|_| Lock::default()).collect())
    }
}

impl Turns {
    /// Waits for the turn of a client, by its client ID, with a file of an export.
    pub fn take(&self, client: u64, export: u32, node: NodeId) -> Turn<'_> {
        let mut hasher = DefaultHasher::new();
        (client, export, node).hash(&mut hasher);
        Turn(self.0[hasher.finish() as usize % LOCKS].0.lock())
    }
}
