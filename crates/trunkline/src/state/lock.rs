//! The lock of a state directory. It admits one server at a time, and the next one as soon as a killed one
//! has released it.
//!
//! A process that is killed keeps its files and locks until the last of its threads has returned from the
//! disk. A restart right after that must not fail because of another server. So the lock's file contains the
//! id of the process that took it. [`take`] waits for a process that has ended or is about to end, and
//! reports a living server at once.
//!
//! A command takes the lock too when no server runs, for instance a backup. Others wait for it longer.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::owner;

/// The time to wait for a process that has ended.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time to wait for a command.
const COMMAND_PATIENCE: Duration = Duration::from_secs(30);

/// The time to wait for a holder that has not written its id yet.
const NAMELESS_PATIENCE: Duration = Duration::from_secs(1);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// The kind of process that holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockUse {
    Server,
    Command,
}

/// A process, identified in a way that does not match a later process with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: u32,
    /// The start time, in ticks since the host's boot.
    since: u64,
}

/// The other process that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockHolder {
    /// A server, or a process that is not known.
    Server,
    /// A command with this process id.
    Command(u32),
}

/// The longest times to wait for the present holder.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a process that has ended.
    pub ended: Duration,
    /// For a command.
    pub command: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { ended: PATIENCE, command: COMMAND_PATIENCE }
    }
}

/// The stage of a process's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Lives,
    /// It was killed, or has begun to end. It still holds its files.
    Ends,
    /// It holds no files any more.
    Gone,
}

/// Takes the lock `path`, and creates it if it is missing. Returns the holder if a living server holds it, or
/// if its process does not end within `patience`.
///
/// # Errors
/// The error of the host.
pub fn take(path: &Path, wanted: LockUse, patience: Patience) -> io::Result<Result<File, LockHolder>> {
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    owner::keep(&file, path.parent().unwrap_or(path))?;
    let begun = Instant::now();
    loop {
        let before = recorded(&file)?;
        let stage = before.map(|(process, _)| process.stage());
        let is_free = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => true,
            Err(rustix::io::Errno::WOULDBLOCK) => false,
            Err(e) => return Err(e.into()),
        };
        // The process releases its other files and its ports after the lock.
        if is_free && (stage != Some(Stage::Ends) || begun.elapsed() >= patience.ended) {
            record(&file, wanted)?;
            return Ok(Ok(file));
        }
        let (holder, longest) = match (before, stage) {
            (Some((process, LockUse::Command)), Some(Stage::Lives)) => {
                (LockHolder::Command(process.pid), patience.command)
            }
            (Some(_), Some(Stage::Lives)) => (LockHolder::Server, Duration::ZERO),
            (None, _) => (LockHolder::Server, patience.ended.min(NAMELESS_PATIENCE)),
            (Some(_), _) => (LockHolder::Server, patience.ended),
        };
        if !is_free && begun.elapsed() >= longest {
            return Ok(Err(holder));
        }
        std::thread::sleep(PAUSE);
    }
}

/// The process that took the lock last.
fn recorded(file: &File) -> io::Result<Option<(Process, LockUse)>> {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text[..length]);
    let mut words = text.split_whitespace();
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let (Some(pid), Some(since)) = (number(), number()) else { return Ok(None) };
    // Earlier programs wrote no use.
    let lock_use = if words.next() == Some(COMMAND) { LockUse::Command } else { LockUse::Server };
    Ok(u32::try_from(pid).ok().map(|pid| (Process { pid, since }, lock_use)))
}

/// The word of a command in the lock's file.
const COMMAND: &str = "command";

/// Writes the id of this process to the lock's file.
fn record(file: &File, lock_use: LockUse) -> io::Result<()> {
    let pid = std::process::id();
    let Some(thread) = Thread::read(Path::new("/proc/self/stat")) else { return file.set_len(0) };
    let word = if lock_use == LockUse::Command { COMMAND } else { "server" };
    let text = format!("{pid} {} {word}\n", thread.since);
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)
}

