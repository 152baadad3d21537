//! What the server is told to be. Plain values.

use std::net::IpAddr;
use std::sync::Arc;

use share::Share;

use crate::state::reply_memory::ReplyMemory;

/// Whose numbers are taken for what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Squash {
    /// Everybody's.
    None,
    /// Everybody's but root's.
    #[default]
    Root,
    /// Nobody's.
    All,
}

/// A network of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An address in it.
    pub address: IpAddr,
    /// How many of its first bits count.
    pub bits: u8,
}

impl Network {
    /// Whether an address is in it. An IPv4 address counts as itself also when it is written as IPv6.
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

/// The server as a whole.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Stays the same as long as the state directory lives: the server owner and scope.
    pub name: Vec<u8>,
    /// Signs filehandles; stays the same as long as the state directory lives.
    pub handle_key: [u8; 32],
    /// Tells this run of the server from any other, and is higher than that of every run before: the time it began (wall ns).
    pub instance: u64,
    /// How long a client keeps what it has without being heard, in seconds.
    pub lease_time_s: u32,
    /// Slots of a session.
    pub slots: u32,
    /// Connections at one time.
    pub max_connections: usize,
    /// Connections of one client at one time; at least one.
    pub connections_per_client: usize,
    /// What the replies that slots keep may take together, with other servers of the process.
    pub reply_memory: Arc<ReplyMemory>,
}

/// A share as NFS clients see it.
#[derive(Clone)]
pub struct Export {
    /// Its name in the pseudo root.
    pub name: String,
    /// Tells it from others, and stays the same; not zero.
    pub id: u32,
    /// The engine.
    pub engine: Arc<Share>,
    /// Nothing can be changed through it.
    pub read_only: bool,
    /// Whose numbers count.
    pub squash: Squash,
    /// Who everybody else is.
    pub anonymous: (u32, u32),
    /// From where it may be used; empty: from everywhere.
    pub clients: Vec<Network>,
    /// Only connections from a port below 1024 may use it.
    pub secure: bool,
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
