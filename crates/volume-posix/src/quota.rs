//! The quota of one volume's sidecar store. The store shares a file system with the server's own state.
//!
//! Users write named streams and large notes. Without a quota they could fill the file system of the
//! state directory, on which the server depends. Each file of the store counts with its size in whole
//! blocks, and one block more for the folder and the inode. The space in use is counted when something
//! grows for the first time, and kept up to date from then on.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use volume::{Failure, Result};

/// The unit in which files of the store are counted.
const BLOCK: u64 = 4096;

/// The space that a file of this size counts.
pub(crate) fn cost(size: u64) -> u64 {
    BLOCK.saturating_add(size.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX))
}

/// The quota and the space in use.
#[derive(Debug)]
pub(crate) struct SidecarQuota {
    bound: AtomicU64,
    /// `None` until it was counted.
    used: Mutex<Option<u64>>,
}

impl Default for SidecarQuota {
    fn default() -> SidecarQuota {
        SidecarQuota { bound: AtomicU64::new(u64::MAX), used: Mutex::default() }
    }
}

impl SidecarQuota {
    /// Sets the quota in bytes. Data that is in the store already stays.
    pub fn set_bound(&self, bytes: u64) {
        self.bound.store(bytes, Ordering::Relaxed);
    }

    /// Reserves the space for growth from `before` to `after`, each as [`cost`] counts it. `count`
    /// returns the space in use, if that is unknown. A decrease releases space.
    ///
    /// # Errors
    /// [`Failure::NoSpace`], and nothing is reserved; errors of `count`.
    pub fn change(&self, before: u64, after: u64, count: impl FnOnce() -> Result<u64>) -> Result<()> {
        let bound = self.bound.load(Ordering::Relaxed);
        let mut used = self.used.lock();
        if after <= before {
            *used = used.map(|used| used.saturating_sub(before - after));
            return Ok(());
        }
        if bound == u64::MAX && used.is_none() {
            return Ok(());
        }
        let now = match *used {
            Some(now) => now,
            None => *used.insert(count()?),
        };
        let then = now.saturating_add(after - before);
        if then > bound {
            return Err(Failure::NoSpace);
        }
        *used = Some(then);
        Ok(())
    }

    /// Releases the space of data that is gone.
    pub fn release(&self, bytes: u64) {
        let mut used = self.used.lock();
        *used = used.map(|used| used.saturating_sub(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_there_is_counted_once_and_bounded() {
        let room = SidecarQuota::default();
        room.change(0, 10, || panic!("nothing is counted without a bound")).unwrap();
        room.set_bound(20 * BLOCK);
        assert_eq!(room.change(0, cost(0), || Ok(20 * BLOCK)), Err(Failure::NoSpace));
        room.release(2 * BLOCK);
        let counted = || panic!("it is counted once");
        room.change(0, cost(1), counted).unwrap();
        assert_eq!(room.change(cost(1), cost(BLOCK + 1), counted), Err(Failure::NoSpace));
        room.change(cost(1), cost(0), counted).unwrap();
        room.change(cost(0), cost(BLOCK), counted).unwrap();
        // A lower quota removes nothing, but it lets nothing grow.
        room.set_bound(BLOCK);
        assert_eq!(room.change(0, 1, counted), Err(Failure::NoSpace));
        room.change(1, 0, counted).unwrap();
    }

    #[test]
    fn sizes_count_in_blocks() {
        assert_eq!([0, 1, BLOCK, BLOCK + 1].map(cost), [1, 2, 2, 3].map(|blocks| blocks * BLOCK));
        assert_eq!(cost(u64::MAX), u64::MAX);
    }
}
