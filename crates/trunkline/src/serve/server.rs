//! The seam between the program and the protocol crates: what a server of files must be able to do.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use admin::Status;
use admin::channels::SessionChannels;
use admin::open_files::ClosedState;
use admin::status::Transport;
use admin::transactions::{Gauges, ShareTransactions};
use admin::workload::ClientWork;

use super::plan::Plan;

/// Who uses a share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShareUse {
    /// Sessions of SMB that are connected to it.
    pub trees: usize,
    /// Clients of NFS that have been there.
    pub nfs_clients: usize,
    /// What is open on it, also for clients that are away.
    pub opens: usize,
}

impl ShareUse {
    /// Whether nobody does.
    pub fn is_none(&self) -> bool {
        *self == ShareUse::default()
    }
}

impl fmt::Display for ShareUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.trees, "connection", "connections", " over SMB"),
            (self.nfs_clients, "client", "clients", " of NFS that came to it"),
            (self.opens, "open file", "open files", ""),
        ];
        let there = counts.iter().filter(|(count, ..)| *count > 0);
        let words = there
            .map(|(count, one, many, how)| format!("{count} {}{how}", if *count == 1 { one } else { many }));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

/// A server of files that runs on threads of its own.
pub trait FileServer: Send + Sync {
    /// Fills in sessions, connections, tree connects, opens and locks.
    fn report(&self, status: &mut Status);

    /// Connections, what was refused to them, and what is held for clients that do not read.
    fn transport(&self) -> Transport {
        Transport::default()
    }

    /// Which connections carry each session; the server's name is left out.
    fn channels(&self) -> Vec<SessionChannels>;

    /// What was asked of each share, and how that went.
    fn transactions(&self) -> Vec<ShareTransactions>;

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

    /// Whether a share has a size, and what lies there is not known yet.
    fn is_counting(&self, share: &str) -> bool;

    /// Who uses a share, by its name.
    fn use_of(&self, share: &str) -> ShareUse;

    /// Disconnects whoever still uses a share that is not in the plan any more: what they have open there is closed. Their
    /// sessions go on.
    fn disconnect(&self, share: &str);

    /// Closes the open or the locks that have this id in the status, and tells what that was; none when there is no such
    /// thing any more.
    fn close_open(&self, close_id: &str) -> Option<ClosedState>;

    /// Takes no more connections and requests, answers what was received, flushes what was written,
    /// and ends. False when something had to be cut off after `within`.
    fn drain(&self, within: Duration) -> bool;
}
