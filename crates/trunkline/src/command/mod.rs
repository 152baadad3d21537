//! One file for each command; `serve` has a room of its own.

mod account;
mod channels;
mod config;
mod control;
mod copy;
mod doctor;
mod limits;
mod link;
mod load;
mod metadata;
mod nfs;
mod objects;
mod page;
mod status;
mod table;
mod transactions;
mod usage;
mod user;
mod workload;

use std::process::ExitCode;

use admin::objects::Kind;

use crate::cli::{Command, StatusCommand};
use crate::serve;

/// Does what was asked; the exit status of what went well, which for a command that was run is its own.
///
/// # Errors
/// One line for the user.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Copy(args) => return copy::run(&args),
        Command::Doctor(args) => return doctor::run(&args),
        Command::Link(args) => return link::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::User { command } => user::run(command),
        Command::Account { command } => account::run(command),
        Command::Share { command } => objects::run(Kind::Share, command),
        Command::Config { command } => config::run(&command),
        Command::Status { of: None, place, json } => status::run(&place, json),
        Command::Status { of: Some(StatusCommand::Channels), place, json } => channels::run(&place, json),
        Command::Status { of: Some(StatusCommand::Transactions(args)), place, json } => {
            transactions::run(&place, &args, json)
        }
        Command::Status { of: Some(StatusCommand::Workload), place, json } => workload::run(&place, json),
        Command::Reload(place) => control::reload(&place),
        Command::Stop(place) => control::stop(&place),
        Command::Load(args) => load::run(&args),
        Command::Advise(args) => doctor::advise(&args),
        Command::NullServer(args) => load::null_server(&args),
        Command::NullLoop(args) => load::null_loop(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}
