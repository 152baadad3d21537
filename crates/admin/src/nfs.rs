//! What NFS clients hold, and over which connections: the server's side of what Linux shows in `mountstats`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::channels::{LargeReads, Traffic};

/// NFS at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nfs {
    /// Where clients find what; each is a server of its own to them.
    pub endpoints: Vec<Endpoint>,
    /// Everybody who has introduced themselves.
    pub clients: Vec<Client>,
}

/// An address and port with a server owner of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `server`, `account NAME` or `share NAME`.
    pub name: String,
    /// Addresses it listens on.
    pub listen: Vec<String>,
    /// Names of the shares that are found there.
    pub shares: Vec<String>,
    /// Connections that one client may have.
    pub max_connections: usize,
}

/// A client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its client ID, in hex.
    pub client_id: String,
    /// What it calls itself.
    pub owner: String,
    /// The endpoint that it uses.
    pub endpoint: String,
    /// The address of its first connection; empty when it has none.
    pub address: String,
    /// Who speaks of it.
    pub principal: String,
    /// Minor versions of its sessions.
    pub minor_versions: Vec<u32>,
    /// Whether it has made a session since it introduced itself.
    pub confirmed: bool,
    /// Seconds since it was heard last.
    pub lease_age_seconds: u64,
    /// How long its lease is, in seconds.
    pub lease_seconds: u64,
    /// Whether its lease is over, and it keeps what it has as long as nobody else wants it.
    pub courtesy: bool,
    /// Whether it has said that it has nothing more to reclaim.
    pub reclaimed: bool,
    /// Opens.
    pub opens: usize,
    /// Lock-owners with locks on a file.
    pub lock_owners: usize,
    /// What it may do by itself.
    pub delegations: Vec<Delegation>,
    /// Names of the shares that it has come to.
    pub shares: Vec<String>,
    /// Connections that it may have.
    pub max_connections: usize,
    /// Connections that it has.
    pub current_connections: usize,
    /// Connections that were closed in favour of further ones.
    pub crowded_out: u64,
    /// Why it has no more than it has.
    pub reason: Reason,
    /// The same in words.
    pub why: String,
    /// Its sessions.
    pub sessions: Vec<NfsSession>,
}

/// A delegation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delegation {
    /// Its stateid, in hex.
    pub state_id: String,
    /// `read` or `write`.
    pub kind: String,
    /// The share.
    pub share: String,
    /// Path inside the share.
    pub filename: String,
    /// Whether it was asked for.
    pub recalled: bool,
    /// Whether it was taken away.
    pub revoked: bool,
}

/// A session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsSession {
    /// Its id, in hex.
    pub session_id: String,
    /// Minor version.
    pub minor_version: u32,
    /// Requests that may be under way at one time.
    pub slots: usize,
    /// Requests that are.
    pub busy_slots: usize,
    /// Whether the client can be called.
    pub back_channel: bool,
    /// Its connections.
    pub connections: Vec<NfsConnection>,
}

/// A connection of a session. It counts for all sessions that use it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NfsConnection {
    /// The client's address and port.
    pub remote_address: String,
    /// Our address and port.
    pub local_address: String,
    /// When it was accepted, RFC 3339.
    pub connected_at: String,
    /// Seconds since then.
    pub age_seconds: u64,
    /// Seconds since something came on it.
    pub silent_seconds: u64,
    /// Whether it carries requests.
    pub fore: bool,
    /// Whether it carries callbacks.
    pub back: bool,
    /// What came and went.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// How the data of large reads leaves.
    pub large_reads: LargeReads,
}

/// Why a client has no more connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// It has as many as it may have.
    Limit,
    /// It has mounted several shares, and takes them all over the connections of the first.
    SharedMounts,
    /// It has no connection now.
    Gone,
    /// It is at one, and nothing here is against more.
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
                "several shares are mounted from one endpoint, and the `nconnect` of the first mount counts for all; \
                 an `nfs_port` for a share or account of its own gives it its own"
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
