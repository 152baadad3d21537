//! The cache of names and files saves calls, respects its limit, and is released in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::*;
use share::engine::Descriptors;
use share::{Attributes, Basic, Caching, ChangeFilter, Config, Disposition, Options, Refusal, Waiter};
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};
use volume::memory::MemoryVolume;
use volume::security::Rights;
use volume::{Failure, HostChange, HostEvent, Node, NodeId, OpenHow, Space, Time, Volume, VolumeProperties};

/// The rights with which a client opens a file to delete it.
const GOES: Rights = Rights::DELETE.union(Rights::READ_ATTRIBUTES);

/// The calls for names and attributes that an action takes.
fn calls(plan: &FaultPlan, act: impl FnOnce()) -> u64 {
    let before = plan.metadata_calls();
    act();
    plan.metadata_calls() - before
}

fn later(seconds: u64) -> wire::Now {
    now().plus(Duration::from_secs(seconds))
}

fn host(world: &TestShare, at: &str) -> Arc<dyn Node> {
    path(at).iter().fold(world.memory.root().unwrap(), |at, name| at.lookup(name, OpenHow::Read).unwrap())
}

fn tell(world: &TestShare, directory: &dyn Node, text: &str, change: HostChange) {
    let (directory, name) = (directory.id(), Some(name(text)));
    world.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
}

/// The host has moved a file within a directory.
fn tell_renamed(world: &TestShare, directory: &dyn Node, from: &str, to: &str) {
    let (from, to) = ((directory.id(), name(from)), (directory.id(), name(to)));
    world.memory.tell(HostEvent::Renamed { from, to, is_directory: false });
}

#[test]
fn a_known_path_is_opened_with_one_call_instead_of_four() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    for at in ["a", "a/b", "a/b/c"] {
        client.make_directory(at);
    }
    client.make_with("a/b/c/file", "text");
    let open = || client.close(&client.open("a/b/c/file").access(READ).open());
    for (on, expected) in [(true, 1), (false, 4), (true, 1)] {
        world.share.set_metadata_caching(on);
        (0..3).for_each(|_| open());
        assert_eq!(calls(&plan, open), expected, "on: {on}");
    }
    let summary = world.share.metadata_caching();
    assert!(summary.on && summary.hits >= 3 && summary.misses > 0 && summary.names > 0 && summary.files > 0);
}

#[test]
fn making_and_deleting_take_fewer_calls_too() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/first", "");
    let make = |at: &str| client.close(&client.make(at));
    let going = |at: &str| client.open(at).access(GOES).options(Options::DELETE_ON_CLOSE).open();
    let delete = |at: &str| client.close(&going(at));
    for (on, at, made, deleted) in [(true, "d/one", 2, 2), (false, "d/two", 3, 4), (true, "d/three", 2, 2)] {
        world.share.set_metadata_caching(on);
        // The index of the directory exists in both cases.
        assert_eq!(client.open("d/none").refusal(), Refusal::NotFound);
        assert_eq!(calls(&plan, || make(at)), made, "made, on: {on}");
        client.close(&client.open(at).open());
        assert_eq!(calls(&plan, || delete(at)), deleted, "deleted, on: {on}");
        assert_eq!(client.open(at).refusal(), Refusal::NotFound);
    }
}

#[test]
fn what_was_just_made_is_deleted_and_opened_without_asking_what_lies_beside_it() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/first", "");
    for (on, opened, deleted) in [(true, 1, 2), (false, 3, 4), (true, 1, 2)] {
        world.share.set_metadata_caching(on);
        // As on a host: a recent change is not old enough to be trusted.
        world.memory.set_clock(Time::from_wall_ns(now().wall_ns));
        for at in ["d/one", "d/two"] {
            client.make_with(at, "text");
        }
        let open = || client.close(&client.open("d/two").access(Rights::READ_ATTRIBUTES).open());
        assert_eq!(calls(&plan, open), opened, "opened, on: {on}");
        for at in ["d/one", "d/two"] {
            let delete =
                || client.close(&client.open(at).options(Options::DELETE_ON_CLOSE).access(GOES).open());
            assert_eq!(calls(&plan, delete), deleted, "{at}, on: {on}");
            assert_eq!(client.open(at).refusal(), Refusal::NotFound);
        }
    }
}

