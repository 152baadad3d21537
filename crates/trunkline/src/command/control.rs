//! Requests to the running server; `trunkline reload` and `trunkline stop`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use admin::{ClientError, ControlClient, Request, Response};

use crate::cli::LocationArgs;
use crate::config::Config;
use crate::state::{StateDir, StateError};

/// The time that a server may take to stop.
const END: Duration = Duration::from_secs(60);

/// The state directory that `location` selects.
pub fn state_dir(location: &LocationArgs) -> anyhow::Result<PathBuf> {
    Ok(Config::state_dir(&location.overrides())?)
}

/// The response of the server that runs on `dir`. None if no server runs.
pub fn ask(dir: &Path, request: &Request) -> anyhow::Result<Option<Response>> {
    let told = |error: ClientError| anyhow::anyhow!("{}: {error}", dir.display());
    match ControlClient::connect(dir) {
        Ok(client) => match client.ask(request) {
            Ok(response) => Ok(Some(response)),
            Err(ClientError::Refused(why)) => anyhow::bail!("{why}"),
            Err(error) => Err(told(error)),
        },
        Err(ClientError::NotRunning) => Ok(None),
        Err(error) => Err(told(error)),
    }
}

/// Like [`ask`], for commands that need a running server.
pub fn ask_running(dir: &Path, request: &Request) -> anyhow::Result<Response> {
    let shown = dir.display();
    ask(dir, request)?
        .ok_or_else(|| anyhow::anyhow!("no server runs on the state directory {shown}; see --state-dir"))
}

/// The note that a change was made without a server. A forgotten `sudo` or a service that failed shows in it.
pub fn offline_note(dir: &Path) -> String {
    format!(
        "no server runs on the state directory {}; the change counts when one starts on it",
        dir.display()
    )
}

/// Prints [`offline_note`] to standard error.
pub fn note_offline(dir: &Path) {
    eprintln!("trunkline: note: {}", offline_note(dir));
}

/// The state to change while no server runs on it.
pub fn existing_state(dir: &Path) -> anyhow::Result<StateDir> {
    let state = StateDir::open_existing(dir)?;
    state.ok_or_else(|| anyhow::anyhow!("there is no state directory {}; see --state-dir", dir.display()))
}

/// `trunkline reload`
pub fn reload(location: &LocationArgs) -> anyhow::Result<()> {
    let response = ask_running(&state_dir(location)?, &Request::Reload)?;
    println!("reloaded");
    if let Response::Reloaded(notes) = response {
        notes.iter().for_each(|note| eprintln!("trunkline: warning: {note}"));
    }
    Ok(())
}

/// `trunkline stop`; returns when the server has stopped.
pub fn stop(location: &LocationArgs) -> anyhow::Result<()> {
    let dir = state_dir(location)?;
    ask_running(&dir, &Request::Stop)?;
    let begun = Instant::now();
    // The server releases the lock last.
    while matches!(StateDir::open_existing(&dir), Err(StateError::Locked(_))) {
        anyhow::ensure!(begun.elapsed() < END, "the server has not ended after {} s", END.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("stopped");
    Ok(())
}
