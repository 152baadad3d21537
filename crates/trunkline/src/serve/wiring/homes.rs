//! The directories of users on home shares: found at each tree connect, and made at a user's first one where
//! the share says so.
//!
//! All homes of a share have one engine, on the directory above them. So a home costs nothing until its user
//! connects, and SMB, NFS and a restart see one truth about each file. The engine keeps each user within the
//! home (`share::Identity::home`).

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, Uid};
use rustix::io::Errno;
use share::Identity;
use volume::Name;

use super::locks::held;
use crate::config::{Share, os_error};
use crate::host;

/// The homes that are being made. Others wait for none of them.
static MAKING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static MADE: Condvar = Condvar::new();

/// The right to make the home at a path. While it is held, a directory that lies there half done is this
/// one's, and not one that another process has left behind. The drop of this value ends it.
struct HomeInMaking(PathBuf);

impl HomeInMaking {
    /// Waits until nobody else makes this home.
    fn begin(path: &Path) -> HomeInMaking {
        let making = MADE.wait_while(held(&MAKING), |making| making.contains(path));
        making.unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        HomeInMaking(path.to_owned())
    }
}

impl Drop for HomeInMaking {
    fn drop(&mut self) {
        held(&MAKING).remove(&self.0);
        MADE.notify_all();
    }
}

/// The homes of a share.
pub struct HomeDirectories {
    above: PathBuf,
    /// Whether missing ones are made.
    creates: bool,
}

impl HomeDirectories {
    /// Those of a share whose homes are in the real path `above`. None if it has no homes.
    pub fn of(share: &Share, above: &Path) -> Option<Arc<dyn smb::Homes>> {
        let homes = || HomeDirectories { above: above.to_owned(), creates: share.create_home.value };
        share.has_homes().then(|| Arc::new(homes()) as Arc<dyn smb::Homes>)
    }

    fn make(&self, user: &Identity, path: &Path) -> io::Result<()> {
        let _in_making = HomeInMaking::begin(path);
        if is_directory(path).is_ok() {
            return Ok(());
        }
        // It gets its name when it has its owner. A server that is killed in between leaves nothing that
        // looks like a home.
        let mut hidden = std::ffi::OsString::from(".new-home-");
        hidden.push(path.file_name().unwrap_or_default());
        let new = path.with_file_name(hidden);
        match rustix::fs::unlinkat(CWD, &new, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        rustix::fs::mkdirat(CWD, &new, Mode::RWXU)?;
        let done = give(user, &new)
            .and_then(|()| rustix::fs::renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE));
        match done {
            Ok(()) => {
                tracing::info!(user = %user.name, path = %path.display(), "made the user's home");
                Ok(())
            }
            Err(errno) => {
                // The first error counts. The next attempt removes what is left.
                let _ = rustix::fs::unlinkat(CWD, &new, AtFlags::REMOVEDIR);
                // Another program has made it meanwhile.
                if errno == Errno::EXIST { Ok(()) } else { Err(errno.into()) }
            }
        }
    }
}

impl smb::Homes for HomeDirectories {
    fn home(&self, user: &Identity) -> Result<Name, String> {
        let name = name_of(user)?;
        let path = self.above.join(user.name.to_lowercase());
        let shown = path.display();
        match is_directory(&path) {
            Ok(()) => Ok(name),
            Err(Errno::NOENT) if self.creates => match self.make(user, &path) {
                Ok(()) => Ok(name),
                Err(why) => Err(format!("the home {shown} cannot be made: {}", os_error(&why))),
            },
            Err(Errno::NOENT) => {
                Err(format!("there is no home {shown}; make it, or set `create_home = true`"))
            }
            Err(_) if path.is_symlink() => {
                let above = self.above.display();
                Err(format!(
                    "the home {shown} is a symbolic link, and a home share serves only directories in \
                     {above} itself; mount its target there (`mount --bind`)"
                ))
            }
            Err(errno) => Err(format!("the home {shown}: {}", os_error(&errno.into()))),
        }
    }
}

/// The name of a user's home: that of the user in lower case, because users' names differ in more than case.
///
/// # Errors
/// The reason why the name cannot be that of a directory.
pub fn name_of(user: &Identity) -> Result<Name, String> {
    let name = user.name.to_lowercase();
    Name::new(name.as_bytes()).map_err(|why| format!("`{name}` cannot be the name of a home: {why}"))
}

/// The same identity at home on a share with homes.
pub fn at_home(share: &Share, user: &Arc<Identity>) -> Arc<Identity> {
    if !share.has_homes() {
        return Arc::clone(user);
    }
    Arc::new(Identity { home: name_of(user).ok(), ..Identity::clone(user) })
}

/// Whether a path leads to a directory, and not through a link at its end.
fn is_directory(path: &Path) -> rustix::io::Result<()> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(drop)
}