/// The bytes of a record with the hidden attribute, as another server or a backup stores it.
const HIDDEN: [u8; 6] = [1, 1, 0x22, 0, 0, 0];

#[test]
fn what_the_host_puts_beside_what_was_just_made_is_seen() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    let directory = host(&world, "d");
    let is_hidden = |at: &str, second| {
        let opened = client.open(at).access(Rights::READ_ATTRIBUTES).at(later(second)).result().unwrap();
        client.close(&opened.open);
        opened.info.attributes.contains(Attributes::HIDDEN)
    };
    let hide = |at: &str| {
        let file = directory.lookup(&name(at), OpenHow::Attributes).unwrap();
        file.set_note(volume::Note::Attributes, Some(&HIDDEN)).unwrap();
    };
    let set_clock = |ns: i64| world.memory.set_clock(Time::from_wall_ns(now().wall_ns + ns));
    let changers = ["its name", "its name, moved since", "another name", "a client", "nobody"];
    for (n, by) in (0..).zip(changers) {
        set_clock(0);
        let at = format!("f{n}");
        client.make_with(&format!("d/{at}"), "");
        assert!(!is_hidden(&format!("d/{at}"), 2 * n + 1));
        let mut now_at = at.clone();
        match by {
            "its name" => {
                hide(&at);
                tell(&world, directory.as_ref(), &at, HostChange::Attributes);
            }
            "its name, moved since" => {
                hide(&at);
                tell(&world, directory.as_ref(), &at, HostChange::Attributes);
                now_at = format!("moved{n}");
                directory.rename(&name(&at), directory.as_ref(), &name(&now_at), false, None).unwrap();
                tell_renamed(&world, directory.as_ref(), &at, &now_at);
            }
            "another name" => {
                // In a place that is not watched, and later than the creator's close.
                set_clock(300_000_000);
                let file = directory.lookup(&name(&at), OpenHow::Attributes).unwrap();
                directory.add_name(&name("other"), file.as_ref(), None).unwrap();
                hide("other");
                directory.remove(&name("other"), false, None).unwrap();
            }
            "a client" => {
                let open = client.open(&format!("d/{at}")).access(Rights::WRITE_ATTRIBUTES).open();
                let basic = Basic { attributes: Some(Attributes::HIDDEN), ..Basic::default() };
                client.call(|c| world.share.set_basic(c, &open, basic)).unwrap();
                client.close(&open);
            }
            _ => {}
        }
        assert_eq!(is_hidden(&format!("d/{now_at}"), 2 * n + 2), by != "nobody", "{by}");
    }
}

#[test]
fn a_path_in_another_case_takes_no_more_calls_than_the_exact_one() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_directory("Large");
    let large = host(&world, "Large");
    for n in 0..2000 {
        large.create_file(&name(&format!("File{n}")), 0o666, None).unwrap();
    }
    let open = |at: &str| client.close(&client.open(at).access(READ).open());
    for n in [0, 1000, 1999] {
        open(&format!("LARGE/file{n}"));
        assert_eq!(calls(&plan, || open(&format!("Large/File{n}"))), 1);
        assert_eq!(calls(&plan, || open(&format!("LARGE/FILE{n}"))), 1);
    }
    let missing = || assert_eq!(client.open("large/File2000").refusal(), Refusal::NotFound);
    assert_eq!(calls(&plan, missing), 0);
}

/// Creates `d` with `count` files of four bytes.
fn make_files(client: &Client, count: u64) {
    client.make_directory("d");
    (0..count).for_each(|n| client.make_with(&format!("d/f{n}"), "text"));
}

