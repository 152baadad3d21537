//! Asking the running server; `trunkline reload` and `trunkline stop`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use admin::{ClientError, ControlClient, Request, Response};

use crate::cli::Place;
use crate::config::Config;
use crate::state::{StateDir, StateError};

/// How long a server may take to end.
const END: Duration = Duration::from_secs(60);

/// The state directory that `place` leads to.
pub fn state_dir(place: &Place) -> anyhow::Result<PathBuf> {
    Ok(Config::state_dir(&place.overrides())?)
}

/// What the server that runs on `dir` answers; none when no server runs.
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

/// As [`ask`], for what needs a running server.
pub fn ask_running(dir: &Path, request: &Request) -> anyhow::Result<Response> {
    let shown = dir.display();
    ask(dir, request)?
        .ok_or_else(|| anyhow::anyhow!("no server runs on the state directory {shown}; see --state-dir"))
}

/// `trunkline reload`
pub fn reload(place: &Place) -> anyhow::Result<()> {
    ask_running(&state_dir(place)?, &Request::Reload)?;
    println!("reloaded");
    Ok(())
}

/// `trunkline stop`; returns when the server has ended.
pub fn stop(place: &Place) -> anyhow::Result<()> {
    let dir = state_dir(place)?;
    ask_running(&dir, &Request::Stop)?;
    let begun = Instant::now();
    // The lock is the last thing it lets go.
    while matches!(StateDir::open_existing(&dir), Err(StateError::Locked(_))) {
        anyhow::ensure!(begun.elapsed() < END, "the server has not ended after {} s", END.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("stopped");
    Ok(())
}
