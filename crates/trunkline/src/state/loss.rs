//! Notices that this server no longer owns its state directory.
//!
//! On storage that several machines reach, another machine may have taken over: its administrator or a
//! cluster manager has cut this host off from the storage and started a server there. This server must not
//! reply to anybody then. [`watch`] looks once a second, and ends the process at once.
//!
//! The host says so in one of three ways: the file system refuses every call, the directory has another file
//! `lock`, or a write does not reach the storage. A write is tried only on storage that other hosts can
//! reach, so that a local disk may sleep.
//!
//! Storage may also hang without an error. A single server waits for it, as its clients do. A node of a
//! virtual server ends when a look has had no answer for long, so that another node goes on.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::StateDir;
use crate::config::os_error;

/// The time between two looks.
const EVERY: Duration = Duration::from_secs(1);

/// The host's errors for a file system that is gone, or that refuses this host. NOENT is the one of ceph-fuse
/// about an open file, once Ceph has its client on the blocklist.
const LOSSES: [Errno; 7] =
    [Errno::SHUTDOWN, Errno::NOTCONN, Errno::STALE, Errno::NODEV, Errno::NXIO, Errno::IO, Errno::NOENT];

/// The exit status of a server that has lost its state directory.
pub const LOST: i32 = 1;

/// The lock of a state directory, and how to see that it is lost.
struct HeldLock {
    path: PathBuf,
    file: File,
    /// Whether other hosts can reach the storage.
    is_far: bool,
    /// Whether a refusal means that the storage has shut this host out.
    refuses_when_lost: bool,
}

impl HeldLock {
    fn of(state: &StateDir) -> io::Result<HeldLock> {
        let file = state.lock.try_clone()?;
        let (is_far, refuses_when_lost) =
            (volume_posix::is_far(&file)?, volume_posix::is_kernel_ceph(&file)?);
        Ok(HeldLock { path: state.path().join("lock"), file, is_far, refuses_when_lost })
    }

    /// The reason why the directory is lost; none while it is held.
    fn lost(&self) -> Option<String> {
        let looked = self.is_in_place().and_then(|is_in_place| match is_in_place {
            true if self.is_far => self.write().map(|()| true),
            is_in_place => Ok(is_in_place),
        });
        match looked {
            Ok(true) => None,
            Ok(false) => Some(format!("{} was removed, or is another file now", self.path.display())),
            Err(error) if is_loss(&error) || self.refuses_when_lost && is_refusal(&error) => {
                Some(format!("{}: {}", self.path.display(), os_error(&error)))
            }
            // A full or slow disk is not a lost one.
            Err(_) => None,
        }
    }

    /// Whether the file `lock` of the directory is still the locked one.
    fn is_in_place(&self) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) => Ok((found.dev(), found.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes the first byte of the lock's file again, to stable storage.
    fn write(&self) -> io::Result<()> {
        let mut first = [0];
        self.file.read_exact_at(&mut first, 0)?;
        self.file.write_all_at(&first, 0)?;
        self.file.sync_data()
    }
}

fn is_loss(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| LOSSES.contains(&errno))
}

/// Whether the storage refuses this host what its owner may do. Linux's client of Ceph does so for
/// everything, once Ceph has it on the blocklist. On other storage a new mode of a directory above does so.
fn is_refusal(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::ACCESS)
}

/// Watches from now on that this process owns `state`. If it does not, `end` is called with the reason. With
/// `silence`, the state directory is one that other nodes reach, and `end` is also called when it has not
/// answered for so long.
///
/// # Errors
/// The host's: it has no more descriptors or threads.
pub fn watch(
    state: &StateDir,
    silence: Option<Duration>,
    end: impl FnOnce(&Path, &str) + Send + 'static,
) -> io::Result<()> {
    let (mut held, dir) = (HeldLock::of(state)?, state.path().to_path_buf());
    // A disk that another node mounts later is local to each of them.
    held.is_far |= silence.is_some();
    let (sender, looks) = channel();
    thread::Builder::new().name("state".into()).spawn(move || {
        loop {
            thread::sleep(EVERY);
            let lost = held.lost();
            let is_lost = lost.is_some();
            if sender.send(lost).is_err() || is_lost {
                return;
            }
        }
    })?;
    thread::Builder::new()
        .name("state watch".into())
        .spawn(move || end(&dir, &first_loss(&looks, EVERY, silence)))?;
    Ok(())
}

/// Waits for the first of these looks that has found a loss. With `silence`, waits no longer for a look than
/// that. The time is counted in steps, so that a pause of this process is one step of silence.
fn first_loss(looks: &Receiver<Option<String>>, step: Duration, silence: Option<Duration>) -> String {
    let mut silent = Duration::ZERO;
    loop {
        let look = match silence {
            Some(_) => looks.recv_timeout(step),
            None => looks.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match look {
            Ok(None) => silent = Duration::ZERO,
            Ok(Some(why)) => return why,
            Err(RecvTimeoutError::Timeout) => silent += step,
            Err(RecvTimeoutError::Disconnected) => return "the look at it has failed".to_owned(),
        }
        if silence.is_some_and(|most| silent >= most) {
            return format!(
                "its storage has not answered for {} s (`storage_timeout_s` in [node])",
                silent.as_secs()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_was_removed_or_replaced_is_a_loss() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let state = StateDir::open(&path).unwrap();
        let mut held = HeldLock::of(&state).unwrap();
        held.is_far = true;
        let content = fs::read(path.join("lock")).unwrap();
        assert_eq!(held.lost(), None);
        assert_eq!(fs::read(path.join("lock")).unwrap(), content);
        fs::rename(path.join("lock"), path.join("aside")).unwrap();
        assert!(held.lost().unwrap().contains("lock was removed"));
        fs::write(path.join("lock"), &content).unwrap();
        assert!(held.lost().unwrap().contains("another file now"));
        fs::rename(path.join("aside"), path.join("lock")).unwrap();
        assert_eq!(held.lost(), None);
    }

    #[test]
    fn a_full_disk_is_not_lost_and_one_that_is_cut_off_is() {
        let error = |errno: Errno| io::Error::from(errno);
        assert!(
            [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::INTR].map(error).iter().all(|e| !is_loss(e))
        );
        assert!([Errno::SHUTDOWN, Errno::NOTCONN, Errno::STALE, Errno::NOENT].map(error).iter().all(is_loss));
        assert!(is_refusal(&error(Errno::ACCESS)) && !is_loss(&error(Errno::ACCESS)));
    }

    #[test]
    fn storage_that_is_silent_for_too_long_is_lost_and_one_that_is_slow_is_not() {
        let (sender, looks) = channel();
        let step = Duration::from_nanos(1);
        for look in [None, None, Some("it was removed".to_owned())] {
            sender.send(look).unwrap();
        }
        assert_eq!(first_loss(&looks, step, Some(2 * step)), "it was removed");
        // Two steps of silence after the last look.
        sender.send(None).unwrap();
        let why = first_loss(&looks, step, Some(2 * step));
        assert!(why.contains("has not answered") && looks.try_recv().is_err(), "{why}");
        drop(sender);
        assert!(first_loss(&looks, step, None).contains("has failed"));
    }
}
