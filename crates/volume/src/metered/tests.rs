//! The bytes that count, those that do not, and the refusal of growth.

use super::*;
use crate::faulty::{FaultPlan, FaultyVolume, PlannedFault, VolumeCall};
use crate::memory::MemoryVolume;
use crate::{Name, OpenHow};

fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

fn metered(quota: Option<u64>) -> (MeteredVolume, Arc<FaultPlan>, Arc<dyn Node>) {
    let faulty = FaultyVolume::new(Arc::new(MemoryVolume::new(1)));
    let plan = Arc::clone(faulty.plan());
    let volume = MeteredVolume::new(Arc::new(faulty), quota, None);
    let root = volume.root().unwrap();
    (volume, plan, root)
}

fn file(root: &Arc<dyn Node>, text: &str) -> Arc<dyn Node> {
    root.create_file(&name(text), 0o600, None).unwrap()
}

fn usage(volume: &MeteredVolume) -> (u64, u64) {
    let Usage { bytes, files } = volume.meter.usage();
    (bytes, files)
}

fn counted(volume: &MeteredVolume) -> (u64, u64) {
    let mut scan = volume.meter.recount().unwrap();
    while !scan.step(1).unwrap() {}
    usage(volume)
}

#[test]
fn a_file_counts_its_length_holes_and_all() {
    let (volume, _, root) = metered(None);
    let one = file(&root, "one");
    assert_eq!(usage(&volume), (0, 1));
    one.write(1000, b"end").unwrap();
    one.write(0, b"start").unwrap();
    assert_eq!(usage(&volume), (1003, 1));
    one.punch(0..1000).unwrap();
    one.allocate(0..5000).unwrap();
    assert_eq!(usage(&volume), (1003, 1), "neither holes nor what is set aside behind the end");
    one.set_size(1 << 40).unwrap();
    one.set_size(7).unwrap();
    assert_eq!(usage(&volume), (7, 1));
    root.create_directory(&name("d"), 0o700, None).unwrap();
    root.create_link(&name("l"), b"one", None).unwrap();
    assert_eq!(usage(&volume), (7, 2), "a link is a file without bytes, a directory is none");
    assert_eq!(counted(&volume), (7, 2));
}

#[test]
fn a_file_counts_once_until_its_last_name_and_its_last_open_are_gone() {
    let (volume, _, root) = metered(None);
    let one = file(&root, "one");
    one.write(0, &[1; 100]).unwrap();
    root.add_name(&name("two"), &*one, None).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((100, 1), (100, 1)));
    root.remove(&name("one"), false, None).unwrap();
    assert_eq!(usage(&volume), (100, 1));
    root.remove(&name("two"), false, None).unwrap();
    one.write(100, &[1; 100]).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((200, 1), (200, 1)), "it is open");
    assert_eq!(volume.meter.to_keep(), Some(Usage::default()), "which ends with the process");
    drop(one);
    assert_eq!((usage(&volume), counted(&volume)), ((0, 0), (0, 0)));
}

#[test]
fn what_is_renamed_over_counts_no_more() {
    let (volume, _, root) = metered(None);
    file(&root, "old").write(0, &[1; 70]).unwrap();
    file(&root, "new").write(0, &[1; 30]).unwrap();
    assert_eq!(root.rename(&name("new"), &*root, &name("old"), false, None), Err(Failure::Exists));
    assert_eq!(usage(&volume), (100, 2));
    root.rename(&name("new"), &*root, &name("old"), true, None).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((30, 1), (30, 1)));
    root.rename(&name("old"), &*root, &name("old"), true, None).unwrap();
    assert_eq!(usage(&volume), (30, 1), "over itself");
}

#[test]
fn streams_count_with_their_file() {
    let (volume, _, root) = metered(Some(1000));
    let one = file(&root, "one");
    let stream = one.open_stream(&name("s"), true, true).unwrap();
    stream.write(0, &[1; 300]).unwrap();
    let directory = root.create_directory(&name("d"), 0o700, None).unwrap();
    directory.open_stream(&name("s"), true, true).unwrap().write(0, &[1; 50]).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((350, 1), (350, 1)));
    assert_eq!(stream.write(0, &[1; 951]), Err(Failure::NoSpace));
    one.rename_stream(&name("s"), &name("t"), false).unwrap();
    stream.write(300, &[1; 100]).unwrap();
    let other = one.open_stream(&name("o"), true, true).unwrap();
    other.write(0, &[1; 5]).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((455, 1), (455, 1)));
    one.rename_stream(&name("o"), &name("t"), true).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((55, 1), (55, 1)), "one stream took the other's place");
    one.remove_stream(&name("t")).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((50, 1), (50, 1)));
    drop(directory);
    root.remove(&name("d"), true, None).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((0, 1), (0, 1)));
}

