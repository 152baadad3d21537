//! The state of NFS clients and their connections: the server's side of the figures that Linux shows in
//! `mountstats`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::channels::{LargeReads, Traffic};

/// NFS at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nfs {
    /// The endpoints. Each is a server of its own to clients.
    pub endpoints: Vec<Endpoint>,
    /// The clients that have introduced themselves (EXCHANGE_ID).
    pub clients: Vec<Client>,
}

/// An address and port with a server owner of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The owner: `server`, `account NAME` or `share NAME`.
    pub name: String,
    /// The addresses at which it listens.
    pub listen: Vec<String>,
    /// The names of the shares that clients find there.
    pub shares: Vec<String>,
    /// The number of connections that one client may have.
    pub max_connections: usize,
}

/// An NFS client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// The client ID, in hex.
    pub client_id: String,
    /// The name that the client calls itself by.
    pub owner: String,
    /// The endpoint that the client uses.
    pub endpoint: String,
    /// The address of its first connection; empty when it has none.
    pub address: String,
    /// The principal that may speak for the client.
    pub principal: String,
    /// The minor versions of its sessions.
    pub minor_versions: Vec<u32>,
    /// Whether it has made a session since it introduced itself.
    pub confirmed: bool,
    /// Seconds since the last request.
    pub lease_age_seconds: u64,
    /// The length of its lease, in seconds.
    pub lease_seconds: u64,
    /// Whether its lease is over and it keeps its state only until somebody else wants it.
    pub courtesy: bool,
    /// Whether it has said that it has nothing more to reclaim.
    pub reclaimed: bool,
    /// The number of opens.
    pub opens: usize,
    /// The number of lock-owners with locks on a file.
    pub lock_owners: usize,
    /// The delegations.
    pub delegations: Vec<Delegation>,
    /// The names of the shares that it has come to.
    pub shares: Vec<String>,
    /// The number of connections that it may have.
    pub max_connections: usize,
    /// The number of connections that it has.
    pub current_connections: usize,
    /// Connections that were closed in favour of further ones.
    pub crowded_out: u64,
    /// The reason why it has no more connections.
    pub reason: Reason,
    /// The reason in words.
    pub why: String,
    /// The sessions.
    pub sessions: Vec<NfsSession>,
}

/// A delegation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// The stateid, in hex.
    pub state_id: String,
    /// The kind, `read` or `write`.
    pub kind: String,
    /// The share's name.
    pub share: String,
    /// The path inside the share.
    pub filename: String,
    /// Whether the server has recalled it.
    pub recalled: bool,
    /// Whether the server has revoked it.
    pub revoked: bool,
}

/// A session of an NFS client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsSession {
    /// The session id, in hex.
    pub session_id: String,
    /// The minor version.
    pub minor_version: u32,
    /// The number of requests that may be in progress at one time.
    pub slots: usize,
    /// The number of requests in progress.
    pub busy_slots: usize,
    /// Whether the server can call the client.
    pub back_channel: bool,
    /// The connections.
    pub connections: Vec<NfsConnection>,
}

/// A connection of a session. Its figures count for all sessions that use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsConnection {
    /// The client's address and port.
    pub remote_address: String,
    /// The server's address and port.
    pub local_address: String,
    /// The time at which it was accepted, RFC 3339.
    pub connected_at: String,
    /// Seconds since then.
    pub age_seconds: u64,
    /// Seconds since the last bytes came on it.
    pub silent_seconds: u64,
    /// Whether it carries requests.
    pub fore: bool,
    /// Whether it carries callbacks.
    pub back: bool,
    /// Requests and bytes.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The way in which the data of large reads leaves.
    pub large_reads: LargeReads,
}

/// The reason why a client has no more connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It has as many as it may have.
    Limit,
    /// It has mounted several shares, and takes them all over the connections of the first.
    SharedMounts,
    /// It has no connection now.
    Gone,
    /// It has one, and the server has nothing against more.
    #[default]
    OpensNone,
    /// It has several.
    Several,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Limit => "as many connections as `nfs_max_connections` allows",
            Reason::SharedMounts => {
                "several shares are mounted from one endpoint, and the `nconnect` of the first mount counts \
                 for all; an `nfs_port` for a share or account of its own gives it its own"
            }
            Reason::Gone => "no connection now",
            Reason::OpensNone => {
                "the client opens one; mount with `nconnect=4`, after unmounting all else from this endpoint"
            }
            Reason::Several => "the client opens no more",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_written_for_programs_and_for_people() {
        assert_eq!(serde_json::to_string(&Reason::SharedMounts).unwrap(), "\"shared_mounts\"");
        assert_eq!(Reason::Gone.to_string(), "no connection now");
    }
}