/// The state of a thread, from the host.
struct Thread {
    state: char,
    flags: u32,
    since: u64,
}

/// The kernel's flags of a thread that is ending, or that was ended by a signal.
const EXITING: u32 = 0x4;
const SIGNALED: u32 = 0x400;
const SIGKILL: u32 = 9;

impl Thread {
    /// Reads a `stat` file of /proc. None if there is no such thread.
    fn read(stat: &Path) -> Option<Thread> {
        let text = fs::read_to_string(stat).ok()?;
        // The name, in parentheses, may contain anything.
        let mut words = text.rsplit_once(')')?.1.split_whitespace();
        let state = words.next()?.chars().next()?;
        let flags = words.nth(5)?.parse().ok()?;
        let since = words.nth(12)?.parse().ok()?;
        Some(Thread { state, flags, since })
    }

    /// Whether only the exit status of the thread is left.
    fn is_over(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Whether SIGKILL is pending for the thread with this `status` file of /proc.
fn is_killed(status: &Path) -> bool {
    let text = fs::read_to_string(status).unwrap_or_default();
    let masks = text.lines().filter_map(|line| line.strip_prefix("SigPnd:").or(line.strip_prefix("ShdPnd:")));
    let mut masks = masks.filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    masks.any(|mask| mask & 1 << (SIGKILL - 1) != 0)
}

impl Process {
    fn stage(self) -> Stage {
        self.stage_in(&Path::new("/proc").join(self.pid.to_string()))
    }

    /// The stage according to the process's directory in /proc.
    fn stage_in(self, dir: &Path) -> Stage {
        match Thread::read(&dir.join("stat")) {
            Some(first) if first.since == self.since => {}
            _ => return Stage::Gone,
        }
        let Ok(threads) = fs::read_dir(dir.join("task")) else { return Stage::Gone };
        let mut stage = Stage::Gone;
        let mut is_ending = false;
        for thread in threads.flatten().map(|entry| entry.path()) {
            let Some(seen) = Thread::read(&thread.join("stat")) else { continue };
            if seen.is_over() {
                continue;
            }
            stage = Stage::Lives;
            is_ending |= seen.flags & (EXITING | SIGNALED) != 0 || is_killed(&thread.join("status"));
        }
        if stage == Stage::Lives && is_ending { Stage::Ends } else { stage }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Much longer than any step of these tests.
    const LONG: Duration = Duration::from_secs(60);

    struct LockDir(tempfile::TempDir);

    impl LockDir {
        fn new() -> LockDir {
            LockDir(tempfile::tempdir().unwrap())
        }

        fn take(&self, ended: Duration) -> Option<File> {
            self.take_as(LockUse::Server, Patience { ended, command: LONG }).ok()
        }

        fn take_as(&self, lock_use: LockUse, patience: Patience) -> Result<File, LockHolder> {
            take(&self.0.path().join("lock"), lock_use, patience).unwrap()
        }

        fn content(&self) -> String {
            fs::read_to_string(self.0.path().join("lock")).unwrap()
        }

        /// Writes another process as the holder.
        fn name(&self, pid: u32, since: u64) {
            fs::write(self.0.path().join("lock"), format!("{pid} {since}\n")).unwrap();
        }
    }

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap()
    }

    fn of(pid: u32) -> Process {
        let since = Thread::read(&Path::new("/proc").join(pid.to_string()).join("stat")).unwrap().since;
        Process { pid, since }
    }

    #[test]
    fn a_process_lives_until_it_is_killed_and_is_not_mistaken_for_a_later_one() {
        let mut child = sleeper();
        let process = of(child.id());
        assert_eq!(process.stage(), Stage::Lives);
        assert_eq!(Process { since: process.since + 1, ..process }.stage(), Stage::Gone);
        child.kill().unwrap();
        // The process has not been waited for, so it stays in the list of processes.
        let until = Instant::now() + LONG;
        while process.stage() != Stage::Gone {
            assert!(Instant::now() < until);
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(process.stage(), Stage::Gone);
    }

    /// Writes the files of /proc about a thread of a process that started at 77.
    fn thread(dir: &Path, tid: u32, state: char, flags: u32, pending: u64) {
        let dir = dir.join("task").join(tid.to_string());
        fs::create_dir_all(&dir).unwrap();
        let stat = format!("{tid} (a) b) S) {state} 1 7 7 0 -1 {flags} 1 0 0 0 5 5 0 0 20 0 3 0 77 1000 20");
        fs::write(dir.join("stat"), stat).unwrap();
        fs::write(dir.join("status"), format!("SigPnd:\t{pending:016x}\nShdPnd:\t{:016x}\n", 0)).unwrap();
    }

    #[test]
    fn a_process_ends_from_its_death_to_that_of_its_last_thread() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, process) = (dir.path(), Process { pid: 7, since: 77 });
        let stage = || {
            fs::copy(dir.join("task/7/stat"), dir.join("stat")).unwrap();
            process.stage_in(dir)
        };
        // The flags of an ordinary process.
        const USUAL: u32 = 0x0040_0000;
        thread(dir, 7, 'S', USUAL, 0);
        thread(dir, 8, 'D', USUAL, 1 << 14);
        assert_eq!(stage(), Stage::Lives);
        thread(dir, 8, 'D', USUAL, 1 << 8);
        assert_eq!(stage(), Stage::Ends);
        thread(dir, 8, 'D', USUAL, 0);
        thread(dir, 7, 'R', USUAL | 0x404, 0);
        assert_eq!(stage(), Stage::Ends);
        // The first thread has ended, and another waits for the disk.
        thread(dir, 7, 'Z', USUAL | 0x40c, 0);
        thread(dir, 8, 'D', USUAL, 1 << 8);
        assert_eq!(stage(), Stage::Ends);
        thread(dir, 8, 'X', USUAL | 0x404, 0);
        assert_eq!(stage(), Stage::Gone);
    }

    #[test]
    fn one_that_lives_is_told_of_at_once() {
        let lock_dir = LockDir::new();
        let held = lock_dir.take(LONG).unwrap();
        assert_eq!(lock_dir.content().split_whitespace().next().unwrap(), std::process::id().to_string());
        let began = Instant::now();
        assert!(lock_dir.take(LONG).is_none());
        // A holder that has not written its id yet is about to do so.
        held.set_len(0).unwrap();
        assert!(lock_dir.take(LONG).is_none());
        assert!(began.elapsed() < LONG / 2);
    }

    #[test]
    fn a_command_is_waited_for_and_named() {
        let lock_dir = LockDir::new();
        let patience = |command| Patience { ended: LONG, command };
        let held = lock_dir.take_as(LockUse::Command, patience(LONG)).unwrap();
        let refused = lock_dir.take_as(LockUse::Server, patience(PAUSE)).unwrap_err();
        assert_eq!(refused, LockHolder::Command(std::process::id()));
        let waits = std::thread::scope(|scope| {
            let next = scope.spawn(|| lock_dir.take_as(LockUse::Server, patience(LONG)));
            drop(held);
            next.join().unwrap()
        });
        assert!(waits.is_ok());
        assert_eq!(lock_dir.take_as(LockUse::Command, patience(LONG)).unwrap_err(), LockHolder::Server);
    }

    #[test]
    fn one_that_has_ended_is_waited_for_and_not_for_ever() {
        let lock_dir = LockDir::new();
        let held = lock_dir.take(LONG).unwrap();
        let mut child = sleeper();
        let process = of(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        lock_dir.name(process.pid, process.since);
        assert!(lock_dir.take(PAUSE).is_none());
        // The lock is released while the next process waits.
        let waits = std::thread::scope(|scope| {
            let next = scope.spawn(|| lock_dir.take(LONG));
            drop(held);
            next.join().unwrap()
        });
        assert!(waits.is_some());
        assert_eq!(lock_dir.content().split_whitespace().next().unwrap(), std::process::id().to_string());
    }
}
