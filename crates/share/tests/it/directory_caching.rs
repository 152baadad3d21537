//! Caching rights on directories: the changes below them that break them, and the changes that do not.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::{Basic, Caching, Disposition, Open, Options, TimeSet};
use volume::security::Rights;
use volume::{HostChange, HostEvent, OpenHow, Time, Volume};

const R: Caching = Caching::READ;
const RH: Caching = Caching::READ.union(Caching::HANDLE);
const NONE: Caching = Caching::empty();

/// The whole right on the directory is lost, and its holder is asked for an acknowledgment that no request
/// waits for.
const LOST: (Caching, Caching, bool) = (RH, NONE, true);

/// A client with a right on a directory under key 1, and its open.
struct WatchedDirectory<'a> {
    holder: &'a Client,
    _open: Arc<Open>,
}

impl<'a> WatchedDirectory<'a> {
    fn new(holder: &'a Client, at: &str) -> WatchedDirectory<'a> {
        WatchedDirectory { holder, _open: holder.open(at).access(READ).keyed(1, RH).open() }
    }

    /// The breaks since the last call. The right is acknowledged and taken anew.
    fn lost(&self, at: &str) -> Vec<(Caching, Caching, bool)> {
        let lost = self.holder.breaks();
        if !lost.is_empty() {
            self.holder.acknowledge(1, true, NONE).unwrap();
            let again = self.holder.open(at).access(READ).keyed(1, RH).result().unwrap();
            assert_eq!(again.granted.unwrap().state, RH);
            self.holder.close(&again.open);
        }
        lost
    }
}

#[test]
fn a_client_that_lost_the_notice_is_told_again_of_the_next_change() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("d");
    let watched = WatchedDirectory::new(&one, "d");
    let after = |ms| world.share.tick(now().plus(Duration::from_millis(ms)));
    two.close(&two.make("d/f"));
    assert_eq!(one.breaks(), [LOST]);
    after(1_000);
    assert_eq!(one.breaks(), []);
    two.close(&two.make("d/g"));
    assert_eq!(one.breaks(), []);
    after(999);
    assert_eq!(one.breaks(), []);
    after(1_000);
    assert_eq!(one.breaks(), [LOST]);
    after(35_000);
    assert_eq!(one.breaks(), [(RH, NONE, false)]);
    two.close(&two.make("d/h"));
    assert_eq!(one.breaks(), []);
    drop(watched);
}

fn set(client: &Client, open: &Arc<Open>, basic: Basic) {
    client.call(|c| client.share.set_basic(c, open, basic)).unwrap();
}

#[test]
fn what_a_directory_shows_of_a_file_is_lost_with_each_change_of_it() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("d");
    let watched = WatchedDirectory::new(&one, "d");
    let file = two.make("d/f");
    assert_eq!(watched.lost("d"), [LOST]);
    let time = Some(TimeSet::Set(Time { secs: 1, nanos: 0 }));
    for basic in [
        Basic { created: time, ..Basic::default() },
        Basic { accessed: time, ..Basic::default() },
        Basic { modified: time, ..Basic::default() },
        Basic { changed: time, ..Basic::default() },
        Basic { attributes: Some(share::Attributes::OFFLINE), ..Basic::default() },
    ] {
        set(&two, &file, basic);
        assert_eq!(watched.lost("d"), [LOST], "{basic:?}");
    }
    set(&two, &file, Basic::default());
    set(&two, &file, Basic { modified: Some(TimeSet::Freeze), ..Basic::default() });
    assert_eq!(watched.lost("d"), []);
    two.call(|c| world.share.set_size(c, &file, 7)).unwrap();
    assert_eq!(watched.lost("d"), [LOST]);
    two.call(|c| world.share.set_allocation(c, &file, 1 << 16)).unwrap();
    assert_eq!(watched.lost("d"), [LOST]);
    two.close(&two.open("d/f").disposition(Disposition::Overwrite).open());
    assert_eq!(watched.lost("d"), [LOST]);
    // All of that was reported; the close has nothing to add.
    two.close(&file);
    assert_eq!(watched.lost("d"), []);
}

#[test]
fn what_was_written_is_told_with_the_flush_or_the_close() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("d");
    two.make_with("d/f", "text");
    let watched = WatchedDirectory::new(&one, "d");
    let file = two.open("d/f").open();
    two.write(&file, 0, "x").unwrap();
    two.write(&file, 1, "y").unwrap();
    assert_eq!(watched.lost("d"), []);
    world.share.flush(&file, false, now()).unwrap();
    assert_eq!(watched.lost("d"), [LOST]);
    world.share.flush(&file, false, now()).unwrap();
    assert_eq!(watched.lost("d"), []);
    two.write(&file, 0, "z").unwrap();
    two.close(&file);
    assert_eq!(watched.lost("d"), [LOST]);
}

