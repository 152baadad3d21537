//! `trunkline domain lookup ACCOUNT`: asks the sources of the resolver as the server does, without its
//! memory.
//!
//! Users of the server itself are in its state, and `trunkline user list` shows them.

use std::process::ExitCode;
use std::sync::Arc;

use identity::{AccountKey, Group, Resolver, User};
use serde_json::{Value, json};

use super::output;
use crate::cli::LocationArgs;
use crate::config::Config;
use crate::domain::accounts;

/// Runs the command.
pub fn run(account: &str, group: bool, json: bool, location: &LocationArgs) -> anyhow::Result<ExitCode> {
    let domain = Config::load(&location.overrides())?.domain;
    let settings = accounts::id_mapping(&domain).and_then(|mapping| accounts::settings(&domain, mapping));
    let access = accounts::DirectoryAccess::of(&domain);
    let resolver = settings.and_then(|settings| accounts::resolver(&access?, settings));
    let resolver = resolver.map_err(|mend| anyhow::anyhow!("no account of a domain has an id: {mend}"))?;
    let found = match group {
        true => group_of(&resolver, account)?.map(|group| shown_group(&group)),
        false => user_of(&resolver, account)?.map(|user| shown_user(&user)),
    };
    let Some(found) = found else {
        anyhow::bail!(
            "neither the directory nor the host has {} {account}",
            ["the user", "the group"][usize::from(group)]
        );
    };
    match (json, found.as_object()) {
        (false, Some(fields)) => {
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                output::line(format_args!("{key:10} {}", line(value)));
            }
        }
        _ => output::line(serde_json::to_string_pretty(&found)?),
    }
    Ok(ExitCode::SUCCESS)
}

fn user_of(resolver: &Resolver, account: &str) -> Result<Option<Arc<User>>, identity::IdentityError> {
    match account.parse() {
        Ok(uid) => resolver.user(&AccountKey::Id(uid)),
        Err(_) => resolver.user_named(account),
    }
}

fn group_of(resolver: &Resolver, account: &str) -> Result<Option<Arc<Group>>, identity::IdentityError> {
    match account.parse() {
        Ok(gid) => resolver.group(&AccountKey::Id(gid)),
        Err(_) => resolver.group_named(account),
    }
}

fn shown_user(user: &User) -> Value {
    let groups = user.groups.iter().map(|group| json!({ "sid": group.sid.to_string(), "gid": group.gid }));
    json!({ "name": user.nt_name(), "principal": user.principal.as_deref(), "sid": user.sid.to_string(),
        "uid": user.uid, "gid": user.gid, "enabled": user.enabled, "groups": groups.collect::<Vec<_>>() })
}

fn shown_group(group: &Group) -> Value {
    json!({ "name": group.nt_name(), "sid": group.sid.to_string(), "gid": group.gid })
}

/// A value for people: groups as `SID (gid)`.
fn line(value: &Value) -> String {
    let Some(groups) = value.as_array() else {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    };
    let one = |group: &Value| match (group["sid"].as_str().unwrap_or_default(), group["gid"].as_u64()) {
        (sid, Some(gid)) => format!("{sid} ({gid})"),
        (sid, None) => sid.to_owned(),
    };
    groups.iter().map(one).collect::<Vec<_>>().join(", ")
}
