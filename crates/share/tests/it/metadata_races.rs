//! The cache, when its subject changes between two steps of a request.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::{
    Basic, Caching, CallResult, Config, Disposition, Item, Open, OpenRequest, OpenResult, Options, Refusal,
    TimeSet,
};
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};
use volume::memory::MemoryVolume;
use volume::security::{Parts, Rights};
use volume::{HostChange, HostEvent, Node, NodeId, OpenHow, Time, Volume};

/// A cached file `d/a` and a cached directory `d/sub` that a program of the host has replaced without an
/// event.
struct ReplacedFiles {
    world: TestShare,
    client: Client,
    /// An open of the file, made before.
    held: Option<Arc<Open>>,
    old: [NodeId; 2],
    new: [NodeId; 2],
}

fn directory(memory: &MemoryVolume) -> Arc<dyn Node> {
    memory.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap()
}

impl ReplacedFiles {
    fn new(is_held: bool) -> ReplacedFiles {
        let world = TestShare::new();
        let client = world.client(1);
        client.make_directory("d");
        client.make_directory("d/sub");
        client.make_with("d/a", "old");
        client.make_with("d/sub/inside", "");
        let held = client.open("d/a").access(READ).open();
        client.close(&client.open("d/sub/inside").options(Options::DELETE_ON_CLOSE).open());
        if !is_held {
            client.close(&held);
        }
        let held = is_held.then_some(held);
        let host = directory(&world.memory);
        let id = |text| host.lookup(&name(text), OpenHow::Attributes).unwrap().id();
        let old = ["a", "sub"].map(id);
        host.create_file(&name("tmp"), 0o666, None).unwrap();
        host.rename(&name("tmp"), host.as_ref(), &name("a"), true, None).unwrap();
        host.remove(&name("sub"), true, None).unwrap();
        host.create_directory(&name("sub"), 0o777, None).unwrap();
        let new = ["a", "sub"].map(id);
        ReplacedFiles { world, client, held, old, new }
    }

    fn find(&self, text: &str) -> Item {
        let share = &self.world.share;
        self.client.caller(true, now(), |c| {
            let d = share.item_in(c, &share.root_item(), &name("d")).unwrap();
            share.item_in(c, &d, &name(text)).unwrap()
        })
    }

    fn open(&self, item: &Item) -> Result<OpenResult, Refusal> {
        let request = OpenRequest { access: Rights::READ_ATTRIBUTES, ..self.client.open("").request };
        done(self.client.caller(true, now(), |c| self.world.share.create_found(c, item, &request)))
    }
}

#[test]
fn a_listing_shows_what_took_the_place_of_what_is_remembered() {
    let it = ReplacedFiles::new(false);
    let open = it.client.open("d").access(READ).open();
    let (mut listed, mut found) = (Vec::new(), Vec::new());
    it.client.caller(true, now(), |c| {
        let scanned = it.world.share.scan(c, &open, 0, &mut |one| *one == name("a"), &mut |entry| {
            listed.push(entry.item().map(|item| item.id()));
            listed.push(entry.item_info().map(|info| info.id));
            listed.push(entry.info().map(|info| info.id));
            ControlFlow::Continue(())
        });
        assert_eq!(scanned, Ok(()));
        let is_there = it.world.share.find(c, &open, &name("a"), &mut |entry| {
            found.push(entry.info().map(|info| info.id));
        });
        assert_eq!(is_there, Ok(true));
    });
    assert_eq!((listed, found), (vec![Ok(it.new[0]); 3], vec![Ok(it.new[0])]));
}

#[test]
fn what_was_remembered_and_is_gone_is_looked_up_again() {
    for is_held in [false, true] {
        let it = ReplacedFiles::new(is_held);
        for (at, text) in ["a", "sub"].into_iter().enumerate() {
            let before = it.find(text);
            assert_eq!(before.id(), it.old[at], "{text}");
            assert_eq!(it.open(&before).err(), Some(Refusal::Gone), "{text}, held: {is_held}");
            let again = it.find(text);
            assert_eq!(again.id(), it.new[at], "{text}, held: {is_held}");
            it.client.close(&it.open(&again).unwrap().open);
        }
        it.held.iter().for_each(|held| it.client.close(held));
    }
}