#[test]
fn what_is_remembered_is_listed_with_one_call_for_each_entry() {
    const FILES: u64 = 20;
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    make_files(&client, FILES);
    let list = || {
        let open = client.open("d").access(READ).open();
        let mut count = 0;
        let taken = calls(&plan, || {
            client.caller(true, now(), |c| {
                let seen = world.share.scan(c, &open, 0, &mut |_| true, &mut |entry| {
                    assert_eq!(entry.info().unwrap().size, 4);
                    count += 1;
                    std::ops::ControlFlow::Continue(())
                });
                assert_eq!(seen, Ok(()));
            });
        });
        client.close(&open);
        assert_eq!(count, FILES);
        taken
    };
    // The scan, each name, and the sidecar data of its file.
    assert_eq!(list(), 1 + 2 * FILES);
    // Now the listing and the sidecar data are cached: the stat of each name is asked for, and nothing is
    // opened.
    let opened = plan.count(VolumeCall::Lookup);
    assert_eq!((list(), plan.count(VolumeCall::Lookup) - opened), (FILES, 0));
    (0..FILES).for_each(|n| client.close(&client.open(&format!("d/f{n}")).access(READ).open()));
    let hits = world.share.metadata_caching().hits;
    // The directory itself is found too.
    assert_eq!((list(), world.share.metadata_caching().hits - hits), (FILES, FILES + 1));
    world.share.set_metadata_caching(false);
    assert_eq!(list(), 1 + 2 * FILES);
}

