//! `trunkline state`

use super::control;
use crate::cli::StateCommand;
use crate::state::StateDir;
use crate::state::disk::Disk;
use crate::state::version::CURRENT;

/// Runs the command.
pub fn run(command: &StateCommand) -> anyhow::Result<()> {
    let StateCommand::Downgrade { to, location } = command;
    let dir = control::state_dir(location)?;
    let (from, to) = StateDir::downgrade(&dir, *to, &CURRENT, &Disk::default())?;
    println!("{}: brought from version {from} to version {to}; install the older program now", dir.display());
    Ok(())
}
