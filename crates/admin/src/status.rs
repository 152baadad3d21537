//! The values of a status. They have the names that `smbstatus --json` uses, so that a program that reads the
//! one reads the other. Maps have the id of each object as the key.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All that a server knows about its clients at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The time at which it was taken, RFC 3339.
    pub timestamp: String,
    /// The server's version.
    pub version: String,
    /// The server itself.
    pub server: ServerStatus,
    /// SMB sessions by their ids.
    pub sessions: BTreeMap<String, Session>,
    /// Connections by a number of their own. A connection without a session stands only here.
    pub connections: BTreeMap<String, Connection>,
    /// Tree connects by session id and tree id.
    pub tcons: BTreeMap<String, TreeConnect>,
    /// Open files by their path on the host.
    pub open_files: BTreeMap<String, OpenFile>,
    /// Locked files by their path on the host.
    pub byte_range_locks: BTreeMap<String, LockedFile>,
    /// The limited shares by name.
    #[serde(default)]
    pub limits: BTreeMap<String, crate::limits::LimitedShare>,
    /// The metadata caches of shares by the share's name.
    #[serde(default)]
    pub metadata: BTreeMap<String, crate::metadata::RememberedShare>,
    /// The shares on which all files are counted, by name.
    #[serde(default)]
    pub usage: BTreeMap<String, crate::usage::UsedShare>,
    /// The log of single requests; null when there is none.
    #[serde(default)]
    pub records: Option<Records>,
    /// The audit; null when there is none.
    #[serde(default)]
    pub audit: Option<Audit>,
    /// The tenure of a node of a virtual server; null for a server of one machine.
    #[serde(default)]
    pub node: Option<NodeTenure>,
    /// NFS clients and their state.
    #[serde(default)]
    pub nfs: crate::nfs::Nfs,
    /// Connections as the transport counts them.
    #[serde(default)]
    pub transport: Transport,
}

/// Connections as the transport counts them, and the memory for clients that do not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transport {
    /// Over SMB.
    pub smb: Connections,
    /// Over NFS.
    pub nfs: Connections,
    /// Bytes of replies that wait in memory for clients that do not read.
    pub unread_bytes: u64,
    /// The bound on these bytes.
    pub unread_bound_bytes: u64,
    /// Connections that were closed because of the bound.
    pub unread_closed: u64,
    /// Descriptors of files.
    #[serde(default)]
    pub descriptors: Descriptors,
    /// The memory for opens, byte ranges, states and sessions of clients.
    #[serde(default)]
    pub client_memory: ClientMemory,
    /// SMB sessions whose tickets have ended.
    #[serde(default)]
    pub ticket_ends: TicketEnds,
}

/// SMB sessions with Kerberos tickets that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketEnds {
    /// How often a session was told that its ticket has ended.
    pub expired: u64,
    /// How often a session was authenticated again.
    pub reauthenticated: u64,
}

/// The memory for opens and byte ranges of clients, and for the protocols' state beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMemory {
    /// Bytes in use, as they are charged.
    pub bytes: u64,
    /// The bound on these bytes.
    pub bound_bytes: u64,
    /// Requests that were refused because their client used more than was left.
    pub refused: u64,
}

/// The files that were closed, opened again or refused because descriptors ran short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptors {
    /// Closings of a file that nobody used.
    pub idle_closed: u64,
    /// Openings of such a file again.
    pub opened_again: u64,
    /// Opens that were refused because their client had more than an equal share.
    pub refused_opens: u64,
}

/// Connections of one protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Connections at this moment.
    pub connections: u64,
    /// Those of them without a log-on (SMB) or without a session (NFS).
    pub unproved: u64,
    /// Connections that were refused because all places were taken.
    pub refused_all: u64,
    /// Connections that were refused because their address had as many as one address may have.
    pub refused_address: u64,
    /// Connections that were refused because their address had too many unproved ones.
    pub refused_unproved: u64,
    /// Connections that were refused because descriptors ran short and their address had more than its share.
    pub refused_descriptors: u64,
    /// Unproved connections that gave their place up to a connection of an address with fewer such.
    #[serde(default)]
    pub displaced: u64,
}

