//! Layer 1: the addresses of a name, and the route to them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use net::interfaces::{self, InterfaceAddress};

use crate::measurements::{Address, Cause, Route, Scope, Stage, Stopped};

/// The networks from which an address can be reached.
#[must_use]
pub fn scope(address: IpAddr) -> Scope {
    match address {
        _ if address.is_loopback() => Scope::Loopback,
        IpAddr::V4(v4) if v4.is_link_local() => Scope::LinkLocal,
        IpAddr::V4(v4) => {
            let shared = v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64;
            // RFC 2544: networks for measurements of devices.
            let proving = v4.octets()[0] == 198 && v4.octets()[1] & 0xfe == 18;
            if v4.is_private() || shared || proving { Scope::Private } else { Scope::Public }
        }
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Scope::LinkLocal,
        IpAddr::V6(v6) if v6.is_unique_local() => Scope::Private,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(Scope::Public, |v4| scope(IpAddr::V4(v4))),
    }
}

/// Looks up the name and the route to its addresses. The address to use is chosen later.
pub(crate) async fn find(host: &str, port: u16, patience: Duration) -> Result<Route, Stopped> {
    let begun = Instant::now();
    let stopped = |why: String, stalled| Stopped { stage: Stage::Name, why, stalled, cause: Cause::NoName };
    let found = tokio::time::timeout(patience, tokio::net::lookup_host((host, port))).await;
    let found = found
        .map_err(|_| stopped(format!("the name service did not answer within {patience:?}"), true))?
        .map_err(|why| stopped(why.to_string(), false))?;
    let resolved_in_ms = begun.elapsed().as_secs_f64() * 1000.0;
    let mut addresses: Vec<Address> = Vec::new();
    for address in found.map(|it| it.ip()) {
        if addresses.iter().all(|it| it.address != address) {
            addresses.push(Address { address, scope: scope(address), reachable: None, refused: false });
        }
    }
    let Some(first) = addresses.first() else {
        return Err(stopped(format!("the name {host} has no address"), false));
    };
    let used = first.address;
    let mut route = Route {
        name: host.to_owned(),
        resolved_in_ms,
        addresses,
        used,
        port,
        source: None,
        interface: None,
        interface_mtu: None,
        path_mtu: None,
        interface_mbit: None,
    };
    route.go_by(used);
    Ok(route)
}

impl Route {
    /// Records the address that is used.
    pub(crate) fn go_by(&mut self, address: IpAddr) {
        self.used = address;
        self.source = source(SocketAddr::new(address, self.port));
        self.interface = self.source.and_then(interface).map(|it| it.interface);
        let of_interface = |what: &str| -> Option<u64> {
            let path = format!("/sys/class/net/{}/{what}", self.interface.as_deref()?);
            fs::read_to_string(path).ok()?.trim().parse().ok()
        };
        self.interface_mtu = of_interface("mtu").and_then(|it| u32::try_from(it).ok());
        self.interface_mbit = of_interface("speed");
    }

    /// Whether it leads to an address of this host. Such packets never leave it.
    pub(crate) fn is_here(&self) -> bool {
        self.used.is_loopback() || self.source == Some(self.used)
    }

    /// Whether an address was given instead of a name, so that no name service is involved.
    pub(crate) fn is_by_address(&self) -> bool {
        self.name.parse::<IpAddr>().is_ok()
    }

    /// The address to connect to.
    pub(crate) fn destination(&self) -> SocketAddr {
        SocketAddr::new(self.used, self.port)
    }
}

/// The local address for the route to another. Nothing is sent for it.
fn source(to: SocketAddr) -> Option<IpAddr> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(to).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The local interface that has an address.
fn interface(address: IpAddr) -> Option<InterfaceAddress> {
    interfaces::read().ok()?.into_iter().find(|it| it.address == address)
}

/// The index of the local interface that has an address.
pub(crate) fn interface_index(address: IpAddr) -> Option<u32> {
    interface(address).map(|it| it.if_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart_by_who_reaches_them() {
        for (address, wanted) in [
            ("127.0.0.2", Scope::Loopback),
            ("::1", Scope::Loopback),
            ("169.254.3.4", Scope::LinkLocal),
            ("fe80::1", Scope::LinkLocal),
            ("10.1.2.3", Scope::Private),
            ("172.31.0.1", Scope::Private),
            ("192.168.0.1", Scope::Private),
            ("100.64.0.1", Scope::Private),
            ("198.18.0.1", Scope::Private),
            ("fd00::1", Scope::Private),
            ("::ffff:10.0.0.1", Scope::Private),
            ("100.128.0.1", Scope::Public),
            ("52.239.238.8", Scope::Public),
            ("2001:db8::1", Scope::Public),
        ] {
            assert_eq!(scope(address.parse().unwrap()), wanted, "{address}");
        }
    }

    #[tokio::test]
    async fn the_way_to_ourselves_is_over_loopback() {
        let route = find("127.0.0.1", 445, Duration::from_secs(5)).await.unwrap();
        assert_eq!((route.source, route.interface.as_deref()), (Some([127, 0, 0, 1].into()), Some("lo")));
        assert!(route.interface_mtu.unwrap() > 1000);
        let nowhere = find("no.such.name.invalid", 445, Duration::from_secs(5)).await.unwrap_err();
        assert_eq!((nowhere.stage, nowhere.cause), (Stage::Name, Cause::NoName));
    }
}
