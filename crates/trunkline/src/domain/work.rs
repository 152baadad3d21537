//! The place in which another program writes the next version of a keytab.
//!
//! The server never reads half of a keytab: [`Work::keep`] puts a whole one in its place. Keys that the
//! directory has already are never lost, not even if this program dies: [`Work::rescue`].
//!
//! The directory of the keytab may belong to the server's user, while root runs this. So no link is followed
//! there, and the next version is written by the descriptor of a directory that nobody else may change.

use std::fmt;
use std::fs::{DirBuilder, File, Permissions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::keytab::{self, Keytab, KeytabError};
use super::membership::MembershipError;

/// A directory beside a keytab, for one program at a time. It is removed with the value, unless it has new
/// keys that could not be put in place.
#[derive(Debug)]
pub struct Work {
    directory: PathBuf,
    /// The same keytab by a descriptor, also for programs that this one starts.
    keytab: PathBuf,
    target: PathBuf,
    realm: String,
    leftover: Option<Leftover>,
    is_removed: bool,
    /// The directory, also if its name leads elsewhere by now.
    _opened: File,
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
                 refused now, the domain has a password that nobody knows: `trunkline domain join REALM \
                 --take-over`",
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

/// Opens a file in a directory that another user may own. A link is refused.
fn open_file(path: &Path, flags: OFlags) -> Result<File, MembershipError> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open(path, flags, Mode::RUSR | Mode::WUSR).map(File::from).map_err(|error| match error {
        Errno::LOOP => MembershipError::NotOwn(path.to_owned(), "a link, which this command does not follow"),
        other => MembershipError::Host(path.to_owned(), other.into()),
    })
}

/// Opens the directory of the next version, which nobody else may change. Programs that this one starts
/// inherit the descriptor.
fn open_directory(path: &Path) -> Result<File, MembershipError> {
    let not_own =
        || MembershipError::NotOwn(path.to_owned(), "no directory that this user alone may use (mode 700)");
    let opened = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
    let directory = opened.map(File::from).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP | Errno::ACCESS => not_own(),
        other => MembershipError::Host(path.to_owned(), other.into()),
    })?;
    let of = directory.metadata().map_err(|error| MembershipError::Host(path.to_owned(), error))?;
    match of.uid() == geteuid().as_raw() && of.mode() & 0o077 == 0 {
        true => Ok(directory),
        false => Err(not_own()),
    }
}

/// Takes the lock beside a keytab.
fn lock(target: &Path) -> Result<File, MembershipError> {
    let path = beside(target, "lock");
    let failed = |error: std::io::Error| MembershipError::Host(path.clone(), error);
    loop {
        let file = open_file(&path, OFlags::WRONLY | OFlags::CREATE)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => MembershipError::Busy(target.to_owned()),
            other => failed(other.into()),
        })?;
        // The holder before may have removed the file, as [`Work::remove`] does. Another program then locks a
        // new one.
        let own = file.metadata().map_err(failed)?;
        if path.symlink_metadata().is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            return Ok(file);
        }
    }
}

impl Work {
    /// Whether a program has worked beside this keytab, so that something of it may be there.
    pub fn has_been_beside(target: &Path) -> bool {
        beside(target, "lock").symlink_metadata().is_ok()
    }

    /// Begins the next version of a keytab with its keys. If a program died after it had new keys of the
    /// realm, they are in the keytab now.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], [`MembershipError::NotOwn`], or the host's.
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
        let opened = open_directory(&directory)?;
        let keytab = PathBuf::from(format!("/proc/self/fd/{}/keytab", opened.as_raw_fd()));
        let mut work = Work {
            directory,
            keytab,
            target: target.to_owned(),
            realm: realm.to_owned(),
            leftover: None,
            is_removed: false,
            _opened: opened,
            _lock: lock,
        };
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
        let former = self.former()?.filter(|bytes| Keytab::parse(bytes).is_some());
        match former {
            Some(bytes) => std::fs::write(&self.keytab, bytes),
            None => match std::fs::remove_file(&self.keytab) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
        .map_err(|error| MembershipError::Host(self.shown(), error))
    }

