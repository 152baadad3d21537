//! Recursive watches: their cost, their reports for directories that cannot be held, and changes that are
//! reported together.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::*;
use share::engine::Descriptors;
use share::{CallResult, Change, ChangeFilter, ChangeKind, Config, Open, Refusal, Share, Waiter, Wake};
use volume::faulty::VolumeCall;
use volume::{HostChange, HostEvent, Node, OpenHow, Volume};
use volume_posix::PosixVolume;

/// As many directories as one tree may hold, its root among them.
const MOST: usize = 4096;

fn watch(world: &TestShare, open: &Arc<Open>) {
    world.share.watch(open, ChangeFilter::all(), true, 1 << 20).unwrap();
}

/// The result of a watch: the number of changes, or why there are none.
fn taken(world: &TestShare, open: &Arc<Open>) -> Result<usize, Refusal> {
    match world.share.take_changes(open, None) {
        CallResult::Done(changes) => Ok(changes.len()),
        CallResult::Refused(why) => Err(why),
        CallResult::Wait(_) => panic!("nobody waits here"),
    }
}

/// A program of the host creates a directory `name` in `parent`.
fn make(world: &TestShare, parent: &dyn Node, text: &str) -> Arc<dyn Node> {
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
    let (world, plan) = TestShare::planned(Config::default());
    let client = world.client(1);
    let root = world.memory.root().unwrap();
    let above = root.create_directory(&name("d"), 0o777, None).unwrap();
    for n in 0..50 {
        above.create_directory(&name(&format!("{n}")), 0o777, None).unwrap();
    }
    let (first, second) = (client.open("").access(READ).open(), client.open("d").access(READ).open());
    watch(&world, &first);
    assert_eq!(plan.count(VolumeCall::Entries), 52);
    watch(&world, &second);
    assert_eq!(plan.count(VolumeCall::Entries), 52, "the tree was walked again");
    // The directories of the first watch are held for the second, even when the first ends. So is a directory
    // that the host creates then.
    client.close(&first);
    let inner = make(&world, above.lookup(&name("7"), OpenHow::Read).unwrap().as_ref(), "inner");
    world.share.maintain(now());
    make(&world, inner.as_ref(), "innermost");
    world.share.maintain(now().plus(std::time::Duration::from_secs(1)));
    assert_eq!(taken(&world, &second), Ok(2));
}

#[test]
fn directories_that_cannot_be_held_are_told_as_lost_changes() {
    let world = TestShare::new();
    let client = world.client(1);
    let root = world.memory.root().unwrap();
    for n in 1..MOST {
        root.create_directory(&name(&format!("{n}")), 0o777, None).unwrap();
    }
    let first = client.open("").access(READ).open();
    watch(&world, &first);
    assert_eq!(taken(&world, &first), Err(Refusal::NoMoreEntries), "all are held");
    make(&world, root.as_ref(), "one more");
    world.share.maintain(now());
    assert_eq!(taken(&world, &first), Err(Refusal::WatchOverflow));
    // A later watch misses it from the beginning.
    let second = client.open("").access(READ).open();
    watch(&world, &second);
    assert_eq!(taken(&world, &second), Err(Refusal::WatchOverflow));
    assert_eq!(taken(&world, &second), Err(Refusal::NoMoreEntries));
}

#[test]
fn watches_of_all_shares_together_hold_a_part_of_the_descriptors_and_open_no_more() {
    let descriptors = Descriptors::new(20);
    let planned =
        || TestShare::planned(Config { descriptors: Arc::clone(&descriptors), ..Config::default() });
    let ((one, of_one), (two, of_two)) = (planned(), planned());
    for (world, directories) in [(&one, 30), (&two, 3)] {
        for n in 0..directories {
            world.memory.root().unwrap().create_directory(&name(&format!("{n}")), 0o777, None).unwrap();
        }
    }
    let watched = |world: &TestShare| {
        let client = world.client(1);
        let open = client.open("").access(READ).open();
        watch(world, &open);
        (client, open)
    };
    let before = of_one.count(VolumeCall::Lookup);
    let (client, first) = watched(&one);
    assert_eq!(taken(&one, &first), Err(Refusal::WatchOverflow));
    assert_eq!(
        of_one.count(VolumeCall::Lookup),
        before + 10,
        "nine are held beside the root, and there was no room for the next"
    );
    let before = of_two.count(VolumeCall::Lookup);
    let (_, second) = watched(&two);
    assert_eq!(
        (taken(&two, &second), of_two.count(VolumeCall::Lookup)),
        (Err(Refusal::WatchOverflow), before)
    );
    // The directories of a watch are there for others when it ends.
    client.close(&first);
    let (_, third) = watched(&two);
    assert_eq!(taken(&two, &third), Err(Refusal::WatchOverflow), "it shares the tree that was cut");
    two.client(1).close(&second);
    two.client(1).close(&third);
    let (_, fourth) = watched(&two);
    assert_eq!(taken(&two, &fourth), Err(Refusal::NoMoreEntries));
}

/// Asks for changes, and again as soon as it is woken, like a client with a request outstanding.
struct WatchPoller {
    share: Arc<Share>,
    open: Arc<Open>,
    /// The changes in each reply.
    answers: Mutex<Vec<Vec<(ChangeKind, String)>>>,
}

impl WatchPoller {
    fn begin(share: &Arc<Share>, open: &Arc<Open>) -> Arc<WatchPoller> {
        let (share, open) = (Arc::clone(share), Arc::clone(open));
        let asker = Arc::new(WatchPoller { share, open, answers: Mutex::default() });
        asker.ask(&asker);
        asker
    }

