//! The addresses of the host at which clients can find the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// IPv4 addresses that are up, are not loopback, and on which the server listens.
pub fn ipv4(listen: &[SocketAddr]) -> std::io::Result<Vec<Ipv4Addr>> {
    let mut found = Vec::new();
    for at in net::interfaces::read()? {
        let IpAddr::V4(address) = at.address else { continue };
        if at.up && !address.is_loopback() && listened(listen, address.into()) {
            found.push(address);
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Whether one of `listen` accepts connections to `address`.
fn listened(listen: &[SocketAddr], address: IpAddr) -> bool {
    listen.iter().any(|listening| net::accepts(listening.ip(), address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listened_on_is_announced() {
        let any: SocketAddr = "0.0.0.0:445".parse().unwrap();
        let one: SocketAddr = "192.0.2.1:445".parse().unwrap();
        let (own, other): (IpAddr, IpAddr) = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        assert!(listened(&[any], own) && listened(&[one], own));
        assert!(!listened(&[one], other) && !listened(&[any], "fd00::1".parse().unwrap()));
    }
}
