//! Whether the server's own user can do what its shares promise.
//!
//! A server without privileges does every request as its own user. In a container the directory of a share
//! often belongs to another one. Clients see only that access is denied.

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::config::Config;

/// Logs a warning for each share to which clients should be able to write, and whose directory the server's
/// user cannot write to.
pub fn warn_of_unwritable(config: &Config) {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    for share in config.shares.values().filter(|share| !share.read_only.value) {
        let path = &share.path.value;
        if access(path, Access::WRITE_OK | Access::EXEC_OK) == Err(Errno::ACCESS) {
            let (name, path) = (&share.name.value, path.display());
            tracing::warn!(
                share = %name, %path, uid, gid,
                "no client can create files here, because the server's user cannot; chown the directory to \
                 it, or set `read_only`"
            );
        }
    }
}