/// Lists `d` like an NFS client that wants filehandles.
fn list_with_addresses(world: &TestShare, client: &Client, at: wire::Now) -> Vec<Vec<u8>> {
    let open = client.open("d").access(READ).at(at).open();
    let mut addresses = Vec::new();
    client.caller(true, at, |c| {
        let seen = world.share.scan(c, &open, 0, &mut |_| true, &mut |entry| {
            addresses.push(entry.address().unwrap());
            assert_eq!(entry.item_info().unwrap().size, 4);
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(seen, Ok(()));
    });
    client.close(&open);
    addresses
}

#[test]
fn an_address_that_was_listed_is_listed_again_with_one_call_for_each_entry() {
    const FILES: u64 = 20;
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    make_files(&client, FILES);
    let first = list_with_addresses(&world, &client, now());
    let again = |at| {
        let (opened, mut listed) = (plan.count(VolumeCall::Lookup), Vec::new());
        let taken = calls(&plan, || listed = list_with_addresses(&world, &client, later(at)));
        assert_eq!(listed, first);
        (plan.count(VolumeCall::Lookup) - opened, taken)
    };
    // One call opens the directory.
    assert_eq!(again(1), (0, FILES + 1));
    // Now only the absence of records is still cached. The node returns its address: both calls count as
    // lookups.
    world.share.set_metadata_caching(false);
    world.share.set_metadata_caching(true);
    assert_eq!(again(2).0, 1 + 2 * FILES);
    assert_eq!(again(3), (0, FILES + 1));
    world.share.set_metadata_caching(false);
    let first = calls(&plan, || drop(list_with_addresses(&world, &client, later(42))));
    let again = calls(&plan, || drop(list_with_addresses(&world, &client, later(43))));
    assert!(again <= first && again <= 3 * FILES + 4, "{first}, {again}");
}

#[test]
fn what_was_replaced_since_its_address_was_told_is_not_told_of() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/f", "text");
    let _known =
        [list_with_addresses(&world, &client, now()), list_with_addresses(&world, &client, later(1))];
    let open = client.open("d").access(READ).at(later(2)).open();
    client.caller(true, later(2), |c| {
        let seen = world.share.scan(c, &open, 0, &mut |_| true, &mut |entry| {
            entry.address().unwrap();
            let directory = host(&world, "d");
            directory.remove(&name("f"), false, None).unwrap();
            directory.create_file(&name("f"), 0o644, None).unwrap();
            assert_eq!(entry.item().err(), Some(Refusal::Gone));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(seen, Ok(()));
    });
}

#[test]
fn that_a_name_is_missing_is_remembered_until_somebody_makes_it() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_directory("d");
    let exact =
        |at: &str| client.open(at).options(Options::EXACT_CASE).result().map(|o| client.close(&o.open));
    assert_eq!(exact("d/x"), Err(Refusal::NotFound));
    assert_eq!(calls(&plan, || assert_eq!(exact("d/x"), Err(Refusal::NotFound))), 0);
    assert_eq!(exact("d/X"), Err(Refusal::NotFound));
    client.make_with("d/x", "");
    assert_eq!((exact("d/x"), exact("d/X")), (Ok(()), Err(Refusal::NotFound)));
    let directory = host(&world, "d");
    directory.create_file(&name("X"), 0o666, None).unwrap();
    tell(&world, directory.as_ref(), "X", HostChange::Created);
    world.share.maintain(later(1));
    assert_eq!(exact("d/X"), Ok(()));
}

#[test]
fn what_the_host_changes_counts_with_the_next_request_after_its_event() {
    let (world, _) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/f", "text");
    let info = |at: &str, second| {
        let opened = client.open(at).access(Rights::READ_ATTRIBUTES).at(later(second)).result()?;
        client.close(&opened.open);
        Ok::<_, Refusal>(opened.info)
    };
    let (first, directory) = (info("d/f", 1).unwrap(), host(&world, "d"));
    // A stat needs no event: it is asked for.
    directory.lookup(&name("f"), OpenHow::ReadWrite).unwrap().set_size(9).unwrap();
    assert_eq!(info("d/f", 2).unwrap().size, 9);
    // A removed name is seen without an event too, because a file without a name says so.
    directory.remove(&name("f"), false, None).unwrap();
    assert_eq!(info("d/f", 3), Err(Refusal::NotFound));
    // Another file takes the name.
    directory.create_file(&name("f"), 0o666, None).unwrap();
    tell(&world, directory.as_ref(), "f", HostChange::Removed);
    tell(&world, directory.as_ref(), "f", HostChange::Created);
    assert_ne!(info("d/f", 4).unwrap().id, first.id);
    // And a file that keeps another name is put in its place.
    let other = directory.create_file(&name("g"), 0o666, None).unwrap();
    directory
        .add_name(&name("kept"), directory.lookup(&name("f"), OpenHow::Read).unwrap().as_ref(), None)
        .unwrap();
    directory.rename(&name("g"), directory.as_ref(), &name("f"), true, None).unwrap();
    tell_renamed(&world, directory.as_ref(), "g", "f");
    assert_eq!(info("d/f", 5).unwrap().id, other.id());
}

#[test]
fn after_a_loss_of_events_nothing_is_trusted() {
    let (world, _) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/f", "");
    client.make_with("d/g", "");
    let id = |at: &str, second| {
        let opened = client.open(at).at(later(second)).result()?;
        client.close(&opened.open);
        Ok::<_, Refusal>(opened.info.id)
    };
    let (f, g) = (id("d/f", 1).unwrap(), id("d/g", 1).unwrap());
    assert_eq!(id("d/H", 1), Err(Refusal::NotFound));
    let directory = host(&world, "d");
    directory.rename(&name("f"), directory.as_ref(), &name("h"), false, None).unwrap();
    directory.rename(&name("g"), directory.as_ref(), &name("f"), false, None).unwrap();
    world.memory.tell(HostEvent::Overflow);
    assert_eq!((id("d/f", 2), id("d/g", 2), id("d/H", 2)), (Ok(g), Err(Refusal::NotFound), Ok(f)));
}

#[test]
fn a_name_that_was_made_again_by_a_client_outlives_the_news_of_its_removal() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/Name", "");
    // Makes the share build an index.
    assert_eq!(client.open("d/other").refusal(), Refusal::NotFound);
    let directory = host(&world, "d");
    directory.remove(&name("Name"), false, None).unwrap();
    client.make_with("d/Name", "");
    tell(&world, directory.as_ref(), "Name", HostChange::Removed);
    world.share.maintain(later(1));
    client.close(&client.open("d/NAME").open());
    // The other way round: the event of a file that is gone again.
    directory.create_file(&name("Brief"), 0o666, None).unwrap();
    tell(&world, directory.as_ref(), "Brief", HostChange::Created);
    world.share.maintain(later(2));
    client.close(&client.open("d/Brief").options(Options::DELETE_ON_CLOSE).open());
    tell(&world, directory.as_ref(), "Brief", HostChange::Created);
    world.share.maintain(later(3));
    assert_eq!(client.open("d/BRIEF").refusal(), Refusal::NotFound);
    client.make_with("d/brief", "");
}

#[test]
fn attributes_and_descriptors_that_one_client_sets_the_other_sees() {
    let (world, _) = TestShare::planned(Config::default());
    let (one, two) = (world.client(1), world.client_of(2, user(1002)));
    one.make_with("f", "");
    let may_read = || two.open("f").access(Rights::READ_DATA).result().map(|opened| two.close(&opened.open));
    let bits = || {
        let opened = two.open("f").access(Rights::READ_ATTRIBUTES).result().unwrap();
        two.close(&opened.open);
        opened.info.attributes
    };
    let sets = Rights::WRITE_DAC | Rights::WRITE_ATTRIBUTES;
    for round in 0..3 {
        for (mode, expected) in [(0o644, Ok(())), (0o600, Err(Refusal::AccessDenied))] {
            let open = one.open("f").access(sets).open();
            one.call(|c| world.share.set_mode(c, &open, mode)).unwrap();
            if round == 1 {
                assert_eq!(may_read(), expected);
            }
            one.close(&open);
            assert_eq!(may_read(), expected, "{mode:o}");
            assert_eq!(may_read(), expected, "{mode:o} again");
        }
        for attributes in [Attributes::HIDDEN | Attributes::ARCHIVE, Attributes::ARCHIVE] {
            let open = one.open("f").access(sets).open();
            let basic = Basic { attributes: Some(attributes), ..Basic::default() };
            one.call(|c| world.share.set_basic(c, &open, basic)).unwrap();
            one.close(&open);
            assert_eq!((bits(), bits()), (attributes, attributes));
        }
    }
}

#[test]
fn the_limit_holds_with_many_more_names_than_fit() {
    let limit = 2 << 20;
    let world = TestShare::with(Config { metadata_cache_bytes: limit, ..Config::default() });
    let client = world.client(1);
    client.make_directory("d");
    let directory = host(&world, "d");
    for n in 0..4000 {
        directory.create_file(&name(&format!("f{n}")), 0o666, None).unwrap();
    }
    for _ in 0..2 {
        for n in 0..4000 {
            client.close(&client.open(&format!("d/f{n}")).access(READ).open());
        }
        let summary = world.share.metadata_caching();
        assert!(summary.bytes <= limit && summary.names > 300 && summary.files > 300, "{summary:?}");
    }
}

#[test]
fn shares_keep_descriptors_together_and_give_back_what_another_needs() {
    const TOGETHER: usize = 64;
    let together = Descriptors::new(TOGETHER);
    let begin = || {
        let world = TestShare::with(Config { descriptors: Arc::clone(&together), ..Config::default() });
        let client = world.client(1);
        client.make_directory("d");
        (0..100).for_each(|n| client.make_with(&format!("d/f{n}"), ""));
        (world, client)
    };
    let (one, two) = (begin(), begin());
    let open_all = |(_, client): &(TestShare, Client), second| {
        for n in 0..100 {
            let opened = client.open(&format!("d/f{n}")).access(READ).at(later(second)).result().unwrap();
            client.close(&opened.open);
            assert!(together.used() <= TOGETHER);
        }
    };
    let look_after = |(world, _): &(TestShare, Client), second| {
        (0..16).for_each(|_| world.share.maintain(later(second)));
    };
    let kept = |(world, _): &(TestShare, Client)| world.share.metadata_caching().names;
    open_all(&one, 1);
    assert_eq!(together.used(), kept(&one) + kept(&two));
    assert_eq!(together.used(), TOGETHER, "who is alone has what there is");
    open_all(&two, 2);
    look_after(&one, 2);
    assert!(kept(&one) <= TOGETHER / 2 && kept(&one) > TOGETHER / 4, "{}", kept(&one));
    open_all(&two, 3);
    assert!(kept(&two) >= TOGETHER / 2, "{}", kept(&two));
    // The first share is idle.
    open_all(&two, 20);
    look_after(&one, 20);
    assert_eq!(kept(&one), 0);
    open_all(&two, 21);
    assert_eq!(kept(&two), TOGETHER);
    drop(two);
    assert_eq!(together.used(), 0);
}

#[test]
fn nothing_holds_a_file_that_is_gone_and_idle_names_are_let_go() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    client.make_directory("d");
    for at in ["d/mine", "d/theirs", "d/idle"] {
        client.make_with(at, "");
        client.close(&client.open(at).access(READ).open());
    }
    let given_back = || plan.count(VolumeCall::Release);
    let before = given_back();
    client.close(&client.open("d/mine").options(Options::DELETE_ON_CLOSE).open());
    assert_eq!(given_back(), before + 2, "the kept one, and the one that was open for writing");
    let directory = host(&world, "d");
    directory.remove(&name("theirs"), false, None).unwrap();
    tell(&world, directory.as_ref(), "theirs", HostChange::Removed);
    world.share.maintain(later(1));
    assert_eq!(given_back(), before + 3);
    (0..16).for_each(|_| world.share.maintain(later(5)));
    assert_eq!(given_back(), before + 3);
    (0..16).for_each(|_| world.share.maintain(later(12)));
    assert_eq!((given_back(), world.share.metadata_caching().names), (before + 4, 0));
}

