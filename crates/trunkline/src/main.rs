//! Layer 7: the command line, the configuration, putting it together.
//!
//! Start with [`cli`] for what can be asked and [`serve`] for what happens then. [`config`] reads the
//! settings, [`state`] keeps what must survive, [`principals`] joins both into the users who may log on, with
//! accounts that have keys ([`account_keys`]), [`changes`] has accounts and shares changed by command.
//!
//! What is wrong with a command, a setting or the host is one line on standard error and exit status 2, and
//! nothing has been changed then. Exit status 1 is a server or a load that ran and failed, or an examination
//! that ended early. `copy` has the exit statuses of robocopy instead.

mod account_keys;
mod calendar;
mod changes;
mod cli;
mod command;
mod config;
mod discovery;
mod host;
mod log;
mod password;
mod principals;
mod reference;
mod secrets;
mod serve;
mod state;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// Opening, creating and listing allocate: an eighth of their time was spent in the C library's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Whether something was begun and failed; all else is a mistake of whoever called.
fn has_failed(error: &anyhow::Error) -> bool {
    let of_load = error.downcast_ref::<load::Error>();
    error.is::<serve::Failed>() || of_load.is_some_and(|error| !matches!(error, load::Error::Usage(_)))
}

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse_from(load::diskspd::spell_out(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    match command::run(cli.command) {
        Ok(status) => status,
        Err(error) => {
            // A chain of causes may hold line ends of its own.
            let text = format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ");
            eprintln!("trunkline: {}", secrets::masked(&text, words()));
            if has_failed(&error) { ExitCode::FAILURE } else { ExitCode::from(2) }
        }
    }
}

/// The words of the command line, as far as they are text.
fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// Prints what is wrong with the command line, or the help that was asked for.
fn refused(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let masked = secrets::masked(&text, words());
    // Nothing is left to do when nobody reads it.
    let _ = match masked == text {
        true => error.print(),
        false => std::io::stderr().write_all(masked.as_bytes()),
    };
    let is_copy = std::env::args_os().nth(1).is_some_and(|command| command == "copy");
    match error.exit_code() {
        2 if is_copy => ExitCode::from(copy::FATAL),
        status => u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from),
    }
}