#[test]
fn nothing_grows_beyond_the_bound_and_nothing_is_half_written() {
    let (volume, _, root) = metered(Some(100));
    let one = file(&root, "one");
    one.write(0, &[1; 60]).unwrap();
    let two = file(&root, "two");
    assert_eq!(two.write(0, &[1; 41]), Err(Failure::NoSpace));
    assert_eq!(two.set_size(41), Err(Failure::NoSpace));
    assert_eq!(two.allocate(0..41), Err(Failure::NoSpace));
    assert_eq!(one.copy_range(0, &*two, 0, 60), Err(Failure::NoSpace));
    assert_eq!(one.clone_range(0, &*two, 0, 60), Err(Failure::NoSpace));
    assert_eq!((two.stat().unwrap().size, usage(&volume)), (0, (60, 2)));
    two.write(0, &[1; 40]).unwrap();
    assert_eq!(one.write(60, b"x"), Err(Failure::NoSpace));
    one.write(0, &[2; 60]).unwrap();
    assert_eq!(usage(&volume), (100, 2));
    let space = volume.space().unwrap();
    assert_eq!((space.total, space.free, space.available), (100, 0, 0));
    one.set_size(10).unwrap();
    assert_eq!(one.copy_range(0, &*two, 35, 1000), Ok(10), "only what is there to be copied needs room");
    assert_eq!((usage(&volume), counted(&volume)), ((55, 2), (55, 2)));
    assert_eq!(volume.space().unwrap().free, 45);
}

#[test]
fn the_bound_moves_but_not_below_what_lies_there() {
    let (volume, _, root) = metered(Some(100));
    let one = file(&root, "one");
    one.write(0, &[1; 60]).unwrap();
    let refused = volume.meter.set_quota(Some(59)).unwrap_err();
    assert_eq!(refused, QuotaRefusal::BelowUsage { used: 60, asked: 59 });
    assert!(refused.to_string().contains("remove 1 bytes"), "{refused}");
    assert_eq!(volume.meter.quota(), Some(100));
    volume.meter.set_quota(Some(60)).unwrap();
    assert_eq!(one.write(60, b"x"), Err(Failure::NoSpace));
    volume.meter.set_quota(None).unwrap();
    one.write(60, b"x").unwrap();
    assert_eq!(volume.space().unwrap().total, 1 << 40, "the host's own");
}

#[test]
fn a_call_that_fails_gives_back_what_it_did_not_use() {
    let (volume, plan, root) = metered(Some(100));
    let one = file(&root, "one");
    plan.add(VolumeCall::Write, 1, PlannedFault::Fail(Failure::Io));
    plan.add(VolumeCall::Write, 2, PlannedFault::Half(Failure::NoSpace));
    assert_eq!(one.write(0, &[1; 80]), Err(Failure::Io));
    assert_eq!(usage(&volume), (0, 1));
    assert_eq!(one.write(0, &[1; 80]), Err(Failure::NoSpace));
    assert_eq!((usage(&volume), counted(&volume)), ((40, 1), (40, 1)), "half of it is there");
    plan.add(VolumeCall::Resize, 1, PlannedFault::Fail(Failure::Io));
    assert_eq!(one.set_size(0), Err(Failure::Io));
    plan.add(VolumeCall::Remove, 1, PlannedFault::Fail(Failure::Busy));
    assert_eq!(root.remove(&name("one"), false, None), Err(Failure::Busy));
    plan.add(VolumeCall::Create, 1, PlannedFault::Fail(Failure::NoSpace));
    assert!(root.create_file(&name("two"), 0o600, None).is_err());
    assert_eq!((usage(&volume), counted(&volume)), ((40, 1), (40, 1)));
}