#[test]
fn what_is_opened_to_write_and_will_not_be_remembered_is_opened_once() {
    const FILES: u64 = 400;
    // Nothing at all fits; about eighty names do.
    for (limit, again_at_most) in [(0, 0), (1 << 18, FILES / 2)] {
        let (world, plan) = TestShare::planned(Config { metadata_cache_bytes: limit, ..Config::default() });
        let client = world.client(1);
        client.make_directory("d");
        (0..FILES).for_each(|n| client.make_with(&format!("d/f{n}"), ""));
        let open = |n: u64| client.close(&client.open(&format!("d/f{n}")).access(WRITE).open());
        let before = (plan.count(VolumeCall::Lookup), plan.count(VolumeCall::OpenAgain));
        (0..FILES).for_each(open);
        let looked_up = plan.count(VolumeCall::Lookup) - before.0;
        let opened_again = plan.count(VolumeCall::OpenAgain) - before.1;
        assert_eq!(looked_up, FILES, "limit: {limit}");
        // A node that was let in is opened for its attributes, so that it can be cached, and then to write.
        assert!(opened_again <= again_at_most, "limit: {limit}, {opened_again}");
        let names = world.share.metadata_caching().names as u64;
        // The directory is a name too.
        assert!(names <= opened_again + 1 && (limit == 0) == (names == 0), "limit: {limit}, {names}");
        // With or without the cache, each open takes one of the two.
        let before = plan.count(VolumeCall::Lookup) + plan.count(VolumeCall::OpenAgain);
        world.share.set_metadata_caching(limit == 0);
        open(FILES / 2);
        assert_eq!(
            plan.count(VolumeCall::Lookup) + plan.count(VolumeCall::OpenAgain) - before,
            1,
            "limit: {limit}"
        );
    }
}

