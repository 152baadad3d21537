//! `trunkline user add|set|list|remove|passwd`: asks the running server, else works on the state directly.

use admin::{IdChange, Request, Response, UserChange, UserEntry};

use super::control;
use crate::cli::{HostId, ListArgs, LocationArgs, UserCommand};
use crate::config::{Config, values};
use crate::state::StateDir;
use crate::{password, principals};

/// Runs the command.
pub fn run(command: UserCommand) -> anyhow::Result<()> {
    match command {
        UserCommand::Add { name, host, password: from, location } => {
            values::user_name(&name).map_err(anyhow::Error::msg)?;
            let password = password::obtain(&name, from.password_file.as_deref())?;
            let change = UserChange {
                nt_hash: Some(principals::nt_hash(&password)),
                add: true,
                uid: host.uid.into(),
                gid: host.gid.into(),
                admin: Some(host.admin),
                name,
            };
            let name = change.name.clone();
            change_user(&location, change)?;
            password::warn_of_weakness(&name, &password);
            println!("user {name} added");
            warn_of_restriction(&location, &name);
        }
        UserCommand::Set { name, uid, gid, location } => {
            let (uid, gid) = (id_change(uid), id_change(gid));
            let change = UserChange { name: name.clone(), add: false, nt_hash: None, uid, gid, admin: None };
            change_user(&location, change)?;
            println!("user {name} changed");
            warn_of_restriction(&location, &name);
        }
        UserCommand::Passwd { name, password: from, location } => {
            let password = password::obtain(&name, from.password_file.as_deref())?;
            let nt_hash = Some(principals::nt_hash(&password));
            let (uid, gid) = (IdChange::Keep, IdChange::Keep);
            let change = UserChange { name, add: false, nt_hash, uid, gid, admin: None };
            let name = change.name.clone();
            change_user(&location, change)?;
            password::warn_of_weakness(&name, &password);
            println!("password of {name} changed");
        }
        UserCommand::Remove { name, location } => {
            let dir = control::state_dir(&location)?;
            if control::ask(&dir, &Request::RemoveUser { name: name.clone() })?.is_none() {
                principals::remove(control::existing_state(&dir)?.store(), &name)?;
            }
            println!("user {name} removed");
        }
        UserCommand::List(args) => list(&args)?,
    }
    Ok(())
}

fn id_change(wanted: Option<HostId>) -> IdChange {
    match wanted {
        None => IdChange::Keep,
        Some(HostId::OfHost) => IdChange::ByName,
        Some(HostId::Number(number)) => IdChange::To(number),
    }
}

/// Tells the administrator that a user may not log on, which is so without an id on the host.
fn warn_of_restriction(location: &LocationArgs, name: &str) {
    // The change itself has been made, whatever else is wrong with the configuration.
    let Ok(users) = users(location) else { return };
    let named = users.into_iter().find(|user| user.name.to_lowercase() == name.to_lowercase());
    if let Some(why) = named.and_then(|user| user.restriction) {
        eprintln!("trunkline: warning: {why}");
    }
}

/// The users, by the running server or by the state.
fn users(location: &LocationArgs) -> anyhow::Result<Vec<UserEntry>> {
    let config = Config::load(&location.overrides())?;
    let dir = &config.server.state_dir.value;
    Ok(match control::ask(dir, &Request::Users)? {
        Some(Response::Users(users)) => users,
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => match StateDir::open_existing(dir)? {
            Some(state) => {
                principals::resolve(&config, &state)?.iter().map(principals::LogonPrincipal::entry).collect()
            }
            None => Vec::new(),
        },
    })
}

fn change_user(location: &LocationArgs, change: UserChange) -> anyhow::Result<()> {
    let dir = control::state_dir(location)?;
    if control::ask(&dir, &Request::ChangeUser(change.clone()))?.is_none() {
        let state = if change.add { StateDir::open(&dir)? } else { control::existing_state(&dir)? };
        principals::change(state.store(), change)?;
        control::note_offline(&dir);
    }
    Ok(())
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let users = users(&args.location)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&users)?);
        return Ok(());
    }
    let width = users.iter().map(|user| user.name.chars().count()).max().unwrap_or(0).max(4);
    println!("{:width$}  {:>10} {:>10}  {:5}  {:48}  PASSWORD FROM", "NAME", "UID", "GID", "ADMIN", "SID");
    for user in users {
        let UserEntry { name, sid, uid, gid, admin, restriction: _, source } = user;
        let [uid, gid] = [uid, gid].map(|id| id.map_or_else(|| "none".to_owned(), |id| id.to_string()));
        let admin = if admin { "yes" } else { "no" };
        println!("{name:width$}  {uid:>10} {gid:>10}  {admin:5}  {sid:48}  {source}");
    }
    Ok(())
}
