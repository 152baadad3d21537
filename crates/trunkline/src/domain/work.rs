//! The place in which another program writes the next version of a keytab.
//!
//! The server never reads half of a keytab: [`Work::keep`] puts a whole one in its place. Keys that the
//! directory has already are never lost, not even if this program dies: [`Work::rescue`].

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::keytab::{self, Keytab, KeytabEntry};
use super::membership::MembershipError;

/// A directory beside a keytab, for one program at a time. It is removed with the value, unless it has new
/// keys that could not be put in place.
#[derive(Debug)]
pub struct Work {
    directory: PathBuf,
    keytab: PathBuf,
    target: PathBuf,
    realm: String,
    leftover: Option<Leftover>,
    is_removed: bool,
    /// Its lock keeps other programs away until the value is dropped.
    _lock: File,
}

/// The remains of a run that died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leftover {
    /// Keys of this version. They are in this keytab now.
    Keys(u32, PathBuf),
    /// Something in this directory, but no key that the keytab lacks. It is removed.
    NoKeys(PathBuf),
}

impl fmt::Display for Leftover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leftover::Keys(kvno, keytab) => write!(
                f,
                "a run that was killed had left keys of version {kvno}; they are in {} now",
                keytab.display()
            ),
            Leftover::NoKeys(directory) => write!(
                f,
                "a run that was killed had left no whole new keys in {}, which is cleared; if tickets are \
                 refused now, the domain has a password that nobody knows: `trunkline domain join` again",
                directory.display()
            ),
        }
    }
}

/// The seconds since 1970.
fn now_s() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u32::try_from(since.as_secs()).unwrap_or(u32::MAX))
}

/// The file or directory of this purpose beside a keytab.
fn beside(target: &Path, purpose: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.{purpose}"))
}

/// Takes the lock beside a keytab.
fn lock(target: &Path) -> Result<File, MembershipError> {
    let path = beside(target, "lock");
    let failed = |error: std::io::Error| MembershipError::Host(path.clone(), error);
    loop {
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(failed)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => MembershipError::Busy(target.to_owned()),
            other => failed(other.into()),
        })?;
        // The holder before may have removed the file, as [`Work::remove`] does. Another program then locks a
        // new one.
        let own = file.metadata().map_err(failed)?;
        if path.metadata().is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            return Ok(file);
        }
    }
}

impl Work {
    /// Whether a program has worked beside this keytab, so that something of it may be there.
    pub fn has_been_beside(target: &Path) -> bool {
        beside(target, "lock").exists()
    }