#[test]
fn kept_descriptors_give_way_when_the_host_has_no_more() {
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    for at in ["one", "two"] {
        client.make_with(at, "");
        client.close(&client.open(at).access(READ).open());
    }
    client.make_with("three", "");
    let names = || world.share.metadata_caching().names;
    let lacks = |call| plan.add(call, 1, PlannedFault::Fail(Failure::Exhausted));
    lacks(VolumeCall::Lookup);
    client.close(&client.open("three").access(READ).open());
    assert_eq!(names(), 1);
    // The cached node is opened to write.
    client.close(&client.open("two").access(READ).open());
    lacks(VolumeCall::OpenAgain);
    client.close(&client.open("three").access(WRITE).open());
    assert_eq!(names(), 1);
    let root = world.share.root_item();
    let item = client.caller(true, now(), |c| world.share.item_in(c, &root, &name("three"))).unwrap();
    let address = item.address().unwrap();
    lacks(VolumeCall::Lookup);
    assert_eq!(world.share.item(&address).unwrap().id(), item.id());
    assert_eq!(names(), 0);
    client.close(&client.open("two").access(READ).open());
    lacks(VolumeCall::Create);
    client.close(&client.make("four"));
    assert_eq!(names(), 0);
    // If no descriptor is cached, none can be released.
    lacks(VolumeCall::Create);
    assert_eq!(client.open("five").disposition(Disposition::Create).refusal(), Refusal::Exhausted);
}

