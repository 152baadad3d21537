//! The changes to a disk that replace the files of a state directory. Tests let any of them fail.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::owner;

/// The disk of the host.
#[derive(Debug, Default)]
pub struct Disk {
    /// The number of changes that succeed before all others fail, as after a power cut or on a full disk.
    #[cfg(test)]
    pub changes_left: Option<std::cell::Cell<u32>>,
}

impl Disk {
    /// Fails from a certain change on.
    #[cfg(test)]
    pub fn failing_after(changes: u32) -> Disk {
        Disk { changes_left: Some(std::cell::Cell::new(changes)) }
    }

    fn step(&self) -> io::Result<()> {
        #[cfg(test)]
        if let Some(left) = &self.changes_left {
            left.set(left.get().checked_sub(1).ok_or(io::ErrorKind::StorageFull)?);
        }
        Ok(())
    }

    /// Writes a new file that only its owner can read, and waits for the disk.
    pub fn write(&self, path: &Path, data: &mut dyn Read) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        owner::keep(&file, path.parent().unwrap_or(path))?;
        if let Err(error) = self.step() {
            // Half of it was written.
            io::copy(&mut data.take(7), &mut file)?;
            return Err(error);
        }
        io::copy(data, &mut file)?;
        volume_posix::store_file(&file)
    }

    /// Creates a directory that only its owner can enter, and its parents, if they are missing.
    pub fn create_directory(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        // The outermost first: each gets the owner of the one around it.
        let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.exists()).collect();
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        missing.into_iter().rev().try_for_each(owner::keep_in_place)
    }

    /// Renames a file or a directory.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step()?;
        fs::rename(from, to)
    }

    /// Removes a file.
    pub fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        fs::remove_file(path)
    }

    /// Removes a directory with everything in it.
    pub fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        fs::remove_dir_all(path)
    }

    /// Waits until the names in a directory are on the disk.
    pub fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.step()?;
        File::open(path)?.sync_all()
    }
}