impl Connections {
    /// Connections that were refused for any reason.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused_all + self.refused_address + self.refused_unproved + self.refused_descriptors
    }
}

/// The log of single requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// The path of the file.
    pub path: String,
    /// Requests that were written.
    pub written: u64,
    /// Requests that were left out because they came faster than they could be written.
    pub lost: u64,
}

/// The audit of the shares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// The file or the syslog daemon.
    pub target: String,
    /// Events that were written.
    pub written: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Whether the target takes nothing at this moment.
    pub is_failing: bool,
}

/// The tenure of a server that is one node of a virtual server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTenure {
    /// The name of the virtual server.
    pub server: String,
    /// The name of this node.
    pub node: String,
    /// The epoch of the tenure.
    pub epoch: u64,
    /// The time to the end of the term (ms) unless it is renewed; null if it has no end.
    pub term_ms: Option<u64>,
    /// The time that the take-over took.
    pub takeover: Takeover,
}

/// The phases of a take-over, from the moment at which the tenure was given (ms).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    /// The fence of former owners.
    pub fence_ms: u64,
    /// The start of the server, with the restored opens.
    pub start_ms: u64,
    /// The addresses.
    pub addresses_ms: u64,
}

/// The server itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The name that clients see.
    pub name: String,
    /// The process id.
    pub pid: u32,
    /// The start, RFC 3339.
    pub started_at: String,
    /// The addresses at which it listens.
    pub listen: Vec<String>,
    /// The names of the shares.
    pub shares: Vec<String>,
}

/// An SMB session: one user of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The session id.
    pub session_id: String,
    /// The process that serves it.
    pub server_id: ServerId,
    /// The user id on the host.
    pub uid: u32,
    /// The group id on the host.
    pub gid: u32,
    /// The user's name.
    pub username: String,
    /// The user's group.
    pub groupname: String,
    /// The beginning, RFC 3339.
    pub creation_time: String,
    /// The end, RFC 3339; empty when it does not expire.
    pub expiration_time: String,
    /// The time of the user's last authentication, RFC 3339.
    pub auth_time: String,
    /// The client's address.
    pub remote_machine: String,
    /// The client's name as the client gave it.
    pub hostname: String,
    /// The dialect, such as `SMB3_11`.
    pub session_dialect: String,
    /// The encryption of its messages.
    pub encryption: Protection,
    /// The signing of its messages.
    pub signing: Protection,
    /// Its channels by their ids.
    pub channels: BTreeMap<String, Channel>,
}

/// The process that serves an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerId {
    /// The process id.
    pub pid: String,
}

/// The protection of messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// The algorithm; empty without protection.
    pub cipher: String,
    /// The part of the messages that is protected: `none`, `partial` or `full`.
    pub degree: String,
}

/// One connection of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// The channel id.
    pub channel_id: String,
    /// The beginning, RFC 3339.
    pub creation_time: String,
    /// The server's address and port.
    pub local_address: String,
    /// The client's address and port.
    pub remote_address: String,
    /// The transport, always `tcp`.
    pub transport: String,
}

/// One transport connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// The server's address and port.
    pub local_address: String,
    /// The client's address and port.
    pub remote_address: String,
    /// The beginning, RFC 3339.
    pub connected_at: String,
    /// The dialect; empty before it is agreed.
    pub dialect: String,
    /// The ids of sessions that have a channel on it.
    pub sessions: Vec<String>,
}

/// A tree connect: a share in use by a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeConnect {
    /// The tree id.
    pub tcon_id: String,
    /// The session id.
    pub session_id: String,
    /// The process that serves it.
    pub server_id: ServerId,
    /// The share's name.
    pub service: String,
    /// The client's address.
    pub machine: String,
    /// The beginning, RFC 3339.
    pub connected_at: String,
    /// The encryption of its messages.
    pub encryption: Protection,
    /// The signing of its messages.
    pub signing: Protection,
}

