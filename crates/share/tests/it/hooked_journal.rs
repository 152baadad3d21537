//! A journal in memory that tells a test of its calls.

use volume::journal::{Journal, JournalPosition, MemoryJournal};

/// The calls that a test hears of.
pub(crate) trait JournalHooks: Default + Send + Sync {
    /// A record is about to be appended.
    fn before_append(&self) {}
    /// A record was appended.
    fn appended(&self, _position: JournalPosition) {}
    /// All records up to this position are about to be committed.
    fn before_commit(&self, _position: JournalPosition) {}
}

/// The journal, with the state of the test.
#[derive(Default)]
pub(crate) struct HookedJournal<H> {
    journal: MemoryJournal,
    pub(crate) hooks: H,
}

impl<H: JournalHooks> Journal for HookedJournal<H> {
    fn append(&self, record: &[u8]) -> volume::Result<JournalPosition> {
        self.hooks.before_append();
        let position = self.journal.append(record)?;
        self.hooks.appended(position);
        Ok(position)
    }
    fn commit(&self, position: JournalPosition) -> volume::Result<()> {
        self.hooks.before_commit(position);
        self.journal.commit(position)
    }
    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> volume::Result<()> {
        self.journal.replace(records)
    }
    fn size(&self) -> u64 {
        self.journal.size()
    }
}