#[test]
fn it_is_switched_while_files_are_open() {
    let world = TestShare::new();
    let client = world.client(1);
    client.make_with("f", "text");
    let open = client.open("f").access(READ).open();
    assert!(world.share.metadata_caching().names > 0);
    world.share.set_metadata_caching(false);
    let summary = world.share.metadata_caching();
    assert_eq!((summary.on, summary.names, summary.files, summary.bytes), (false, 0, 0, 0));
    assert_eq!(client.read(&open).unwrap(), "text");
    client.close(&client.open("F").open());
    assert_eq!(world.share.metadata_caching().names, 0);
    world.share.configure(Config::default());
    client.close(&client.open("f").access(READ).open());
    assert_eq!(world.share.metadata_caching().names, 1);
    client.close(&open);
}

/// A volume that does not report changes by others.
struct SilentVolume {
    inner: MemoryVolume,
    properties: VolumeProperties,
}

impl Volume for SilentVolume {
    fn properties(&self) -> &VolumeProperties {
        &self.properties
    }
    fn root(&self) -> volume::Result<Arc<dyn Node>> {
        self.inner.root()
    }
    fn find(&self, address: &[u8]) -> volume::Result<Arc<dyn Node>> {
        self.inner.find(address)
    }
    fn space(&self) -> volume::Result<Space> {
        self.inner.space()
    }
    fn watch(&self, _directory: &dyn Node) -> volume::Result<()> {
        Err(Failure::NotSupported)
    }
    fn unwatch(&self, _directory: NodeId) {}
    fn take_events(&self, _sink: &mut dyn FnMut(HostEvent)) {}
    fn wait_events(&self, _at_most: Duration) -> bool {
        false
    }
}

#[test]
fn where_nobody_tells_of_changes_nothing_is_remembered() {
    let world = TestShare::over(Config::default(), |inner| {
        let properties = VolumeProperties { tells_changes: false, ..inner.properties().clone() };
        Arc::new(SilentVolume { inner, properties })
    });
    let client = world.client(1);
    client.make_directory("d");
    client.make_with("d/f", "");
    world.share.set_metadata_caching(true);
    assert!(!world.share.metadata_caching().on);
    let before = client.open("d/f").result().unwrap().info.id;
    let directory = host(&world, "d");
    directory.rename(&name("f"), directory.as_ref(), &name("g"), false, None).unwrap();
    assert_eq!(client.open("d/f").refusal(), Refusal::NotFound);
    assert_eq!(client.open("d/g").result().unwrap().info.id, before);
}

#[test]
fn where_nobody_tells_of_changes_rights_stay_and_watches_hear_of_clients_alone() {
    let world = TestShare::over(Config::default(), |inner| {
        let properties = VolumeProperties { tells_changes: false, ..inner.properties().clone() };
        Arc::new(SilentVolume { inner, properties })
    });
    let (holder, client) = (world.client(1), world.client(2));
    client.make_directory("d");
    client.make_with("d/f", "text");
    let right = Caching::READ | Caching::HANDLE;
    let kept = holder.open("d/f").access(READ).keyed(1, right).result().unwrap();
    assert_eq!(kept.granted.map(|granted| granted.state), Some(right));
    let watched = holder.open("d").access(READ).open();
    world.share.watch(&watched, ChangeFilter::all(), false, 4096).unwrap();
    let directory = host(&world, "d");
    directory.rename(&name("f"), directory.as_ref(), &name("g"), false, None).unwrap();
    world.share.maintain(now());
    assert!(holder.breaks().is_empty());
    waits(world.share.take_changes(&watched, Some(&Waiter { wake: holder.ears.clone(), token: 1 })));
    client.make_with("d/made", "");
    assert!(holder.woken() > 0, "a client's change is told");
}

