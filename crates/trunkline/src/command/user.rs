//! `trunkline user add|set|list|remove|passwd`: asks the running server, else works on the state directly.

use admin::{IdChange, Request, Response, UserChange, UserEntry};

use super::control;
use crate::cli::{HostId, HostUser, ListArgs, LocationArgs, UserCommand};
use crate::config::{Config, values};
use crate::host::UserDatabase;
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
            warn_of_root(&name, &host);
        }
        UserCommand::Set { name, uid, gid, location } => {
            let (uid, gid) = (id_change(uid), id_change(gid));
            let change = UserChange { name: name.clone(), add: false, nt_hash: None, uid, gid, admin: None };
            change_user(&location, change)?;
            println!("user {name} changed");
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

/// Tells the administrator that a new user acts as root, which is so without a host user of that name.
fn warn_of_root(name: &str, host: &HostUser) {
    let ids = || UserDatabase::of_host().ok()?.ids(name, host.uid, host.gid).ok();
    let is_root = rustix::process::geteuid().is_root() && !host.admin;
    if is_root && ids().is_some_and(|ids| ids.uid == 0) {
        eprintln!(
            "trunkline: warning: {name} acts as root on this host, as the host has no other id for that \
             name; `trunkline user set {name} --uid N` gives it one"
        );
    }
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
    let config = Config::load(&args.location.overrides())?;
    let dir = &config.server.state_dir.value;
    let users: Vec<UserEntry> = match control::ask(dir, &Request::Users)? {
        Some(Response::Users(users)) => users,
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => match StateDir::open_existing(dir)? {
            Some(state) => {
                principals::resolve(&config, &state)?.iter().map(principals::LogonPrincipal::entry).collect()
            }
            None => Vec::new(),
        },
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&users)?);
        return Ok(());
    }
    let width = users.iter().map(|user| user.name.chars().count()).max().unwrap_or(0).max(4);
    println!("{:width$}  {:>10} {:>10}  {:5}  {:48}  PASSWORD FROM", "NAME", "UID", "GID", "ADMIN", "SID");
    for user in users {
        let UserEntry { name, sid, uid, gid, admin, source } = user;
        let admin = if admin { "yes" } else { "no" };
        println!("{name:width$}  {uid:>10} {gid:>10}  {admin:5}  {sid:48}  {source}");
    }
    Ok(())
}