    /// Begins the next version of a keytab with its keys. If a program died after it had new keys of the
    /// realm, they are in the keytab now.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], or the host's.
    pub fn beside(target: &Path, realm: &str) -> Result<Work, MembershipError> {
        let failed = |path: &Path, error| MembershipError::Host(path.to_owned(), error);
        let lock = lock(target)?;
        let directory = beside(target, "new");
        let is_left = match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(&directory, error));
            }
            created => created.is_err(),
        };
        let keytab = directory.join("keytab");
        let (target, realm) = (target.to_owned(), realm.to_owned());
        let mut work =
            Work { directory, keytab, target, realm, leftover: None, is_removed: false, _lock: lock };
        let rescued = work.rescue()?;
        work.leftover = match rescued {
            Some(kvno) => Some(Leftover::Keys(kvno, work.target.clone())),
            None => is_left.then(|| Leftover::NoKeys(work.directory.clone())),
        };
        work.begin_again()?;
        Ok(work)
    }

    /// Begins the next version anew, with the keys that are in the keytab now.
    ///
    /// # Errors
    /// The host's.
    pub fn begin_again(&self) -> Result<(), MembershipError> {
        match Keytab::read(&self.target).is_ok() {
            true => std::fs::copy(&self.target, &self.keytab).map(|_| ()),
            false => match std::fs::remove_file(&self.keytab) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
        .map_err(|error| MembershipError::Host(self.keytab.clone(), error))
    }

    /// The remains that were there.
    pub fn leftover(&self) -> Option<&Leftover> {
        self.leftover.as_ref()
    }

    /// Ends the work for good: all that lies beside the keytab is removed.
    ///
    /// # Errors
    /// The host's.
    pub fn remove(mut self) -> Result<(), MembershipError> {
        // Another run may begin as soon as the lock's file is gone. The directory is its own then.
        self.is_removed = true;
        let failed = |path: &Path, error| MembershipError::Host(path.to_owned(), error);
        std::fs::remove_dir_all(&self.directory).map_err(|error| failed(&self.directory, error))?;
        let lock = beside(&self.target, "lock");
        std::fs::remove_file(&lock).map_err(|error| failed(&lock, error))
    }

    /// The keytab to write.
    pub fn keytab(&self) -> &Path {
        &self.keytab
    }

    /// The keytab to replace.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Puts the keytab in its place if it has new keys of the realm. Returns their version then.
    ///
    /// # Errors
    /// The host's.
    pub fn rescue(&self) -> Result<Option<u32>, MembershipError> {
        let version = self.new_version();
        if version.is_some() {
            self.keep()?;
        }
        Ok(version)
    }

    /// The version of keys that the keytab there lacks. They are newer by the version, or by the time for an
    /// account that was made anew. Each principal counts its own versions.
    fn new_version(&self) -> Option<u32> {
        let read = |path: &Path| Keytab::read(path).unwrap_or_default().of_realm(&self.realm);
        let (there, here) = (read(&self.target), read(&self.keytab));
        let last_written = there.entries.iter().map(|key| key.written).max();
        let is_new = |key: &&KeytabEntry| {
            let of = there.of(&key.principal);
            let is_there = of.iter().any(|it| (it.kvno, it.enctype) == (key.kvno, key.enctype));
            let is_newer = of.iter().all(|it| it.kvno < key.kvno) || Some(key.written) > last_written;
            !is_there && is_newer
        };
        here.entries.iter().filter(is_new).map(|key| key.kvno).max()
    }

    /// Adds keys of before for which clients still have tickets. `adcli` keeps those of one version, however
    /// young the others are.
    fn add_former_keys(&self) -> std::io::Result<()> {
        // A first keytab has nothing before it.
        let Ok(former) = std::fs::read(&self.target) else { return Ok(()) };
        let new = std::fs::read(&self.keytab)?;
        match keytab::with_former(&former, &new, now_s()) {
            Some(both) => std::fs::write(&self.keytab, both),
            None => Ok(()),
        }
    }

    /// Puts the keytab in its place, with the owner and the mode of the one there. A new one is for the owner
    /// of its directory alone.
    ///
    /// # Errors
    /// The host's.
    pub fn keep(&self) -> Result<(), MembershipError> {
        let path = &self.target;
        let failed = |error| MembershipError::Host(path.clone(), error);
        self.add_former_keys().map_err(failed)?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (owner, mode) = match path.metadata() {
            // A keytab that everybody could read was a mistake.
            Ok(there) if there.mode() & 0o007 == 0 => (there.clone(), there.mode() & 0o660),
            Ok(there) => (there, 0o600),
            Err(_) => (above.metadata().map_err(failed)?, 0o600),
        };
        std::fs::set_permissions(&self.keytab, Permissions::from_mode(mode)).map_err(failed)?;
        std::os::unix::fs::chown(&self.keytab, Some(owner.uid()), Some(owner.gid())).map_err(failed)?;
        File::open(&self.keytab).and_then(|file| file.sync_all()).map_err(failed)?;
        std::fs::rename(&self.keytab, path).map_err(failed)?;
        File::open(above).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // The next run puts new keys in place. The domain has them already, and nobody else does.
        if !self.is_removed && self.new_version().is_none() {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A keytab with keys of `x@R`, each with its version and the time of writing.
    fn keytab_at(keys: &[(u8, u32)]) -> Vec<u8> {
        let entry = |(kvno, written): &(u8, u32)| {
            let header = [&[0, 1, 0, 1][..], b"R", &[0, 1], b"x", &[0; 4], &written.to_be_bytes()].concat();
            let body = [&header[..], &[*kvno], &[0, 18, 0, 0]].concat();
            [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
        };
        [vec![5, 2], keys.iter().flat_map(entry).collect()].concat()
    }

    fn keytab_of(kvno: u8, written: u8) -> Vec<u8> {
        keytab_at(&[(kvno, written.into())])
    }

    fn keytab(kvno: u8) -> Vec<u8> {
        keytab_of(kvno, 0)
    }

    #[test]
    fn keys_of_a_run_that_died_with_this_program_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        for (there, left, expected) in [(3, 4, 4), (3, 3, 3), (3, 2, 3)] {
            std::fs::write(&path, keytab(there)).unwrap();
            std::fs::create_dir(directory.path().join(".k.new")).unwrap();
            std::fs::write(directory.path().join(".k.new/keytab"), keytab(left)).unwrap();
            let work = Work::beside(&path, "R").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), keytab(expected), "{there}, {left}");
            assert_eq!(std::fs::read(work.keytab()).unwrap(), keytab(expected), "it begins with these");
        }
        assert!(!directory.path().join(".k.new").exists());
    }

    #[test]
    fn remains_of_a_run_that_died_are_told() {
        let directory = tempfile::tempdir().unwrap();
        let (path, new) = (directory.path().join("k"), directory.path().join(".k.new"));
        std::fs::write(&path, keytab(3)).unwrap();
        let begin = |left: &[u8]| {
            std::fs::create_dir(&new).unwrap();
            std::fs::write(new.join("keytab"), left).unwrap();
            Work::beside(&path, "R").unwrap().leftover().cloned()
        };
        assert_eq!(begin(&keytab(4)), Some(Leftover::Keys(4, path.clone())));
        assert_eq!(begin(&keytab(5)[..12]), Some(Leftover::NoKeys(new.clone())), "half of a key");
        let work = Work::beside(&path, "R").unwrap();
        assert_eq!(work.leftover(), None);
        std::fs::remove_file(&path).unwrap();
        work.remove().unwrap();
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn a_lock_that_was_removed_with_its_file_locks_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || {
                    let mut runs = 0;
                    while runs < 50 {
                        let Ok(work) = Work::beside(&path, "R") else { continue };
                        // Nobody else may make it meanwhile.
                        std::fs::create_dir(path.with_file_name("alone")).unwrap();
                        std::fs::remove_dir(path.with_file_name("alone")).unwrap();
                        work.remove().unwrap();
                        runs += 1;
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn keys_of_an_account_that_was_made_anew_are_new() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        std::fs::write(&path, keytab_of(7, 1)).unwrap();
        let work = Work::beside(&path, "R").unwrap();
        std::fs::write(work.keytab(), keytab_of(2, 9)).unwrap();
        assert_eq!(work.rescue().unwrap(), Some(2));
        assert_eq!(std::fs::read(&path).unwrap(), keytab_of(2, 9));
    }

    #[test]
    fn keys_of_an_account_of_before_do_not_come_back_with_higher_versions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        let now = now_s();
        std::fs::write(&path, keytab_at(&[(6, now - 7200), (7, now - 3600)])).unwrap();
        let work = Work::beside(&path, "R").unwrap();
        std::fs::write(work.keytab(), keytab_at(&[(2, now)])).unwrap();
        assert_eq!(work.rescue().unwrap(), Some(2));
        assert_eq!(std::fs::read(&path).unwrap(), keytab_at(&[(2, now)]), "MIT would take 7 for the newest");
        work.begin_again().unwrap();
        std::fs::write(work.keytab(), keytab_at(&[(3, now)])).unwrap();
        work.keep().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), keytab_at(&[(2, now), (3, now)]));
    }

    #[test]
    fn keys_that_cannot_be_put_in_place_stay_for_the_next_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        let work = Work::beside(&path, "R").unwrap();
        std::fs::write(work.keytab(), keytab(4)).unwrap();
        // A keytab that is a mount point cannot be replaced either.
        std::fs::create_dir_all(path.join("in the way")).unwrap();
        assert!(work.keep().is_err());
        drop(work);
        std::fs::remove_dir_all(&path).unwrap();
        drop(Work::beside(&path, "R").unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), keytab(4));
        assert!(!directory.path().join(".k.new").exists());
    }

    #[test]
    fn keys_stay_as_long_as_clients_may_have_tickets_of_them() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        let versions = || {
            let entries = Keytab::read(&path).unwrap().entries;
            entries.iter().map(|key| key.kvno).collect::<Vec<_>>()
        };
        let (day, now) = (86_400, now_s());
        // Two changes an hour apart, of a key that had been in use for a month.
        std::fs::write(&path, keytab_at(&[(3, now - 30 * day), (4, now - 3600)])).unwrap();
        let renew = |entries: &[(u8, u32)]| {
            let work = Work::beside(&path, "R").unwrap();
            std::fs::write(work.keytab(), keytab_at(entries)).unwrap();
            work.keep().unwrap();
        };
        renew(&[(4, now - 3600), (5, now)]);
        assert_eq!(versions(), [3, 4, 5]);
        renew(&[(5, now), (6, now)]);
        assert_eq!(versions(), [3, 4, 5, 6], "nothing is there twice");
        // Replaced more than 8 days ago.
        std::fs::write(&path, keytab_at(&[(3, now - 30 * day), (4, now - 9 * day)])).unwrap();
        renew(&[(4, now - 9 * day), (5, now)]);
        assert_eq!(versions(), [4, 5]);
    }

    #[test]
    fn the_mode_of_a_keytab_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        std::fs::write(&path, keytab(3)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let work = Work::beside(&path, "R").unwrap();
        std::fs::write(work.keytab(), keytab(4)).unwrap();
        work.keep().unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o640);
    }
}
