//! Storing a whole file, such as a new one before it takes the name of another.

use std::fs::File;
use std::io;

/// Returns when the host has stored a file and its attributes, whatever its file system is.
///
/// fsync(2) of Linux's own client of Ceph forgets that data could not be stored. Its fdatasync(2) reports
/// that.
///
/// # Errors
/// The host's: the file is not stored.
pub fn store_file(file: &File) -> io::Result<()> {
    file.sync_data()?;
    file.sync_all()
}