/// Gives a new directory to the user. Without root it belongs to the server's own user, like all files.
fn give(user: &Identity, directory: &Path) -> rustix::io::Result<()> {
    if host::own().0 != 0 {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(directory, flags, Mode::empty())?;
    // Whoever may write to the parent can have put another directory there. The new one is the server's own,
    // nobody else has reached into it, and it has no other name in a parent of its own.
    let found = rustix::fs::fstat(&opened)?;
    if found.st_uid != 0 || found.st_mode & 0o077 != 0 || found.st_nlink > 2 || !is_empty(&opened)? {
        return Err(Errno::PERM);
    }
    rustix::fs::fchown(&opened, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)))?;
    // A parent with the set-group-ID bit has passed it on.
    rustix::fs::fchmod(&opened, Mode::RWXU)
}

/// Whether a directory has no entries.
fn is_empty(directory: &OwnedFd) -> rustix::io::Result<bool> {
    for entry in rustix::fs::Dir::read_from(directory)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    fn user(name: &str) -> Identity {
        let (uid, gid) = match host::own() {
            (0, _) => (4321, 4322),
            own => own,
        };
        Identity { name: name.to_owned(), uid, gid, ..smb::nobody() }
    }

    fn homes(above: &Path, creates: bool) -> Arc<dyn smb::Homes> {
        Arc::new(HomeDirectories { above: above.to_owned(), creates })
    }

    fn names_in(directory: &Path) -> Vec<PathBuf> {
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into()).collect()
    }

    #[test]
    fn a_home_is_found_by_the_users_name_in_lower_case() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("ann")).unwrap();
        assert_eq!(homes(dir.path(), false).home(&user("Ann")), Ok(Name::new(b"ann").unwrap()));
        let missing = homes(dir.path(), false).home(&user("bob")).unwrap_err();
        let path = dir.path().join("bob");
        let wanted = format!("there is no home {}; make it, or set `create_home = true`", path.display());
        assert_eq!(missing, wanted);
        for bad in ["..", ".", "", "a/b", "../x"] {
            assert!(homes(dir.path(), true).home(&user(bad)).is_err(), "{bad}");
        }
        assert_eq!(names_in(dir.path()), [PathBuf::from("ann")]);
    }

    #[test]
    fn a_home_is_made_for_its_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        // As a server that was killed may have left it.
        std::fs::create_dir(dir.path().join(".new-home-bob")).unwrap();
        let bob = user("bob");
        homes(dir.path(), true).home(&bob).unwrap();
        let about = std::fs::metadata(dir.path().join("bob")).unwrap();
        assert_eq!((about.mode() & 0o7777, about.uid(), about.gid()), (0o700, bob.uid, bob.gid));
        assert_eq!(names_in(dir.path()), [PathBuf::from("bob")]);
    }

    #[test]
    fn a_directory_that_another_has_put_in_the_way_is_not_given_away() {
        if host::own().0 != 0 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let bob = user("bob");
        let given = |name: &str, make: &dyn Fn(&Path)| {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
            make(&path);
            let given = give(&bob, &path);
            (given, std::fs::metadata(&path).unwrap().uid())
        };
        let chown = |path: &Path| std::os::unix::fs::chown(path, Some(99), None).unwrap();
        let open = |path: &Path| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        assert_eq!(given("others", &chown), (Err(Errno::PERM), 99));
        assert_eq!(given("full", &|path| std::fs::write(path.join("x"), "").unwrap()), (Err(Errno::PERM), 0));
        assert_eq!(given("opened", &open), (Err(Errno::PERM), 0));
        assert_eq!(given("new", &|_| ()), (Ok(()), bob.uid));
    }

    #[test]
    fn a_home_is_made_once_for_connections_that_come_at_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let homes = homes(dir.path(), true);
        std::thread::scope(|scope| {
            let connect = || (0..20).for_each(|n| drop(homes.home(&user(&format!("user{n}"))).unwrap()));
            (0..8).for_each(|_| drop(scope.spawn(connect)));
        });
        assert_eq!(names_in(dir.path()).len(), 20);
    }

    #[test]
    fn a_home_on_a_slow_disk_keeps_only_its_user_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let slow = HomeInMaking::begin(&dir.path().join("ann"));
        let homes = homes(dir.path(), true);
        homes.home(&user("bob")).unwrap();
        assert_eq!(names_in(dir.path()), [PathBuf::from("bob")]);
        std::thread::scope(|scope| {
            let anns = scope.spawn(|| homes.home(&user("ann")));
            drop(slow);
            anns.join().unwrap().unwrap();
        });
        assert_eq!(names_in(dir.path()).len(), 2);
    }

    #[test]
    fn what_is_no_directory_is_no_home() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bob")).unwrap();
        symlink("bob", dir.path().join("ann")).unwrap();
        std::fs::write(dir.path().join("eve"), "").unwrap();
        let link = homes(dir.path(), true).home(&user("ann")).unwrap_err();
        assert!(link.contains("is a symbolic link") && link.contains("mount --bind"), "{link}");
        let file = homes(dir.path(), true).home(&user("eve")).unwrap_err();
        assert!(file.ends_with("eve: not a directory"), "{file}");
        let hidden = homes(&dir.path().join("eve"), true).home(&user("bob")).unwrap_err();
        assert!(hidden.ends_with("eve/bob: not a directory"), "{hidden}");
    }
}
