//! Operations on behalf of users, by a volume that runs as root. Without that privilege each test reports
//! that it is skipped.

mod common;

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use common::{file, files, found, fresh, name, open, others};
use volume::{Actor, Failure, NodeKind, Note, OpenHow, Volume};

/// Returns false, and reports that the test is skipped, unless the tests run as root.
fn as_root() -> bool {
    if !common::is_root() {
        common::skipped("needs root");
    }
    common::is_root()
}

fn actor(uid: u32, gid: u32, groups: &[u32]) -> Actor {
    Actor { uid, gid, groups: groups.to_vec() }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_an_actor_makes_is_theirs() {
    if !as_root() {
        return;
    }
    let (volume, temp_dir) = fresh();
    mode(&files(&temp_dir), 0o777);
    let root = volume.root().unwrap();
    let them = actor(12345, 23456, &[34567]);
    root.create_file(&name("f"), 0o640, Some(&them)).unwrap();
    root.create_directory(&name("d"), 0o700, Some(&them)).unwrap();
    root.create_link(&name("l"), b"f", Some(&them)).unwrap();
    for text in ["f", "d", "l"] {
        let seen = std::fs::symlink_metadata(files(&temp_dir).join(text)).unwrap();
        assert_eq!((seen.uid(), seen.gid()), (12345, 23456), "{text}");
    }
    // Afterwards the thread has its own credentials again.
    let own = file(&volume, "own").stat().unwrap();
    assert_eq!((own.uid, own.gid), (0, 0));
    assert!(found(&volume, "d").unwrap().create_file(&name("x"), 0o600, None).is_ok());
}

#[test]
fn the_hosts_rules_hold_for_an_actor() {
    if !as_root() {
        return;
    }
    let (volume, temp_dir) = fresh();
    let root = volume.root().unwrap();
    let (alice, bob) = (actor(12345, 12345, &[]), actor(12346, 12346, &[777]));
    mode(&files(&temp_dir), 0o755);
    assert_eq!(root.create_file(&name("x"), 0o600, Some(&alice)).err(), Some(Failure::Denied));
    assert_eq!(root.create_directory(&name("x"), 0o700, Some(&alice)).err(), Some(Failure::Denied));
    file(&volume, "f");
    assert_eq!(root.remove(&name("f"), false, Some(&alice)), Err(Failure::Denied));
    let f = found(&volume, "f").unwrap();
    assert_eq!(root.rename(&name("f"), &*root, &name("g"), false, Some(&alice)), Err(Failure::Denied));
    assert_eq!(root.add_name(&name("g"), &*f, Some(&alice)), Err(Failure::Denied));
    // A supplementary group opens files that the primary group does not.
    let shared = files(&temp_dir).join("shared");
    std::fs::create_dir(&shared).unwrap();
    chown(&shared, Some(0), Some(777)).unwrap();
    mode(&shared, 0o770);
    let shared = found(&volume, "shared").unwrap();
    assert_eq!(shared.create_file(&name("a"), 0o600, Some(&alice)).err(), Some(Failure::Denied));
    shared.create_file(&name("b"), 0o600, Some(&bob)).unwrap();
    // In a sticky directory nobody can remove the files of another user.
    let sticky = files(&temp_dir).join("sticky");
    std::fs::create_dir(&sticky).unwrap();
    mode(&sticky, 0o1777);
    let sticky = found(&volume, "sticky").unwrap();
    sticky.create_file(&name("a"), 0o600, Some(&alice)).unwrap();
    assert_eq!(sticky.check_removal(&name("a"), Some(&bob)), Err(Failure::Denied));
    assert_eq!(sticky.remove(&name("a"), false, Some(&bob)), Err(Failure::Denied));
    for permitted in [Some(&alice), None] {
        assert_eq!(sticky.check_removal(&name("a"), permitted), Ok(()));
    }
    // The owner of the directory can remove everybody's files.
    chown(files(&temp_dir).join("sticky"), Some(bob.uid), None).unwrap();
    assert_eq!(sticky.check_removal(&name("a"), Some(&bob)), Ok(()));
    assert_eq!(sticky.check_removal(&name("nothing"), Some(&bob)), Ok(()));
    assert_eq!(root.check_removal(&name("f"), Some(&alice)), Err(Failure::Denied));
    assert_eq!(shared.check_removal(&name("b"), Some(&alice)), Err(Failure::Denied));
    assert_eq!(shared.check_removal(&name("b"), Some(&bob)), Ok(()));
    sticky.remove(&name("a"), false, Some(&alice)).unwrap();
    // Root stays root in all cases.
    shared.remove(&name("b"), false, None).unwrap();
}

#[test]
fn threads_act_for_different_people_at_once() {
    if !as_root() {
        return;
    }
    let (volume, temp_dir) = fresh();
    mode(&files(&temp_dir), 0o777);
    std::thread::scope(|scope| {
        for person in 0..4_u32 {
            let root = volume.root().unwrap();
            scope.spawn(move || {
                let them = actor(20_000 + person, 30_000 + person, &[]);
                for number in 0..200 {
                    let text = name(&format!("{person}-{number}"));
                    let stat = root.create_file(&text, 0o600, Some(&them)).unwrap().stat().unwrap();
                    assert_eq!((stat.uid, stat.gid), (them.uid, them.gid));
                    let own =
                        root.create_file(&name(&format!("own-{person}-{number}")), 0o600, None).unwrap();
                    assert_eq!(own.stat().unwrap().uid, 0);
                }
            });
        }
    });
}

#[test]
fn a_files_owner_cannot_forge_a_note() {
    if !as_root() {
        return;
    }
    let (volume, temp_dir) = fresh();
    let f = file(&volume, "f");
    let path = files(&temp_dir).join("f");
    rustix::fs::setxattr(&path, "user.trunkline.descriptor", b"forged", rustix::fs::XattrFlags::empty())
        .unwrap();
    assert_eq!(f.note(Note::Descriptor), Ok(None));
    assert_eq!(f.attributes(), Ok(vec![]));
    assert_eq!(f.set_attribute(b"trunkline.descriptor", Some(b"forged")), Err(Failure::Denied));
    f.set_note(Note::Descriptor, Some(b"real")).unwrap();
    let mut seen = [0; 16];
    let len = rustix::fs::getxattr(&path, "trusted.trunkline.descriptor", &mut seen[..]).unwrap();
    assert_eq!(&seen[..len], b"real");
}

#[test]
fn what_others_removed_is_collected_in_steps() {
    if !as_root() {
        return;
    }
    let (volume, temp_dir) = fresh();
    for number in 0..10 {
        file(&volume, &format!("{number}")).open_stream(&name("s"), true, true).unwrap();
    }
    others(&files(&temp_dir), "rm 1 3 5 7 9; ln 0 another; rm 0");
    let volume = open(&temp_dir);
    let mut removed = 0;
    for _ in 0..4 {
        removed += volume.collect_orphans(3).unwrap();
    }
    assert_eq!(removed, 5);
    assert_eq!(std::fs::read_dir(temp_dir.path().join("beside")).unwrap().count(), 5);
    assert_eq!(found(&volume, "another").unwrap().streams().unwrap().len(), 1);
    assert_eq!((0..9).map(|_| volume.collect_orphans(3).unwrap()).sum::<usize>(), 0);
}

#[test]
fn a_device_is_seen_but_never_opened() {
    if !as_root() {
        return;
    }
    let (volume, temp_dir) = fresh();
    let made = Command::new("mknod").arg(files(&temp_dir).join("zero")).args(["c", "1", "5"]).status();
    if !made.is_ok_and(|s| s.success()) {
        common::skipped("no device can be made here");
        return;
    }
    let node = volume.root().unwrap().lookup(&name("zero"), OpenHow::ReadWrite).unwrap();
    assert_eq!((node.kind(), node.how()), (NodeKind::CharDevice, OpenHow::Attributes));
    assert_eq!(node.stat().unwrap().rdev, 1 << 32 | 5);
    assert_eq!(node.open_again(OpenHow::Read).unwrap().how(), OpenHow::Attributes);
}

/// A file system in memory. It is unmounted when it is dropped.
struct TmpfsMount(std::path::PathBuf);

impl TmpfsMount {
    fn new(kind: &str, options: &str, at: &Path) -> Option<TmpfsMount> {
        let done = Command::new("mount").args(["-t", kind, "-o", options, "trunkline-test"]).arg(at).status();
        if done.is_ok_and(|s| s.success()) {
            return Some(TmpfsMount(at.to_owned()));
        }
        common::skipped("nothing can be mounted here");
        None
    }
}

impl TmpfsMount {
    /// The same file system at a second place, mounted read-only.
    fn again_read_only(&self, at: &Path) -> Option<TmpfsMount> {
        let mount = |options: &str| {
            let done = Command::new("mount").args(["-o", options]).arg(&self.0).arg(at).status();
            done.is_ok_and(|s| s.success())
        };
        if mount("bind") && mount("remount,bind,ro") {
            return Some(TmpfsMount(at.to_owned()));
        }
        common::skipped("nothing can be mounted read-only here");
        None
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_and_a_read_only_file_system() {
    if !as_root() {
        return;
    }
    let temp_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(files(&temp_dir)).unwrap();
    let Some(mounted) = TmpfsMount::new("tmpfs", "size=256k", &files(&temp_dir)) else { return };
    let volume = open(&temp_dir);
    assert_eq!(volume.properties().file_system, "tmpfs");
    let f = file(&volume, "f");
    assert_eq!(f.write(0, &vec![1; 1 << 20]), Err(Failure::NoSpace));
    assert_eq!(f.allocate(0..1 << 20), Err(Failure::NoSpace));
    assert!(volume.space().unwrap().total <= 256 * 1024);
    // The sidecar has space for a note when the file system is full.
    f.set_note(Note::Descriptor, Some(&[3; 100_000])).unwrap();
    assert_eq!(f.note(Note::Descriptor).unwrap(), Some(vec![3; 100_000]));
    // The same file system once more, mounted read-only.
    let second = tempfile::tempdir().unwrap();
    std::fs::create_dir(files(&second)).unwrap();
    let Some(_second) = mounted.again_read_only(&files(&second)) else { return };
    let volume = open(&second);
    assert!(volume.properties().read_only);
    let root = volume.root().unwrap();
    assert_eq!(root.create_file(&name("x"), 0o600, None).err(), Some(Failure::ReadOnly));
    assert_eq!(root.lookup(&name("f"), OpenHow::ReadWrite).err(), Some(Failure::ReadOnly));
    assert_eq!(root.remove(&name("f"), false, None), Err(Failure::ReadOnly));
    assert!(root.lookup(&name("f"), OpenHow::Read).is_ok());
}

#[test]
fn a_file_system_without_attributes_and_birth_times() {
    if !as_root() {
        return;
    }
    let temp_dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(files(&temp_dir)).unwrap();
    let Some(_mounted) = TmpfsMount::new("ramfs", "mode=0755", &files(&temp_dir)) else { return };
    let volume = open(&temp_dir);
    let facts = volume.properties();
    assert_eq!((facts.file_system.as_str(), facts.extended_attributes), ("ramfs", false));
    let root = volume.root().unwrap();
    let f = file(&volume, "f");
    assert_eq!(f.stat().unwrap().born, None);
    assert_eq!((f.attributes(), f.note(Note::Attributes)), (Ok(vec![]), Ok(None)));
    assert_eq!(f.set_attribute(b"a", Some(b"b")), Err(Failure::NotSupported));
    // Notes and streams are kept nevertheless, and are removed with the file.
    f.set_note(Note::Attributes, Some(b"beside")).unwrap();
    f.open_stream(&name("s"), true, true).unwrap().write(0, b"stream").unwrap();
    let volume = open(&temp_dir);
    let again = found(&volume, "f").unwrap();
    assert_eq!(again.note(Note::Attributes).unwrap().as_deref(), Some(&b"beside"[..]));
    assert_eq!(again.streams().unwrap().len(), 1);
    again.set_note(Note::Attributes, None).unwrap();
    assert_eq!(again.note(Note::Attributes), Ok(None));
    volume.root().unwrap().remove(&name("f"), false, None).unwrap();
    // Only the number of the file system remains, because the file system has none of its own.
    let left =
        std::fs::read_dir(temp_dir.path().join("beside")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["file-systems"]);
    assert!(root.stat_name(&name("f")).is_err());
}
