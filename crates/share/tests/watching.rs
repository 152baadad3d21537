//! What watches that go deep cost, and what they hear of directories that cannot be held.

mod common;

use std::sync::Arc;

use common::*;
use share::{ChangeFilter, Config, Open, Refusal, Step};
use volume::faulty::Call;
use volume::{HostChange, HostEvent, Node, OpenHow, Volume};

/// As many directories as one tree may hold, its root among them.
const MOST: usize = 4096;

fn watch(world: &World, open: &Arc<Open>) {
    world.share.watch(open, ChangeFilter::all(), true, 1 << 20).unwrap();
}

/// What a watch has to say: how many changes, or why none.
fn taken(world: &World, open: &Arc<Open>) -> Result<usize, Refusal> {
    match world.share.take_changes(open, None) {
        Step::Done(changes) => Ok(changes.len()),
        Step::Refused(why) => Err(why),
        Step::Wait(_) => panic!("nobody waits here"),
    }
}

/// A program of the host makes a directory `name` in `parent`.
fn make(world: &World, parent: &dyn Node, text: &str) -> Arc<dyn Node> {
    let made = parent.create_directory(&name(text), 0o777, None).unwrap();
    world.memory.tell(HostEvent::Changed {
        directory: parent.id(),
        name: Some(name(text)),
        is_directory: true,
        change: HostChange::Created,
    });
    made
}

#[test]
fn a_further_watch_below_one_that_goes_deep_walks_nothing() {
    let (world, plan) = World::planned(Config::default());
    let client = world.client(1);
    let root = world.memory.root().unwrap();
    let above = root.create_directory(&name("d"), 0o777, None).unwrap();
    for n in 0..50 {
        above.create_directory(&name(&format!("{n}")), 0o777, None).unwrap();
    }
    let (first, second) = (client.open("").access(READ).open(), client.open("d").access(READ).open());
    watch(&world, &first);
    assert_eq!(plan.count(Call::Entries), 52);
    watch(&world, &second);
    assert_eq!(plan.count(Call::Entries), 52, "the tree was walked again");
    // What the first one held is held for the second, also when the first ends; and so is what the host makes then.
    client.close(&first);
    let inner = make(&world, above.lookup(&name("7"), OpenHow::Read).unwrap().as_ref(), "inner");
    world.share.before_batch(now());
    make(&world, inner.as_ref(), "innermost");
    world.share.before_batch(now().plus(std::time::Duration::from_secs(1)));
    assert_eq!(taken(&world, &second), Ok(2));
}

#[test]
fn directories_that_cannot_be_held_are_told_as_lost_changes() {
    let world = World::new();
    let client = world.client(1);
    let root = world.memory.root().unwrap();
    for n in 1..MOST {
        root.create_directory(&name(&format!("{n}")), 0o777, None).unwrap();
    }
    let first = client.open("").access(READ).open();
    watch(&world, &first);
    assert_eq!(taken(&world, &first), Err(Refusal::NoMoreEntries), "all are held");
    make(&world, root.as_ref(), "one more");
    world.share.before_batch(now());
    assert_eq!(taken(&world, &first), Err(Refusal::WatchOverflow));
    // Whoever comes later misses it from the beginning.
    let second = client.open("").access(READ).open();
    watch(&world, &second);
    assert_eq!(taken(&world, &second), Err(Refusal::WatchOverflow));
    assert_eq!(taken(&world, &second), Err(Refusal::NoMoreEntries));
}
