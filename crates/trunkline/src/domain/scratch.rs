//! A directory of its own for files that nobody else may read or foresee, such as tickets.
//!
//! It is removed with the value, and by SIGINT, SIGTERM and SIGHUP. The next program removes the one of a
//! program that was killed. The owner has it locked, and the host ends the lock with the owner.

use std::fs::{DirBuilder, File, Metadata};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::process::geteuid;
use tokio::signal::unix::{SignalKind, signal};

use super::membership::MembershipError;
use crate::state::store::random;

/// The beginning of each name.
const PREFIX: &str = "trunkline-domain-";
/// The number of names that are tried. One that another program has is as good as impossible.
const MOST_NAMES: usize = 8;

/// The directories of this process, which a signal removes.
static OWN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A directory that its owner alone may use.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    /// Its lock tells that the owner lives.
    _lock: File,
}

impl ScratchDir {
    /// Makes a directory with a random name in `above`, and removes those that killed programs have left
    /// there.
    ///
    /// # Errors
    /// The host's, with the path that was tried.
    pub fn new(above: &Path) -> Result<ScratchDir, MembershipError> {
        remove_left(above);
        listen();
        let mut last = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        let mut path = above.to_owned();
        for _ in 0..MOST_NAMES {
            let failed = |path: &Path, error| MembershipError::Host(path.to_owned(), error);
            let random = random::<8>().map_err(|why| failed(&path, std::io::Error::other(why)))?;
            path = above.join(format!("{PREFIX}{:016x}", u64::from_be_bytes(random)));
            let mut own = OWN.lock();
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => own.push(path.clone()),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(failed(&path, error)),
            }
            drop(own);
            // Another program may have taken it for a left one before the lock.
            match locked(&path) {
                Ok(lock) => return Ok(ScratchDir { path, _lock: lock }),
                Err(error) => last = error,
            }
            let _ = std::fs::remove_dir(&path);
        }
        Err(MembershipError::Host(path, last))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        // What is left are files of a temporary directory.
        let _ = std::fs::remove_dir_all(&self.path);
        OWN.lock().retain(|own| *own != self.path);
    }
}

/// Locks a directory that is this user's own. The lock ends with the file.
fn locked(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty())?);
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let (own, there) = (file.metadata()?, path.symlink_metadata()?);
    let of = |file: &Metadata| (file.dev(), file.ino(), file.uid());
    match of(&own) == of(&there) && own.uid() == geteuid().as_raw() {
        true => Ok(file),
        false => Err(std::io::ErrorKind::NotFound.into()),
    }
}

/// Removes directories of this user whose owners are gone.
fn remove_left(above: &Path) {
    let Ok(entries) = std::fs::read_dir(above) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_scratch = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        // It is somebody else's, or in use, if it cannot be locked.
        if is_scratch && let Ok(_lock) = locked(&path) {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

/// Lets SIGINT, SIGTERM and SIGHUP remove the directories of this process before they end it.
fn listen() {
    static THREAD: OnceLock<()> = OnceLock::new();
    // Without a thread to spare the next run removes what a signal leaves.
    THREAD.get_or_init(|| drop(std::thread::Builder::new().name("signals".to_owned()).spawn(wait)));
}

/// The signals that this process was told to ignore when it began, as `nohup` does. Bit 0 is signal 1.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Waits for a signal, which ends the process.
fn wait() {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    let ignored = ignored();
    runtime.block_on(async {
        let (ended, mut end) = tokio::sync::mpsc::unbounded_channel();
        for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()] {
            let number = kind.as_raw_value();
            if ignored & (1 << (number - 1)) != 0 {
                continue;
            }
            let (Ok(mut signal), ended) = (signal(kind), ended.clone()) else { continue };
            // The task lives as long as the runtime.
            drop(tokio::task::spawn(async move {
                signal.recv().await;
                let _ = ended.send(number);
            }));
        }
        drop(ended);
        let Some(number) = end.recv().await else { return };
        // Nobody makes another one until the end.
        let own = OWN.lock();
        own.iter().for_each(|own| drop(std::fs::remove_dir_all(own)));
        kerberos::skip_destructors_at_exit();
        // As a shell tells the end by a signal.
        std::process::exit(128 + number);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(above: &Path) -> Vec<String> {
        let names = above.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_name_is_random_and_what_is_left_goes() {
        let above = tempfile::tempdir().unwrap();
        let (one, other) = (ScratchDir::new(above.path()).unwrap(), ScratchDir::new(above.path()).unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(one.path().metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::write(one.path().join("cache"), "a ticket").unwrap();
        let left = above.path().join("trunkline-domain-7");
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("cache"), "a ticket").unwrap();
        std::fs::create_dir(above.path().join("trunkline")).unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::fs::write(elsewhere.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), above.path().join("trunkline-domain-link")).unwrap();
        drop(other);
        let third = ScratchDir::new(above.path()).unwrap();
        assert!(one.path().join("cache").exists(), "its owner lives");
        assert!(!left.exists(), "nobody has it any more");
        assert!(elsewhere.path().join("file").exists(), "a link is not followed");
        drop((one, third));
        assert_eq!(names(above.path()), ["trunkline", "trunkline-domain-link"]);
    }

    #[test]
    fn the_path_that_was_tried_is_told() {
        let above = tempfile::tempdir().unwrap();
        let missing = above.path().join("no such directory");
        let why = ScratchDir::new(&missing).unwrap_err().to_string();
        let expected = format!("{}/trunkline-domain-", missing.display());
        assert!(why.starts_with(&expected) && why.ends_with("no such file or directory"), "{why}");
    }
}
