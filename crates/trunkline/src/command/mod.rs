//! One file for each command. `serve` has its own module.

mod account;
mod backup;
mod channels;
mod config;
mod control;
mod copy;
mod doctor;
mod domain;
mod domain_join;
mod domain_lookup;
mod domain_settings;
mod health;
mod limits;
mod link;
mod load;
mod local_principals;
mod metadata;
mod nfs;
mod node;
mod objects;
pub mod output;
mod page;
mod state;
mod status;
mod table;
mod token;
mod transactions;
mod usage;
mod user;
mod workload;

use std::process::ExitCode;

use admin::objects::Kind;

use crate::cli::{CliCommand, ServerCommand, StatusCommand};
use crate::serve::{self, ProcessStart};

/// Runs a command. Returns the exit status of a success; `link` has that of the command that it ran.
/// `start` is that of a server, if the process has begun as one.
///
/// # Errors
/// One line for the user.
pub fn run(command: CliCommand, start: Option<ProcessStart>) -> anyhow::Result<ExitCode> {
    match command {
        CliCommand::Copy(args) => return copy::run(&args),
        CliCommand::Doctor(args) => return doctor::run(&args),
        CliCommand::Domain { command } => return domain::run(command),
        CliCommand::Health(args) => return Ok(health::run(&args)),
        CliCommand::Link(args) => return link::run(&args),
        CliCommand::Server(ServerCommand::Node { command }) => return node::run(command, start),
        CliCommand::Server(ServerCommand::Serve(args)) => {
            serve::run(&args, start.unwrap_or_else(ProcessStart::begin))
        }
        CliCommand::User { command } => user::run(command),
        CliCommand::Token { command } => token::run(command),
        CliCommand::Account { command } => account::run(command),
        CliCommand::Share { command } => objects::run(Kind::Share, command),
        CliCommand::Config { command } => config::run(&command),
        CliCommand::Status { of: None, location, json } => status::run(&location, json),
        CliCommand::Status { of: Some(StatusCommand::Channels), location, json } => {
            channels::run(&location, json)
        }
        CliCommand::Status { of: Some(StatusCommand::Transactions(args)), location, json } => {
            transactions::run(&location, &args, json)
        }
        CliCommand::Status { of: Some(StatusCommand::Workload), location, json } => {
            workload::run(&location, json)
        }
        CliCommand::Reload(location) => control::reload(&location),
        CliCommand::Stop(location) => control::stop(&location),
        CliCommand::Backup(args) => backup::backup(&args),
        CliCommand::Restore(args) => backup::restore(&args),
        CliCommand::State { command } => state::run(&command),
        CliCommand::Load(args) => load::run(&args),
        CliCommand::Advise(args) => doctor::advise(&args),
        CliCommand::NullServer(args) => load::null_server(&args),
        CliCommand::NullLoop(args) => load::null_loop(&args),
    }?;
    Ok(ExitCode::SUCCESS)
}