#[test]
fn rights_that_were_read_before_they_were_changed_are_not_kept() {
    let (world, plan) = TestShare::planned(Config::default());
    let (one, two) = (world.client(1), world.client_of(2, user(1002)));
    one.make_directory("d");
    one.make_with("d/f", "");
    let open = one.open("d").access(Rights::WRITE_DAC).open();
    // Drops the cached state of the directory.
    world.share.configure(Config { metadata_caching: false, ..Config::default() });
    let look = || {
        let found = two.open("d/f").access(Rights::READ_ATTRIBUTES).result();
        found.map(|opened| two.close(&opened.open))
    };
    // The first call asks whether it is a reparse point.
    plan.add(VolumeCall::Note, 2, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let looking = scope.spawn(look);
        assert!(plan.wait_held(1, Duration::from_secs(20)));
        one.call(|c| world.share.set_mode(c, &open, 0o700)).unwrap();
        plan.release();
        assert_eq!(looking.join().unwrap(), Ok(()), "it was asked before");
    });
    assert_eq!(look(), Err(Refusal::AccessDenied));
}

/// A share that caches no names, so that no lookup waits for a change of them.
fn forgetful() -> (TestShare, Arc<FaultPlan>) {
    TestShare::planned(Config { metadata_caching: false, ..Config::default() })
}

/// A mark for deletion stays for other requests until the close that removes the name is done. If they could
/// open the file, a new object by that name would be removed with their close.
#[test]
fn a_name_that_a_close_is_removing_is_open_to_nobody() {
    let (world, plan) = forgetful();
    let (client, other) = (world.client(1), world.client(2));
    client.make_with("f", "");
    let held = client.open("f").open();
    client.close(&client.open("f").options(Options::DELETE_ON_CLOSE).open());
    plan.add(VolumeCall::Remove, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| client.close(&held));
        assert!(plan.wait_held(1, Duration::from_secs(20)));
        let tries = [(); 3].map(|()| other.open("f").options(Options::DELETE_ON_CLOSE).result().err());
        plan.release();
        closing.join().unwrap();
        assert!(tries.iter().all(|it| *it == Some(Refusal::DeletePending)), "{tries:?}");
    });
    assert_eq!(other.open("f").refusal(), Refusal::NotFound);
}

/// Between the lookup of a name and the entry of the open among the others the name was removed, and others
/// created another file by it.
#[test]
fn an_open_whose_name_went_meanwhile_is_of_what_stands_there_now() {
    let (world, plan) = forgetful();
    let (client, other) = (world.client(1), world.client(2));
    client.make_with("f", "old");
    let held = client.open("f").access(READ | Rights::DELETE).open();
    plan.add(VolumeCall::Stat, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| other.open("f").options(Options::DELETE_ON_CLOSE).open());
        assert!(plan.wait_held(1, Duration::from_secs(20)));
        assert!(matches!(client.rename(&held, "g", false), CallResult::Done(())));
        client.make_with("f", "new");
        plan.release();
        let opened = opening.join().unwrap();
        assert_ne!(opened.node_id(), held.node_id());
        other.close(&opened);
    });
    assert_eq!(client.open("f").refusal(), Refusal::NotFound);
    client.close(&held);
    assert_eq!(client.open("g").result().unwrap().info.id, held.node_id());
}

/// Each time that the host is asked about a file for an open, others open it and close it. So the file is not
/// open when the host has answered. A slow host and a few quick clients produce this by themselves.
#[test]
fn an_open_does_not_fail_because_others_close_the_file_while_it_is_looked_at() {
    for at in ["", "d", "d/f"] {
        let (world, plan) = forgetful();
        let (slow, quick) = (world.client(1), world.client(2));
        quick.make_directory("d");
        quick.make_with("d/f", "");
        let looking = |client| Client::open(client, at).access(Rights::READ_ATTRIBUTES);
        plan.add(VolumeCall::Stat, 1, PlannedFault::Hold);
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| looking(&slow).result().map(|opened| opened.open));
            let mut held = 0;
            while !opening.is_finished() && held < 1000 {
                if plan.wait_held(1, Duration::from_millis(5)) {
                    quick.close(&looking(&quick).open());
                    plan.add(VolumeCall::Stat, 1, PlannedFault::Hold);
                    held += 1;
                    plan.release();
                }
            }
            plan.forget();
            plan.release();
            assert!(held > 0, "{at}: the host was not asked");
            match opening.join().unwrap() {
                Ok(open) => slow.close(&open),
                Err(why) => panic!("{at}: {why} after {held} others"),
            }
        });
        assert_eq!(world.share.open_count(), 0);
    }
}

