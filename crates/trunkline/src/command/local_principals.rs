//! The server's own users for commands that look at a configuration as the server does. No look gives a user
//! a SID for good.

use std::collections::BTreeMap;

use admin::{NtHash, Request, Response, UserEntry};

use super::control;
use crate::config::Config;
use crate::host::UserDatabase;
use crate::host_ids::ShareOwner;
use crate::principals::{self, LogonPrincipal, PasswordFrom};
use crate::state::StateDir;
use crate::state::store::StoredUser;

/// The users of the running server, or else those of the configuration and of the state directory.
///
/// # Errors
/// One line for the user.
pub fn of_server(config: &Config) -> anyhow::Result<Vec<LogonPrincipal>> {
    // A server that never ran has given no user a SID yet.
    let Some(users) = running(config)? else { return Ok(stopped(config)?.unwrap_or_default()) };
    let host = UserDatabase::of_host()?;
    let one = |user: &UserEntry| {
        let mut principal = listed(&host, user)?;
        let configured = config.users.get(&user.name.to_lowercase()).and_then(|user| user.groups.as_ref());
        if let (Some(ids), Some(groups)) = (&mut principal.ids, configured) {
            ids.groups.clone_from(&groups.value);
        }
        Ok(principal)
    };
    users.iter().map(one).collect()
}

/// The users that a server would have by the configuration: its own and those of the state directory, which
/// a running server tells.
///
/// # Errors
/// One line for the user.
pub fn of_config(config: &Config) -> anyhow::Result<Vec<LogonPrincipal>> {
    match running(config)? {
        Some(users) => checked(config, &users),
        None => match stopped(config)? {
            Some(users) => Ok(users),
            None => checked(config, &[]),
        },
    }
}

fn running(config: &Config) -> anyhow::Result<Option<Vec<UserEntry>>> {
    Ok(match control::ask(&config.server.state_dir.value, &Request::Users)? {
        Some(Response::Users(users)) => Some(users),
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => None,
    })
}

/// The users by the state directory, if there is one.
fn stopped(config: &Config) -> anyhow::Result<Option<Vec<LogonPrincipal>>> {
    let state = StateDir::open_existing(&config.server.state_dir.value)?;
    state.map(|state| principals::preview(config, &state)).transpose()
}

/// The users of a configuration, and those whose passwords are in the state directory of the running server,
/// as it lists them.
fn checked(config: &Config, running: &[UserEntry]) -> anyhow::Result<Vec<LogonPrincipal>> {
    let host = UserDatabase::of_host()?;
    let by_name: BTreeMap<String, &UserEntry> =
        running.iter().map(|entry| (entry.name.to_lowercase(), entry)).collect();
    let is_stored = |entry: &UserEntry| entry.source == PasswordFrom::State.to_string();
    let mut all = Vec::new();
    for (at, (key, user)) in config.users.iter().enumerate() {
        let entry = by_name.get(key).copied();
        // The ids of a user whom only the server's configuration defines are not in the state directory.
        let has_uid = |entry: &&UserEntry| {
            is_stored(entry) && user.uid.as_ref().is_none_or(|uid| entry.uid == Some(uid.value))
        };
        let stored = entry.filter(has_uid).map(stored_user);
        let merged = principals::configured(user, stored.as_ref(), NtHash([0; 16]));
        // A server gives SIDs. This one is no machine's, and it is neither shown nor stored.
        let sid = entry.map_or_else(|| format!("S-1-5-21-0-0-0-{}", 1000 + at), |entry| entry.sid.clone());
        let owner = ShareOwner::of_environment(config, user);
        let mut principal = principals::principal(&merged, sid, &host, owner.as_ref())?;
        principals::set_configured(&mut principal, user);
        all.push(principal);
    }
    for (key, entry) in by_name {
        if is_stored(entry) && !config.users.contains_key(&key) {
            all.push(listed(&host, entry)?);
        }
    }
    Ok(all)
}

fn stored_user(entry: &UserEntry) -> StoredUser {
    let UserEntry { name, uid, gid, admin, .. } = entry.clone();
    StoredUser { name, nt_hash: NtHash([0; 16]), uid, gid, admin }
}

/// A user that the running server has listed.
fn listed(host: &UserDatabase, entry: &UserEntry) -> anyhow::Result<LogonPrincipal> {
    let ids = match entry.uid {
        Some(uid) => host.ids(&entry.name, Some(uid), entry.gid)?,
        None => None,
    };
    Ok(LogonPrincipal {
        name: entry.name.clone(),
        nt_hash: NtHash([0; 16]),
        sid: entry.sid.clone(),
        ids,
        admin: entry.admin,
        password_from: PasswordFrom::State,
        second_hash: None,
        key_of: None,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::read;

    fn entry(name: &str, uid: u32, source: &str) -> UserEntry {
        let (name, source) = (name.to_owned(), source.to_owned());
        let sid = format!("S-1-5-21-1-2-3-{uid}");
        UserEntry { name, sid, uid: Some(uid), gid: Some(uid), admin: false, restriction: None, source }
    }

    #[test]
    fn the_users_of_a_check_are_those_of_its_configuration_and_the_stored_ones() {
        let text = "[[user]]\nname = \"ann\"\nuid = 70001\ngid = 70001\n[[user]]\nname = \"bob\"\n\
                    [[user]]\nname = \"new\"\nuid = 70003\ngid = 70003\n";
        let config = read::parse("t", text, Path::new("/")).unwrap();
        let running = [
            entry("Ann", 80001, "state"),
            entry("Bob", 80002, "state"),
            entry("carl", 80003, "state"),
            entry("dora", 80004, "/etc/password-of-dora"),
        ];
        let users = checked(&config, &running).unwrap();
        let shown: Vec<_> = users
            .iter()
            .map(|user| (user.name.as_str(), user.ids.as_ref().unwrap().uid, user.sid.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("ann", 70001, "S-1-5-21-1-2-3-80001"),
                ("bob", 80002, "S-1-5-21-1-2-3-80002"),
                ("new", 70003, "S-1-5-21-0-0-0-1002"),
                ("carl", 80003, "S-1-5-21-1-2-3-80003"),
            ]
        );
        let gids = users.iter().map(|user| user.ids.as_ref().unwrap().gid);
        assert_eq!(gids.collect::<Vec<_>>(), [70001, 80002, 70003, 80003]);
    }
}
