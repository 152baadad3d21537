//! Memory for the replies that slots keep: a bound for all sessions together, by which slots are granted.
//!
//! A session may keep a reply in each of its slots for as long as it lives, so that its slots are paid for when it is
//! made. Who comes when much is taken gets fewer slots, and at last none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::state::slot::Slot;

/// A session gets no more than this part of what is left.
const PART: usize = 4;

/// What the replies of all sessions may take together.
#[derive(Debug)]
pub struct ReplyMemory {
    bytes: usize,
    taken: AtomicUsize,
}

/// A session's part; given back when dropped.
#[derive(Debug)]
pub struct Part {
    memory: Arc<ReplyMemory>,
    bytes: usize,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.memory.taken.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// What a slot with replies of so many bytes takes.
fn slot_bytes(reply: u32) -> usize {
    size_of::<Slot>() + reply as usize
}

impl ReplyMemory {
    /// So many bytes.
    #[must_use]
    pub fn new(bytes: usize) -> Arc<ReplyMemory> {
        Arc::new(ReplyMemory { bytes, taken: AtomicUsize::new(0) })
    }

    /// How many of `wanted` slots a session can have now whose replies are kept up to `reply` bytes; none when there is
    /// no room for one.
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

    /// Takes what so many slots need; none when it is not there any more.
    #[must_use]
    pub fn take(self: &Arc<Self>, slots: u32, reply: u32) -> Option<Part> {
        let bytes = slot_bytes(reply).saturating_mul(slots as usize);
        let fits = |taken: usize| taken.checked_add(bytes).filter(|sum| *sum <= self.bytes);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).ok()?;
        Some(Part { memory: Arc::clone(self), bytes })
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