    /// The keytab to replace, if there is one.
    fn former(&self) -> Result<Option<Vec<u8>>, MembershipError> {
        let mut file = match open_file(&self.target, OFlags::RDONLY | OFlags::NONBLOCK) {
            Err(MembershipError::Host(_, error)) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(None);
            }
            opened => opened?,
        };
        let mut bytes = Vec::new();
        let read = file.read_to_end(&mut bytes);
        read.map_err(|error| MembershipError::Host(self.target.clone(), error))?;
        Ok(Some(bytes))
    }

    /// The next version by its name, for messages.
    fn shown(&self) -> PathBuf {
        self.directory.join("keytab")
    }

    /// Checks that the next version is a whole keytab.
    ///
    /// # Errors
    /// [`KeytabError`]
    pub fn check(&self) -> Result<(), KeytabError> {
        Keytab::read(&self.keytab).map(|_| ()).map_err(|error| match error {
            KeytabError::Host(_, error) => KeytabError::Host(self.shown(), error),
            KeytabError::Damaged(_) => KeytabError::Damaged(self.shown()),
        })
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

    /// The version of new keys that the keytab there lacks.
    fn new_version(&self) -> Option<u32> {
        let former = self.former().ok().flatten().unwrap_or_default();
        let new = std::fs::read(&self.keytab).unwrap_or_default();
        keytab::added_version(&former, &new, &self.realm)
    }

    /// Adds keys of before for which clients still have tickets. `adcli` keeps those of one version, however
    /// young the others are.
    fn add_former_keys(&self) -> Result<(), MembershipError> {
        // A first keytab has nothing before it.
        let Some(former) = self.former()? else { return Ok(()) };
        let added = std::fs::read(&self.keytab).and_then(|new| {
            let both = keytab::with_former(&former, &new, now_s());
            both.map_or(Ok(()), |both| std::fs::write(&self.keytab, both))
        });
        added.map_err(|error| MembershipError::Host(self.shown(), error))
    }

    /// Puts the keytab in its place, with the owner and the mode of the one there. A new one is for the owner
    /// of its directory alone.
    ///
    /// # Errors
    /// The host's.
    pub fn keep(&self) -> Result<(), MembershipError> {
        let path = &self.target;
        let failed = |error| MembershipError::Host(path.clone(), error);
        self.add_former_keys()?;
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let (owner, mode) = match path.symlink_metadata() {
            // A keytab that everybody could read was a mistake.
            Ok(there) if there.mode() & 0o007 == 0 => (there.clone(), there.mode() & 0o660),
            Ok(there) => (there, 0o600),
            Err(_) => (above.metadata().map_err(failed)?, 0o600),
        };
        let file = File::open(&self.keytab).map_err(failed)?;
        file.set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
        std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid())).map_err(failed)?;
        volume_posix::store_file(&file).map_err(failed)?;
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
        [vec![5, 2], keys.iter().flat_map(|(kvno, written)| record(*kvno, *written, 0)).collect()].concat()
    }

    /// A record with a key of one byte.
    fn record(kvno: u8, written: u32, key: u8) -> Vec<u8> {
        let header = [&[0, 1, 0, 1][..], b"R", &[0, 1], b"x", &[0; 4], &written.to_be_bytes()].concat();
        let body = [&header[..], &[kvno], &[0, 18, 0, 1, key]].concat();
        [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], &body].concat()
    }

    fn keytab_of(kvno: u8, written: u8) -> Vec<u8> {
        keytab_at(&[(kvno, written.into())])
    }

    fn keytab(kvno: u8) -> Vec<u8> {
        keytab_of(kvno, 0)
    }

    /// The directory that a run of before has left.
    fn make_left(path: &Path) {
        DirBuilder::new().mode(0o700).create(path).unwrap();
    }

    #[test]
    fn no_link_is_followed_and_no_directory_of_others_is_used() {
        use std::os::unix::fs::symlink;
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, new) = (directory.path().join("k"), directory.path().join(".k.new"));
        let (other, lock) = (elsewhere.path().join("keytab"), directory.path().join(".k.lock"));
        std::fs::write(&other, keytab(9)).unwrap();
        let refused = |at: &Path, word: &str| {
            let why = Work::beside(&path, "R").unwrap_err();
            let text = why.to_string();
            assert!(matches!(&why, MembershipError::NotOwn(path, _) if path == at), "{text}");
            assert!(text.contains(word) && text.contains("remove it"), "{text}");
            assert_eq!(std::fs::read(&other).unwrap(), keytab(9));
            assert_eq!(other.metadata().unwrap().nlink(), 1);
        };
        symlink(elsewhere.path(), &new).unwrap();
        refused(&new, "mode 700");
        std::fs::remove_file(&new).unwrap();
        make_left(&new);
        std::fs::set_permissions(&new, Permissions::from_mode(0o770)).unwrap();
        refused(&new, "mode 700");
        std::fs::remove_dir(&new).unwrap();
        std::fs::remove_file(&lock).unwrap();
        symlink(elsewhere.path().join("none"), &lock).unwrap();
        refused(&lock, "a link");
        assert!(!elsewhere.path().join("none").exists());
        std::fs::remove_file(&lock).unwrap();
        symlink(&other, &path).unwrap();
        refused(&path, "a link");
    }

    #[test]
    fn a_directory_that_is_exchanged_for_a_link_meanwhile_changes_nothing() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (path, new) = (directory.path().join("k"), directory.path().join(".k.new"));
        let work = Work::beside(&path, "R").unwrap();
        std::fs::rename(&new, directory.path().join("away")).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), &new).unwrap();
        // As `adcli` writes it.
        let copied = std::process::Command::new("sh")
            .args(["-c", "printf '\\005\\002' >\"$0\""])
            .arg(work.keytab())
            .status();
        assert!(copied.unwrap().success());
        work.check().unwrap();
        work.keep().unwrap();
        drop(work);
        assert_eq!(std::fs::read(&path).unwrap(), [5, 2]);
        assert_eq!(elsewhere.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn keys_of_a_run_that_died_with_this_program_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        for (there, left, expected) in [(3, 4, 4), (3, 3, 3), (3, 2, 3)] {
            std::fs::write(&path, keytab(there)).unwrap();
            make_left(&directory.path().join(".k.new"));
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
            make_left(&new);
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
    fn another_key_of_the_same_version_is_new_if_it_is_younger() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        let one = |written, key| [&[5, 2][..], &record(2, written, key)].concat();
        for (written, key, is_new) in [(9, 8, true), (9, 7, false), (3, 8, false)] {
            std::fs::write(&path, one(5, 7)).unwrap();
            make_left(&directory.path().join(".k.new"));
            std::fs::write(directory.path().join(".k.new/keytab"), one(written, key)).unwrap();
            let work = Work::beside(&path, "R").unwrap();
            assert_eq!(matches!(work.leftover(), Some(Leftover::Keys(2, _))), is_new, "{written} {key}");
            let expected = if is_new { one(written, key) } else { one(5, 7) };
            assert_eq!(std::fs::read(&path).unwrap(), expected, "{written} {key}");
        }
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
