//! Volumes that share a group which nobody else uses. No thread reads it but those of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use volume::{HostChange, HostEvent, Name, Node};

use super::*;
use crate::PosixVolume;

/// A directory with its own events.
struct WatchedRoot {
    files: PathBuf,
    volume: PosixVolume,
    events: Events,
}

impl WatchedRoot {
    /// Watches the directory `files` below `temp_dir`.
    fn open(group: &Arc<EventGroup>, temp_dir: &TempDir, files: &str) -> WatchedRoot {
        let (files, beside) = (temp_dir.path().join(files), temp_dir.path().join("beside"));
        std::fs::create_dir_all(&files).unwrap();
        let volume = PosixVolume::open(&files, &beside).unwrap();
        let (id, root) = (volume.root.id(), volume.shared.root.fd.as_fd());
        let scope = GroupScope::Device(id.device);
        let of = (id, &Fid::of(root).unwrap());
        let events = Events::start_in(Arc::clone(group), scope, root, of).unwrap();
        events.watch(&volume.root).unwrap();
        WatchedRoot { files, volume, events }
    }

    fn taken(&self) -> Vec<HostEvent> {
        let mut seen = Vec::new();
        self.events.take(&mut |event| seen.push(event));
        seen
    }

    fn made(&self, name: &str) -> HostEvent {
        let name = Some(Name::new(name.as_bytes()).unwrap());
        let change = HostChange::Created;
        HostEvent::Changed { directory: self.volume.root.id(), name, is_directory: true, change }
    }
}

/// A group, unless the host has none for this process.
fn group() -> Option<Arc<EventGroup>> {
    let temp_dir = tempfile::tempdir().unwrap();
    let volume = PosixVolume::open(temp_dir.path(), &temp_dir.path().join("beside")).unwrap();
    match volume.missing_events() {
        None => Some(Arc::new(EventGroup::open().unwrap())),
        Some(why) => {
            eprintln!("SKIPPED: {why}");
            None
        }
    }
}

/// The number of marks of a group.
fn marks(group: &EventGroup) -> usize {
    let path = format!("/proc/self/fdinfo/{}", std::os::fd::AsRawFd::as_raw_fd(&group.as_fd()));
    let info = std::fs::read_to_string(path).unwrap();
    info.lines().filter(|line| line.starts_with("fanotify ino:")).count()
}

fn others(directory: &Path, script: &str) {
    let done = Command::new("sh").args(["-ec", script]).current_dir(directory).status().unwrap();
    assert!(done.success(), "{script}");
}

#[test]
fn a_mark_goes_with_the_last_volume_that_watches_its_directory() {
    let (Some(group), temp_dir) = (group(), tempfile::tempdir().unwrap()) else { return };
    assert_eq!(marks(&group), 0);
    let [one, two] = [(); 2].map(|()| WatchedRoot::open(&group, &temp_dir, "files"));
    let other = WatchedRoot::open(&group, &temp_dir, "other");
    assert_eq!(marks(&group), 2);
    let file = std::fs::File::create(one.files.join("file")).unwrap();
    let of = (other.volume.root.id(), &Fid::of(file.as_fd()).unwrap());
    assert_eq!(group.mark(of, file.as_fd(), &other.events.inbox), Err(Errno::NOTDIR));
    others(&one.files, "mkdir a");
    assert_eq!((one.taken(), two.taken(), other.taken()), (vec![one.made("a")], vec![two.made("a")], vec![]));
    drop(one);
    assert_eq!(marks(&group), 2);
    others(&two.files, "mkdir b");
    assert_eq!(two.taken(), [two.made("b")]);
    drop(two);
    assert_eq!(marks(&group), 1);
    others(&other.files, "mkdir c");
    assert_eq!(other.taken(), [other.made("c")]);
    drop(other);
    assert_eq!(marks(&group), 0);
}

#[test]
fn an_overflow_of_the_queue_is_told_to_every_volume() {
    let (Some(group), temp_dir) = (group(), tempfile::tempdir().unwrap()) else { return };
    let limit = std::fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 50_000 {
        eprintln!("SKIPPED: the queue holds {limit} events");
        return;
    }
    let [busy, idle] = ["busy", "idle"].map(|files| WatchedRoot::open(&group, &temp_dir, files));
    others(&busy.files, &format!("seq {} | xargs mkdir", limit + 100));
    assert_eq!(idle.taken(), [HostEvent::Overflow]);
    assert!(busy.taken().contains(&HostEvent::Overflow));
    others(&idle.files, "mkdir a");
    assert_eq!((idle.taken(), busy.taken()), (vec![idle.made("a")], vec![]));
}

#[test]
fn a_volume_that_takes_nothing_loses_its_own_events_alone() {
    let (Some(group), temp_dir) = (group(), tempfile::tempdir().unwrap()) else { return };
    let [busy, idle] = ["busy", "idle"].map(|files| WatchedRoot::open(&group, &temp_dir, files));
    others(&idle.files, "mkdir a");
    // An event has the name, so these are more than its inbox takes.
    let (long, step) = ("x".repeat(200), 3000);
    for from in (0..=inbox::MOST_WAITING / long.len()).step_by(step) {
        others(&busy.files, &format!("seq -f {long}%.0f {from} {} | xargs mkdir", from + step - 1));
        // As the thread does that reads the queues.
        group.drain();
    }
    assert_eq!(busy.taken()[0], HostEvent::Overflow);
    assert_eq!(idle.taken(), [idle.made("a")]);
}
