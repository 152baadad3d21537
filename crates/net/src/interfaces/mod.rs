//! The host's own addresses, which tell a client at which other addresses this server can be reached.
//!
//! Start with [`read`], which asks the kernel once, and [`watch()`], which asks again after each change of an
//! interface or address. A network card that is plugged in while the server runs therefore counts from then
//! on. `messages` parses the kernel's replies. They lack the link speed and the receive queues, which come
//! from `/sys/class/net`.

pub(crate) mod messages;
mod sys;
mod watch;

use std::io;
use std::net::IpAddr;

pub use watch::{Watcher, watch};

use crate::netlink::{NetlinkFamily, Socket};

/// One address of one of the host's interfaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// The kernel's number of the interface, from 1.
    pub if_index: u32,
    /// The address.
    pub address: IpAddr,
    /// Number of leading bits of the address that belong to the network.
    pub prefix: u8,
    /// The interface's name.
    pub interface: String,
    /// Whether the interface only leads back to this host.
    pub loopback: bool,
    /// Whether the interface is switched on and has a carrier.
    pub up: bool,
    /// Whether the address may be used: the kernel has finished looking for another host with the same
    /// address, and found none.
    pub settled: bool,
    /// The speed of the link in bit/s. None if the device does not know it, as most virtual ones do not.
    pub link_speed_bps: Option<u64>,
    /// The queues over which the device spreads received packets. One if that is not known.
    pub receive_queues: u32,
}

/// All addresses of all interfaces of the host, including those that are down, in the order of the
/// interfaces.
///
/// # Errors
/// The kernel refuses netlink sockets, or its reply makes no sense.
pub fn read() -> io::Result<Vec<InterfaceAddress>> {
    let socket = Socket::open(NetlinkFamily::Route, 0)?;
    let links = socket.dump(messages::LINKS, messages::link)?;
    let addresses = socket.dump(messages::ADDRESSES, messages::address)?;
    let mut found = Vec::new();
    for link in &links {
        let (speed, queues) = (sys::link_speed_bps(&link.name), sys::receive_queues(&link.name));
        let of_it = addresses.iter().filter(|address| address.if_index == link.if_index);
        found.extend(of_it.map(|address| InterfaceAddress {
            if_index: link.if_index,
            address: address.address,
            prefix: address.prefix,
            interface: link.name.clone(),
            loopback: link.loopback,
            up: link.up,
            settled: address.settled,
            link_speed_bps: speed,
            receive_queues: queues,
        }));
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's own text files show the same interfaces.
    #[test]
    fn what_netlink_tells_is_what_the_kernel_shows_elsewhere() {
        let found = read().expect("netlink");
        let lo = found.iter().find(|at| at.address == IpAddr::from([127, 0, 0, 1])).expect("loopback");
        assert!(lo.loopback && lo.up && lo.settled, "{lo:?}");
        assert_eq!((lo.interface.as_str(), lo.prefix, lo.link_speed_bps), ("lo", 8, None));
        for at in &found {
            let shown = std::fs::read_to_string(format!("/sys/class/net/{}/ifindex", at.interface));
            assert_eq!(shown.expect("its index").trim(), at.if_index.to_string());
        }
        // Address, index, prefix, scope, flags and name of each IPv6 address.
        let six = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        let mut shown: Vec<(u128, u8, String)> = Vec::new();
        for line in six.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let hex = |at: usize| u128::from_str_radix(fields[at], 16).expect("hexadecimal");
            shown.push((hex(0), hex(2) as u8, fields[5].to_owned()));
        }
        let mut told: Vec<_> = found
            .iter()
            .filter_map(|at| match at.address {
                IpAddr::V6(six) => Some((six.to_bits(), at.prefix, at.interface.clone())),
                IpAddr::V4(_) => None,
            })
            .collect();
        shown.sort();
        told.sort();
        assert_eq!(told, shown);
    }
}
