//! `trunkline token add|list|revoke`: asks the running server, else works on the state directly.

use admin::access::{NewToken, TokenEntry, TokenRequest};
use admin::{Request, Response};

use super::control;
use crate::cli::{ListArgs, LocationArgs, TokenCommand};
use crate::config::Config;
use crate::state::{ADMIN_TOKEN, StateDir};
use crate::tokens::{self, FileToken, Tokens};

/// Runs the command.
pub fn run(command: TokenCommand) -> anyhow::Result<()> {
    match command {
        TokenCommand::Add { name, role, expires, location } => {
            let NewToken { token, entry } = add(&location, TokenRequest { name, role, expires })?;
            // The token alone goes to standard output, so that it can be led into a file.
            println!("{}", token.0);
            let until = entry.expires.map_or_else(String::new, |end| format!(" until {}", minute(&end)));
            eprintln!("token {} has the role {}{until}; it is shown only this once", entry.name, entry.role);
        }
        TokenCommand::List(args) => list(&args)?,
        TokenCommand::Revoke { name, location } => {
            let dir = control::state_dir(&location)?;
            if control::ask(&dir, &Request::RevokeToken { name: name.clone() })?.is_none() {
                tokens::revoke(control::existing_state(&dir)?.store(), &name)?;
            }
            println!("token {name} revoked");
        }
    }
    Ok(())
}

fn add(location: &LocationArgs, request: TokenRequest) -> anyhow::Result<NewToken> {
    let dir = control::state_dir(location)?;
    match control::ask(&dir, &Request::AddToken(request.clone()))? {
        Some(Response::NewToken(made)) => Ok(*made),
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => {
            let made = tokens::make(StateDir::open(&dir)?.store(), request)?;
            control::note_offline(&dir);
            Ok(made)
        }
    }
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let config = Config::load(&args.location.overrides())?;
    let dir = &config.server.state_dir.value;
    let listed = match control::ask(dir, &Request::Tokens)? {
        Some(Response::Tokens(listed)) => listed,
        Some(_) => anyhow::bail!("the server sent an unexpected answer"),
        None => match StateDir::open_existing(dir)? {
            Some(state) => {
                // Only a server makes the file.
                let has_file = state.path().join(ADMIN_TOKEN).exists();
                let file = if has_file { FileToken::read(&state, &config)? } else { None };
                Tokens::new(file).list(state.store())?
            }
            None => Vec::new(),
        },
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&listed)?);
        return Ok(());
    }
    let width = listed.iter().map(|token| token.name.len()).max().unwrap_or(0).max(4);
    println!("{:width$}  {:10}  {:16}  {:16}  EXPIRES (UTC)", "NAME", "ROLE", "CREATED", "LAST USED");
    for TokenEntry { name, role, created, last_used, expires } in listed {
        let role = role.to_string();
        let last_used = last_used.as_deref().map_or("never", minute);
        let (created, expires) = (minute(&created), expires.as_deref().map_or("never", minute));
        println!("{name:width$}  {role:10}  {created:16}  {last_used:16}  {expires}");
    }
    Ok(())
}

/// A time of RFC 3339 up to its minute.
fn minute(time: &str) -> &str {
    time.get(..16).unwrap_or(time)
}
