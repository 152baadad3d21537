//! A journal of opens whose disk is full, and a record that the journal could not take.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use share::{Disposition, Refusal};
use volume::journal::MemoryJournal;
use wire::Now;

use crate::common::*;
use crate::kept_opens::keep_opens;
use crate::persistence::{CountingJournal, RecordedShare, SECOND, lock, record};

#[test]
fn what_a_full_disk_did_not_take_is_refused_and_written_when_there_is_room() {
    let world = TestShare::new();
    let journal = Arc::new(MemoryJournal::default());
    keep_opens(&world.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
    let one = world.client(1);
    let [kept, closed, late] = ["kept", "closed", "late"].map(|name| one.make(name));
    for open in [&kept, &closed] {
        record(&one, open);
    }
    journal.fill(true);
    assert_eq!(one.share.record(&late, SECOND, Vec::new()), Err(Refusal::NoSpace));
    assert!(!late.is_persistent());
    lock(&one, &kept, 30).unwrap();
    assert_eq!(one.share.commit_records(), Err(Refusal::NoSpace));
    one.close(&closed);
    journal.fill(false);
    one.share.commit_records().unwrap();
    let before = RecordedShare { world, journal: Arc::default() };
    let (after, restored) = before.restart_with(&journal.records());
    assert_eq!(restored.len(), 1);
    assert_eq!(after.world.share.path_of(&restored[0].open), path("kept"));
    assert_eq!(after.world.share.held_ranges().len(), 1);
}

// Another thread's attempt to write takes the records of all.
#[test]
fn records_that_one_thread_could_not_write_fail_for_all_and_are_written_with_the_next_tick() {
    let world = TestShare::new();
    let journal = Arc::new(MemoryJournal::default());
    keep_opens(&world.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
    let one = world.client(1);
    let [kept, late] = ["kept", "late"].map(|name| one.make(name));
    record(&one, &kept);
    assert!(!one.share.are_records_failing());
    journal.fill(true);
    assert_eq!(one.share.record(&late, SECOND, Vec::new()), Err(Refusal::NoSpace));
    assert!(one.share.are_records_failing());
    one.share.write_changes();
    assert!(one.share.are_records_failing(), "it was tried again");
    journal.fill(false);
    one.share.write_noted();
    assert!(!one.share.are_records_failing());
}

#[test]
fn a_full_disk_costs_requests_that_record_nothing_no_attempt_to_write() {
    let world = TestShare::new();
    let journal = Arc::new(CountingJournal::default());
    keep_opens(&world.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
    let one = world.client(1);
    let kept = one.make("kept");
    record(&one, &kept);
    journal.journal.fill(true);
    lock(&one, &kept, 0).unwrap();
    let before = journal.replaced.load(Ordering::SeqCst);
    for n in 0..10 {
        one.close(&one.make(&format!("other {n}")));
    }
    assert_eq!(
        journal.replaced.load(Ordering::SeqCst),
        before,
        "each writes all records of the share in vain"
    );
}

// The journal would never take a longer one again.
#[test]
fn a_record_fits_the_journal_whatever_its_note_becomes() {
    let before = RecordedShare::new();
    let one = before.world.client(1);
    let name = "d".repeat(250);
    let (mut path, mut enlisted, mut refused) = (name.clone(), Vec::new(), 0);
    for _ in 0..260 {
        one.make_directory(&path);
        let open = one.open(&format!("{path}/f")).disposition(Disposition::Create).open();
        let address = one.share.item_of(&open).address().unwrap();
        match one.share.enlist(&open, &address, b"N".to_vec()) {
            Ok(()) => enlisted.push(open),
            Err(_) => refused += 1,
        }
        path = format!("{path}/{name}");
    }
    assert!(enlisted.len() > 100 && refused > 0, "{} and {refused}", enlisted.len());
    let open = enlisted.pop().unwrap();
    one.share.set_record_note(&open, vec![b'N'; share::MAX_NOTE]);
    one.share.write_changes();
    before.journal.fill(true);
    lock(&one, &open, 0).unwrap();
    before.journal.fill(false);
    // It is written anew.
    one.share.write_noted();
    let longest = before.journal.records().iter().map(Vec::len).max().unwrap();
    assert!(longest <= volume::journal::MAX_RECORD, "{longest} bytes, which a journal on a disk refuses");
}
