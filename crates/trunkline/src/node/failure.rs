//! The mark of a node whose last attempt to serve has failed.

use std::fs;
use std::path::PathBuf;

use crate::config::Node;

/// A file on the node that says why its last attempt to serve has failed. The next process then leaves other
/// nodes the time to try.
#[derive(Debug, Clone)]
pub struct FailureMark(PathBuf);

impl FailureMark {
    /// The mark of the node with these settings.
    pub fn new(settings: &Node) -> FailureMark {
        FailureMark(settings.run_dir.value.join(format!("node-{}.failed", settings.server.value)))
    }

    /// Sets the mark, for the next process.
    pub fn set(&self, why: &str) {
        if let Err(error) = fs::write(&self.0, why) {
            tracing::warn!(%error, path = %self.0.display(), "the failure cannot be noted; the next attempt \
                comes without a pause");
        }
    }

    /// The reason of the last failure, if no process has begun since.
    pub fn reason(&self) -> Option<String> {
        fs::read_to_string(&self.0).ok().map(|why| why.trim().to_owned())
    }

    /// Takes the mark away. Returns the reason, if there was one.
    pub fn take(&self) -> Option<String> {
        let why = self.reason()?;
        fs::remove_file(&self.0).ok().map(|()| why)
    }
}
