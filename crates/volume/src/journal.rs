//! A journal: records that are kept over a crash, in the order in which they were appended.
//!
//! Who needs something to survive appends a record at each change and reads all of them back when it
//! starts. Start with [`Journal`]; [`MemoryJournal`] is one without a disk, for tests.

use parking_lot::Mutex;

use crate::{Failure, Result};

/// The longest record, in bytes.
pub const MAX_RECORD: usize = 64 * 1024;

/// How far a journal has come: everything that was appended up to one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Place(pub u64);

/// Records that survive.
///
/// What was appended survives the end of the process; what was committed survives the loss of the host's
/// power too. Whatever happens, a prefix of the appended records is read back: never half a record, and
/// never one without all those before it.
pub trait Journal: Send + Sync {
    /// Appends a record of at most [`MAX_RECORD`] bytes, and says what to commit to make it last.
    ///
    /// # Errors
    /// [`Failure::Invalid`] when it is too long; as the host says. It is not in the journal then.
    fn append(&self, record: &[u8]) -> Result<Place>;

    /// Returns when everything up to `place` is on stable storage, with all that the journal had before. May block; calls of
    /// several threads share the host's work.
    ///
    /// # Errors
    /// As the host says. What is on stable storage is not known then, and the journal takes nothing more.
    fn commit(&self, place: Place) -> Result<()>;

    /// Puts `records` in the place of all that there are, in one step: a crash leaves the old or the new.
    /// May block. Calls of [`Journal::append`] wait meanwhile.
    ///
    /// # Errors
    /// As the host says; the old records are still there then.
    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<()>;

    /// Bytes that the records take.
    fn size(&self) -> u64;

    /// Whether some of the records were damaged when it was opened, and left out: what is read back is no prefix then.
    fn lacks_some(&self) -> bool {
        false
    }
}

/// A journal in memory. It survives as long as somebody holds it.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    state: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    records: Vec<Vec<u8>>,
    appended: u64,
    bytes: u64,
}

impl MemoryJournal {
    /// All records, as they would be read back.
    #[must_use]
    pub fn records(&self) -> Vec<Vec<u8>> {
        self.state.lock().records.clone()
    }
}

impl Journal for MemoryJournal {
    fn append(&self, record: &[u8]) -> Result<Place> {
        if record.len() > MAX_RECORD {
            return Err(Failure::Invalid);
        }
        let mut state = self.state.lock();
        state.records.push(record.to_vec());
        state.appended += 1;
        state.bytes += record.len() as u64;
        Ok(Place(state.appended))
    }

    fn commit(&self, _place: Place) -> Result<()> {
        Ok(())
    }

    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> Result<()> {
        let mut state = self.state.lock();
        state.records = records.collect();
        state.bytes = state.records.iter().map(|record| record.len() as u64).sum();
        Ok(())
    }

    fn size(&self) -> u64 {
        self.state.lock().bytes
    }
}