    fn ask(&self, again: &Arc<WatchPoller>) {
        let waiter = Waiter { wake: Arc::new(PollAgain(Arc::clone(again))), token: 1 };
        if let CallResult::Done(changes) = self.share.take_changes(&self.open, Some(&waiter)) {
            let text = |change: &Change| {
                let names: Vec<_> = change.path.iter().map(|name| name.display().into_owned()).collect();
                names.join("/")
            };
            let answer = changes.iter().map(|change| (change.kind, text(change))).collect();
            self.answers.lock().unwrap().push(answer);
            self.ask(again);
        }
    }

    fn answers(&self) -> Vec<Vec<(ChangeKind, String)>> {
        std::mem::take(&mut *self.answers.lock().unwrap())
    }
}

struct PollAgain(Arc<WatchPoller>);

impl Wake for PollAgain {
    fn wake(&self, _token: u64) {
        self.0.ask(&self.0);
    }
}

fn answer<const N: usize>(changes: [(ChangeKind, &str); N]) -> Vec<(ChangeKind, String)> {
    changes.map(|(kind, path)| (kind, path.to_owned())).into()
}

// MS-FSCC 2.7.1
#[test]
fn both_names_of_a_rename_come_in_one_answer() {
    use ChangeKind::{Added, Removed, RenamedFrom, RenamedTo};
    let world = TestShare::new();
    let client = world.client(1);
    for at in ["d", "e"] {
        client.make_directory(at);
    }
    let names = ChangeFilter::FILE_NAME;
    let watched = ["", "d", "e"].map(|at| client.open(at).access(READ).open());
    for (open, recursive) in watched.iter().zip([true, false, false]) {
        world.share.watch(open, names, recursive, 4096).unwrap();
    }
    let file = client.make("d/f");
    let askers = watched.each_ref().map(|open| WatchPoller::begin(&world.share, open));
    let heard = || askers.each_ref().map(|asker| asker.answers());
    heard();
    let [d, e] = ["d", "e"].map(|at| world.memory.root().unwrap().lookup(&name(at), OpenHow::Read).unwrap());
    let told = |from: (&Arc<dyn Node>, &str), to: (&Arc<dyn Node>, &str)| {
        let named = |(node, text): (&Arc<dyn Node>, &str)| (node.id(), name(text));
        world.memory.tell(HostEvent::Renamed { from: named(from), to: named(to), is_directory: false });
        world.share.maintain(now());
    };
    let inside = |from, to, deep: [&str; 2]| {
        let of = |names: [&str; 2]| answer([(RenamedFrom, names[0]), (RenamedTo, names[1])]);
        [vec![of(deep)], vec![of([from, to])], vec![]]
    };
    let between = [
        vec![answer([(Removed, "d/h"), (Added, "e/h")])],
        vec![answer([(Removed, "h")])],
        vec![answer([(Added, "h")])],
    ];
    // By a client, then by the host.
    done(client.rename(&file, "d/g", false)).unwrap();
    assert_eq!(heard(), inside("f", "g", ["d/f", "d/g"]));
    d.rename(&name("g"), d.as_ref(), &name("h"), false, None).unwrap();
    told((&d, "g"), (&d, "h"));
    assert_eq!(heard(), inside("g", "h", ["d/g", "d/h"]));
    d.rename(&name("h"), e.as_ref(), &name("h"), false, None).unwrap();
    told((&d, "h"), (&e, "h"));
    assert_eq!(heard(), between);
    client.make_with("d/h", "");
    heard();
    let other = client.open("d/h").open();
    client.close(&client.open("e/h").options(share::Options::DELETE_ON_CLOSE).open());
    heard();
    done(client.rename(&other, "e/h", false)).unwrap();
    assert_eq!(heard(), between);
}

#[test]
fn no_rename_by_programs_of_the_host_is_split() {
    use ChangeKind::{RenamedFrom, RenamedTo};
    const RENAMES: usize = 200;
    let temp_dir = tempfile::tempdir().unwrap();
    let files = temp_dir.path().join("files");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("0"), "text").unwrap();
    let volume = PosixVolume::open(&files, &temp_dir.path().join("beside")).unwrap();
    if !volume.properties().tells_changes {
        eprintln!("SKIPPED: this host tells nothing of changes in {}", files.display());
        return;
    }
    let share = Share::open(Arc::new(volume), Config { enforce: false, ..Config::default() }).unwrap();
    let identity = Arc::new(share::Identity { actor: None, administrator: true, ..(*user(0)).clone() });
    let client = Client { share, key: share::ClientKey(1), identity, ears: Arc::default(), details: None };
    let root = client.open("").access(READ).open();
    client.share.watch(&root, ChangeFilter::FILE_NAME, true, 1 << 20).unwrap();
    let asker = WatchPoller::begin(&client.share, &root);
    let script = format!("i=0; while [ $i -lt {RENAMES} ]; do mv $i $((i+1)); i=$((i+1)); done");
    let mut program = Command::new("sh").args(["-ec", &script]).current_dir(&files).spawn().unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                client.share.maintain(now());
            }
        });
        assert!(program.wait().unwrap().success());
        is_done.store(true, Ordering::Relaxed);
    });
    client.share.maintain(now());
    let answers = asker.answers();
    let split = answers.iter().filter(|answer| answer.len() % 2 != 0).count();
    assert_eq!(split, 0, "of {} answers", answers.len());
    let expected: Vec<_> =
        (0..RENAMES).flat_map(|n| [(RenamedFrom, n.to_string()), (RenamedTo, (n + 1).to_string())]).collect();
    assert_eq!(answers.concat(), expected);
}
