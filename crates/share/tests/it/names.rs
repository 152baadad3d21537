//! Renaming, linking, symbolic links, streams, watches.

use crate::common::*;
use share::{
    CallResult, Change, ChangeFilter, ChangeKind, Config, Deny, Disposition, LockRule, Options, RangeKind,
    RangeRequest, Refusal, Waiter,
};
use volume::faulty::{PlannedFault, VolumeCall};
use volume::security::Rights;
use volume::{Failure, HostChange, HostEvent, Volume};

#[test]
fn a_rename_moves_the_name_and_what_is_open_with_it() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("f", "text");
    let (open, other) = (client.open("f").open(), client.open("f").open());
    done(client.rename(&open, "d/g", false)).unwrap();
    assert_eq!(world.share.path_of(&other), path("d/g"));
    assert_eq!(client.open("f").refusal(), Refusal::NotFound);
    assert_eq!(client.read(&client.open("D/G").open()).unwrap(), "text");
    client.set_delete(&other, true).unwrap();
    assert_eq!(client.open("d/g").refusal(), Refusal::DeletePending);
}

#[test]
fn a_rename_onto_another_name_needs_leave_and_nobody_who_has_it_open() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "new");
    client.make_with("Target", "old");
    client.make_directory("d");
    let open = client.open("f").open();
    assert_eq!(done(client.rename(&open, "target", false)), Err(Refusal::Exists));
    assert_eq!(done(client.rename(&open, "d", true)), Err(Refusal::AccessDenied));
    let held = client.open("target").open();
    assert_eq!(done(client.rename(&open, "target", true)), Err(Refusal::AccessDenied));
    client.close(&held);
    done(client.rename(&open, "target", true)).unwrap();
    assert_eq!(client.names_in(""), ["d", "target"]);
    assert_eq!(client.read(&open).unwrap(), "new");
}

#[test]
fn a_rename_can_change_nothing_but_case() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("name", "text");
    let open = client.open("NAME").open();
    done(client.rename(&open, "Name", false)).unwrap();
    assert_eq!(client.names_in(""), ["Name"]);
    assert_eq!(client.read(&client.open("nAME").open()).unwrap(), "text");
}

#[test]
fn a_directory_is_not_moved_while_something_below_it_is_open() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_directory("d/e");
    let below = client.make("d/e/f");
    let directory = client.open("d").open();
    assert_eq!(done(client.rename(&directory, "x", false)), Err(Refusal::AccessDenied));
    assert_eq!(done(client.rename(&directory, "d/e/x", false)), Err(Refusal::Invalid));
    client.close(&below);
    done(client.rename(&directory, "x", false)).unwrap();
    assert_eq!(client.open("d/e/f").refusal(), Refusal::PathNotFound);
    let moved = client.open("x/E/f").open();
    assert_eq!(world.share.path_of(&moved), path("x/e/f"));
}

#[test]
fn a_rename_needs_the_right_to_delete_and_a_parent_that_nobody_may_delete() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/f", "");
    let weak = client.open("d/f").access(READ | WRITE).open();
    assert_eq!(done(client.rename(&weak, "d/g", false)), Err(Refusal::AccessDenied));
    client.close(&weak);
    let open = client.open("d/f").open();
    let parent = client.open("d").access(Rights::DELETE).open();
    assert_eq!(done(client.rename(&open, "d/g", false)), Err(Refusal::SharingConflict));
    client.close(&parent);
    let selfish = client.open("d").access(READ).deny(Deny::all()).open();
    assert_eq!(done(client.rename(&open, "d/g", false)), Err(Refusal::SharingConflict));
    client.close(&selfish);
    let looks = client.open("d").access(Rights::READ_ATTRIBUTES).deny(Deny::all()).open();
    done(client.rename(&open, "d/g", false)).unwrap();
    client.close(&looks);
}

