//! What is left when another client comes in the middle of a change, or when the host refuses the second half of it.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::*;
use share::{Config, Deny, Open, Refusal};
use volume::faulty::{Call, Fault, Plan};
use volume::{Failure, NodeId, OpenHow};

/// Runs `first` until it is held by the plan, `second` as far as it comes then, and both to their end.
fn in_the_middle<A: Send, B: Send>(
    plan: &Plan,
    first: impl FnOnce() -> A + Send,
    second: impl FnOnce() -> B + Send,
) -> (A, B) {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        assert!(plan.wait_held(1, Duration::from_secs(20)), "nothing was held");
        let second = scope.spawn(second);
        let comes_no_further = |_: &u32| second.is_finished() || plan.wait_held(2, Duration::from_millis(20));
        let _ = (0..15).find(comes_no_further);
        let is_over = |_: &u32| {
            plan.release();
            let is_over = first.is_finished() && second.is_finished();
            is_over || plan.wait_held(9, Duration::from_millis(1))
        };
        assert!((0..20_000).any(|n| is_over(&n)), "they hang");
        (first.join().unwrap(), second.join().unwrap())
    })
}

fn id_of(world: &World, text: &str) -> Option<NodeId> {
    let root = volume::Volume::root(&world.memory).unwrap();
    root.lookup(&name(text), OpenHow::Attributes).ok().map(|node| node.id())
}

/// A share that remembers no names, with the files `new` and `old`.
fn two_files() -> (World, Arc<Plan>, Client, Client) {
    let (world, plan) = World::planned(Config { metadata_caching: false, ..Config::default() });
    let (client, other) = (world.client(1), world.client(2));
    client.make_with("new", "new");
    client.make_with("old", "old");
    (world, plan, client, other)
}

/// Opens `old` for itself alone while `new` is being renamed over it, and says what both have got.
fn opened_while_it_is_replaced(call: Call) -> Result<(), Refusal> {
    let (world, plan, client, other) = two_files();
    let moved = client.open("new").open();
    // Which spellings there are is looked for anew.
    world.share.configure(Config { metadata_caching: false, ..Config::default() });
    plan.add(call, 1, Fault::Hold);
    let rename = || done(client.rename(&moved, "old", true));
    let open = || other.open("old").deny(Deny::all()).result();
    let (renamed, opened) = in_the_middle(&plan, rename, open);
    match opened {
        Ok(opened) => assert_eq!(Some(opened.open.node_id()), id_of(&world, "old"), "{renamed:?}"),
        Err(why) => assert_eq!(why, Refusal::SharingConflict),
    }
    renamed
}

#[test]
fn nobody_has_a_file_for_himself_that_is_just_being_replaced() {
    // What is replaced was looked at before, and is looked at once more.
    assert_eq!(opened_while_it_is_replaced(Call::Entries), Err(Refusal::AccessDenied));
    assert_eq!(opened_while_it_is_replaced(Call::Rename), Ok(()));
}

/// Marks what is open to go, by the rules of POSIX or not, and closes it.
fn delete(client: &Client, open: &Arc<Open>, posix: bool) {
    client.call(|c| client.share.set_delete(c, open, true, posix, false)).unwrap();
    client.close(open);
}

#[test]
fn a_name_that_is_renamed_while_its_removal_waits_goes_under_the_new_one() {
    let (world, plan, client, other) = two_files();
    let (moved, deleted) = (client.open("old").open(), other.open("old").open());
    plan.add(Call::Rename, 1, Fault::Hold);
    let rename = || done(client.rename(&moved, "third", false));
    let (renamed, ()) = in_the_middle(&plan, rename, || delete(&other, &deleted, true));
    assert_eq!(renamed, Ok(()));
    assert_eq!(client.names_in(""), ["new"]);
    assert!(id_of(&world, "third").is_none());
}

#[test]
fn what_took_the_place_of_a_file_outlives_the_close_that_removes_it() {
    let (world, plan, client, other) = two_files();
    let (moved, deleted) = (client.open("new").open(), other.open("old").open());
    plan.add(Call::Rename, 1, Fault::Hold);
    let rename = || {
        done(client.caller(true, now(), |c| world.share.rename(c, &moved, &path("old"), None, true, true)))
    };
    let (renamed, ()) = in_the_middle(&plan, rename, || delete(&other, &deleted, false));
    assert_eq!(renamed, Ok(()));
    assert_eq!(id_of(&world, "old"), Some(moved.node_id()));
}

#[test]
fn a_further_name_that_the_host_refuses_leaves_what_stands_there() {
    for (call, to) in [(Call::Create, "old"), (Call::Rename, "old"), (Call::Create, "OLD")] {
        let (world, plan, client, _) = two_files();
        let (before, open) = (id_of(&world, "old"), client.open("new").open());
        let link = || client.call(|c| world.share.link(c, &open, &path(to), true));
        plan.add(call, 1, Fault::Fail(Failure::Denied));
        assert_eq!(link(), Err(Refusal::AccessDenied));
        assert_eq!((id_of(&world, "old"), client.names_in("")), (before, vec!["new".into(), "old".into()]));
        assert_eq!(link(), Ok(()));
        assert_eq!(id_of(&world, to), Some(open.node_id()));
        assert_eq!(client.names_in("").len(), 2);
    }
}

#[test]
fn a_rename_that_the_host_refuses_leaves_the_other_spelling_of_its_goal() {
    let (world, plan, client, _) = two_files();
    let (before, open) = (id_of(&world, "old"), client.open("new").open());
    plan.add(Call::Rename, 1, Fault::Fail(Failure::CrossDevice));
    assert!(done(client.rename(&open, "OLD", true)).is_err());
    assert_eq!((id_of(&world, "old"), client.names_in("")), (before, vec!["new".into(), "old".into()]));
    assert_eq!(done(client.rename(&open, "OLD", true)), Ok(()));
    assert_eq!(client.names_in(""), ["OLD"]);
}
