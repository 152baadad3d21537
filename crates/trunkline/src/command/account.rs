//! `trunkline account keys list|renew`: asks the running server, else works on the state directly. Keys are
//! printed nowhere else.

use std::path::Path;

use admin::objects::Kind;
use admin::{AccountKey, AccountKeys, KeyName, Request, Response};

use super::{control, objects};
use crate::cli::{AccountCommand, KeysCommand, LocationArgs};
use crate::config::Config;
use crate::state::StateDir;
use crate::{account_keys, password};

/// Runs the command.
pub fn run(command: AccountCommand) -> anyhow::Result<()> {
    match command {
        AccountCommand::Object(command) => objects::run(Kind::Account, command),
        AccountCommand::Keys { command: KeysCommand::List { name, json, location } } => {
            list(&name, json, &location)
        }
        AccountCommand::Keys { command: KeysCommand::Renew { name, key, key_file, location } } => {
            renew(name, key, key_file.as_deref(), &location)
        }
    }
}

fn list(account: &str, json: bool, location: &LocationArgs) -> anyhow::Result<()> {
    let dir = control::state_dir(location)?;
    let keys = match control::ask(&dir, &Request::AccountKeys { account: account.to_owned() })? {
        Some(Response::AccountKeys(keys)) => *keys,
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => {
            let config = Config::load(&location.overrides())?;
            match StateDir::open_existing(&dir)? {
                Some(state) => {
                    account_keys::list(&config, state.store(), account).map_err(anyhow::Error::msg)?
                }
                None => AccountKeys::default(),
            }
        }
    };
    if json {
        println!("{}", serde_json::to_string_pretty(&keys)?);
        return Ok(());
    }
    for name in [KeyName::Key1, KeyName::Key2] {
        println!("{name}  {}", keys.get(name).map_or("(none)", |key| key.0.as_str()));
    }
    Ok(())
}

fn renew(
    account: String,
    key: Option<KeyName>,
    file: Option<&Path>,
    location: &LocationArgs,
) -> anyhow::Result<()> {
    let given = file.map(|file| password::from_file(file, "--key-file")).transpose()?.map(AccountKey);
    let is_given = given.is_some();
    let dir = control::state_dir(location)?;
    let request = Request::RenewKey { account: account.clone(), key, given: given.clone() };
    let (name, keys) = match control::ask(&dir, &request)? {
        Some(Response::Renewed(name, keys)) => (name, *keys),
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => {
            let config = Config::load(&location.overrides())?;
            let state = StateDir::open(&dir)?;
            account_keys::renew(&config, state.store(), &account, key, given).map_err(anyhow::Error::msg)?
        }
    };
    match keys.get(name).filter(|_| !is_given) {
        Some(key) => println!("{name}  {}", key.0),
        None => println!("{name} of account {account} renewed"),
    }
    Ok(())
}