#[test]
fn further_names_lead_to_one_file_and_go_one_by_one() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    client.make_with("other", "");
    let open = client.open("f").open();
    let link = |to: &str, replace| client.call(|c| world.share.link(c, &open, &path(to), replace));
    link("g", false).unwrap();
    for taken in ["f", "g", "OTHER"] {
        assert_eq!(link(taken, false), Err(Refusal::Exists), "{taken}");
    }
    link("g", true).unwrap();
    link("OTHER", true).unwrap();
    assert_eq!(client.names_in(""), ["OTHER", "f", "g"]);
    assert_eq!(world.share.info(&open).unwrap().links, 3);
    client.set_delete(&open, true).unwrap();
    assert_eq!(client.open("f").refusal(), Refusal::DeletePending);
    let second = client.open("g").open();
    client.close(&open);
    assert_eq!(client.names_in(""), ["OTHER", "g"]);
    assert_eq!(client.read(&second).unwrap(), "text");
}

#[test]
fn symbolic_links_are_followed_inside_and_never_out() {
    let world = TestShare::with(Config { host_path: b"/srv/share".to_vec(), ..Config::default() });
    let client = world.client(1);
    client.make_directory("a");
    client.make_directory("a/b");
    client.make_with("a/b/f", "text");
    client.make_with("top", "top");
    let root = world.memory.root().unwrap();
    for (at, text) in [
        ("rel", "a/./b"),
        ("up", "a/b/../../top"),
        ("out", "../etc/passwd"),
        ("deep", "a/../../etc"),
        ("inside", "/srv/share/a/b/f"),
        ("elsewhere", "/srv/share2/a"),
        ("loop", "loop"),
        ("nowhere", "a/missing"),
    ] {
        root.create_link(&name(at), text.as_bytes(), None).unwrap();
        let (directory, name, change) = (root.id(), Some(name(at)), HostChange::Created);
        world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
    }
    world.share.maintain(now());
    let read = |at: &str| client.open(at).access(READ).result().and_then(|o| client.read(&o.open));
    assert_eq!(read("rel/f").as_deref(), Ok("text"));
    assert_eq!(read("up").as_deref(), Ok("top"));
    assert_eq!(read("inside").as_deref(), Ok("text"));
    for at in ["out", "deep", "elsewhere", "loop", "loop/x", "out/x"] {
        assert_eq!(read(at), Err(Refusal::BadLink), "{at}");
    }
    assert_eq!(read("nowhere"), Err(Refusal::NotFound));
    let stopped = |at: &str| client.open(at).options(Options::STOP_AT_LINKS).refusal();
    assert_eq!(stopped("rel/f"), Refusal::StoppedAtLink { text: b"a/./b".to_vec(), left: 1 });
    assert_eq!(stopped("out"), Refusal::StoppedAtLink { text: b"../etc/passwd".to_vec(), left: 0 });
    let link = client.open("out").options(Options::OPEN_LINK).access(READ).open();
    assert_eq!(world.share.link_text(&link).as_deref(), Ok(&b"../etc/passwd"[..]));
    assert_eq!(world.share.info(&link).unwrap().reparse_tag, 0xa000_000c);
}

#[test]
fn an_empty_file_becomes_a_link() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("target", "text");
    let open = client.make("link");
    client.caller(true, now(), |c| world.share.make_link(c, &open, b"target")).unwrap();
    client.close(&open);
    assert_eq!(client.read(&client.open("link").open()).unwrap(), "text");
    assert_eq!(client.names_in(""), ["link", "target"]);
}

