//! Whether the server's own user can do what its shares promise, and whether its users may log on.
//!
//! A server without privileges does every request as its own user. In a container the directory of a share
//! often belongs to another one. Clients see only that access is denied.

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::config::Config;
use crate::principals::LogonPrincipal;

/// The most users that one line names.
const MAX_NAMED: usize = 20;

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

/// Logs a warning that names all users who may not log on, since they have no ids on the host.
pub fn warn_of_users_without_ids(principals: &[LogonPrincipal]) {
    let without = principals.iter().filter(|principal| principal.ids.is_none());
    let mut names: Vec<&str> = without.clone().map(|principal| principal.name.as_str()).collect();
    let Some(why) = without.clone().find_map(LogonPrincipal::restriction) else { return };
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    let more = (more > 0).then_some(more);
    tracing::warn!(users = names.join(", "), more, "users who may not log on: {why}");
}