/// The end of an open for which the host is held up at a call, while others act in between.
fn open_meanwhile(
    (world, plan): &(TestShare, Arc<FaultPlan>),
    call: VolumeCall,
    access: Rights,
    between: impl FnOnce(&Client),
) -> Result<OpenResult, Refusal> {
    let (slow, quick) = (world.client_of(1, user(1002)), world.client(2));
    let caching = Caching::READ | Caching::HANDLE;
    plan.add(call, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| slow.open("d/f").access(access).keyed(1, caching).result());
        assert!(plan.wait_held(1, Duration::from_secs(20)), "the host was not asked");
        between(&quick);
        plan.release();
        let opened = opening.join().unwrap();
        assert_eq!(slow.breaks(), [], "nobody had a right while it was changed");
        opened
    })
}

/// A share with a file `d/f` of ten bytes, open to everybody.
fn with_file(config: Config) -> (TestShare, Arc<FaultPlan>) {
    let (world, plan) = TestShare::planned(config);
    let client = world.client(2);
    client.make_directory("d");
    client.make_with("d/f", "0123456789");
    let open = client.open("d/f").access(ALL).open();
    client.call(|c| world.share.set_mode(c, &open, 0o666)).unwrap();
    client.close(&open);
    (world, plan)
}

/// The opener would not be notified that its values are old: it had no right yet.
#[test]
fn an_open_shows_the_size_of_a_file_that_others_write_while_it_is_looked_at() {
    for (does, size) in [("writes", 110), ("cuts", 3), ("overwrites", 0)] {
        let it = with_file(Config { metadata_caching: false, ..Config::default() });
        let opened = open_meanwhile(&it, VolumeCall::Note, READ, |quick| {
            let mut asked = quick.open("d/f").access(WRITE);
            if does == "overwrites" {
                asked = asked.disposition(Disposition::Overwrite);
            }
            let open = asked.open();
            match does {
                "writes" => quick.write(&open, 10, &"x".repeat(100)).unwrap(),
                "cuts" => quick.call(|c| it.0.share.set_size(c, &open, 3)).unwrap(),
                _ => {}
            }
            quick.close(&open);
        });
        let opened = opened.unwrap();
        assert_eq!(opened.info.size, size, "{does}");
        assert_eq!(opened.granted.map(|grant| grant.state), Some(Caching::READ | Caching::HANDLE), "{does}");
        it.0.share.close(&opened.open, now()).unwrap();
        assert_eq!(it.0.share.open_count(), 0);
    }
}

/// The host also returns the size of a file at the lookup of its name, before the file is in the table of
/// open files.
#[test]
fn an_open_shows_the_size_of_a_file_that_others_write_after_its_name_was_looked_up() {
    for stays_open in [false, true] {
        let it = with_file(Config::default());
        let mut held = None;
        // Drops the name, which is looked up again.
        it.0.share.set_metadata_caching(false);
        it.0.share.set_metadata_caching(true);
        let opened = open_meanwhile(&it, VolumeCall::OpenAgain, READ | WRITE, |quick| {
            let open = quick.open("d/f").access(WRITE).open();
            quick.write(&open, 10, &"x".repeat(100)).unwrap();
            if stays_open {
                held = Some(open);
            } else {
                quick.close(&open);
            }
        });
        assert_eq!(opened.unwrap().info.size, 110, "stays open: {stays_open}");
    }
}

/// The host reports its change once, while no client has a right yet that the change could break.
#[test]
fn an_open_shows_the_size_of_a_file_that_the_host_writes_while_it_is_looked_at() {
    for (call, caches) in [(VolumeCall::Note, false), (VolumeCall::OpenAgain, true)] {
        let it = with_file(Config::default());
        it.0.share.set_metadata_caching(false);
        it.0.share.set_metadata_caching(caches);
        let host = directory(&it.0.memory);
        let opened = open_meanwhile(&it, call, READ | WRITE, |_| {
            host.lookup(&name("f"), OpenHow::ReadWrite).unwrap().write(10, b"more").unwrap();
            let (directory, name) = (host.id(), Some(name("f")));
            let change = HostChange::Modified;
            it.0.memory.tell(HostEvent::Changed { directory, name, is_directory: false, change });
            it.0.share.maintain(now());
        });
        assert_eq!(opened.unwrap().info.size, 14, "held at {call:?}");
    }
}