#[test]
fn streams_have_their_own_sharing_and_go_with_their_file() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "main");
    let stream = client.open("f").stream("Side").disposition(Disposition::Create).deny(Deny::all()).open();
    client.write(&stream, 0, "side").unwrap();
    let main = client.open("f").access(READ | WRITE).deny(Deny::WRITE).open();
    assert_eq!((client.read(&main).unwrap(), client.read(&stream).unwrap()), ("main".into(), "side".into()));
    assert_eq!(world.share.info(&stream).unwrap().size, 4);
    assert_eq!(client.open("f").stream("side").refusal(), Refusal::SharingConflict);
    assert_eq!(client.open("f").access(Rights::DELETE).refusal(), Refusal::SharingConflict);
    let listed: Vec<_> = world.share.streams(&main).unwrap().into_iter().map(|s| s.name).collect();
    assert_eq!(listed, [name("Side")]);
    client.close(&stream);
    let again = client.open("f").stream("SIDE").open();
    assert_eq!(client.read(&again).unwrap(), "side");
    client.set_delete(&again, true).unwrap();
    assert_eq!(client.open("f").stream("side").refusal(), Refusal::DeletePending);
    client.close(&again);
    assert_eq!(client.open("f").stream("side").refusal(), Refusal::NotFound);
    assert_eq!(client.open("f").stream("side").options(Options::DIRECTORY).refusal(), Refusal::NotADirectory);
}

#[test]
fn a_file_is_not_renamed_while_a_stream_of_it_is_open() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "");
    let stream = client.open("f").stream("s").disposition(Disposition::Create).open();
    let main = client.open("f").open();
    assert_eq!(done(client.rename(&main, "g", false)), Err(Refusal::AccessDenied));
    client.close(&stream);
    done(client.rename(&main, "g", false)).unwrap();
}

#[test]
fn overwriting_removes_streams_and_extended_attributes() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "main");
    client.close(&client.open("f").stream("s").disposition(Disposition::Create).open());
    let open = client.open("f").open();
    let pair = (b"Comment".to_vec(), b"x".to_vec());
    let set = |name: &[u8], value: &[u8]| {
        client.call(|c| world.share.set_extended(c, &open, &[(name.to_vec(), value.to_vec())]))
    };
    set(b"Comment", b"x").unwrap();
    set(b"COMMENT", b"y").unwrap();
    assert_eq!(world.share.extended(&open).unwrap(), [(pair.0.clone(), b"y".to_vec())]);
    assert_eq!(world.share.info(&open).unwrap().extended_size, 4 + 5 + 7 + 1);
    assert_eq!(set(b"a:b", b"x"), Err(Refusal::BadAttributeName));
    client.close(&open);
    let open = client.open("f").disposition(Disposition::Overwrite).open();
    assert_eq!(world.share.streams(&open).unwrap(), []);
    assert_eq!(world.share.extended(&open).unwrap(), []);
    assert_eq!(world.share.info(&open).unwrap().extended_size, 0);
}

#[test]
fn extended_attributes_of_which_one_finds_no_room_leave_all_as_it_was() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    let open = client.open("f").disposition(Disposition::Create).open();
    let set = |changes: &[(&[u8], &[u8])]| {
        let changes: Vec<_> = changes.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        client.call(|c| world.share.set_extended(c, &open, &changes))
    };
    set(&[(b"one", b"1"), (b"two", b"2")]).unwrap();
    let before = (world.share.extended(&open).unwrap(), world.share.info(&open).unwrap().extended_size);
    // The removal and the first of the new ones are done.
    plan.add(VolumeCall::SetAttributes, 3, PlannedFault::Fail(Failure::NoSpace));
    let told = set(&[(b"one", b""), (b"two", b"22"), (b"three", b"3")]);
    assert_eq!(told, Err(Refusal::NoSpace));
    let after = (world.share.extended(&open).unwrap(), world.share.info(&open).unwrap().extended_size);
    assert_eq!(after, before);
}

fn taken(world: &TestShare, open: &std::sync::Arc<share::Open>) -> Vec<(ChangeKind, String)> {
    let changes: Vec<Change> = match world.share.take_changes(open, None) {
        CallResult::Done(changes) => changes,
        CallResult::Refused(Refusal::NoMoreEntries) => Vec::new(),
        other => panic!("{other:?}"),
    };
    let text = |change: &Change| {
        let mut text: Vec<_> = change.path.iter().map(|name| name.display().into_owned()).collect();
        if let Some(stream) = &change.stream {
            text.push(format!(":{}", stream.display()));
        }
        text.join("/")
    };
    changes.iter().map(|change| (change.kind, text(change))).collect()
}

