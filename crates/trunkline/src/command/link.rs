//! `trunkline link`: runs a command behind a long, narrow or lossy path.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitCode;

use load::link::{self, LinkArgs};

/// Runs the command. Returns its exit status, or 128 plus the number of the signal that ended it, like a
/// shell.
pub fn run(args: &LinkArgs) -> anyhow::Result<ExitCode> {
    // Status 1 means a failure of a load. If the path cannot be set up, no command has run.
    let status = link::run(args).map_err(|why| anyhow::Error::msg(why.to_string()))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
