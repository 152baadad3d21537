//! The values of a status, under the names that `smbstatus --json` uses, so that what reads the one
//! reads the other. Objects are keyed by the id of what they hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// All that a server knows about its clients at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// When it was taken, RFC 3339.
    pub timestamp: String,
    /// Version of the server.
    pub version: String,
    /// The server itself.
    pub server: ServerStatus,
    /// By session id.
    pub sessions: BTreeMap<String, Session>,
    /// By a number of their own; connections without a session stand only here.
    pub connections: BTreeMap<String, Connection>,
    /// By session and tree id.
    pub tcons: BTreeMap<String, TreeConnect>,
    /// By path on the host.
    pub open_files: BTreeMap<String, OpenFile>,
    /// By path on the host.
    pub byte_range_locks: BTreeMap<String, LockedFile>,
    /// Limited shares, by name.
    #[serde(default)]
    pub limits: BTreeMap<String, crate::limits::LimitedShare>,
    /// What is remembered of shares' names and files, by share.
    #[serde(default)]
    pub metadata: BTreeMap<String, crate::metadata::RememberedShare>,
    /// Shares on which everything is counted, by name.
    #[serde(default)]
    pub usage: BTreeMap<String, crate::usage::UsedShare>,
    /// What is written down of single requests; null: nothing is.
    #[serde(default)]
    pub records: Option<Records>,
    /// NFS clients and what they hold.
    #[serde(default)]
    pub nfs: crate::nfs::Nfs,
    /// Connections as the transport counts them.
    #[serde(default)]
    pub transport: Transport,
}

/// Connections as the transport counts them, and what is held for clients that do not read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transport {
    /// Over SMB.
    pub smb: Connections,
    /// Over NFS.
    pub nfs: Connections,
    /// Bytes of memory held for clients that do not read.
    pub unread_bytes: u64,
    /// The bound on them.
    pub unread_bound_bytes: u64,
    /// Connections that were closed because of it.
    pub unread_closed: u64,
    /// Files and their descriptors.
    #[serde(default)]
    pub descriptors: Descriptors,
    /// Memory of clients' opens, byte ranges, states and sessions.
    #[serde(default)]
    pub client_memory: ClientMemory,
}

/// Memory for what clients hold: opens, byte ranges, and the protocols' state beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMemory {
    /// Bytes in use, as they are charged.
    pub bytes: u64,
    /// The bound on them.
    pub bound_bytes: u64,
    /// Requests that were refused since their client had more than was left.
    pub refused: u64,
}

/// The fate of files when descriptors run short.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptors {
    /// How often a file that nobody used was closed.
    pub idle_closed: u64,
    /// How often such a file was opened again.
    pub opened_again: u64,
    /// Opens that were refused since their client had more than an equal share.
    pub refused_opens: u64,
}

/// Connections of one protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connections {
    /// Now.
    pub connections: u64,
    /// Of these, those on which nobody has logged on (SMB) or that carry no session (NFS).
    pub unproved: u64,
    /// Refused since all places were taken.
    pub refused_all: u64,
    /// Refused since their address had as many as one may have.
    pub refused_address: u64,
    /// Refused since their address had too many that were not proved.
    pub refused_unproved: u64,
    /// Refused since descriptors ran short and their address had more than its share.
    pub refused_descriptors: u64,
    /// That were not proved and gave their place up to one of an address with fewer such.
    #[serde(default)]
    pub displaced: u64,
}

impl Connections {
    /// Refused for any reason.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused_all + self.refused_address + self.refused_unproved + self.refused_descriptors
    }
}

/// What is written down of single requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Records {
    /// The file.
    pub path: String,
    /// Requests that were written.
    pub written: u64,
    /// Those for which there was no room, since they came faster than they could be written.
    pub lost: u64,
}

/// The server itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Name that clients see.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Start, RFC 3339.
    pub started_at: String,
    /// Addresses it listens on.
    pub listen: Vec<String>,
    /// Names of the shares.
    pub shares: Vec<String>,
}

/// A session: one user of one client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Session id.
    pub session_id: String,
    /// Who answers it.
    pub server_id: ServerId,
    /// User id on the host.
    pub uid: u32,
    /// Group id on the host.
    pub gid: u32,
    /// The user's name.
    pub username: String,
    /// The user's group.
    pub groupname: String,
    /// RFC 3339.
    pub creation_time: String,
    /// RFC 3339; empty when it does not expire.
    pub expiration_time: String,
    /// When the user last proved who they are, RFC 3339.
    pub auth_time: String,
    /// The client's address.
    pub remote_machine: String,
    /// The client's name, as it gave it.
    pub hostname: String,
    /// Dialect, such as `SMB3_11`.
    pub session_dialect: String,
    /// Sealing.
    pub encryption: Protection,
    /// Signing.
    pub signing: Protection,
    /// By channel id.
    pub channels: BTreeMap<String, Channel>,
}

