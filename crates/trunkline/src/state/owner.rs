//! The owner of the files in a state directory.
//!
//! Root may run a command on the state of a server that runs as another user. That server could not read
//! a file of root's. So each new file gets the owner of the directory.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

/// Gives a new file or directory the owner of the directory `parent`, if this process may do that.
///
/// # Errors
/// The error of the host.
pub fn keep(file: &File, parent: &Path) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (wanted, own) = (fs::metadata(parent)?, file.metadata()?);
    if (wanted.uid(), wanted.gid()) == (own.uid(), own.gid()) || wanted.uid() == 0 {
        return Ok(());
    }
    fchown(file, Some(wanted.uid()), Some(wanted.gid()))
}

/// Like [`keep`], for a file with a name in its directory.
///
/// # Errors
/// The error of the host.
pub fn keep_in_place(path: &Path) -> io::Result<()> {
    keep(&File::open(path)?, path.parent().unwrap_or(path))
}
