//! The settings of the server, as plain values.

use std::net::IpAddr;
use std::sync::Arc;

use share::Share;

use crate::state::reply_memory::ReplyMemory;

/// The users whose numbers are mapped to the anonymous user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// No user.
    None,
    /// Only root.
    #[default]
    Root,
    /// All users.
    All,
}

/// A network that clients are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An address in the network.
    pub address: IpAddr,
    /// The number of leading bits that count.
    pub bits: u8,
}

impl Network {
    /// Whether an address is in the network. An IPv4 address in IPv6 form counts as IPv4.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits.min(32));
                (u64::from(own.to_bits()) >> shift) == (u64::from(other.to_bits()) >> shift)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differing = (own.to_bits() ^ other.to_bits()).leading_zeros();
                differing >= u32::from(self.bits.min(128))
            }
            _ => false,
        }
    }
}

/// The settings of the server as a whole.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The server owner and scope. It stays the same as long as the state directory exists.
    pub name: Vec<u8>,
    /// The key that signs filehandles. It stays the same as long as the state directory exists.
    pub handle_key: [u8; 32],
    /// Identifies this run of the server: the time of its start (wall ns). It is higher than that of every
    /// earlier run.
    pub instance: u64,
    /// The lease time in seconds: a silent client keeps its state for this long.
    pub lease_time_s: u32,
    /// Slots of one session.
    pub slots: u32,
    /// Connections at one time.
    pub max_connections: usize,
    /// Connections of one client at one time, at least one.
    pub connections_per_client: usize,
    /// The memory for the replies that slots keep. Other servers of the process may share it.
    pub reply_memory: Arc<ReplyMemory>,
}

/// The groups of users, from the server's side. Option `--manage-gids` of rpc.mountd(8) is the same.
pub trait ManagedGids: Send + Sync {
    /// The groups of a user without the primary one. None for a user whom no source knows. May block for
    /// some seconds.
    ///
    /// # Errors
    /// [`NoGroups`]. The user then gets no access, since an entry may deny one of the groups.
    fn groups(&self, uid: u32) -> Result<Option<Vec<u32>>, NoGroups>;
}

/// The reason why the groups of a user are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoGroups {
    /// A source does not answer.
    #[error("{0}")]
    Unavailable(String),
    /// The sources refuse the user.
    #[error("{0}")]
    Refused(String),
}

/// A share as NFS clients see it.
#[derive(Clone)]
pub struct Export {
    /// The name in the pseudo root.
    pub name: String,
    /// Identifies the export and never changes. Not zero.
    pub id: u32,
    /// The share that it serves.
    pub engine: Arc<Share>,
    /// Whether all changes are refused.
    pub read_only: bool,
    /// The users that become the anonymous user.
    pub squash: Squash,
    /// User ID and group ID of the anonymous user.
    pub anonymous: (u32, u32),
    /// The networks of the clients that may use it. Empty means all.
    pub clients: Vec<Network>,
    /// Whether only connections from a port below 1024 may use it.
    pub secure: bool,
    /// The groups that count instead of those in credentials, which have room for 16 (RFC 5531 appendix A).
    /// The primary group stays that of the credentials.
    pub manage_gids: Option<Arc<dyn ManagedGids>>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_what_begins_with_its_bits() {
        let net = |text: &str, bits| Network { address: text.parse().unwrap(), bits };
        let holds = |net: Network, text: &str| net.holds(text.parse().unwrap());
        assert!(holds(net("10.1.0.0", 16), "10.1.255.3"));
        assert!(holds(net("10.1.0.0", 16), "::ffff:10.1.2.3"));
        assert!(!holds(net("10.1.0.0", 16), "10.2.0.1"));
        assert!(holds(net("10.1.2.3", 32), "10.1.2.3") && !holds(net("10.1.2.3", 32), "10.1.2.2"));
        assert!(holds(net("0.0.0.0", 0), "203.0.113.1") && !holds(net("0.0.0.0", 0), "::1"));
        assert!(holds(net("fd00::", 8), "fdff::1") && !holds(net("fd00::", 8), "fe80::1"));
        assert!(holds(net("::", 0), "::1"));
    }
}