#[test]
fn who_names_the_directorys_key_breaks_nothing_whoever_they_are() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("d");
    let watched = WatchedDirectory::new(&one, "d");
    for (client, parent, lost) in [(&one, 1, vec![]), (&two, 1, vec![]), (&one, 9, vec![LOST])] {
        let file =
            client.open("d/f").disposition(Disposition::OpenOrCreate).keyed(2, R).parent(parent).open();
        watched.lost("d");
        client.write(&file, 0, "x").unwrap();
        set(client, &file, Basic { created: Some(TimeSet::Set(Time::default())), ..Basic::default() });
        assert_eq!(watched.lost("d"), lost, "{parent}");
        client.close(&file);
        assert_eq!(watched.lost("d"), lost, "{parent}");
    }
}

#[test]
fn who_closes_last_spares_its_own_key_only_when_it_also_deletes() {
    for by_open in [false, true] {
        let world = TestShare::new();
        let (one, two) = (world.client(1), world.client(2));
        one.make_directory("d");
        let keep = |client: &Client, key| client.open("d").access(READ).keyed(key, RH).open();
        let (_first, _second) = (keep(&one, 1), keep(&two, 2));
        let pair = |options: Options| {
            let deletes = one.open("d/f").disposition(Disposition::OpenOrCreate).keyed(11, R).parent(1);
            let deletes = deletes.options(options).open();
            (deletes, two.open("d/f").keyed(12, R).parent(2).open())
        };
        let options = if by_open { Options::DELETE_ON_CLOSE } else { Options::empty() };
        let mark = |open: &Arc<Open>| {
            if !by_open {
                one.set_delete(open, true).unwrap();
            }
        };
        let lost = || {
            let lost = [(&one, 1), (&two, 2)].map(|(client, key)| {
                let lost = client.breaks().contains(&LOST);
                if lost {
                    client.acknowledge(key, true, NONE).unwrap();
                    client.close(&keep(client, key));
                }
                lost
            });
            (lost[0], lost[1])
        };
        let (deletes, other) = pair(options);
        assert_eq!(lost(), (false, true), "made");
        mark(&deletes);
        two.close(&other);
        assert_eq!(lost(), (false, false));
        one.close(&deletes);
        assert_eq!(lost(), (false, true), "deleted by who closed last");
        let (deletes, other) = pair(options);
        lost();
        mark(&deletes);
        one.close(&deletes);
        assert_eq!(lost(), (false, false));
        two.close(&other);
        assert_eq!(lost(), (true, true), "deleted by another than who closed last");
    }
}

#[test]
fn a_rename_asks_who_only_keeps_the_new_directory_open_to_delete_it() {
    let world = TestShare::new();
    let (one, two) = (world.client(1), world.client(2));
    one.make_directory("from");
    one.make_directory("to");
    let file = two.make("from/f");
    let kept = one.open("to").access(Rights::DELETE).keyed(1, RH).open();
    waits(two.rename(&file, "to/f", false));
    assert_eq!(one.breaks(), [(RH, R, true)]);
    one.acknowledge(1, true, R).unwrap();
    assert_eq!(two.woken(), 1);
    assert_eq!(done(two.rename(&file, "to/f", false)), Err(share::Refusal::SharingConflict));
    one.close(&kept);
    done(two.rename(&file, "to/f", false)).unwrap();
}

#[test]
fn changes_and_losses_of_the_host_take_rights_away() {
    let world = TestShare::new();
    let one = world.client(1);
    one.make_directory("d");
    one.make_with("d/f", "text");
    let watched = WatchedDirectory::new(&one, "d");
    let _file = one.open("d/f").access(READ).keyed(2, R).open();
    let directory = world.memory.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap().id();
    for change in [HostChange::Modified, HostChange::Attributes, HostChange::Created] {
        let named = Some(name("f"));
        world.memory.tell(HostEvent::Changed { directory, name: named, is_directory: false, change });
        world.share.maintain(now());
        let told = one.ears.notices.lock().unwrap().iter().filter(|notice| notice.key.0 == 2).count();
        assert_eq!(told, usize::from(change == HostChange::Modified));
        one.ears.notices.lock().unwrap().retain(|notice| notice.key.0 == 1);
        assert_eq!(watched.lost("d"), [LOST], "{change:?}");
    }
    let _again = one.open("d/f").access(READ).keyed(2, R).open();
    world.memory.tell(HostEvent::Overflow);
    world.share.maintain(now());
    let mut lost = one.breaks();
    lost.sort_by_key(|(from, ..)| from.bits());
    assert_eq!(lost, [(R, NONE, false), LOST]);
}

