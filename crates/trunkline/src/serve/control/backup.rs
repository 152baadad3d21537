//! The state of the running server at one moment, for a backup.

use std::time::{Duration, Instant};

use admin::ArchiveOutput;

use super::Control;
use crate::backup::create;
use crate::state::snapshot::{Snapshot, SnapshotError};

/// The time after which a backup is given up because journals are being written.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause between two attempts, in which clients go on.
const PAUSE: Duration = Duration::from_millis(1);

impl Control {
    /// Reads the state, and returns what writes its archive.
    ///
    /// # Errors
    /// The reason, in one line.
    pub(super) fn begin_backup(&self) -> Result<ArchiveOutput, String> {
        let snapshot = self.snapshot().map_err(|e| e.to_string())?;
        let held_us = u64::try_from(snapshot.held().as_micros()).unwrap_or(u64::MAX);
        tracing::info!(held_us, "the state is sent to a backup");
        create::archive(snapshot).map_err(|e| e.to_string())
    }

    /// The state at one moment. A journal that is being replaced on a slow disk holds up nobody: clients and
    /// administrators go on, and it is tried again.
    fn snapshot(&self) -> Result<Snapshot, SnapshotError> {
        let began = Instant::now();
        loop {
            // Most of what has waited is written before anybody has to wait.
            self.server.write_noted();
            let tried = {
                // No change of users, accounts and shares is half done meanwhile.
                let _current = self.lock();
                self.state.snapshot(|read| self.server.at_rest(read))
            };
            match tried {
                Err(SnapshotError::Busy) if began.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                tried => return tried,
            }
        }
    }
}