#[test]
fn where_nobody_tells_of_changes_rights_end_by_themselves() {
    for silent in [true, false] {
        let world = TestShare::over(Config::default(), |inner| match silent {
            true => {
                let properties = VolumeProperties { tells_changes: false, ..inner.properties().clone() };
                Arc::new(SilentVolume { inner, properties })
            }
            false => Arc::new(inner),
        });
        let client = world.client(1);
        client.make_directory("d");
        client.make_with("d/f", "text");
        let at = |second| world.share.maintain(later(second));
        let (right, writes) = (Caching::READ | Caching::HANDLE, Caching::all());
        at(0);
        let directory = client.open("d").access(READ).keyed(1, right).result().unwrap();
        assert_eq!(directory.granted.map(|granted| granted.state), Some(right));
        let file = client.open("d/f").keyed(2, writes).result().unwrap();
        assert_eq!(file.granted.map(|granted| granted.state), Some(writes));
        at(59);
        assert_eq!(client.breaks(), []);
        at(61);
        let lost = client.breaks().len();
        assert_eq!(lost, if silent { 2 } else { 0 });
    }
}

/// One thread creates and removes a name. Others know when it has done so, and never see the earlier state.
#[test]
fn what_one_thread_has_done_the_others_see() {
    let world = TestShare::new();
    let maker = world.client(1);
    maker.make_directory("d");
    // Even: no change is in progress. Every second even number: the name exists.
    let (step, over) = (AtomicU64::new(0), AtomicBool::new(false));
    // How many readers have compared a name that is gone, and one that exists.
    let compared = [AtomicU64::new(0), AtomicU64::new(0)];
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3u128)
            .map(|n| {
                let (client, step, over, compared) = (world.client(2 + n), &step, &over, &compared);
                let at = ["d/name", "D/NAME", "d/Name"][n as usize];
                let exact = if n == 0 { Options::EXACT_CASE } else { Options::empty() };
                scope.spawn(move || {
                    let mut has_compared = [false; 2];
                    while !over.load(Ordering::SeqCst) {
                        let before = step.load(Ordering::SeqCst);
                        let found = client.open(at).access(Rights::READ_ATTRIBUTES).options(exact).result();
                        let found = found.map(|opened| client.close(&opened.open)).is_ok();
                        if before % 2 == 0 && step.load(Ordering::SeqCst) == before {
                            let is_there = before % 4 == 2;
                            assert_eq!(found, is_there, "{at} at {before}");
                            let which = usize::from(is_there);
                            if !std::mem::replace(&mut has_compared[which], true) {
                                compared[which].fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                })
            })
            .collect();
        // Until each has met both, on a busy host too.
        let are_all = || compared.iter().all(|count| count.load(Ordering::SeqCst) == 3);
        for turn in 0..4000 {
            let are_well = readers.iter().all(|reader| !reader.is_finished());
            if turn >= 200 && are_all() || !are_well {
                break;
            }
            step.fetch_add(1, Ordering::SeqCst);
            let made = maker.open("d/name").disposition(Disposition::Create).open();
            maker.close(&made);
            step.fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
            step.fetch_add(1, Ordering::SeqCst);
            // A reader has it open, so the name may be removed a moment later.
            loop {
                match maker.open("d/name").options(Options::DELETE_ON_CLOSE).result() {
                    Ok(opened) => maker.close(&opened.open),
                    Err(Refusal::NotFound) => break,
                    Err(_) => std::thread::yield_now(),
                }
            }
            step.fetch_add(1, Ordering::SeqCst);
            std::thread::yield_now();
        }
        over.store(true, Ordering::SeqCst);
        let are_all = are_all();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(are_all, "{compared:?}");
    });
}
