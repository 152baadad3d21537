//! A journal: records that survive a crash, in the order in which they were appended.
//!
//! A part that needs its state to survive appends a record at each change, and reads all records back
//! when it starts. Start with [`Journal`]. [`MemoryJournal`] is a journal without a disk, for tests.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::{Failure, Result};

/// The longest record, in bytes.
pub const MAX_RECORD: usize = 64 * 1024;

/// A position in a journal: everything that was appended before one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct JournalPosition(pub u64);

/// Records that survive a crash.
///
/// Appended records survive the end of the process. Committed records survive the loss of the host's
/// power too. In every case a prefix of the appended records is read back: never half a record, and never
/// a record without all those before it.
pub trait Journal: Send + Sync {
    /// Appends a record of at most [`MAX_RECORD`] bytes. Commit the returned position to make it durable.
    ///
    /// # Errors
    /// [`Failure::Invalid`] when the record is too long; errors of the host. The record is not in the
    /// journal then.
    fn append(&self, record: &[u8]) -> Result<JournalPosition>;

    /// Returns when everything up to `position` is on stable storage, with all that the journal had
    /// before. It may block. Calls of several threads share the host's work.
    ///
    /// # Errors
    /// Those of the host. It is unknown then which records are on stable storage, and the journal accepts
    /// no more.
    fn commit(&self, position: JournalPosition) -> Result<()>;

    /// Replaces all records by `records` in one step: after a crash, either the old or the new records
    /// are there. It may block. Calls of [`Journal::append`] wait meanwhile.
    ///
    /// # Errors
    /// Those of the host. The old records are still there then.
    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<()>;

    /// The size of the records in bytes.
    fn size(&self) -> u64;

    /// Whether damaged records were left out when the journal was opened. The records that are read back
    /// are no prefix then.
    fn lacks_some(&self) -> bool {
        false
    }
}

/// A mark beside a journal. As long as it is set, the journal lacks nothing.
///
/// A writer that cannot append clears the mark: a full disk has no room for a record of the loss, and the
/// removal of a mark needs none.
pub trait CompleteMark: Send + Sync {
    /// Whether it is set.
    fn is_set(&self) -> bool;

    /// Sets it. A crash of the host may clear it again.
    ///
    /// # Errors
    /// Those of the host. It is cleared then.
    fn set(&self) -> Result<()>;

    /// Clears it, also for the time after a crash of the host. May block.
    ///
    /// # Errors
    /// Those of the host. It may still be set then.
    fn clear(&self) -> Result<()>;
}

/// A mark in memory. It exists as long as something holds it.
#[derive(Debug, Default)]
pub struct MemoryMark {
    is_set: AtomicBool,
    is_stuck: AtomicBool,
}

impl MemoryMark {
    /// From now on its host refuses to clear it, or does so again.
    pub fn stick(&self, is_stuck: bool) {
        self.is_stuck.store(is_stuck, Ordering::Release);
    }
}

impl CompleteMark for MemoryMark {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    fn set(&self) -> Result<()> {
        self.is_set.store(true, Ordering::Release);
        Ok(())
    }

    fn clear(&self) -> Result<()> {
        if self.is_stuck.load(Ordering::Acquire) {
            return Err(Failure::ReadOnly);
        }
        self.is_set.store(false, Ordering::Release);
        Ok(())
    }
}

/// A journal in memory. It exists as long as something holds it.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    state: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    records: Vec<Vec<u8>>,
    appended: u64,
    bytes: u64,
    /// The disk is full.
    is_full: bool,
}

impl Memory {
    fn check(&self) -> Result<()> {
        if self.is_full { Err(Failure::NoSpace) } else { Ok(()) }
    }
}

impl MemoryJournal {
    /// All records, as they would be read back.
    #[must_use]
    pub fn records(&self) -> Vec<Vec<u8>> {
        self.state.lock().records.clone()
    }

    /// From now on its disk is full, or has room again.
    pub fn fill(&self, is_full: bool) {
        self.state.lock().is_full = is_full;
    }
}

impl Journal for MemoryJournal {
    fn append(&self, record: &[u8]) -> Result<JournalPosition> {
        if record.len() > MAX_RECORD {
            return Err(Failure::Invalid);
        }
        let mut state = self.state.lock();
        state.check()?;
        state.records.push(record.to_vec());
        state.appended += 1;
        state.bytes += record.len() as u64;
        Ok(JournalPosition(state.appended))
    }

    fn commit(&self, _position: JournalPosition) -> Result<()> {
        self.state.lock().check()
    }

    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<()> {
        let mut state = self.state.lock();
        state.check()?;
        state.records = records.collect();
        state.bytes = state.records.iter().map(|record| record.len() as u64).sum();
        Ok(())
    }

    fn size(&self) -> u64 {
        self.state.lock().bytes
    }
}
