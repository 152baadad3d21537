//! One file for each command; `serve` has a room of its own.

mod config;
mod control;
mod load;
mod status;
mod user;

use crate::cli::Command;
use crate::serve;

/// Does what was asked.
///
/// # Errors
/// One line for the user.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::User { command } => user::run(command),
        Command::Config { command } => config::run(&command),
        Command::Status { place, json } => status::run(&place, json),
        Command::Reload(place) => control::reload(&place),
        Command::Stop(place) => control::stop(&place),
        Command::Load(args) => load::run(&args),
    }
}
