//! Records that survive a machine, for storage that another machine can take over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::*;
use crate::hooked_journal::{HookedJournal, JournalHooks};
use crate::kept_opens::keep_opens;
use crate::persistence::{lock, record};
use share::Config;
use volume::journal::JournalPosition;
use wire::Now;

/// Knows which records are on stable storage.
#[derive(Default)]
struct StableRecords {
    appended: AtomicU64,
    stable: AtomicU64,
}

impl StableRecords {
    fn are_all(&self) -> bool {
        self.stable.load(Ordering::SeqCst) == self.appended.load(Ordering::SeqCst)
    }
}

impl JournalHooks for StableRecords {
    fn appended(&self, position: JournalPosition) {
        self.appended.fetch_max(position.0, Ordering::SeqCst);
    }
    fn before_commit(&self, position: JournalPosition) {
        self.stable.fetch_max(position.0, Ordering::SeqCst);
    }
}

/// Another machine that takes the storage over must know what this one has told its clients.
#[test]
fn changes_are_on_stable_storage_before_they_are_told_where_another_machine_may_take_over() {
    for stable_records in [true, false] {
        let (world, journal) = (TestShare::new(), Arc::new(HookedJournal::<StableRecords>::default()));
        world.share.configure(Config { stable_records, ..Config::default() });
        keep_opens(&world.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
        let one = world.client_of(1, user(1001));
        let open = one.make("f");
        record(&one, &open);
        assert!(journal.hooks.are_all(), "a record is committed on its own");
        lock(&one, &open, 0).unwrap();
        world.share.write_changes();
        assert_eq!(journal.hooks.are_all(), stable_records);
        assert!(journal.hooks.appended.load(Ordering::SeqCst) > 0);
    }
}