/// An open file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// The share's directory on the host.
    pub service_path: String,
    /// The share's name.
    #[serde(default)]
    pub share: String,
    /// The path inside the share.
    pub filename: String,
    /// The identity of the file, which does not depend on its name.
    pub fileid: FileId,
    /// Opens by their ids.
    pub opens: BTreeMap<String, Open>,
}

/// The identity of a file, which does not depend on its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    /// The device number.
    pub devid: u64,
    /// The inode number.
    pub inode: u64,
    /// The number of the stream within the file.
    pub extid: u64,
}

/// One open of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The id of the open.
    pub share_file_id: String,
    /// The id by which an administrator closes it. No other open ever has this id.
    #[serde(default)]
    pub close_id: String,
    /// The session id. It is empty for NFS, where the client holds opens.
    pub session_id: String,
    /// The client ID of NFS; empty for SMB.
    #[serde(default)]
    pub client_id: String,
    /// The protocol, `smb` or `nfs`.
    #[serde(default)]
    pub protocol: String,
    /// The process that serves it.
    pub server_id: ServerId,
    /// The user id on the host.
    pub uid: u32,
    /// The user's name.
    pub username: String,
    /// The access that it leaves to others.
    pub sharemode: Mask,
    /// The access that it has.
    pub access_mask: Mask,
    /// The rights to cache that its client has.
    pub caching: Mask,
    /// The form of the right to cache: `lease`, `batch`, `exclusive`, `level_ii`, `delegation` or `none`.
    pub oplock: String,
    /// The lease that it belongs to.
    pub lease: Option<Lease>,
    /// Its life beyond its connection: `none`, `durable`, `resilient` or `persistent`.
    pub persistence: String,
    /// Whether its client is away and the open is kept until the client comes back.
    #[serde(default)]
    pub detached: bool,
    /// The time of opening, RFC 3339.
    pub opened_at: String,
}

/// Bits, for programs and for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mask {
    /// The bits, such as `0x00000007`.
    pub hex: String,
    /// A letter for each bit, such as `RWD`.
    pub text: String,
}

impl Mask {
    /// Makes a mask of `bits`. The text has the letter of each bit of `letters` that is set.
    pub fn new(bits: u32, letters: &[(u32, &str)]) -> Mask {
        let text = letters.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| *letter).collect();
        Mask { hex: format!("{bits:#010x}"), text }
    }
}

/// A lease that an open belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The lease key, as a GUID.
    pub lease_key: String,
}

/// A file with locked byte ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedFile {
    /// The share's name.
    #[serde(default)]
    pub share: String,
    /// The path inside the share.
    pub filename: String,
    /// The identity of the file.
    pub fileid: FileId,
    /// The locks in the order of the file's bytes.
    pub locks: Vec<Lock>,
}

/// A locked byte range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The open that holds it: an id of SMB, the client and the lock-owner of NFS.
    pub share_file_id: String,
    /// The id by which an administrator releases it, with all other locks of its owner on the file.
    #[serde(default)]
    pub close_id: String,
    /// The `close_id` of the open that holds it.
    #[serde(default)]
    pub open_id: String,
    /// The protocol, `smb` or `nfs`.
    #[serde(default)]
    pub protocol: String,
    /// The process that serves it.
    pub server_id: ServerId,
    /// The kind: `R` (shared) or `W` (exclusive).
    #[serde(rename = "type")]
    pub kind: String,
    /// The first byte.
    pub start: u64,
    /// The number of bytes.
    pub size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_for_people_and_programs() {
        let mask = Mask::new(5, &[(1, "R"), (2, "W"), (4, "D")]);
        assert_eq!((mask.hex.as_str(), mask.text.as_str()), ("0x00000005", "RD"));
    }
}
