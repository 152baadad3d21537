//! Files that go from the recycle folder for good, and events at the same moment: room for requests,
//! removals of the last names of a file, moves of directories, new settings, servers that were killed.

use std::sync::Arc;
use std::time::Duration;

use crate::common::*;
use share::{Config, CopySide, Disposition, Options, RecycleRules, RecycleSummary, Refusal};
use volume::faulty::{FaultPlan, PlannedFault, VolumeCall};
use volume::security::Rights;
use volume::{MeteredVolume, Time, Volume};
use wire::Now;

const OWN: &str = ".recycle/uid-1001";
/// The longest wait for another thread.
const AT_MOST: Duration = Duration::from_secs(20);

fn later(seconds: i64) -> Now {
    Now { mono_ns: 1_000_000_000 + seconds.unsigned_abs() * 1_000_000_000, ..now() }
}

fn rules() -> RecycleRules {
    RecycleRules {
        folder: name(".recycle"),
        keep_for: None,
        most_bytes: u64::MAX,
        largest_file: u64::MAX,
        excluded: Vec::new(),
    }
}

fn keeping(rules: RecycleRules) -> Config {
    Config { recycle: Some(Arc::new(rules)), ..Config::default() }
}

/// A share whose size can be bounded.
fn metered() -> TestShare {
    TestShare::over(keeping(rules()), |memory| Arc::new(MeteredVolume::new(Arc::new(memory), None, None)))
}

fn summary(world: &TestShare) -> RecycleSummary {
    world.share.recycle_summary().unwrap()
}

/// No more room than is used now.
fn fill(world: &TestShare) {
    world.share.set_quota(Some(world.share.usage().unwrap().bytes)).unwrap();
}

impl Client {
    fn remove_new(&self, at: &str, text: &str) {
        self.make_with(at, text);
        self.remove(at);
    }

    fn take_out(&self, at: &str, to: &str) {
        let open = self.open(at).access(Rights::DELETE).open();
        done(self.rename(&open, to, false)).unwrap();
        self.close(&open);
    }

    fn link(&self, at: &str, to: &str) {
        let open = self.open(at).open();
        self.call(|c| self.share.link(c, &open, &path(to), false)).unwrap();
        self.close(&open);
    }
}

/// Waits until this many calls have been made, or the thread has ended.
fn wait_for<T>(
    plan: &FaultPlan,
    call: VolumeCall,
    count: u64,
    thread: &std::thread::ScopedJoinHandle<'_, T>,
) {
    for _ in 0..100_000_000 {
        if plan.count(call) >= count || thread.is_finished() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("the other thread stands still");
}

#[test]
fn a_request_for_which_all_kept_files_are_too_few_takes_none_of_them() {
    let world = metered();
    let client = world.client(1);
    for at in ["a", "b", "c"] {
        client.remove_new(at, &"x".repeat(40_000));
    }
    client.make_with("large", &"y".repeat(400_000));
    client.make_with("other", "");
    fill(&world);
    let open = client.open("other").open();
    let allocate = |bytes: u64| client.call(|c| world.share.set_allocation(c, &open, bytes));
    assert_eq!(allocate(100 << 40), Err(Refusal::NoSpace));
    let range = 0..100_u64 << 40;
    assert_eq!(client.call(|c| world.share.allocate(c, &open, range.clone())), Err(Refusal::NoSpace));
    assert_eq!(client.write(&open, 0, &"z".repeat(400_000)), Err(Refusal::NoSpace));
    let large = client.open("large").open();
    let copy = |len: u64| {
        let from = CopySide { open: &large, owner: client.owner(&large), at: 0 };
        let to = CopySide { open: &open, owner: client.owner(&open), at: 0 };
        client.call(|c| world.share.copy(c, from, to, len))
    };
    assert_eq!(copy(1 << 40), Err(Refusal::NoSpace));
    assert_eq!((summary(&world).purged, client.names_in(OWN).len()), (0, 3));
    // One that fits takes the oldest, and as many as it needs.
    assert_eq!(copy(30_000), Ok(30_000));
    assert_eq!((summary(&world).purged, client.names_in(OWN)), (1, vec!["b".to_owned(), "c".to_owned()]));
    allocate(80_000).unwrap();
    assert_eq!((summary(&world).purged, client.names_in(OWN).len()), (2, 1));
}

#[test]
fn a_file_that_came_back_and_was_removed_again_is_not_the_oldest() {
    let world = metered();
    let client = world.client(1);
    for at in ["a", "b"] {
        client.remove_new(at, &"x".repeat(40_000));
    }
    world.share.purge_recycled(later(0), 1000);
    client.take_out(".recycle/uid-1001/a", "a");
    assert_eq!(
        (summary(&world).files, summary(&world).bytes),
        (1, 40_960),
        "what was taken out counts no more"
    );
    client.remove("a");
    client.make_with("other", "");
    fill(&world);
    client.write(&client.open("other").open(), 0, &"y".repeat(40_000)).unwrap();
    assert_eq!(client.names_in(OWN), ["a"]);
}

#[test]
fn of_the_last_two_names_of_a_file_that_go_at_the_same_moment_one_is_kept() {
    let (world, plan) = TestShare::planned(keeping(rules()));
    let client = world.client(1);
    for at in ["d", "e"] {
        client.make_directory(at);
        client.remove_new(&format!("{at}/first"), "");
    }
    client.make_with("d/a", "text");
    client.link("d/a", "e/b");
    let opens =
        ["d/a", "e/b"].map(|at| client.open(at).access(Rights::DELETE).options(Options::DELETE_ON_CLOSE));
    let [a, b] = opens.map(|open| open.open());
    plan.add(VolumeCall::Remove, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| client.close(&a));
        assert!(plan.wait_held(1, AT_MOST));
        let asked = plan.count(VolumeCall::Stat);
        let second = scope.spawn(|| client.close(&b));
        wait_for(&plan, VolumeCall::Stat, asked + 1, &second);
        plan.release();
        first.join().unwrap();
        second.join().unwrap();
    });
    assert_eq!(client.names_in(".recycle/uid-1001/d"), ["first"]);
    assert_eq!(client.names_in(".recycle/uid-1001/e"), ["b", "first"]);
    let kept = client.open(".recycle/uid-1001/e/b").open();
    assert_eq!(client.read(&kept).unwrap(), "text");
}

