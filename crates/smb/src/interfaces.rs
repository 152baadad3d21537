//! The list behind FSCTL_QUERY_NETWORK_INTERFACE_INFO (MS-SMB2 3.3.5.15.11): the other addresses at which
//! clients can reach this server.
//!
//! The program that watches the host gives the server this list as plain values
//! ([`Server::set_interfaces`](crate::Server::set_interfaces)). [`answer`] chooses the part that one
//! connection gets.

use std::net::IpAddr;

use smb_wire::ioctl::interfaces::{InterfaceCapability, NetworkInterfaceInfo};

/// The most addresses that a client gets. Linux asks for 16 KiB. That holds 107 addresses if the frame has
/// no other reply.
pub const MAX_OFFERED: usize = 64;

/// The interface number of an address that is not in the server's list.
const UNKNOWN_INTERFACE: u32 = 0x7fff_ffff;

/// The assumed speed of a link that does not report one, in bit/s.
pub const UNKNOWN_SPEED_BPS: u64 = 1_000_000_000;

/// One address of one network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkAddress {
    /// The interface's number; never 0.
    pub if_index: u32,
    /// The address.
    pub address: IpAddr,
    /// Speed of the link in bit/s. `None` counts as [`UNKNOWN_SPEED_BPS`].
    pub link_speed_bps: Option<u64>,
    /// Whether the interface can spread its work over processors (RSS). Clients open only one connection to
    /// an interface without it.
    pub rss: bool,
    /// Whether all clients get this address. Other addresses go only to connections that already use them.
    pub offered: bool,
}

impl NetworkAddress {
    fn info(&self) -> NetworkInterfaceInfo {
        let capability =
            if self.rss { InterfaceCapability::RSS_CAPABLE } else { InterfaceCapability::empty() };
        NetworkInterfaceInfo {
            if_index: self.if_index,
            capability,
            link_speed: self.link_speed_bps.unwrap_or(UNKNOWN_SPEED_BPS),
            address: self.address,
        }
    }
}

/// The entry for the address `own`, at which a connection has come in. The order is: the entry in `known`;
/// for a loopback address, the loopback interface (it has all of 127.0.0.0/8 but lists one address); an
/// interface of its own.
#[must_use]
pub fn find(known: &[NetworkAddress], own: IpAddr) -> NetworkAddress {
    let own = own.to_canonical();
    let exact = known.iter().find(|at| at.address == own);
    let back = || known.iter().find(|at| own.is_loopback() && at.address.is_loopback());
    match exact.or_else(back) {
        Some(found) => NetworkAddress { address: own, ..*found },
        None => NetworkAddress {
            if_index: UNKNOWN_INTERFACE,
            address: own,
            link_speed_bps: None,
            rss: known.iter().any(|at| at.rss),
            offered: false,
        },
    }
}

/// The part of `known` that a connection to `own` gets: its own address first, then all that are offered.
#[must_use]
pub fn answer(known: &[NetworkAddress], own: IpAddr) -> Vec<NetworkInterfaceInfo> {
    let here = find(known, own);
    // MS-SMB2 3.3.5.15.11: an interface whose index is 0 is left out.
    let others = known.iter().filter(|at| at.offered && at.address != here.address && at.if_index != 0);
    std::iter::once(&here).chain(others).take(MAX_OFFERED).map(NetworkAddress::info).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(if_index: u32, address: &str, offered: bool) -> NetworkAddress {
        let address = address.parse().expect("an address");
        NetworkAddress { if_index, address, link_speed_bps: None, rss: true, offered }
    }

    fn reported_addresses(known: &[NetworkAddress], own: &str) -> Vec<(u32, String)> {
        let list = answer(known, own.parse().expect("an address"));
        list.iter().map(|info| (info.if_index, info.address.to_string())).collect()
    }

    #[test]
    fn a_connection_is_told_its_own_address_and_what_is_offered_to_all() {
        let known = [
            at(1, "127.0.0.1", false),
            at(2, "192.0.2.1", true),
            at(2, "fe80::1", false),
            at(3, "2001:db8::1", true),
            at(0, "192.0.2.9", true),
        ];
        let offered = [(2, "192.0.2.1".to_owned()), (3, "2001:db8::1".to_owned())];
        let with = |own: (u32, &str)| [&[(own.0, own.1.to_owned())][..], &offered].concat();
        assert_eq!(reported_addresses(&known, "192.0.2.1"), offered);
        assert_eq!(reported_addresses(&known, "127.0.0.1"), with((1, "127.0.0.1")));
        assert_eq!(reported_addresses(&known, "::ffff:127.0.0.1"), with((1, "127.0.0.1")));
        assert_eq!(reported_addresses(&known, "127.0.0.2"), with((1, "127.0.0.2")));
        assert_eq!(reported_addresses(&known, "fe80::1"), with((2, "fe80::1")));
        assert_eq!(reported_addresses(&known, "198.51.100.1"), with((UNKNOWN_INTERFACE, "198.51.100.1")));
        assert_eq!(reported_addresses(&[], "192.0.2.1"), [(UNKNOWN_INTERFACE, "192.0.2.1".to_owned())]);
    }

    #[test]
    fn speed_and_capability_are_told_as_they_are_known() {
        let mut fast = at(4, "192.0.2.1", true);
        (fast.link_speed_bps, fast.rss) = (Some(25_000_000_000), false);
        let list = answer(&[fast, at(5, "192.0.2.2", true)], fast.address);
        assert_eq!((list[0].link_speed, list[0].capability), (25_000_000_000, InterfaceCapability::empty()));
        assert_eq!(
            (list[1].link_speed, list[1].capability),
            (1_000_000_000, InterfaceCapability::RSS_CAPABLE)
        );
    }

    #[test]
    fn a_host_with_very_many_addresses_tells_some_of_them() {
        let known: Vec<_> = (1..200).map(|at_| at(at_, &format!("192.0.2.{at_}"), true)).collect();
        let list = reported_addresses(&known, "192.0.2.199");
        assert_eq!((list.len(), list[0].0, list[1].0), (MAX_OFFERED, 199, 1));
        const { assert!(MAX_OFFERED * smb_wire::ioctl::interfaces::SIZE < 16 * 1024) };
    }
}
