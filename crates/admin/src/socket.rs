//! The address of the control socket. Its path may be too long for a socket address.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The name of the socket in the state directory.
const NAME: &str = "control.sock";

/// The longest path in a Unix socket address, with room for its end.
const MAX_PATH: usize = 107;

/// A path that fits a socket address, and the descriptor that it may lead through.
pub struct Address {
    /// The path for bind and connect.
    pub path: PathBuf,
    _dir: Option<File>,
}

/// The control socket of the state directory `dir`.
pub fn address(dir: &Path) -> io::Result<Address> {
    let path = dir.join(NAME);
    if path.as_os_str().len() <= MAX_PATH {
        return Ok(Address { path, _dir: None });
    }
    let dir = File::open(dir)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{NAME}", dir.as_raw_fd()));
    Ok(Address { path, _dir: Some(dir) })
}