/// Who answers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerId {
    /// Process id.
    pub pid: String,
}

/// What protects the messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protection {
    /// The algorithm; empty when there is none.
    pub cipher: String,
    /// `none`, `partial` or `full`.
    pub degree: String,
}

/// One connection of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channel {
    /// Channel id.
    pub channel_id: String,
    /// RFC 3339.
    pub creation_time: String,
    /// Our address and port.
    pub local_address: String,
    /// The client's address and port.
    pub remote_address: String,
    /// `tcp`.
    pub transport: String,
}

/// One transport connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connection {
    /// Our address and port.
    pub local_address: String,
    /// The client's address and port.
    pub remote_address: String,
    /// RFC 3339.
    pub connected_at: String,
    /// Dialect; empty before it is agreed.
    pub dialect: String,
    /// Sessions that have a channel on it.
    pub sessions: Vec<String>,
}

/// A share in use by a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeConnect {
    /// Tree id.
    pub tcon_id: String,
    /// Its session.
    pub session_id: String,
    /// Who answers it.
    pub server_id: ServerId,
    /// The share's name.
    pub service: String,
    /// The client's address.
    pub machine: String,
    /// RFC 3339.
    pub connected_at: String,
    /// Sealing.
    pub encryption: Protection,
    /// Signing.
    pub signing: Protection,
}

/// A file that is open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Directory of the share on the host.
    pub service_path: String,
    /// The share's name.
    #[serde(default)]
    pub share: String,
    /// Path inside the share.
    pub filename: String,
    /// Which file it is, whatever its name.
    pub fileid: FileId,
    /// By the id of the open.
    pub opens: BTreeMap<String, Open>,
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    /// Device number.
    pub devid: u64,
    /// Inode number.
    pub inode: u64,
    /// Which of its streams.
    pub extid: u64,
}

/// One open of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Id of the open.
    pub share_file_id: String,
    /// The id by which an administrator closes it; no other open ever has it.
    #[serde(default)]
    pub close_id: String,
    /// Its session; empty for NFS, whose opens are the client's.
    pub session_id: String,
    /// The NFS client that has it; empty for SMB.
    #[serde(default)]
    pub client_id: String,
    /// `smb` or `nfs`.
    #[serde(default)]
    pub protocol: String,
    /// Who answers it.
    pub server_id: ServerId,
    /// User id on the host.
    pub uid: u32,
    /// The user's name.
    pub username: String,
    /// What it lets others do.
    pub sharemode: Mask,
    /// What it may do.
    pub access_mask: Mask,
    /// What its client may cache.
    pub caching: Mask,
    /// How the right to cache was asked for: `lease`, `batch`, `exclusive`, `level_ii`, `delegation` or `none`.
    pub oplock: String,
    /// The lease it belongs to.
    pub lease: Option<Lease>,
    /// Whether it outlives its connection: `none`, `durable`, `resilient` or `persistent`.
    pub persistence: String,
    /// Whether its client is gone and it is kept until that comes back.
    #[serde(default)]
    pub detached: bool,
    /// RFC 3339.
    pub opened_at: String,
}

/// Bits and how people write them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mask {
    /// As `0x00000007`.
    pub hex: String,
    /// As `RWD`.
    pub text: String,
}

impl Mask {
    /// `bits`, and a letter of `letters` for each of them that is set.
    pub fn new(bits: u32, letters: &[(u32, &str)]) -> Mask {
        let text = letters.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, letter)| *letter).collect();
        Mask { hex: format!("{bits:#010x}"), text }
    }
}

/// A lease that an open belongs to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its key, as a GUID.
    pub lease_key: String,
}

/// A file on which byte ranges are locked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockedFile {
    /// The share's name.
    #[serde(default)]
    pub share: String,
    /// Path inside the share.
    pub filename: String,
    /// Which file it is.
    pub fileid: FileId,
    /// The locks, in the order of the file.
    pub locks: Vec<Lock>,
}

/// A locked byte range.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Open that holds it.
    pub share_file_id: String,
    /// The id by which an administrator releases it, with all other locks of its owner on the file.
    #[serde(default)]
    pub close_id: String,
    /// The `close_id` of the open that holds it.
    #[serde(default)]
    pub open_id: String,
    /// `smb` or `nfs`.
    #[serde(default)]
    pub protocol: String,
    /// Who answers it.
    pub server_id: ServerId,
    /// `R` (shared) or `W` (exclusive).
    #[serde(rename = "type")]
    pub kind: String,
    /// First byte.
    pub start: u64,
    /// How many bytes.
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
