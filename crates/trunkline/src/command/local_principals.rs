//! The server's own users for commands that look at a configuration as the server does.

use admin::{NtHash, Request, Response, UserEntry};

use super::control;
use crate::config::Config;
use crate::host::UserDatabase;
use crate::principals::{self, LogonPrincipal, PasswordFrom};
use crate::state::StateDir;

/// The users of the running server, or else those of the configuration and of the state directory.
///
/// # Errors
/// One line for the user.
pub fn of(config: &Config) -> anyhow::Result<Vec<LogonPrincipal>> {
    let dir = &config.server.state_dir.value;
    if let Some(Response::Users(users)) = control::ask(dir, &Request::Users)? {
        let host = UserDatabase::of_host()?;
        return users.into_iter().map(|user| principal(config, &host, user)).collect();
    }
    match StateDir::open_existing(dir)? {
        Some(state) => principals::resolve(config, &state),
        // A server that never ran has given no user a SID yet.
        None => Ok(Vec::new()),
    }
}

/// A user that the running server has listed.
fn principal(config: &Config, host: &UserDatabase, user: UserEntry) -> anyhow::Result<LogonPrincipal> {
    let mut ids = match user.uid {
        Some(uid) => host.ids(&user.name, Some(uid), user.gid)?,
        None => None,
    };
    let configured = config.users.get(&user.name.to_lowercase()).and_then(|user| user.groups.as_ref());
    if let (Some(ids), Some(groups)) = (&mut ids, configured) {
        ids.groups.clone_from(&groups.value);
    }
    Ok(LogonPrincipal {
        name: user.name,
        nt_hash: NtHash([0; 16]),
        sid: user.sid,
        ids,
        admin: user.admin,
        password_from: PasswordFrom::State,
        second_hash: None,
        key_of: None,
    })
}
