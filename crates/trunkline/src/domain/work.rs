//! The place in which another program writes the next version of a keytab.
//!
//! The server never reads half of a keytab: [`Work::keep`] puts a whole one in its place. Keys that the
//! directory has already are never lost, not even if this program dies: [`Work::rescue`].

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::keytab::Keytab;
use super::membership::MembershipError;

/// A directory beside a keytab, for one program at a time. It is removed with the value.
pub struct Work {
    directory: PathBuf,
    keytab: PathBuf,
    target: PathBuf,
    /// Its lock keeps other programs away until the value is dropped.
    _lock: File,
}

impl Work {
    /// Begins the next version of a keytab with its keys. If a program died after it had new keys of the
    /// realm, they are in the keytab now.
    ///
    /// # Errors
    /// [`MembershipError::Busy`], or the host's.
    pub fn beside(target: &Path, realm: &str) -> Result<Work, MembershipError> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let beside = |end: &str| target.with_file_name(format!(".{name}.{end}"));
        let (directory, lock) = (beside("new"), beside("lock"));
        let failed = |path: &Path, error| MembershipError::Host(path.to_owned(), error);
        let mut options = OpenOptions::new();
        let opened = options.write(true).create(true).truncate(false).mode(0o600).open(&lock);
        let file = opened.map_err(|error| failed(&lock, error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => MembershipError::Busy(target.to_owned()),
            other => failed(&lock, other.into()),
        })?;
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(&directory, error));
            }
            _ => {}
        }
        let keytab = directory.join("keytab");
        let work = Work { directory, keytab, target: target.to_owned(), _lock: file };
        work.rescue(realm)?;
        match Keytab::read(target).is_ok() {
            true => std::fs::copy(target, &work.keytab).map(|_| ()),
            false => match std::fs::remove_file(&work.keytab) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
        .map_err(|error| failed(&work.keytab, error))?;
        Ok(work)
    }

    /// The keytab to write.
    pub fn keytab(&self) -> &Path {
        &self.keytab
    }

    /// The keytab to replace.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Puts the keytab in its place if it has newer keys of the realm than the one there. Returns the version
    /// of the new keys then.
    ///
    /// # Errors
    /// The host's.
    pub fn rescue(&self, realm: &str) -> Result<Option<u32>, MembershipError> {
        let newest = |path: &Path| Keytab::read(path).map_or(0, |keytab| keytab.of_realm(realm).newest());
        let (before, after) = (newest(&self.target), newest(&self.keytab));
        if after <= before {
            return Ok(None);
        }
        self.keep()?;
        Ok(Some(after))
    }

    /// Puts the keytab in its place, for the owner of its directory alone.
    ///
    /// # Errors
    /// The host's.
    pub fn keep(&self) -> Result<(), MembershipError> {
        let path = &self.target;
        let failed = |error| MembershipError::Host(path.clone(), error);
        let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let owner = match path.metadata() {
            Ok(there) => there,
            Err(_) => above.metadata().map_err(failed)?,
        };
        std::fs::set_permissions(&self.keytab, Permissions::from_mode(0o600)).map_err(failed)?;
        std::os::unix::fs::chown(&self.keytab, Some(owner.uid()), Some(owner.gid())).map_err(failed)?;
        File::open(&self.keytab).and_then(|file| file.sync_all()).map_err(failed)?;
        std::fs::rename(&self.keytab, path).map_err(failed)?;
        File::open(above).and_then(|directory| directory.sync_all()).map_err(failed)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Whatever is left does no harm: the next run looks at it.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A keytab with one key of `x@R`.
    fn keytab(kvno: u8) -> Vec<u8> {
        let body = [&[0, 1, 0, 1][..], b"R", &[0, 1], b"x", &[0; 8], &[kvno], &[0, 18, 0, 0]].concat();
        [&[5, 2][..], &u32::try_from(body.len()).unwrap().to_be_bytes(), &body].concat()
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
}
