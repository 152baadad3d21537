//! The mark of a node whose last attempt to serve has failed.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::config::Node;

/// A file on the node that says that its last attempt to serve has failed. The next process then leaves other
/// nodes the time to try.
#[derive(Debug, Clone)]
pub struct FailureMark(PathBuf);

impl FailureMark {
    /// The mark of the node with these settings.
    pub fn new(settings: &Node) -> FailureMark {
        FailureMark(settings.run_dir.value.join(format!("node-{}.failed", settings.server.value)))
    }

    /// Sets the mark, for the next process.
    pub fn set(&self) {
        if let Err(error) = std::fs::write(&self.0, "") {
            tracing::debug!(%error, path = %self.0.display(), "the failure cannot be noted");
        }
    }

    /// Waits if the last process has failed, and takes the mark away.
    pub fn wait(&self, pause: Duration) {
        if std::fs::remove_file(&self.0).is_ok() {
            tracing::info!(
                pause_s = pause.as_secs(),
                "the last attempt to serve failed; other nodes may try first"
            );
            thread::sleep(pause);
        }
    }
}
