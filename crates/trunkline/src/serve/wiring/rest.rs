//! A moment at which no client changes its opens, for a backup of the state.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use share::RecordFreeze;

/// The pause between two attempts, in which clients go on.
const PAUSE: Duration = Duration::from_millis(1);
/// The time after which a backup is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// See [`super::FileServer::at_rest`]. Nobody waits for a journal that is being replaced on a slow disk:
/// clients go on, and it is tried again.
pub fn at_rest(
    freeze: &RecordFreeze,
    engines: &[(PathBuf, Arc<share::Share>)],
    read: &mut dyn FnMut() -> bool,
) -> Result<Duration, String> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        // Most of what has waited is written before anybody has to wait.
        engines.iter().for_each(|(_, engine)| engine.write_noted());
        let frozen = freeze.begin();
        let since = Instant::now();
        let mut is_written = true;
        for (path, engine) in engines {
            let written = engine.try_write_noted();
            is_written &= written.map_err(|why| format!("the opens in {}: {why}", path.display()))?;
        }
        if is_written && read() {
            return Ok(since.elapsed());
        }
        drop(frozen);
        std::thread::sleep(PAUSE);
    }
    Err(format!("the record of opens was being written for {} s; try again", PATIENCE.as_secs()))
}
