//! How much may lie beside the files of one volume, in the store that it shares with the server's own state.
//!
//! Users write named streams and large notes. Without a bound they could fill the file system of the state directory, on which
//! the server depends. Each file of the store counts with its size in whole blocks and one block more, for the folder and the inode.
//! What lies there is counted when something grows for the first time, and kept up to date from then on.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use volume::{Failure, Result};

/// The unit in which files of the store count.
const BLOCK: u64 = 4096;

/// What a file of this size counts.
pub(crate) fn cost(size: u64) -> u64 {
    BLOCK.saturating_add(size.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX))
}

/// The bound, and what is known to lie there.
#[derive(Debug)]
pub(crate) struct Room {
    bound: AtomicU64,
    /// None: not counted yet.
    used: Mutex<Option<u64>>,
}

impl Default for Room {
    fn default() -> Room {
        Room { bound: AtomicU64::new(u64::MAX), used: Mutex::default() }
    }
}

impl Room {
    /// From now on at most so many bytes may lie there. What lies there already stays.
    pub fn set_bound(&self, bytes: u64) {
        self.bound.store(bytes, Ordering::Relaxed);
    }

    /// Takes room for something that grows from `before` to `after`, as [`cost`] counts; `count` says what lies there where
    /// that is not known yet. Something that shrinks gives room back.
    ///
    /// # Errors
    /// [`Failure::NoSpace`], with nothing taken; as `count` says.
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

    /// Gives room back for something that is gone.
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
        let room = Room::default();
        room.change(0, 10, || panic!("nothing is counted without a bound")).unwrap();
        room.set_bound(20 * BLOCK);
        assert_eq!(room.change(0, cost(0), || Ok(20 * BLOCK)), Err(Failure::NoSpace));
        room.release(2 * BLOCK);
        let counted = || panic!("it is counted once");
        room.change(0, cost(1), counted).unwrap();
        assert_eq!(room.change(cost(1), cost(BLOCK + 1), counted), Err(Failure::NoSpace));
        room.change(cost(1), cost(0), counted).unwrap();
        room.change(cost(0), cost(BLOCK), counted).unwrap();
        // A lower bound takes nothing away, and lets nothing grow.
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
