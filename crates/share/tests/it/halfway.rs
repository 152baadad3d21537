//! The state after another client comes in the middle of a change, or after the host refuses the second half
//! of it.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::{
    Attributes, Basic, Caching, Config, Deny, Disposition, Identity, Open, Refusal, TimeSet, WriteAt,
};
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};
use volume::security::{Acl, Descriptor, Parts, Rights, Sid};
use volume::{Failure, HostChange, HostEvent, NodeId, OpenHow, Time};

/// Runs `first` until the plan holds it, `second` as far as it comes then, and both to their end.
fn in_the_middle<A: Send, B: Send>(
    plan: &FaultPlan,
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

fn id_of(world: &TestShare, text: &str) -> Option<NodeId> {
    let root = volume::Volume::root(&world.memory).unwrap();
    root.lookup(&name(text), OpenHow::Attributes).ok().map(|node| node.id())
}

/// A share that caches no names, with the files `new` and `old`.
fn two_files() -> (TestShare, Arc<FaultPlan>, Client, Client) {
    let (world, plan) = TestShare::planned(Config { metadata_caching: false, ..Config::default() });
    let (client, other) = (world.client(1), world.client(2));
    client.make_with("new", "new");
    client.make_with("old", "old");
    (world, plan, client, other)
}

/// Opens `old` exclusively while `new` is being renamed over it, and returns the result of the open.
fn opened_while_it_is_replaced(call: VolumeCall) -> Result<(), Refusal> {
    let (world, plan, client, other) = two_files();
    let moved = client.open("new").open();
    // The spellings are read anew.
    world.share.configure(Config { metadata_caching: false, ..Config::default() });
    plan.add(call, 1, PlannedFault::Hold);
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
    // The replaced file was checked before, and is checked once more.
    assert_eq!(opened_while_it_is_replaced(VolumeCall::Entries), Err(Refusal::AccessDenied));
    assert_eq!(opened_while_it_is_replaced(VolumeCall::Rename), Ok(()));
}

/// Marks the open file for deletion, by the rules of POSIX or not, and closes it.
fn delete(client: &Client, open: &Arc<Open>, posix: bool) {
    client.call(|c| client.share.set_delete(c, open, true, posix, false)).unwrap();
    client.close(open);
}

#[test]
fn a_name_that_is_renamed_while_its_removal_waits_goes_under_the_new_one() {
    let (world, plan, client, other) = two_files();
    let (moved, deleted) = (client.open("old").open(), other.open("old").open());
    plan.add(VolumeCall::Rename, 1, PlannedFault::Hold);
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
    plan.add(VolumeCall::Rename, 1, PlannedFault::Hold);
    let rename = || {
        done(client.caller(true, now(), |c| world.share.rename(c, &moved, &path("old"), None, true, true)))
    };
    let (renamed, ()) = in_the_middle(&plan, rename, || delete(&other, &deleted, false));
    assert_eq!(renamed, Ok(()));
    assert_eq!(id_of(&world, "old"), Some(moved.node_id()));
}

#[test]
fn a_further_name_that_the_host_refuses_leaves_what_stands_there() {
    for (call, to) in [(VolumeCall::Create, "old"), (VolumeCall::Rename, "old"), (VolumeCall::Create, "OLD")]
    {
        let (world, plan, client, _) = two_files();
        let (before, open) = (id_of(&world, "old"), client.open("new").open());
        let link = || client.call(|c| world.share.link(c, &open, &path(to), true));
        plan.add(call, 1, PlannedFault::Fail(Failure::Denied));
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
    plan.add(VolumeCall::Rename, 1, PlannedFault::Fail(Failure::CrossDevice));
    assert!(done(client.rename(&open, "OLD", true)).is_err());
    assert_eq!((id_of(&world, "old"), client.names_in("")), (before, vec!["new".into(), "old".into()]));
    assert_eq!(done(client.rename(&open, "OLD", true)), Ok(()));
    assert_eq!(client.names_in(""), ["OLD"]);
}

#[test]
fn of_two_who_make_a_file_for_themselves_alone_one_has_it() {
    let (world, plan) =
        TestShare::planned(Config { metadata_caching: false, enforce: false, ..Config::default() });
    // The host does not create files as this user, so it is asked for their owner.
    let user = Identity { actor: None, ..Identity::clone(&user(1001)) };
    let clients = [1, 2].map(|n| world.client_of(n, Arc::new(user.clone())));
    let make = |client: &Client| {
        let asked = client.open("lock").disposition(Disposition::OpenOrCreate).deny(Deny::all());
        asked.result().map(|opened| opened.open)
    };
    // Each call after the creation, one in each round.
    for n in [2, 1, 2] {
        plan.add(VolumeCall::Stat, n, PlannedFault::Hold);
        let (one, other) = in_the_middle(&plan, || make(&clients[0]), || make(&clients[1]));
        assert!(one.is_ok() != other.is_ok(), "{n}: {one:?} {other:?}");
        let had = one.or(other).unwrap();
        done(clients[0].caller(true, now(), |c| world.share.set_delete(c, &had, true, false, false)))
            .unwrap();
        world.share.close(&had, now()).unwrap();
    }
}

#[test]
fn of_two_who_append_at_once_neither_takes_the_others_place() {
    let (world, plan, client, other) = two_files();
    let opens = [&client, &other].map(|client| client.open("new").access(Rights::APPEND_DATA).open());
    plan.add(VolumeCall::Write, 1, PlannedFault::Hold);
    plan.add(VolumeCall::Write, 2, PlannedFault::Hold);
    let append = |client: &Client, open: &Arc<Open>, text: &str| {
        let owner = client.owner(open);
        let (at, data) = (WriteAt::Offset(0), text.as_bytes());
        client.call(|c| world.share.write(c, open, owner, at, data, false))
    };
    let both =
        in_the_middle(&plan, || append(&client, &opens[0], "one"), || append(&other, &opens[1], "other"));
    assert_eq!(both, (Ok(()), Ok(())));
    assert_eq!(client.read(&client.open("new").open()).unwrap(), "newoneother");
}

#[test]
fn a_write_keeps_its_time_whenever_room_is_wished_for() {
    const LONG_AGO: Time = Time { secs: 946_684_800, nanos: 100 };
    // The allocation comes in the middle of the write, and the write in the middle of the allocation.
    for first in [VolumeCall::Sync, VolumeCall::Resize] {
        let (world, plan, client, other) = two_files();
        let old = client.open("old").open();
        let modified = |time| Basic { modified: Some(time), ..Basic::default() };
        client.call(|c| world.share.set_basic(c, &old, modified(TimeSet::Set(LONG_AGO)))).unwrap();
        client.close(&old);
        let opens = [&client, &other].map(|client| client.open("old").open());
        assert_eq!(world.share.info(&opens[0]).unwrap().modified, LONG_AGO);
        plan.add(first, 1, PlannedFault::Hold);
        let wish = || client.call(|c| world.share.set_allocation(c, &opens[0], 1 << 20)).is_ok();
        let write = || {
            let owner = other.owner(&opens[1]);
            let at = WriteAt::Offset(0);
            other.call(|c| world.share.write(c, &opens[1], owner, at, b"new", true)).is_ok()
        };
        let both = match first {
            VolumeCall::Sync => in_the_middle(&plan, write, wish),
            _ => in_the_middle(&plan, wish, write),
        };
        assert_eq!(both, (true, true));
        assert!(world.share.info(&opens[0]).unwrap().modified > LONG_AGO, "{first:?}");
    }
}

#[test]
fn of_two_who_change_what_lies_beside_a_file_neither_undoes_what_the_other_did() {
    let (world, plan, client, other) = two_files();
    let (one, second) = (client.open("old").access(ALL).open(), other.open("old").access(ALL).open());
    plan.add(VolumeCall::SetNote, 1, PlannedFault::Hold);
    plan.add(VolumeCall::SetNote, 3, PlannedFault::Hold);
    let hide = || {
        let basic = Basic { attributes: Some(Attributes::HIDDEN), ..Basic::default() };
        client.call(|c| world.share.set_basic(c, &one, basic))
    };
    let nobody = Descriptor::new(Sid::unix_user(1001), Sid::unix_group(1001), Acl::new(vec![]));
    let close_off = || other.call(|c| world.share.set_descriptor(c, &second, Parts::DACL, &nobody));
    assert_eq!(in_the_middle(&plan, hide, close_off), (Ok(()), Ok(())));
    assert!(world.share.info(&one).unwrap().attributes.contains(Attributes::HIDDEN));
    assert_eq!(client.open("old").access(READ).refusal(), Refusal::AccessDenied);
}

#[test]
fn what_is_written_to_runs_with_nobody_elses_rights() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("program", "old");
    let open = client.open("program").access(ALL).open();
    let mode = || world.share.info(&open).unwrap().mode;
    let set_mode = |mode| client.call(|c| world.share.set_mode(c, &open, mode)).unwrap();
    for (set, left) in [(0o6755, 0o755), (0o6745, 0o2745), (0o755, 0o755)] {
        set_mode(set);
        assert_eq!(mode(), set);
        client.write(&open, 0, "new").unwrap();
        assert_eq!(mode(), left);
        set_mode(set);
        client.call(|c| world.share.set_size(c, &open, 1)).unwrap();
        assert_eq!(mode(), left);
        set_mode(set);
        client.close(&client.open("program").disposition(Disposition::Overwrite).open());
        assert_eq!(mode(), left);
    }
    // A program of the host has set it.
    let root = volume::Volume::root(&world.memory).unwrap();
    let host = root.lookup(&name("program"), OpenHow::Attributes).unwrap();
    host.set_mode(0o4755).unwrap();
    let (directory, named, change) = (root.id(), Some(name("program")), HostChange::Attributes);
    world.memory.tell(HostEvent::Changed { directory, name: named, is_directory: false, change });
    let soon = now().plus(Duration::from_millis(1));
    world.share.take_host_changes(soon);
    client.write(&open, 0, "x").unwrap();
    assert_eq!(mode(), 0o755);
    // Its group is one that its owner is not in.
    host.set_owner(None, Some(7)).unwrap();
    set_mode(0o6755);
    assert_eq!(mode(), 0o4755);
}

#[test]
fn a_right_that_was_given_in_the_middle_of_a_change_goes_with_it() {
    let all = Caching::READ | Caching::HANDLE;
    // The changed property, the kind of call that changes it, and whether the other client releases its
    // rights as a whole.
    for (what, call, whole) in [
        ("data", VolumeCall::Write, false),
        ("size", VolumeCall::Resize, false),
        ("mode", VolumeCall::SetAttributes, true),
    ] {
        let (world, plan, client, other) = two_files();
        let open = client.open("old").access(if whole { READ | Rights::WRITE_DAC } else { ALL }).open();
        plan.add(call, 1, PlannedFault::Hold);
        let change = || match what {
            "data" => client.write(&open, 0, "now"),
            "size" => client.call(|c| world.share.set_size(c, &open, 1)),
            _ => client.call(|c| world.share.set_mode(c, &open, 0o600)),
        };
        let read = || {
            let asked = other.open("old").access(READ).keyed(7, all);
            let cached = if whole { asked.whole().open() } else { asked.open() };
            (cached.caching().unwrap().state, cached)
        };
        let (changed, (given, cached)) = in_the_middle(&plan, change, read);
        assert_eq!((changed, given), (Ok(()), all), "{what}");
        assert_eq!(other.breaks(), [(all, Caching::empty(), true)], "{what}");
        assert!(cached.caching().unwrap().breaking.is_some(), "{what}");
    }
}

#[test]
fn who_was_given_a_right_to_keep_a_file_open_is_asked_before_it_is_renamed() {
    let (world, plan, client, other) = two_files();
    let open = client.open("old").open();
    world.share.configure(Config { metadata_caching: false, ..Config::default() });
    plan.add(VolumeCall::Entries, 1, PlannedFault::Hold);
    let rename = || client.rename(&open, "new", true);
    let keep = || other.open("old").access(READ).keyed(7, Caching::READ | Caching::HANDLE).open();
    let (step, kept) = in_the_middle(&plan, rename, keep);
    waits(step);
    assert_eq!(other.breaks().len(), 1);
    other.close(&kept);
    assert_eq!(done(client.rename(&open, "new", true)), Ok(()));
}
