//! The choice of the interface for an address that names none.

use std::cmp::Reverse;
use std::net::IpAddr;

use super::FloatingAddress;
use super::error::{FloatingAddressError, Result};
use crate::interfaces::messages::{Address, Link};

/// The interface that the address names. If it names none: the interface that has the address already, or
/// else the one with an address in the smallest network that includes it. One that is up counts before one
/// that is down.
pub(super) fn choose(wanted: &FloatingAddress, links: Vec<Link>, addresses: &[Address]) -> Result<Link> {
    if let Some(name) = &wanted.interface {
        let named = links.into_iter().find(|link| link.name == *name);
        let missing =
            || FloatingAddressError::NoSuchInterface { address: wanted.to_string(), name: name.clone() };
        return named.ok_or_else(missing);
    }
    let rank = |link: &Link| {
        let own = addresses.iter().filter(|have| have.if_index == link.if_index);
        let bits = own.filter_map(|have| common_bits(have, wanted.address)).max()?;
        Some((Reverse(bits), !link.up))
    };
    let mut ranked: Vec<_> = links
        .into_iter()
        .filter(|link| !link.loopback)
        .filter_map(|link| Some((rank(&link)?, link)))
        .collect();
    ranked.sort_by_key(|(rank, link)| (*rank, link.if_index));
    let mut ranked = ranked.into_iter();
    match (ranked.next(), ranked.next()) {
        (Some((best, first)), Some((next, second))) if best == next => {
            let address = wanted.to_string();
            Err(FloatingAddressError::Ambiguous { address, first: first.name, second: second.name })
        }
        (Some((_, first)), _) => Ok(first),
        (None, _) => Err(FloatingAddressError::NoInterface { address: wanted.to_string() }),
    }
}

/// The length of the network of an interface's address, if it includes the wanted one. One more than any
/// network has, if it is the wanted one itself.
fn common_bits(have: &Address, wanted: IpAddr) -> Option<u8> {
    if have.address == wanted {
        return Some(u8::MAX);
    }
    let is_same = match (have.address, wanted) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let differing = a.to_bits() ^ b.to_bits();
            differing.leading_zeros() >= u32::from(have.prefix)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            let differing = a.to_bits() ^ b.to_bits();
            differing.leading_zeros() >= u32::from(have.prefix)
        }
        _ => false,
    };
    is_same.then_some(have.prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// eth0 and eth1 are up, eth2 is down, and lo has all addresses of 127.0.0.0/8.
    fn chosen(wanted: &str, have: &[(u32, &str, u8)]) -> Result<String> {
        let link = |if_index: u32, name: &str| Link {
            if_index,
            name: name.to_owned(),
            up: name != "eth2",
            loopback: name == "lo",
            hardware: None,
        };
        let links = vec![link(1, "lo"), link(2, "eth0"), link(3, "eth1"), link(4, "eth2")];
        let address = |&(if_index, text, prefix): &(u32, &str, u8)| Address {
            if_index,
            address: text.parse().expect("an address"),
            prefix,
            settled: true,
            permanent: true,
        };
        let addresses: Vec<Address> = have.iter().map(address).collect();
        Ok(choose(&wanted.parse()?, links, &addresses)?.name)
    }

    #[test]
    fn the_interface_of_the_same_network_is_chosen() {
        let have = [(1, "127.0.0.1", 8), (2, "10.77.0.1", 24), (3, "10.78.0.1", 24), (3, "fd00::1", 64)];
        assert_eq!(chosen("10.77.0.50/32", &have).expect("eth0"), "eth0");
        assert_eq!(chosen("10.78.0.50/24", &have).expect("eth1"), "eth1");
        assert_eq!(chosen("fd00::50/64", &have).expect("eth1"), "eth1");
        assert_eq!(chosen("10.77.0.50/24%eth1", &have).expect("as named"), "eth1");
        let none = chosen("10.79.0.50/24", &have).expect_err("another network");
        assert!(none.to_string().contains("10.79.0.50/24%INTERFACE"), "{none}");
        assert!(matches!(chosen("fd01::50/64", &have), Err(FloatingAddressError::NoInterface { .. })));
        let none = chosen("10.77.0.50/24%eth9", &have).expect_err("no such interface");
        assert!(none.to_string().contains("eth9"), "{none}");
    }

    #[test]
    fn the_interface_that_has_it_goes_before_a_smaller_network_and_that_before_a_larger_one() {
        let mut have = vec![(2, "10.0.0.1", 8), (3, "10.77.0.1", 16)];
        assert_eq!(chosen("10.77.0.50/24", &have).expect("eth1"), "eth1");
        have.push((2, "10.77.0.50", 24));
        assert_eq!(chosen("10.77.0.50/24", &have).expect("eth0"), "eth0");
    }

    #[test]
    fn two_interfaces_that_are_as_good_must_be_told_apart_and_one_that_is_down_is_not_as_good() {
        let both = chosen("10.77.0.50/24", &[(2, "10.77.0.1", 24), (3, "10.77.0.2", 24)]).expect_err("two");
        assert!(both.to_string().contains("10.77.0.50/24%eth0 or 10.77.0.50/24%eth1"), "{both}");
        let up = chosen("10.77.0.50/24", &[(4, "10.77.0.1", 24), (3, "10.77.0.2", 24)]);
        assert_eq!(up.expect("the one that is up"), "eth1");
    }
}
