//! Layer 7: the command line, the configuration, and the assembly of all parts.
//!
//! Start with [`cli`] for the commands and with [`serve`] for the server. [`config`] reads the settings.
//! [`state`] stores the data that must survive a restart. [`principals`] joins both into the list of users
//! who may log on, including accounts that have keys ([`account_keys`]). [`changes`] applies commands that
//! change accounts and shares.
//!
//! A mistake in a command, in a setting or on the host is reported as one line on standard error, with exit
//! status 2. Nothing has been changed then. Exit status 1 means that a server or a load ran and failed, that
//! an examination ended early, or that another command works on the state directory. `copy` has the exit
//! statuses of robocopy instead.

mod account_keys;
mod archive;
mod backup;
mod calendar;
mod changes;
mod cli;
mod command;
mod config;
mod discovery;
mod domain;
mod host;
mod host_ids;
mod log;
mod node;
mod password;
mod principals;
mod reference;
mod secrets;
mod serve;
mod state;
mod tokens;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use serve::ProcessStart;

/// Opening, creating and listing allocate memory. The allocator of the C library took an eighth of their
/// time.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Whether something was started and then failed. Any other error is a mistake of the caller.
fn has_failed(error: &anyhow::Error) -> bool {
    let of_load = error.downcast_ref::<load::Error>();
    let is_busy = matches!(error.downcast_ref(), Some(state::StateError::Busy { .. }));
    is_busy
        || error.is::<serve::Failed>()
        || of_load.is_some_and(|error| !matches!(error, load::Error::Usage(_)))
}

fn main() -> ExitCode {
    // A signal that comes before somebody listens to it would end the process.
    let start = (is_command("serve") || is_command("node")).then(ProcessStart::begin);
    let of_server = start.as_ref().and_then(|_| cli::ServerCli::try_parse().ok());
    let command = match of_server {
        Some(cli) => cli::CliCommand::Server(cli.command),
        None => match cli::Cli::try_parse_from(load::diskspd::spell_out(std::env::args_os())) {
            Ok(cli) => cli.command,
            Err(error) => return refused(&error),
        },
    };
    let status = run(command, start);
    kerberos::skip_destructors_at_exit();
    status
}

/// Runs a command and reports its error.
fn run(command: cli::CliCommand, start: Option<ProcessStart>) -> ExitCode {
    match command::run(command, start) {
        Ok(status) => status,
        Err(error) => {
            // A chain of causes may hold line ends of its own.
            let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
            // Standard error may be full or closed; the status tells then.
            let _ = writeln!(std::io::stderr(), "trunkline: {}", secrets::masked(&text, words()));
            if has_failed(&error) { ExitCode::FAILURE } else { ExitCode::from(2) }
        }
    }
}

/// Whether the command line has this command.
fn is_command(name: &str) -> bool {
    std::env::args_os().nth(1).is_some_and(|command| command == name)
}

/// The words of the command line that are valid text.
fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Prints the error in the command line, or the help that the user requested.
fn refused(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let masked = secrets::masked(&text, words());
    // A failed write means that nobody reads the output; nothing is left to do.
    let _ = match masked == text {
        true => error.print(),
        false => std::io::stderr().write_all(masked.as_bytes()),
    };
    let (is_copy, is_health) = (is_command("copy"), is_command("health"));
    match error.exit_code() {
        2 if is_copy => ExitCode::from(copy::FATAL),
        // Supervisors reserve 2.
        2 if is_health => ExitCode::FAILURE,
        status => u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from),
    }
}