#[test]
fn what_was_known_is_mended_by_counting_and_a_count_that_fails_changes_nothing() {
    let memory = MemoryVolume::new(1);
    let host = memory.root().unwrap();
    let before = host.create_directory(&name("d"), 0o700, None).unwrap();
    before.create_file(&name("a"), 0o600, None).unwrap().write(0, &[1; 30]).unwrap();
    let faulty = FaultyVolume::new(Arc::new(memory));
    let plan = Arc::clone(faulty.plan());
    let volume = MeteredVolume::new(Arc::new(faulty), Some(100), Some(Usage { bytes: 99, files: 4 }));
    assert_eq!((usage(&volume), volume.meter.counting()), ((99, 4), RecountProgress::default()));
    plan.add(VolumeCall::Entries, 2, PlannedFault::Fail(Failure::Io));
    let mut scan = volume.meter.recount().unwrap();
    assert_eq!(volume.meter.recount().err(), Some(Failure::Busy));
    assert_eq!(scan.step(100), Err(Failure::Io));
    drop(scan);
    assert_eq!((usage(&volume), volume.meter.counting()), ((99, 4), RecountProgress::default()));
    assert_eq!(counted(&volume), (30, 1));
    assert_eq!(volume.meter.counting().finished, 1);
    plan.always(VolumeCall::Entries, Some(Failure::Denied));
    let root = volume.root().unwrap();
    assert!(
        volume.meter.recount().unwrap().step(1).is_err(),
        "a directory that cannot be listed was found so before"
    );
    drop(root);
    plan.always(VolumeCall::Entries, None);
    before.create_file(&name("b"), 0o600, None).unwrap().write(0, &[1; 5]).unwrap();
    let a = volume.root().unwrap().lookup(&name("d"), OpenHow::Read).unwrap();
    let a = a.lookup(&name("a"), OpenHow::ReadWrite).unwrap();
    a.write(30, &[1; 10]).unwrap();
    before.lookup(&name("a"), OpenHow::ReadWrite).unwrap().set_size(50).unwrap();
    assert_eq!(usage(&volume), (40, 1));
    assert_eq!(counted(&volume), (55, 2), "what was done on the host is found");
    a.set_size(0).unwrap();
    assert_eq!(usage(&volume), (5, 2), "also of a file that is open");
}

#[test]
fn a_file_that_a_count_finds_while_it_is_made_counts_once() {
    let (volume, _, root) = metered(None);
    file(&root, "old");
    let mut scan = volume.meter.recount().unwrap();
    // A client creates it this way: the file exists, and is not counted yet.
    let made = volume.meter.inner.root().unwrap().create_file(&name("new"), 0o600, None).unwrap();
    while volume.meter.counting().under_way < Some(2) {
        assert!(!scan.step(1).unwrap());
    }
    volume.meter.enter(made.id(), made.kind()).made();
    while !scan.step(1).unwrap() {}
    assert_eq!(usage(&volume), (0, 2));
}

#[test]
fn before_everything_was_counted_once_what_was_found_counts() {
    let memory = MemoryVolume::new(1);
    memory.root().unwrap().create_file(&name("a"), 0o600, None).unwrap().write(0, &[1; 90]).unwrap();
    let volume = MeteredVolume::new(Arc::new(memory), Some(100), None);
    assert_eq!(volume.meter.to_keep(), None);
    let mut scan = volume.meter.recount().unwrap();
    assert!(!scan.step(1).unwrap());
    assert_eq!(volume.meter.counting().under_way, Some(1));
    let b = file(&volume.root().unwrap(), "b");
    assert_eq!(b.write(0, &[1; 11]), Err(Failure::NoSpace));
    b.write(0, &[1; 10]).unwrap();
    while !scan.step(1).unwrap() {}
    assert_eq!((usage(&volume), volume.meter.counting().under_way), ((100, 2), None));
    assert_eq!(volume.meter.to_keep(), Some(Usage { bytes: 100, files: 2 }));
}

/// A volume on which nothing is counted yet, with one open file and one open file without a name.
fn asleep() -> (MeteredVolume, Arc<FaultPlan>, [Arc<dyn Node>; 2]) {
    let faulty = FaultyVolume::new(Arc::new(MemoryVolume::new(1)));
    let plan = Arc::clone(faulty.plan());
    let volume = MeteredVolume::asleep(Arc::new(faulty));
    let root = volume.root().unwrap();
    let (one, gone) = (file(&root, "one"), file(&root, "gone"));
    one.write(0, &[1; 60]).unwrap();
    gone.write(0, &[1; 5]).unwrap();
    root.remove(&name("gone"), false, None).unwrap();
    (volume, plan, [one, gone])
}

