//! The files of restored opens, after a restart on a store that is far away.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::common::*;
use crate::kept_opens::keep_opens;
use share::{Config, Share};
use volume::faulty::FaultyVolume;
use volume::journal::MemoryJournal;
use wire::Now;

#[test]
fn the_files_of_many_opens_are_looked_up_at_the_same_time() {
    let world = TestShare::new();
    let one = world.client(1);
    let journal = Arc::new(MemoryJournal::default());
    keep_opens(&one.share, journal.clone(), &[], |_| None, Now::default()).unwrap();
    let names: Vec<_> = (0..40).map(|number| format!("f{number:02}")).collect();
    for name in &names {
        one.share.record(&one.make(name), 60_000_000_000, Vec::new()).unwrap();
    }
    let records = journal.records();
    let volume = FaultyVolume::new(Arc::new(world.memory.clone()));
    let plan = Arc::clone(volume.plan());
    let share = Share::open(Arc::new(volume), Config::default()).unwrap();
    // Each call waits until four threads have one under way.
    let (is_late, gathered) =
        (Arc::new(AtomicBool::new(false)), (Mutex::new(HashSet::new()), Condvar::new()));
    let seen = Arc::clone(&is_late);
    plan.slow_down(move || {
        let (threads, joined) = &gathered;
        let mut threads = threads.lock().unwrap();
        threads.insert(std::thread::current().id());
        joined.notify_all();
        let waited =
            joined.wait_timeout_while(threads, Duration::from_secs(20), |threads| threads.len() < 4).unwrap();
        seen.fetch_or(waited.1.timed_out(), Ordering::Relaxed);
    });
    let who = |_: &_| Some(user(1001));
    let restored = keep_opens(&share, Arc::new(MemoryJournal::default()), &records, who, Now::default());
    let restored = restored.unwrap();
    assert!(!is_late.load(Ordering::Relaxed), "one thread opened the files of the others");
    let paths: Vec<_> = restored.iter().map(|it| it.open.name().unwrap().display().into_owned()).collect();
    assert_eq!(paths, names, "in the order of their ids");
}