#[test]
fn an_open_is_judged_by_the_descriptor_that_others_set_while_it_is_looked_at() {
    for is_stored in [false, true] {
        let it = with_file(Config { metadata_caching: false, ..Config::default() });
        let world = &it.0;
        let set_mode = |client: &Client, mode| {
            let open = client.open("d/f").access(Rights::WRITE_DAC | Rights::READ_CONTROL).open();
            if is_stored {
                let descriptor = world.share.descriptor(&open).unwrap();
                client.call(|c| world.share.set_descriptor(c, &open, Parts::DACL, &descriptor)).unwrap();
            }
            client.call(|c| world.share.set_mode(c, &open, mode)).unwrap();
            client.close(&open);
        };
        let all = Rights::MAXIMUM_ALLOWED;
        let opened = open_meanwhile(&it, VolumeCall::Note, all, |quick| set_mode(quick, 0o644)).unwrap();
        let granted = opened.open.granted();
        assert!(granted.contains(Rights::READ_DATA) && !granted.contains(Rights::WRITE_DATA), "{granted:?}");
        world.share.close(&opened.open, now()).unwrap();
        let refused = open_meanwhile(&it, VolumeCall::Note, READ, |quick| set_mode(quick, 0o600));
        assert_eq!(refused.err(), Some(Refusal::AccessDenied), "stored: {is_stored}");
        assert_eq!(world.share.open_count(), 0);
    }
}

/// An open beside a client that writes each time that the host is asked succeeds, and asks at most once
/// again.
#[test]
fn an_open_beside_a_busy_writer_gets_through() {
    let (world, plan) = with_file(Config { metadata_caching: false, ..Config::default() });
    let (slow, quick) = (world.client(1), world.client(2));
    let writing = quick.open("d/f").access(WRITE).open();
    plan.add(VolumeCall::Stat, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| slow.open("d/f").access(READ).result());
        let mut writes = 0;
        while !opening.is_finished() && writes < 1000 {
            if plan.wait_held(1, Duration::from_millis(5)) {
                plan.forget();
                quick.write(&writing, 10 + writes, "x").unwrap();
                writes += 1;
                plan.add(VolumeCall::Stat, 1, PlannedFault::Hold);
                plan.release();
            }
        }
        plan.forget();
        plan.release();
        let opened = opening.join().unwrap().unwrap();
        assert!((1..5).contains(&writes), "{writes}");
        assert!(opened.info.size > 10);
        slow.close(&opened.open);
    });
    quick.close(&writing);
}

#[test]
fn no_version_before_a_change_is_older_than_one_that_was_told() {
    let world = TestShare::new();
    let (share, client) = (&world.share, world.client(1));
    client.make_directory("d");
    client.make_with("d/x", "");
    let d = client.caller(true, now(), |c| share.item_in(c, &share.root_item(), &name("d"))).unwrap();
    let before = || share.version_before(&d).unwrap();
    let noted = share.item_version(&d).unwrap();
    let open = client.open("d/x").open();
    client.write(&open, 0, "text").unwrap();
    client.close(&open);
    assert_eq!(before(), noted, "no name has changed, and nobody was told of anything else");
    let told = share.item_info(&d).unwrap().version;
    assert!(told > noted);
    assert_eq!(before(), told);
    // A change of the directory itself counts before its version is given out.
    let open = client.open("d").access(Rights::WRITE_ATTRIBUTES | Rights::WRITE_EA).open();
    let modified = Some(TimeSet::Set(Time { secs: 5, nanos: 0 }));
    client.call(|c| share.set_basic(c, &open, Basic { modified, ..Basic::default() })).unwrap();
    let timed = before();
    assert!(timed > told);
    let attribute = [(b"name".to_vec(), b"value".to_vec())];
    client.call(|c| share.set_extended(c, &open, &attribute)).unwrap();
    assert!(before() > timed);
    client.close(&open);
}
