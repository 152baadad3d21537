//! Records that survive a machine, for storage that another machine can take over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::*;
use crate::persistence::{lock, record};
use share::Config;
use volume::journal::{Journal, JournalPosition, MemoryJournal};
use wire::Now;

/// A journal that knows which of its records are on stable storage.
#[derive(Default)]
struct StableJournal {
    journal: MemoryJournal,
    appended: AtomicU64,
    stable: AtomicU64,
}

impl StableJournal {
    fn is_stable(&self) -> bool {
        self.stable.load(Ordering::SeqCst) == self.appended.load(Ordering::SeqCst)
    }
}

impl Journal for StableJournal {
    fn append(&self, record: &[u8]) -> volume::Result<JournalPosition> {
        let at = self.journal.append(record)?;
        self.appended.fetch_max(at.0, Ordering::SeqCst);
        Ok(at)
    }
    fn commit(&self, position: JournalPosition) -> volume::Result<()> {
        self.stable.fetch_max(position.0, Ordering::SeqCst);
        self.journal.commit(position)
    }
    fn replace(&self, records: &mut dyn Iterator<Item = Vec<u8>>) -> volume::Result<()> {
        self.journal.replace(records)
    }
    fn size(&self) -> u64 {
        self.journal.size()
    }
}

/// Another machine that takes the storage over must know what this one has told its clients.
#[test]
fn changes_are_on_stable_storage_before_they_are_told_where_another_machine_may_take_over() {
    for stable_records in [true, false] {
        let (world, journal) = (TestShare::new(), Arc::new(StableJournal::default()));
        world.share.configure(Config { stable_records, ..Config::default() });
        world.share.keep_opens(journal.clone(), &[], &|_| None, Now::default()).unwrap();
        let one = world.client_of(1, user(1001));
        let open = one.make("f");
        record(&one, &open);
        assert!(journal.is_stable(), "a record is committed on its own");
        lock(&one, &open, 0).unwrap();
        world.share.write_changes();
        assert_eq!(journal.is_stable(), stable_records);
        assert!(journal.appended.load(Ordering::SeqCst) > 0);
    }
}