#[test]
fn watches_hear_what_is_made_renamed_changed_and_removed() {
    use ChangeKind::{Added, Modified, Removed, RenamedFrom, RenamedTo};
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    let (root, inner) = (client.open("").access(READ).open(), client.open("d").access(READ).open());
    let filter = ChangeFilter::FILE_NAME | ChangeFilter::SIZE;
    world.share.watch(&root, filter, true, 4096).unwrap();
    world.share.watch(&inner, filter, false, 4096).unwrap();
    let waiter = Waiter { wake: client.ears.clone(), token: 1 };
    assert!(matches!(world.share.take_changes(&inner, Some(&waiter)), CallResult::Wait(_)));
    let file = client.make("d/f");
    assert_eq!(client.woken(), 1);
    client.write(&file, 0, "x").unwrap();
    assert_eq!(taken(&world, &inner), [(Added, "f".into())]);
    done(client.rename(&file, "d/g", false)).unwrap();
    client.set_delete(&file, true).unwrap();
    client.close(&file);
    let expected = [(RenamedFrom, "f"), (RenamedTo, "g"), (Modified, "g"), (Removed, "g")];
    let expected = expected.map(|(kind, at)| (kind, at.to_owned()));
    assert_eq!(taken(&world, &inner), expected);
    let mut deep = vec![(Added, "d/f".to_owned())];
    deep.extend(expected.map(|(kind, at)| (kind, format!("d/{at}"))));
    assert_eq!(taken(&world, &root), deep);
    client.make_directory("other");
    assert_eq!(taken(&world, &root), []);
    waits(world.share.take_changes(&inner, Some(&waiter)));
    client.close(&inner);
    assert_eq!(client.woken(), 1);
    assert!(matches!(world.share.take_changes(&inner, None), CallResult::Refused(Refusal::Gone)));
}

#[test]
fn a_rename_changes_a_file_but_not_a_directory_and_that_is_told_with_the_close() {
    let world = TestShare::new();
    let client = world.client(1);
    let root = client.open("").access(READ).open();
    let deaf = client.open("").access(READ).open();
    world.share.watch(&root, ChangeFilter::ATTRIBUTES, true, 4096).unwrap();
    world.share.watch(&deaf, ChangeFilter::empty(), true, 4096).unwrap();
    client.make_directory("d");
    let (file, directory) = (client.make("f"), client.open("d").open());
    done(client.rename(&directory, "e", false)).unwrap();
    client.close(&directory);
    done(client.rename(&file, "g", false)).unwrap();
    assert_eq!(taken(&world, &root), []);
    client.close(&file);
    assert_eq!(taken(&world, &root), [(ChangeKind::Modified, "g".to_owned())]);
    let waiter = Waiter { wake: client.ears.clone(), token: 1 };
    waits(world.share.take_changes(&deaf, Some(&waiter)));
}

#[test]
fn a_watch_ends_when_its_directory_is_to_go() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    let watched = client.open("d").access(READ).open();
    world.share.watch(&watched, ChangeFilter::FILE_NAME, false, 4096).unwrap();
    let waiter = Waiter { wake: client.ears.clone(), token: 1 };
    waits(world.share.take_changes(&watched, Some(&waiter)));
    client.close(&client.open("d").options(Options::DELETE_ON_CLOSE).open());
    assert_eq!(client.woken(), 1);
    assert!(matches!(world.share.take_changes(&watched, None), CallResult::Refused(Refusal::DeletePending)));
}

