//! File systems that are mounted below a volume. Without the privilege to mount, or without the program
//! that creates a file system, each test reports that it is skipped.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{files, name, open};
use volume::{Failure, HostChange, HostEvent, Node, Note, OpenHow, Volume};
use volume_posix::PosixVolume;

/// Runs a program. False when it does not exist or fails.
fn run(program: &str, arguments: &[&str]) -> bool {
    let done = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// A mounted file system. It is unmounted when it is dropped.
struct TestMount(PathBuf);

impl TestMount {
    /// Mounts `source` at `at`, which is created. `None`, and the test is skipped, if that is not
    /// possible.
    fn new(kind: &str, source: &str, at: &Path) -> Option<TestMount> {
        std::fs::create_dir_all(at).unwrap();
        let options = if source.starts_with('/') { "loop" } else { "rw" };
        if !common::is_root() || !run("mount", &["-t", kind, "-o", options, source, at.to_str().unwrap()]) {
            common::skipped(&format!("no {kind} can be mounted here"));
            return None;
        }
        Some(TestMount(at.to_owned()))
    }

    /// Unmounts the file system. That fails while a file on it is open. A program that another test
    /// starts may have it open for a moment.
    fn unmount(self) {
        let is_done = (0..20).any(|_| run("umount", &[self.0.to_str().unwrap()]));
        assert!(is_done, "{} is in use", self.0.display());
        std::mem::forget(self);
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

/// A file that contains a new file system. `None`, and the test is skipped, if it cannot be created.
fn image(kind: &str, temp_dir: &tempfile::TempDir) -> Option<String> {
    let path = temp_dir.path().join(format!("{kind}.image"));
    std::fs::File::create(&path).unwrap().set_len(if kind == "ext4" { 8 << 20 } else { 320 << 20 }).unwrap();
    let path = path.to_str().unwrap().to_owned();
    if !run(&format!("mkfs.{kind}"), &["-q", &path]) {
        common::skipped(&format!("there is no mkfs.{kind} here"));
        return None;
    }
    Some(path)
}

fn temp_dir() -> tempfile::TempDir {
    let temp_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(files(&temp_dir)).unwrap();
    temp_dir
}

/// The node of a path below the root.
fn at(volume: &PosixVolume, path: &str) -> volume::Result<std::sync::Arc<dyn Node>> {
    let root = volume.root()?;
    path.split('/').try_fold(root, |above, part| above.lookup(&name(part), OpenHow::Read))
}

fn file_system(volume: &PosixVolume, path: &str) -> u64 {
    at(volume, path).unwrap().stat().unwrap().file_system
}

#[test]
fn a_file_on_another_file_system_is_found_by_its_address_again() {
    let temp_dir = temp_dir();
    for kind in ["ext4", "xfs", "tmpfs", "btrfs"] {
        let source = if kind == "tmpfs" { Some("none".to_owned()) } else { image(kind, &temp_dir) };
        let Some(source) = source else { continue };
        let top = files(&temp_dir).join(kind);
        let Some(mounted) = TestMount::new(kind, &source, &top) else { continue };
        std::fs::create_dir(top.join("d")).unwrap();
        std::fs::write(top.join("d/f"), kind).unwrap();
        let volume = open(&temp_dir);
        let (d, f) = (format!("{kind}/d"), format!("{kind}/d/f"));
        let addresses = [kind, &d, &f].map(|path| at(&volume, path).unwrap().address().unwrap());
        let other = file_system(&volume, &f);
        assert_ne!(other, 0, "{kind}");
        assert_eq!(at(&volume, &d).unwrap().stat_name(&name("f")).unwrap().file_system, other);
        assert_eq!(volume.root().unwrap().stat_name(&name(kind)).unwrap().file_system, other);
        for (address, path) in addresses.iter().zip([kind, &d, &f]) {
            let found = volume.find(address).unwrap();
            assert_eq!(found.id(), at(&volume, path).unwrap().id(), "{path}");
        }
        // The parents lead up to the root of the volume.
        let above = |node: &dyn Node| node.parent_and_name().unwrap().unwrap();
        {
            let (top, text) = above(&*volume.find(&addresses[1]).unwrap());
            assert_eq!((top.id(), text), (at(&volume, kind).unwrap().id(), name("d")));
            let (root, text) = above(&*top);
            assert_eq!((root.id(), text), (volume.root().unwrap().id(), name(kind)));
        }
        // None of its files stays open, and an unmounted file system is gone.
        mounted.unmount();
        for address in &addresses {
            assert_eq!(volume.find(address).err(), Some(Failure::Stale), "{kind}");
        }
        if kind == "tmpfs" {
            continue;
        }
        // After another mount it is the same, for this process and for a later one.
        let Some(mounted) = TestMount::new(kind, &source, &top) else { continue };
        for volume in [volume, open(&temp_dir)] {
            assert_eq!(file_system(&volume, &f), other, "{kind}");
            for (address, path) in addresses.iter().zip([kind, &d, &f]) {
                let found = volume.find(address).unwrap();
                assert_eq!(found.id(), at(&volume, path).unwrap().id(), "{path}");
            }
        }
        mounted.unmount();
    }
}

#[test]
fn what_is_on_the_roots_own_file_system_is_as_before() {
    let temp_dir = temp_dir();
    let volume = open(&temp_dir);
    let f = common::file(&volume, "f");
    let stat = f.stat().unwrap();
    assert_eq!((stat.file_system, volume.root().unwrap().stat().unwrap().file_system), (0, 0));
    assert_eq!(f.first_stat().unwrap().file_system, 0);
    assert_eq!(volume.root().unwrap().stat_name(&name("f")).unwrap().file_system, 0);
    // The birth time, and the handle or the table's data instead: no other number.
    let (address, born) = (f.address().unwrap(), stat.born.unwrap_or_default());
    let head = [&born.secs.to_le_bytes()[..], &born.nanos.to_le_bytes()].concat();
    assert_eq!(address[..12], head);
    assert_ne!(address[12..16], (-3_i32).to_le_bytes());
}

#[test]
fn two_file_systems_with_one_uuid_are_told_apart() {
    let temp_dir = temp_dir();
    let Some(source) = image("ext4", &temp_dir) else { return };
    let copy = format!("{source}.copy");
    std::fs::copy(&source, &copy).unwrap();
    let Some(_one) = TestMount::new("ext4", &source, &files(&temp_dir).join("one")) else { return };
    let Some(_two) = TestMount::new("ext4", &copy, &files(&temp_dir).join("two")) else { return };
    let volume = open(&temp_dir);
    let (one, two) = (file_system(&volume, "one"), file_system(&volume, "two"));
    assert!(one != two && one != 0 && two != 0);
    std::fs::write(files(&temp_dir).join("one/f"), "one").unwrap();
    std::fs::write(files(&temp_dir).join("two/f"), "two").unwrap();
    for top in ["one", "two"] {
        let node = at(&volume, &format!("{top}/f")).unwrap();
        assert_eq!(volume.find(&node.address().unwrap()).unwrap().id(), node.id(), "{top}");
    }
    // A later process meets them in another order.
    let later = open(&temp_dir);
    assert_eq!((file_system(&later, "two"), file_system(&later, "one")), (two, one));
}

#[test]
fn a_copy_that_is_mounted_later_and_asked_for_first_takes_no_number_away() {
    let temp_dir = temp_dir();
    let Some(source) = image("ext4", &temp_dir) else { return };
    let copy = format!("{source}.copy");
    std::fs::copy(&source, &copy).unwrap();
    let Some(_one) = TestMount::new("ext4", &source, &files(&temp_dir).join("one")) else { return };
    let volume = open(&temp_dir);
    let before = file_system(&volume, "one");
    let Some(_two) = TestMount::new("ext4", &copy, &files(&temp_dir).join("two")) else { return };
    let two = file_system(&volume, "two");
    assert_ne!(two, before);
    assert_eq!((file_system(&volume, "one"), file_system(&volume, "two")), (before, two));
}

#[test]
fn parts_of_one_file_system_that_are_mounted_alone_lead_up_each_at_its_place() {
    let temp_dir = temp_dir();
    let outside = temp_dir.path().join("outside");
    let Some(_outside) = TestMount::new("tmpfs", "none", &outside) else { return };
    for part in ["a", "b"] {
        std::fs::create_dir_all(outside.join(part).join("d")).unwrap();
        std::fs::create_dir(files(&temp_dir).join(part)).unwrap();
    }
    let bind = |part: &str| {
        let [from, to] = [outside.join(part), files(&temp_dir).join(part)];
        assert!(run("mount", &["--bind", from.to_str().unwrap(), to.to_str().unwrap()]));
        TestMount(to)
    };
    let _bound = ["a", "b"].map(bind);
    let volume = open(&temp_dir);
    for part in ["a", "b"] {
        let node = at(&volume, &format!("{part}/d")).unwrap();
        let (above, _) = volume.find(&node.address().unwrap()).unwrap().parent_and_name().unwrap().unwrap();
        let (root, text) = above.parent_and_name().unwrap().unwrap();
        assert_eq!((root.id(), text), (volume.root().unwrap().id(), name(part)));
    }
}

#[test]
fn an_address_leads_through_the_mount_by_which_it_was_found_and_through_no_other() {
    let temp_dir = temp_dir();
    let outside = temp_dir.path().join("outside");
    let Some(_outside) = TestMount::new("tmpfs", "none", &outside) else { return };
    std::fs::create_dir(outside.join("public")).unwrap();
    std::fs::write(outside.join("public/x"), "x").unwrap();
    let bind = |from: &str, part: &str| {
        let [from, to] = [outside.join(from), files(&temp_dir).join(part)];
        std::fs::create_dir(&to).unwrap();
        assert!(run("mount", &["--bind", from.to_str().unwrap(), to.to_str().unwrap()]));
        TestMount(to)
    };
    let (_all, public) = (bind(".", "all"), bind("public", "public"));
    assert!(run("mount", &["-o", "remount,bind,ro", public.0.to_str().unwrap()]));
    let volume = open(&temp_dir);
    let write = |address: &[u8]| volume.find(address)?.open_again(OpenHow::ReadWrite).map(drop);
    let [read_only, other] =
        ["public/x", "all/public/x"].map(|path| at(&volume, path).unwrap().address().unwrap());
    assert_eq!((write(&read_only), write(&other)), (Err(Failure::ReadOnly), Ok(())));
    public.unmount();
    // The host is asked for its mounts every tenth of a second.
    let until = Instant::now() + Duration::from_secs(20);
    while volume.find(&read_only).is_ok() {
        assert!(Instant::now() < until, "it leads through another mount");
        std::thread::yield_now();
    }
    assert_eq!((volume.find(&read_only).err(), write(&other)), (Some(Failure::Stale), Ok(())));
}

/// An address has a checksum of the path of its mount. These two paths have the same.
#[test]
fn two_mounts_whose_paths_have_one_checksum_are_told_apart() {
    let temp_dir = temp_dir();
    let paths = ["plumless", "buckeroo"];
    let [one, other] = paths.map(|path| TestMount::new("tmpfs", "none", &files(&temp_dir).join(path)));
    let (Some(_one), Some(_other)) = (one, other) else { return };
    for path in paths {
        std::fs::write(files(&temp_dir).join(path).join("f"), path).unwrap();
    }
    let volume = open(&temp_dir);
    let addresses = paths.map(|path| at(&volume, &format!("{path}/f")).unwrap().address().unwrap());
    assert_eq!(addresses[0][16..20], addresses[1][16..20], "the checksums");
    for (address, path) in addresses.iter().zip(paths) {
        let found = volume.find(address).unwrap();
        assert_eq!(found.id(), at(&volume, &format!("{path}/f")).unwrap().id(), "{path}");
    }
}

/// One file at two mounts whose paths have the same checksum. Only one of them might be writable.
#[test]
fn a_file_at_two_mounts_whose_paths_have_one_checksum_has_no_address() {
    let temp_dir = temp_dir();
    let outside = temp_dir.path().join("outside");
    let Some(_outside) = TestMount::new("tmpfs", "none", &outside) else { return };
    std::fs::write(outside.join("f"), "text").unwrap();
    let _bound = ["plumless", "buckeroo"].map(|path| {
        let to = files(&temp_dir).join(path);
        std::fs::create_dir(&to).unwrap();
        assert!(run("mount", &["--bind", outside.to_str().unwrap(), to.to_str().unwrap()]));
        TestMount(to)
    });
    let volume = open(&temp_dir);
    assert_eq!(at(&volume, "plumless/f").unwrap().address(), Err(Failure::NotSupported));
}

/// A directory outside of the volume with a file `f`, and the place in the volume at which it is to be
/// mounted.
fn outside(temp_dir: &tempfile::TempDir) -> (PathBuf, PathBuf) {
    let (from, top) = (temp_dir.path().join("from"), files(temp_dir).join("m"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&top).unwrap();
    std::fs::write(from.join("f"), "text").unwrap();
    (from, top)
}

#[test]
fn an_open_file_keeps_the_number_of_its_file_system_when_that_is_unmounted() {
    let temp_dir = temp_dir();
    let (from, top) = outside(&temp_dir);
    let Some(mounted) = bindfs(&from, &top) else { return };
    let volume = open(&temp_dir);
    let f = at(&volume, "m/f").unwrap();
    let number = f.stat().unwrap().file_system;
    drop(mounted);
    assert!(at(&volume, "m/f").is_err());
    assert_eq!(f.stat().unwrap().file_system, number);
}

#[test]
fn room_is_that_of_the_file_system_that_a_file_is_on() {
    let temp_dir = temp_dir();
    let top = files(&temp_dir).join("m");
    let Some(_mounted) = TestMount::new("tmpfs", "none", &top) else { return };
    assert!(run("mount", &["-o", "remount,size=256k", top.to_str().unwrap()]));
    let volume = open(&temp_dir);
    assert_eq!(volume.space_at(&*at(&volume, "m").unwrap()).unwrap().total, 256 << 10);
    let own = volume.space_at(&*volume.root().unwrap()).unwrap();
    assert_eq!(own.total, volume.space().unwrap().total);
    assert_ne!(own.total, 256 << 10);
}

#[test]
fn subvolumes_are_file_systems_of_their_own() {
    let temp_dir = temp_dir();
    let Some(source) = image("btrfs", &temp_dir) else { return };
    let Some(_mounted) = TestMount::new("btrfs", &source, &files(&temp_dir)) else { return };
    for made in ["one", "two"] {
        let path = files(&temp_dir).join(made);
        if !run("btrfs", &["subvolume", "create", path.to_str().unwrap()]) {
            common::skipped("there is no btrfs program here");
            return;
        }
        std::fs::write(path.join("f"), made).unwrap();
    }
    let volume = open(&temp_dir);
    let numbers = ["one/f", "two/f"].map(|path| file_system(&volume, path));
    assert!(numbers[0] != numbers[1] && !numbers.contains(&0));
    let later = open(&temp_dir);
    for (path, number) in ["one/f", "two/f"].into_iter().zip(numbers) {
        let node = at(&volume, path).unwrap();
        let found = later.find(&node.address().unwrap()).unwrap();
        assert_eq!((found.id(), found.stat().unwrap().file_system), (node.id(), number), "{path}");
    }
}

/// The names that programs of the host have made in a volume's root since the last call.
fn made_in(volume: &PosixVolume) -> Vec<volume::Name> {
    let mut names = Vec::new();
    volume.take_events(&mut |event| match event {
        HostEvent::Changed { name: Some(name), change: HostChange::Created, .. } => names.push(name),
        other => panic!("{other:?}"),
    });
    names
}

#[test]
fn subvolumes_and_other_file_systems_tell_of_their_changes_side_by_side() {
    let temp_dir = temp_dir();
    let Some(source) = image("btrfs", &temp_dir) else { return };
    let top = files(&temp_dir);
    let Some(_mounted) = TestMount::new("btrfs", &source, &top) else { return };
    let paths = ["one", "two"].map(|made| top.join(made));
    if !paths.iter().all(|path| run("btrfs", &["subvolume", "create", path.to_str().unwrap()])) {
        common::skipped("there is no btrfs program here");
        return;
    }
    let outside = temp_dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    // Whichever is the first must leave room for the others.
    let roots = [&paths[0], &outside, &paths[1], &top];
    let beside = |number: usize| temp_dir.path().join(format!("beside{number}"));
    let opened = roots.iter().enumerate().map(|(number, root)| PosixVolume::open(root, &beside(number)));
    let volumes: Vec<_> = opened.map(Result::unwrap).collect();
    if let Some(why) = volumes[0].missing_events() {
        // Before Linux 6.8 the kernel accepts no mark on a subvolume.
        common::skipped(&format!("subvolumes tell nothing: {why}"));
        return;
    }
    for volume in &volumes {
        assert_eq!(volume.missing_events(), None, "{volume:?}");
        volume.watch(&*volume.root().unwrap()).unwrap();
    }
    // A subvolume below another volume is one that the kernel refuses in that volume's group.
    assert_eq!(volumes[3].watch(&*at(&volumes[3], "one").unwrap()), Err(Failure::NotSupported));
    for (number, root) in roots.iter().enumerate() {
        let new = format!("new{number}");
        common::others(root, &format!("mkdir {new}"));
        for (of, volume) in volumes.iter().enumerate() {
            let expected = if of == number { vec![name(&new)] } else { Vec::new() };
            assert_eq!(made_in(volume), expected, "{number} by {of}");
        }
    }
}

/// Mounts a directory once more by FUSE. `None`, and the test is skipped, if that is not possible.
fn bindfs(from: &Path, to: &Path) -> Option<TestMount> {
    let paths = [from, to].map(|path| path.to_str().unwrap());
    if !common::is_root() || !run("bindfs", &["--no-allow-other", paths[0], paths[1]]) {
        common::skipped("nothing can be mounted with bindfs here");
        return None;
    }
    Some(TestMount(to.to_owned()))
}

#[test]
fn what_lies_beside_files_on_fuse_is_found_after_it_was_mounted_anew() {
    let temp_dir = temp_dir();
    let (from, top) = outside(&temp_dir);
    let Some(mounted) = bindfs(&from, &top) else { return };
    let volume = open(&temp_dir);
    let f = at(&volume, "m/f").unwrap();
    f.open_stream(&name("s"), true, true).unwrap().write(0, b"beside").unwrap();
    f.set_note(Note::ObjectId, Some(&[7; 5000])).unwrap();
    let (device, number) = (f.id().device, f.stat().unwrap().file_system);
    drop(f);
    // The file system keeps its device number while it is in use, so the next one gets another.
    let _used = std::fs::File::open(top.join("f")).unwrap();
    drop(mounted);
    let Some(_mounted) = bindfs(&from, &top) else { return };
    for volume in [volume, open(&temp_dir)] {
        let f = at(&volume, "m/f").unwrap();
        assert_ne!(f.id().device, device);
        assert_eq!(f.stat().unwrap().file_system, number);
        assert_eq!(f.streams().unwrap().len(), 1);
        assert_eq!(f.note(Note::ObjectId).unwrap(), Some(vec![7; 5000]));
    }
}

#[test]
fn what_an_earlier_version_laid_beside_files_on_fuse_is_found() {
    let temp_dir = temp_dir();
    let (from, top, beside) =
        (temp_dir.path().join("from"), files(&temp_dir).join("m"), temp_dir.path().join("beside"));
    std::fs::create_dir(&from).unwrap();
    std::fs::create_dir(&top).unwrap();
    std::fs::write(from.join("f"), "text").unwrap();
    let Some(_mounted) = bindfs(&from, &top) else { return };
    let f = at(&open(&temp_dir), "m/f").unwrap();
    f.open_stream(&name("s"), true, true).unwrap();
    let (device, number) = (f.id().device, f.stat().unwrap().file_system);
    assert_ne!(device, number);
    // An earlier version had no record, and used the device number for the file system.
    std::fs::remove_file(beside.join("file-systems")).unwrap();
    let folders =
        std::fs::read_dir(&beside).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let folders: Vec<String> = folders.filter(|name| name.starts_with(&format!("{number:x}-"))).collect();
    let [folder] = &folders[..] else { panic!("{folders:?}") };
    let earlier = folder.replacen(&format!("{number:x}-"), &format!("{device:x}-"), 1);
    std::fs::rename(beside.join(folder), beside.join(earlier)).unwrap();
    for _ in 0..2 {
        let f = at(&open(&temp_dir), "m/f").unwrap();
        assert_eq!((f.stat().unwrap().file_system, f.streams().unwrap().len()), (device, 1));
    }
}

#[test]
fn a_share_on_fuse_stays_what_it_is() {
    let temp_dir = temp_dir();
    let from = temp_dir.path().join("from");
    std::fs::create_dir(&from).unwrap();
    std::fs::write(from.join("f"), "text").unwrap();
    let Some(mounted) = bindfs(&from, &files(&temp_dir)) else { return };
    let volume = open(&temp_dir);
    let (device, serial) = (volume.root().unwrap().id().device, volume.properties().serial);
    at(&volume, "f").unwrap().open_stream(&name("s"), true, true).unwrap();
    drop(volume);
    // The file system keeps its device number while it is in use, so the next one gets another.
    let _used = std::fs::File::open(files(&temp_dir).join("f")).unwrap();
    drop(mounted);
    let Some(_mounted) = bindfs(&from, &files(&temp_dir)) else { return };
    let volume = open(&temp_dir);
    assert_ne!(volume.root().unwrap().id().device, device);
    let f = at(&volume, "f").unwrap();
    assert_eq!((volume.properties().serial, f.streams().unwrap().len()), (serial, 1));
    // The stored handle of the file leads nowhere now, although the file exists.
    assert_eq!((volume.collect_orphans(9), f.streams().unwrap().len()), (Ok(0), 1));
}
