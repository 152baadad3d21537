//! The seam between the program and the protocol crates: what a server of files must be able to do.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::Status;
use admin::channels::SessionChannels;
use admin::transactions::{Counted, Gauges};
use admin::workload::ClientWork;

use super::plan::Plan;

/// A server of files that runs on threads of its own.
pub trait FileServer: Send + Sync {
    /// Fills in sessions, connections, tree connects, opens and locks.
    fn report(&self, status: &mut Status);

    /// Which connections carry each session; the server's name is left out.
    fn channels(&self) -> Vec<SessionChannels>;

    /// What was asked of each share, and how that went.
    fn transactions(&self) -> Vec<Counted>;

    /// What is so now of each share, by its name.
    fn gauges(&self) -> BTreeMap<String, Gauges>;

    /// What each client does that is connected.
    fn clients(&self) -> Vec<ClientWork>;

    /// Serves the shares and users of `plan` from now on. Sessions stay, except those of users who are
    /// no longer there; who is connected to a share that is gone keeps it until they disconnect.
    ///
    /// # Errors
    /// Why not, in one line; what was served before is served on.
    fn apply(&self, plan: &Plan) -> Result<(), String>;

    /// Takes no more connections and requests, answers what was received, flushes what was written,
    /// and ends. False when something had to be cut off after `within`.
    fn drain(&self, within: Duration) -> bool;
}