#[test]
fn what_the_host_does_is_believed_and_told() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/Old", "text");
    assert_eq!(client.open("d/missing").refusal(), Refusal::NotFound);
    let watched = client.open("d").access(READ).open();
    world.share.watch(&watched, ChangeFilter::FILE_NAME, false, 4096).unwrap();
    let directory = world.memory.root().unwrap().lookup(&name("d"), volume::OpenHow::Read).unwrap();
    directory.rename(&name("Old"), directory.as_ref(), &name("New"), false, None).unwrap();
    let (from, to) = ((directory.id(), name("Old")), (directory.id(), name("New")));
    world.memory.tell(HostEvent::Renamed { from, to, is_directory: false });
    world.share.maintain(now());
    assert_eq!(client.open("d/old").refusal(), Refusal::NotFound);
    assert_eq!(client.read(&client.open("d/new").open()).unwrap(), "text");
    let expected = [(ChangeKind::RenamedFrom, "Old".to_owned()), (ChangeKind::RenamedTo, "New".to_owned())];
    assert_eq!(taken(&world, &watched), expected);
    world.memory.tell(HostEvent::Overflow);
    world.share.maintain(now());
    assert!(matches!(world.share.take_changes(&watched, None), CallResult::Refused(Refusal::WatchOverflow)));
}

#[test]
fn byte_ranges_keep_data_from_others_and_go_with_their_open() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_with("f", "0123456789");
    let (a, b) = (one.open("f").open(), two.open("f").open());
    let range = RangeRequest { start: 2, len: 4, kind: RangeKind::Exclusive };
    let lock = |client: &Client, open: &std::sync::Arc<share::Open>| {
        let owner = client.owner(open);
        client.caller(true, now(), |c| world.share.lock(c, open, owner, LockRule::Exact, &[range]))
    };
    done(lock(&one, &a)).unwrap();
    assert_eq!(two.read(&b), Err(Refusal::RangeConflict));
    assert_eq!(two.write(&b, 5, "x"), Err(Refusal::RangeConflict));
    two.write(&b, 6, "x").unwrap();
    one.write(&a, 2, "y").unwrap();
    let ticket = waits(lock(&two, &b));
    world.share.cancel(ticket);
    waits(lock(&two, &b));
    one.close(&a);
    assert_eq!(two.woken(), 1);
    done(lock(&two, &b)).unwrap();
    assert_eq!(world.share.held_ranges().len(), 1);
    world.share.unlock(&b, two.owner(&b), LockRule::Exact, &[range]).unwrap();
    let again = world.share.unlock(&b, two.owner(&b), LockRule::Exact, &[range]);
    assert_eq!(again, Err(Refusal::RangeNotHeld));
}

#[test]
fn a_directory_is_moved_beside_ones_own_opens_where_that_is_asked() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("d");
    let below = one.make("d/f");
    let directory = one.open("d").options(Options::MOVES_BESIDE_OWN).open();
    done(one.rename(&directory, "x", false)).unwrap();
    assert_eq!(world.share.path_of(&below), path("x/f"));
    let theirs = two.open("x/f").open();
    assert_eq!(done(one.rename(&directory, "y", false)), Err(Refusal::AccessDenied));
    two.close(&theirs);
    done(one.rename(&directory, "y", false)).unwrap();
}

#[test]
fn byte_ranges_are_for_those_who_may_do_something_with_data() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    let range = [RangeRequest { start: 0, len: u64::MAX, kind: RangeKind::Exclusive }];
    for right in Rights::ALL.iter() {
        let open = client.open("f").access(right).open();
        let owner = client.owner(&open);
        let data = Rights::READ_DATA | Rights::WRITE_DATA | Rights::APPEND_DATA | Rights::EXECUTE;
        let expected = if data.contains(right) { Ok(()) } else { Err(Refusal::AccessDenied) };
        for rule in [LockRule::Exact, LockRule::Merging] {
            let locked = client.call(|c| world.share.lock(c, &open, owner, rule, &range));
            assert_eq!(locked, expected, "{right:?}");
            // A release of a range that is not held needs no right.
            let unlocked = world.share.unlock(&open, owner, rule, &range);
            if locked.is_ok() || rule == LockRule::Exact {
                assert_eq!(unlocked, locked.map_err(|_| Refusal::RangeNotHeld), "{right:?}");
            }
        }
        client.close(&open);
    }
}
