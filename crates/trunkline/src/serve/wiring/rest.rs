//! A moment at which no client changes its opens, for a backup of the state.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use share::RecordFreeze;

/// See [`super::FileServer::at_rest`]. Nobody waits for a journal that is being replaced on a slow disk.
pub fn at_rest(
    freeze: &RecordFreeze,
    engines: &[(PathBuf, Arc<share::Share>)],
    read: &mut dyn FnMut() -> bool,
) -> Result<Option<Duration>, String> {
    let _frozen = freeze.begin();
    let since = Instant::now();
    for (path, engine) in engines {
        let written = engine.try_write_noted();
        if !written.map_err(|why| format!("the opens in {}: {why}", path.display()))? {
            return Ok(None);
        }
    }
    Ok(read().then(|| since.elapsed()))
}