#[test]
fn a_changed_node_loses_its_rights_whatever_its_names() {
    for (change, told) in [(HostChange::Modified, vec![(2, NONE)]), (HostChange::Attributes, vec![(2, R)])] {
        let world = TestShare::new();
        let one = world.client(1);
        let kept = ["f", "other"].map(|at| {
            one.make_with(at, "text");
            at
        });
        let _opens = kept.map(|at| one.open(at).access(READ).keyed(if at == "f" { 2 } else { 3 }, RH).open());
        let node = world.memory.root().unwrap().lookup(&name("f"), OpenHow::Attributes).unwrap().id();
        world.memory.tell(HostEvent::NodeChanged { node, change });
        world.share.maintain(now());
        let seen: Vec<_> = one.ears.notices.lock().unwrap().iter().map(|it| (it.key.0, it.to)).collect();
        assert_eq!(seen, told, "{change:?}");
    }
}

#[test]
fn a_name_that_the_host_takes_away_takes_the_right_to_keep_its_file_open() {
    for change in
        [HostChange::Removed, HostChange::RenamedFrom, HostChange::RenamedTo, HostChange::Attributes]
    {
        let world = TestShare::new();
        let one = world.client(1);
        one.make_directory("d");
        for at in ["d/f", "d/other"] {
            one.make_with(at, "text");
        }
        let _kept =
            [("d/f", 2), ("d/other", 3)].map(|(at, key)| one.open(at).access(READ).keyed(key, RH).open());
        let directory = world.memory.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap().id();
        let named = Some(name("f"));
        world.memory.tell(HostEvent::Changed { directory, name: named, is_directory: false, change });
        world.share.maintain(now());
        let told: Vec<_> = one.ears.notices.lock().unwrap().iter().map(|it| (it.key.0, it.to)).collect();
        assert_eq!(told, [(2, R)], "{change:?}");
    }
}

#[test]
fn a_name_that_the_host_moves_takes_both_rights_that_believed_a_name_of_the_rename() {
    let world = TestShare::new();
    let one = world.client(1);
    one.make_directory("d");
    for at in ["d/f", "d/other"] {
        one.make_with(at, "text");
    }
    let _kept = [("d/f", 2), ("d/other", 3)].map(|(at, key)| one.open(at).access(READ).keyed(key, RH).open());
    let directory = world.memory.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap().id();
    let (from, to) = ((directory, name("f")), (directory, name("other")));
    world.memory.tell(HostEvent::Renamed { from, to, is_directory: false });
    world.share.maintain(now());
    let mut told: Vec<_> = one.ears.notices.lock().unwrap().iter().map(|it| (it.key.0, it.to)).collect();
    told.sort_by_key(|(key, _)| *key);
    assert_eq!(told, [(2, R), (3, R)]);
}

#[test]
fn a_file_of_several_names_is_given_back_with_each_that_goes_and_each_that_comes() {
    let world = TestShare::new();
    let one = world.client(1);
    one.make_directory("d");
    one.make_with("d/f", "text");
    let node = world.memory.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap();
    let file = node.lookup(&name("f"), OpenHow::Attributes).unwrap();
    node.add_name(&name("further"), file.as_ref(), None).unwrap();
    let directory = node.id();
    let heard = |named: &str, change| {
        let _kept = one.open("d/f").access(READ).keyed(2, RH).open();
        world.memory.tell(HostEvent::Changed {
            directory,
            name: Some(name(named)),
            is_directory: false,
            change,
        });
        world.share.maintain(now());
        let told: Vec<_> = one.ears.notices.lock().unwrap().drain(..).map(|it| (it.key.0, it.to)).collect();
        if !told.is_empty() {
            one.acknowledge(2, true, R).unwrap();
        }
        told
    };
    // It was never opened by that name, but a client may know it under the name.
    assert_eq!(heard("further", HostChange::Removed), [(2, R)]);
    assert_eq!(heard("further", HostChange::Created), [(2, R)]);
    node.remove(&name("further"), false, None).unwrap();
    // It has one name now, and other names are not its own.
    assert_eq!(heard("other", HostChange::Removed), []);
    assert_eq!(heard("other", HostChange::Created), []);
}
