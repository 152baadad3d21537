//! The memory for the replies that slots keep. One bound for all sessions limits the number of slots that are
//! granted.
//!
//! A session may keep a reply in each of its slots for as long as it lives, so its slots are charged when it
//! is created. If much of the memory is in use, a new session gets fewer slots, and finally none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::state::slot::Slot;

/// A session gets at most this fraction of the free memory.
const PART: usize = 4;

/// The bound for the replies of all sessions, and its use.
#[derive(Debug)]
pub struct ReplyMemory {
    bytes: usize,
    taken: AtomicUsize,
}

/// The memory that a session has reserved. It is released on drop.
#[derive(Debug)]
pub struct ReplyReservation {
    memory: Arc<ReplyMemory>,
    bytes: usize,
}

impl Drop for ReplyReservation {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// The bytes of a slot with replies of up to `reply` bytes.
fn slot_bytes(reply: u32) -> usize {
    size_of::<Slot>() + reply as usize
}

impl ReplyMemory {
    /// With a bound of this many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<ReplyMemory> {
        Arc::new(ReplyMemory { bytes, taken: AtomicUsize::new(0) })
    }

    /// The number of slots that a session can have now, out of `wanted`, if each keeps replies of up to
    /// `reply` bytes. None if there is no room for one.
    #[must_use]
    pub fn slots(&self, wanted: u32, reply: u32) -> Option<u32> {
        let left = self.bytes.saturating_sub(self.taken.load(Ordering::Acquire));
        let one = slot_bytes(reply);
        if left < one {
            return None;
        }
        let most = u32::try_from(left / PART / one).unwrap_or(u32::MAX);
        Some(wanted.min(most.max(1)))
    }

    /// Reserves the memory for this many slots. None if it is no longer free.
    #[must_use]
    pub fn take(self: &Arc<Self>, slots: u32, reply: u32) -> Option<ReplyReservation> {
        let bytes = slot_bytes(reply).saturating_mul(slots as usize);
        let fits = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.bytes);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(ReplyReservation { memory: Arc::clone(self), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_late_gets_fewer_slots_and_at_last_none() {
        let memory = ReplyMemory::new(slot_bytes(1000) * 1000);
        let mut parts = Vec::new();
        let mut granted = Vec::new();
        while let Some(slots) = memory.slots(64, 1000) {
            parts.push(memory.take(slots, 1000).unwrap());
            granted.push(slots);
        }
        assert_eq!(granted[0], 64);
        assert!(granted.is_sorted_by(|one, next| one >= next) && granted.last() == Some(&1), "{granted:?}");
        assert_eq!(granted.iter().sum::<u32>(), 1000);
        assert!(memory.take(1, 1000).is_none());
        parts.pop();
        assert_eq!(memory.slots(64, 1000), Some(1));
        drop(parts);
        assert_eq!(memory.slots(64, 1000), Some(64));
    }
}
