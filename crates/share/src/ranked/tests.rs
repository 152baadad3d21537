//! The order of locks is checked, and no lock of the crate is without a rank.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::*;

/// The message with which a thread panics.
fn panic_of(act: impl FnOnce()) -> Option<String> {
    let caught = catch_unwind(AssertUnwindSafe(act)).err()?;
    Some(caught.downcast_ref::<String>().unwrap().clone())
}

fn lock(rank: Rank) -> Mutex<u8> {
    Mutex::of_default(rank)
}

#[test]
fn what_is_taken_out_of_order_is_named_with_what_is_held() {
    let (shard, state, other) = (lock(Rank::FileShard), lock(Rank::FileState), lock(Rank::FileState));
    assert_eq!(panic_of(|| drop((shard.lock(), state.lock()))), None);
    let said = panic_of(|| drop((state.lock(), shard.lock()))).unwrap();
    assert!(said.contains("FileShard while FileState"), "{said}");
    assert_eq!(panic_of(|| drop(shard.lock())), None, "what was held when it panicked is held no more");
    let said = panic_of(|| drop((state.lock(), other.lock()))).unwrap();
    assert!(said.contains("FileState while FileState"), "each at most once: {said}");
}

#[test]
fn nothing_is_locked_under_a_leaf() {
    let (detached, parent_and_name, party) =
        (lock(Rank::Detached), lock(Rank::LinkPlace), RwLock::new(Rank::Party, ()));
    assert_eq!(panic_of(|| drop((detached.lock(), party.read()))), None);
    assert!(panic_of(|| drop((parent_and_name.lock(), party.write()))).is_some());
    assert!(panic_of(|| drop((party.read(), party.read()))).is_some(), "a writer may wait between them");
}

#[test]
fn names_of_two_directories_are_changed_by_address() {
    let both = [lock(Rank::NamesChange), lock(Rank::NamesChange)];
    assert_eq!(panic_of(|| drop((both[0].lock(), both[1].lock()))), None);
    assert!(panic_of(|| drop((both[1].lock(), both[0].lock()))).is_some());
}

#[test]
fn what_is_only_tried_may_come_out_of_order_and_counts_as_held() {
    let (taking, changing, contents) =
        (lock(Rank::HostEvents), lock(Rank::NamesChange), lock(Rank::Contents));
    let held = contents.lock();
    let tried = changing.try_lock().unwrap();
    drop(held);
    assert_eq!(panic_of(|| drop(contents.lock())), None);
    assert!(panic_of(|| drop(taking.lock())).is_some());
    drop(tried);
    let tried = changing.try_lock_for(Duration::ZERO).unwrap();
    assert!(changing.try_lock().is_none());
    assert!(panic_of(|| drop(taking.lock())).is_some());
    drop(tried);
    assert_eq!(panic_of(|| drop(taking.lock())), None);
}

#[test]
fn every_lock_of_this_crate_has_a_rank() {
    let mut todo = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut found = Vec::new();
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let is_apart = ["ranked", "ranked.rs"].iter().any(|name| path.ends_with(name));
            match path.is_dir() {
                _ if is_apart => {}
                true => todo.push(path),
                false => {
                    let text = fs::read_to_string(&path).unwrap();
                    let locks = [
                        "parking_lot",
                        "sync::Mutex",
                        "sync::RwLock",
                        "sync::{Mutex",
                        "sync::{Arc, Mutex",
                        "Condvar",
                    ];
                    found.extend(locks.iter().filter(|lock| text.contains(**lock)).map(|_| path.clone()));
                }
            }
        }
    }
    assert!(found.is_empty(), "locks without a rank: {found:?}");
}
