//! A stream to a file system that is really full, and to a directory that is gone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::{LineFile, Rotation};
use super::{LineStream, Losses};

/// A tmpfs of 64 KiB, unmounted when it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// None without the right to mount.
    fn mount() -> Option<SmallDisk> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: a file system is mounted by root alone");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "small"]).arg(dir.path()).output();
        match mount {
            Ok(done) if done.status.success() => Some(SmallDisk(dir)),
            other => {
                eprintln!("skipped: this host mounts no tmpfs: {other:?}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn tell(lost: &Losses, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("lost {}\n", lost.count).as_bytes());
}

fn start(path: &Path, room: usize) -> Arc<LineStream> {
    let file = LineFile::open(path, Rotation { max_bytes: 1 << 30, max_age: None, keep: 1 }).unwrap();
    LineStream::start("test", Box::new(file), room, Some(tell)).unwrap()
}

/// Whole lines by number in their order, and the sum of those that were told as lost.
fn read(path: &Path) -> (Vec<u32>, u64) {
    let (mut numbers, mut lost) = (Vec::new(), 0);
    for line in std::fs::read_to_string(path).unwrap().lines() {
        match line.strip_prefix("lost ") {
            Some(count) => lost += count.parse::<u64>().unwrap(),
            None => {
                let (number, rest) = line.split_once(' ').unwrap_or_else(|| panic!("half a line: {line}"));
                assert_eq!(rest, "x".repeat(290), "half a line");
                numbers.push(number.parse().unwrap());
            }
        }
    }
    (numbers, lost)
}

fn line(number: u32) -> String {
    format!("{number:04} {}\n", "x".repeat(290))
}

#[test]
fn a_full_disk_costs_no_half_line_and_what_is_lost_is_counted() {
    let Some(disk) = SmallDisk::mount() else { return };
    let (path, filler) = (disk.path("stream"), disk.path("filler"));
    std::fs::write(&filler, vec![0; 40 << 10]).unwrap();
    let stream = start(&path, 20 << 10);
    let mut put = 0;
    let end = Instant::now() + Duration::from_secs(20);
    // Some lines find room on the disk and some in memory, and the rest is lost.
    while stream.lost() < 50 {
        assert!(Instant::now() < end, "the disk never fills");
        stream.put(line(put).as_bytes());
        put += 1;
        if put % 20 == 0 {
            std::thread::sleep(Duration::from_millis(60));
        }
    }
    assert!(stream.is_failing());
    std::fs::remove_file(&filler).unwrap();
    until("it goes on once there is room", || !stream.is_failing());
    // The memory may still be full of earlier lines.
    until("there is room for another line", || {
        let lost = stream.lost();
        stream.put(line(put).as_bytes());
        put += 1;
        stream.lost() == lost
    });
    put -= 1;
    stream.stop();
    let (numbers, told) = read(&path);
    assert_eq!(numbers.last(), Some(&put), "it goes on");
    assert!(numbers.is_sorted());
    assert_eq!(numbers.len() as u64 + stream.lost(), u64::from(put) + 1, "each line is there or counted");
    assert_eq!(told, stream.lost());
}

#[test]
fn a_directory_that_is_gone_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let (log, path) = (dir.path().join("log"), dir.path().join("log/stream"));
    std::fs::create_dir(&log).unwrap();
    let stream = start(&path, 1 << 20);
    stream.put(line(0).as_bytes());
    until("it is written", || stream.written() == 1);
    std::fs::rename(&log, dir.path().join("moved")).unwrap();
    stream.put(line(1).as_bytes());
    until("the failure is seen", || stream.is_failing());
    std::fs::create_dir(&log).unwrap();
    until("it goes on", || stream.written() == 2);
    stream.stop();
    assert_eq!((read(&path), stream.lost()), ((vec![1], 0), 0));
    assert_eq!(read(&dir.path().join("moved/stream")), (vec![0], 0));
}
