//! `trunkline config check`, `show`, `keys` and `schema`.

use std::collections::BTreeSet;
use std::path::Path;

use admin::{Request, Response};

use super::control;
use crate::cli::ConfigCommand;
use crate::config::{Config, check, show};
use crate::reference;
use crate::state::StateDir;

/// Runs the command.
pub fn run(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Check(args) => {
            let config = Config::load(&args.overrides())?;
            check::against(&config, &known_users(&config.server.state_dir.value)?)?;
            println!("ok: {} share(s)", config.shares.len());
        }
        ConfigCommand::Show(args) => print!("{}", show::show(&Config::load(&args.overrides())?)),
        ConfigCommand::Keys => print!("{}", reference::page()),
        ConfigCommand::Schema => println!("{:#}", reference::schema()),
    }
    Ok(())
}

/// Names, in lower case, of the users whose passwords are in the state directory `dir`.
fn known_users(dir: &Path) -> anyhow::Result<BTreeSet<String>> {
    let lower = |name: &str| name.to_lowercase();
    if let Some(Response::Users(users)) = control::ask(dir, &Request::Users)? {
        return Ok(users
            .iter()
            .filter(|user| user.source == "state")
            .map(|user| lower(&user.name))
            .collect());
    }
    match StateDir::open_existing(dir)? {
        Some(state) => Ok(state.store().users()?.iter().map(|user| lower(&user.name)).collect()),
        None => Ok(BTreeSet::new()),
    }
}
