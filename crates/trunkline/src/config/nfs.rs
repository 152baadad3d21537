//! What a share says about NFS clients.

use std::net::IpAddr;

use super::endpoints::OwnEndpoint;
use super::section::Section;
use super::values::Choice;
use crate::config::setting::{ConfigError, Setting};

/// A protocol that a share is served with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// SMB.
    Smb,
    /// NFSv4.1 and 4.2.
    Nfs,
}

impl Choice for Protocol {
    const NAMES: &'static [(&'static str, Protocol)] = &[("smb", Protocol::Smb), ("nfs", Protocol::Nfs)];
}

impl std::fmt::Display for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Whose user and group numbers are taken for what NFS clients say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootSquash {
    /// Everybody's, root's too.
    None,
    /// Everybody's but root's.
    Root,
    /// Nobody's.
    All,
}

impl Choice for RootSquash {
    const NAMES: &'static [(&'static str, RootSquash)] =
        &[("none", RootSquash::None), ("root", RootSquash::Root), ("all", RootSquash::All)];
}

/// Addresses of clients: `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// An address in it.
    pub address: IpAddr,
    /// How many of its first bits count.
    pub bits: u8,
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Who an anonymous user is on most hosts.
const NOBODY: u64 = 65_534;

/// What a share says about NFS clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareNfs {
    /// The protocols it is served with.
    pub protocols: Setting<Vec<Protocol>>,
    /// Whose numbers count.
    pub root_squash: Setting<RootSquash>,
    /// User id of everybody else.
    pub anonymous_uid: Setting<u64>,
    /// Group id of everybody else.
    pub anonymous_gid: Setting<u64>,
    /// From where it may be used; empty: from everywhere.
    pub clients: Setting<Vec<Network>>,
    /// Only from ports below 1024, which on most hosts only root may use.
    pub secure_port: Setting<bool>,
    /// Where they find it, when it has an endpoint of its own.
    pub endpoint: OwnEndpoint,
}

impl Default for ShareNfs {
    fn default() -> ShareNfs {
        ShareNfs {
            protocols: Setting::default_of(vec![Protocol::Smb]),
            root_squash: Setting::default_of(RootSquash::Root),
            anonymous_uid: Setting::default_of(NOBODY),
            anonymous_gid: Setting::default_of(NOBODY),
            clients: Setting::default_of(Vec::new()),
            secure_port: Setting::default_of(true),
            endpoint: OwnEndpoint::default(),
        }
    }
}

impl ShareNfs {
    /// Reads what a share's table says.
    ///
    /// # Errors
    /// With the line to change.
    pub fn read(table: &Section<'_>) -> Result<ShareNfs, ConfigError> {
        let defaults = ShareNfs::default();
        let id = |key| table.number(key, 0, u64::from(u32::MAX) - 1);
        let own = ShareNfs {
            protocols: table.list("protocols", protocol)?.unwrap_or(defaults.protocols),
            root_squash: table.choice("root_squash", RootSquash::NAMES)?.unwrap_or(defaults.root_squash),
            anonymous_uid: id("anonymous_uid")?.unwrap_or(defaults.anonymous_uid),
            anonymous_gid: id("anonymous_gid")?.unwrap_or(defaults.anonymous_gid),
            clients: table.list("nfs_clients", network)?.unwrap_or(defaults.clients),
            secure_port: table.boolean("nfs_secure_port")?.unwrap_or(defaults.secure_port),
            endpoint: OwnEndpoint::read(table)?,
        };
        if own.protocols.value.is_empty() {
            return Err(table.error(format!("`protocols` in {} must name at least one", table.title())));
        }
        Ok(own)
    }

    /// Whether NFS clients may use the share.
    pub fn is_offered(&self) -> bool {
        self.protocols.value.contains(&Protocol::Nfs)
    }

    /// Whether SMB clients may use the share.
    pub fn is_smb_offered(&self) -> bool {
        self.protocols.value.contains(&Protocol::Smb)
    }
}

fn protocol(text: &str) -> Result<Protocol, String> {
    super::section::choose(text, Protocol::NAMES)
}

fn network(text: &str) -> Result<Network, String> {
    let wrong = || format!("`{text}` is not an address or a network like `10.0.0.0/8`");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?,
        None => most,
    };
    Ok(Network { address, bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        assert_eq!(network("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(network("192.0.2.1").unwrap().bits, 32);
        assert_eq!(network("fd00::/8").unwrap().bits, 8);
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "host", "fd00::/129", "10.0.0.0/-1"] {
            assert!(network(wrong).is_err(), "{wrong}");
        }
    }
}