#[test]
fn many_files_whose_two_names_go_at_once_are_each_kept_once() {
    let world = TestShare::with(keeping(rules()));
    let client = world.client(1);
    client.make_directory("d");
    client.make_directory("e");
    let barrier = std::sync::Barrier::new(2);
    let rounds = 500;
    for n in 0..rounds {
        client.make_with(&format!("d/{n}"), "text");
        client.link(&format!("d/{n}"), &format!("e/{n}"));
    }
    std::thread::scope(|scope| {
        for (number, directory) in [(2, "d"), (3, "e")] {
            let (world, barrier) = (&world, &barrier);
            scope.spawn(move || {
                let client = world.client(number);
                for n in 0..rounds {
                    barrier.wait();
                    client.remove(&format!("{directory}/{n}"));
                }
            });
        }
    });
    let kept: Vec<String> = ["d", "e"]
        .into_iter()
        .filter(|at| client.names_in(OWN).contains(&(*at).to_owned()))
        .flat_map(|at| client.names_in(&format!("{OWN}/{at}")))
        .collect();
    let different: std::collections::HashSet<_> = kept.iter().collect();
    assert_eq!((kept.len(), different.len()), (rounds, rounds));
}

#[test]
fn a_directory_is_not_taken_back_in_the_middle_of_a_purge() {
    let (world, plan) = TestShare::planned(keeping(rules()));
    let client = world.client(1);
    client.make_directory("d");
    client.remove_new("d/f", "text");
    world.share.configure(keeping(RecycleRules { most_bytes: 1, ..rules() }));
    let at = ".recycle/uid-1001/d";
    let directory = client.open(at).access(Rights::DELETE).options(Options::DIRECTORY).open();
    plan.add(VolumeCall::Remove, 1, PlannedFault::Hold);
    plan.add(VolumeCall::Rename, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let purge = scope.spawn(|| world.share.purge_recycled(later(0), 1000));
        assert!(plan.wait_held(1, AT_MOST));
        let rename = scope.spawn(|| done(client.rename(&directory, "back", false)));
        let overtakes = plan.wait_held(2, Duration::from_millis(200));
        plan.release();
        purge.join().unwrap();
        // The move has waited, and meets its own fault only now.
        if !overtakes && plan.wait_held(1, AT_MOST) {
            plan.release();
        }
        rename.join().unwrap().unwrap();
        assert!(!overtakes, "the file was removed from a directory that its user had back already");
    });
    assert_eq!((client.names_in("back"), summary(&world).purged), (vec![], 1));
}

#[test]
fn a_search_that_began_under_other_settings_does_not_count() {
    let (world, plan) = TestShare::planned(keeping(rules()));
    let client = world.client(1);
    client.remove_new("f", "text");
    plan.add(VolumeCall::Entries, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let search = scope.spawn(|| world.share.purge_recycled(later(0), 1000));
        assert!(plan.wait_held(1, AT_MOST));
        let keep_for = Some(Duration::from_secs(60));
        world.share.configure(keeping(RecycleRules { keep_for, ..rules() }));
        plan.release();
        search.join().unwrap();
    });
    assert_eq!(client.names_in(OWN), ["f"]);
    world.share.purge_recycled(later(0), 1000);
    assert_eq!(client.names_in(OWN), [""; 0], "the new settings are in force at once");
}

#[test]
fn folders_that_a_killed_server_left_behind_go_by_their_age_and_stand_in_nobodys_way() {
    let world = TestShare::with(keeping(rules()));
    let client = world.client(1);
    let root = world.memory.root().unwrap();
    let unfinished = name(".recycle-new-folder");
    // Another server makes one at this moment.
    world.memory.set_clock(Time { secs: now().wall_ns / 1_000_000_000, nanos: 0 });
    root.create_directory(&unfinished, 0o700, None).unwrap();
    client.remove_new("f", "text");
    assert_eq!((summary(&world).kept, client.names_in(OWN)), (1, vec!["f".to_owned()]));
    let own = root.lookup(&name(".recycle"), volume::OpenHow::Attributes).unwrap();
    let own = own.lookup(&name("uid-1001"), volume::OpenHow::Attributes).unwrap();
    own.create_directory(&name(".recycle-new-folder-3"), 0o700, None).unwrap();
    world.share.purge_recycled(later(0), 1000);
    assert_eq!(root.stat_name(&unfinished).map(|_| ()), Ok(()));
    let hour = Now { wall_ns: now().wall_ns + 3_600_000_000_000, ..later(3600) };
    world.share.purge_recycled(hour, 1000);
    assert_eq!(client.names_in(""), [".recycle"]);
    assert_eq!(client.names_in(OWN), ["f"]);
    // No client makes or takes such a name.
    for at in [".recycle-new-folder", ".Recycle-new-folder-7"] {
        let made = client.open(at).disposition(Disposition::Create).options(Options::DIRECTORY).refusal();
        assert_eq!(made, Refusal::AccessDenied);
    }
    client.make_directory(".recycle-new-folders");
}