#[test]
fn a_volume_asleep_counts_from_when_it_is_woken_also_what_was_open_before() {
    let (volume, _, [one, gone]) = asleep();
    let stream = one.open_stream(&name("s"), true, true).unwrap();
    stream.write(0, &[1; 10]).unwrap();
    assert_eq!((usage(&volume), volume.meter.is_awake(), volume.meter.is_stale()), ((0, 0), false, false));
    assert_eq!(volume.space().unwrap().total, 1 << 40, "the host's own");
    volume.meter.wake();
    assert_eq!(volume.meter.to_keep(), None, "nothing is known yet");
    assert_eq!(counted(&volume), (70, 1));
    volume.meter.set_quota(Some(100)).unwrap();
    one.write(60, &[1; 10]).unwrap();
    stream.write(10, &[1; 10]).unwrap();
    assert_eq!((usage(&volume), counted(&volume)), ((90, 1), (90, 1)));
    assert_eq!(one.write(70, &[1; 11]), Err(Failure::NoSpace));
    gone.write(5, &[1; 3]).unwrap();
    assert_eq!((usage(&volume), volume.meter.to_keep()), ((98, 2), Some(Usage { bytes: 90, files: 1 })));
    drop(gone);
    assert_eq!((usage(&volume), counted(&volume)), ((90, 1), (90, 1)));
}

#[test]
fn a_change_under_way_while_counting_begins_has_everything_counted_again() {
    let (volume, plan, [one, _gone]) = asleep();
    plan.add(VolumeCall::Write, 1, PlannedFault::Hold);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| one.write(60, &[1; 40]));
        assert!(plan.wait_held(1, Duration::from_secs(10)));
        volume.meter.wake();
        assert_eq!(counted(&volume), (60, 1));
        let mut under_way = volume.meter.recount().unwrap();
        assert!(!under_way.step(1).unwrap() && !volume.meter.is_stale());
        plan.release();
        writing.join().unwrap().unwrap();
        assert!(volume.meter.is_stale());
        assert_eq!(under_way.step(10), Err(Failure::Busy), "it may have been there before");
    });
    assert_eq!(counted(&volume), (100, 1));
    assert!(!volume.meter.is_stale());
}

#[test]
fn no_file_grows_beyond_the_largest_whether_or_not_anything_is_counted() {
    const LARGEST: u64 = 4 << 40;
    for counts in [true, false] {
        let volume = MeteredVolume::asleep(Arc::new(MemoryVolume::new(1)));
        if counts {
            volume.meter.wake();
        }
        let root = volume.root().unwrap();
        let [one, other] = ["one", "other"].map(|text| file(&root, text));
        other.set_size(LARGEST + 100).unwrap();
        volume.meter.set_largest(Some(LARGEST));
        assert_eq!(volume.meter.largest(), Some(LARGEST));
        let stream = one.open_stream(&name("s"), true, false).unwrap();
        for node in [&one, &stream] {
            node.write(LARGEST - 3, b"end").unwrap();
            assert_eq!(node.write(LARGEST - 3, b"ends"), Err(Failure::TooLarge));
            assert_eq!(node.set_size(LARGEST + 1), Err(Failure::TooLarge));
            assert_eq!(node.allocate(0..LARGEST + 1), Err(Failure::TooLarge));
            assert_eq!(node.stat().unwrap().size, LARGEST, "nothing was done");
        }
        let copied = other.copy_range(0, &*one, LARGEST - 10, 20);
        assert_eq!((copied, one.stat().unwrap().size), (Err(Failure::TooLarge), LARGEST));
        assert_eq!(
            other.copy_range(LARGEST + 90, &*one, LARGEST - 10, 20),
            Ok(10),
            "there is no more to copy"
        );
        // A file that is larger already can be changed within its size, and made smaller.
        other.write(LARGEST + 50, b"within").unwrap();
        assert_eq!(other.write(LARGEST + 99, b"on"), Err(Failure::TooLarge));
        other.set_size(LARGEST + 1).unwrap();
        volume.meter.set_largest(None);
        one.set_size(2 * LARGEST).unwrap();
    }
}
