//! `trunkline config check`, `show`, `keys` and `schema`.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use admin::{Request, Response};

use super::{control, local_principals};
use crate::cli::ConfigCommand;
use crate::config::{Config, Sources, check, shadowed, show};
use crate::host::UserDatabase;
use crate::host_ids::{self, ShareOwner};
use crate::node::{fence, store};
use crate::principals::PasswordFrom;
use crate::reference;
use crate::serve::domain_faults;
use crate::state::StateDir;

/// Runs the command.
pub fn run(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Check(args) => {
            let overrides = args.overrides();
            let sources = Sources::read(&overrides)?;
            let config = Config::of(&overrides, &sources)?;
            let stored = stored_users(&config.server.state_dir.value)?;
            check::against(&config, &stored.keys().cloned().collect())?;
            store::check(&config.node)?;
            if config.node.tenure.is_some() {
                fence::check(&config.node)?;
            }
            warn_of_users_without_ids(&config, &stored)?;
            shadowed::notes(&sources).iter().for_each(|note| eprintln!("trunkline: warning: {note}"));
            if config.domain.realm.is_some() {
                let faults = domain_faults::of_config(&config, &local_principals::of_config(&config)?);
                faults.iter().for_each(|fault| eprintln!("trunkline: warning: {fault}"));
            }
            println!("ok: {} share(s)", config.shares.len());
        }
        ConfigCommand::Show(args) => print!("{}", show::show(&Config::load(&args.overrides())?)),
        ConfigCommand::Keys => print!("{}", reference::page()),
        ConfigCommand::Schema => println!("{:#}", reference::schema()),
    }
    Ok(())
}

/// The users whose passwords are in the state directory `dir`: their names in lower case, and the uids that
/// are set for them. A running server tells the uids that they have.
fn stored_users(dir: &Path) -> anyhow::Result<BTreeMap<String, Option<u32>>> {
    if let Some(Response::Users(users)) = control::ask(dir, &Request::Users)? {
        let stored = users.into_iter().filter(|user| user.source == "state");
        return Ok(stored.map(|user| (user.name.to_lowercase(), user.uid)).collect());
    }
    let Some(state) = StateDir::open_existing(dir)? else { return Ok(BTreeMap::new()) };
    Ok(state.store().users()?.into_iter().map(|user| (user.name.to_lowercase(), user.uid)).collect())
}

/// Warns of users who may not log on to a server that runs as root, since they have no uid.
fn warn_of_users_without_ids(config: &Config, stored: &BTreeMap<String, Option<u32>>) -> anyhow::Result<()> {
    let is_roots = |dir: &Path| dir.metadata().map_or(true, |found| found.uid() == 0);
    // The server runs as the owner of its state.
    if !rustix::process::geteuid().is_root() || !is_roots(&config.server.state_dir.value) {
        return Ok(());
    }
    let host = UserDatabase::of_host()?;
    let is_missing = |name: &str, uid: Option<u32>| anyhow::Ok(host.ids(name, uid, None)?.is_none());
    for (key, user) in &config.users {
        let uid = user.uid.as_ref().map(|uid| uid.value).or_else(|| stored.get(key).copied().flatten());
        let name = &user.name.value;
        if is_missing(name, uid)? && ShareOwner::of_environment(config, user).is_none() {
            eprintln!("trunkline: warning: {}", host_ids::missing(name, &PasswordFrom::of(config, user)));
        }
    }
    for (name, uid) in stored.iter().filter(|(name, _)| !config.users.contains_key(*name)) {
        if is_missing(name, *uid)? {
            eprintln!("trunkline: warning: {}", host_ids::missing(name, &PasswordFrom::State));
        }
    }
    Ok(())
}
