//! The interface between the program and the protocol crates: the operations of a file server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use admin::Status;
use admin::channels::SessionChannels;
use admin::open_files::ClosedState;
use admin::status::Transport;
use admin::transactions::{Gauges, ShareTransactions};
use admin::workload::ClientWork;

use super::plan::ServePlan;
use crate::config::Config;

/// The number of users of a share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShareUse {
    /// SMB tree connects to it.
    pub trees: usize,
    /// NFS clients that have accessed it.
    pub nfs_clients: usize,
    /// Opens on it, including those of disconnected clients.
    pub opens: usize,
}

impl ShareUse {
    /// Whether the share is unused.
    pub fn is_none(&self) -> bool {
        *self == ShareUse::default()
    }
}

impl fmt::Display for ShareUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.trees, "connection", "connections", " over SMB"),
            (self.nfs_clients, "client", "clients", " over NFS"),
            (self.opens, "open file", "open files", ""),
        ];
        let there = counts.iter().filter(|(count, ..)| *count > 0);
        let words = there
            .map(|(count, one, many, how)| format!("{count} {}{how}", if *count == 1 { one } else { many }));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

/// The check of a directory. The error is the reason why it cannot be used.
pub type DirectoryCheck = Box<dyn Fn() -> Result<(), String> + Send>;

/// A directory that is served.
pub struct ServedPath {
    /// The share's name.
    pub share: String,
    /// The directory.
    pub path: PathBuf,
    /// Looks at the directory. It blocks for as long as the directory's disk does not answer.
    pub check: DirectoryCheck,
}

/// A file server that runs on its own threads.
pub trait FileServer: Send + Sync {
    /// The directories that are served now. The call waits for a change of shares that is in progress.
    fn directories(&self) -> Vec<ServedPath> {
        Vec::new()
    }

    /// Fills in sessions, connections, tree connects, opens and locks.
    fn report(&self, status: &mut Status);

    /// The connections, counts of refused ones, and the memory for clients that do not read their replies.
    fn transport(&self) -> Transport {
        Transport::default()
    }

    /// The audit; none without a target.
    fn audit(&self) -> Option<admin::status::Audit> {
        None
    }

    /// The tenure; none for a server of one machine.
    fn node(&self) -> Option<admin::status::NodeTenure> {
        None
    }

    /// Tells the audit of an administrator's request, which was refused for a reason or done.
    fn note_request(&self, by: (&str, Option<u32>), request: &str, refused: Option<&str>) {
        let _unaudited = (by, request, refused);
    }

    /// The connections of each session, without the server's name.
    fn channels(&self) -> Vec<SessionChannels>;

    /// The requests to each share and their results.
    fn transactions(&self) -> Vec<ShareTransactions>;

    /// The current values of each share, by its name.
    fn gauges(&self) -> BTreeMap<String, Gauges>;

    /// The load of each connected client.
    fn clients(&self) -> Vec<ClientWork>;

    /// Serves the shares and users of `plan` from now on. Sessions stay, except those of users that no longer
    /// exist. A client that is connected to a removed share keeps it until it disconnects.
    ///
    /// # Errors
    /// The reason, in one line. The old shares and users stay in force.
    fn apply(&self, plan: &ServePlan) -> Result<(), String>;

    /// The log-ons of the domain that do not work by the settings of now, one line each.
    fn domain_faults(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether the keytab of the configuration that is served needs it to be applied again: it has new
    /// principals, or tickets are off and would work now.
    fn has_new_keytab(&self, config: &Config) -> bool {
        let _no_keytab = config;
        false
    }

    /// Whether a share has a size and its used space is not known yet.
    fn is_counting(&self, share: &str) -> bool;

    /// The number of users of a share, by its name.
    fn use_of(&self, share: &str) -> ShareUse;

    /// Disconnects all clients from a share that is no longer in the plan, and closes their open files there.
    /// Their sessions stay.
    fn disconnect(&self, share: &str);

    /// Closes the open or the locks with this id in the status, and returns a description of them. None when
    /// there is no such state any more.
    fn close_open(&self, close_id: &str) -> Option<ClosedState>;

    /// Writes the noted changes of opens to the journals. It may wait for a disk.
    fn write_noted(&self) {}

    /// Calls `read` while no client changes its opens and all changes are in the journals. Returns the time
    /// for which clients had to wait, or none if it could not be done at once or `read` returned false.
    ///
    /// # Errors
    /// The reason why the opens cannot be written, in one line.
    fn at_rest(&self, read: &mut dyn FnMut() -> bool) -> Result<Option<Duration>, String>;

    /// Accepts no more connections and requests, answers the received requests, flushes the written data, and
    /// stops. Returns false if requests had to be cut off after `within`.
    fn drain(&self, within: Duration) -> bool;
}
