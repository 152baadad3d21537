//! The messages of rtnetlink(7) about interfaces and addresses: the requests, and the parsing of replies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::AddressFamily;
use wire::{Cursor, Truncated};

use crate::netlink::{DumpRequest, attributes};

/// A request body for the family "any".
const ANY: &[u8] = &[0; 16];
/// RTM_GETLINK, RTM_NEWLINK
pub const LINKS: DumpRequest<'static> = DumpRequest { ask: 18, answer: 16, body: ANY };
/// RTM_GETADDR, RTM_NEWADDR
pub const ADDRESSES: DumpRequest<'static> = DumpRequest { ask: 22, answer: 20, body: ANY };
/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR.
pub const CHANGES: u32 = 0x1 | 0x10 | 0x100;

/// An interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Link {
    pub if_index: u32,
    pub name: String,
    pub up: bool,
    pub loopback: bool,
    /// The hardware address, if this is an Ethernet interface that resolves addresses (ARP, RFC 826;
    /// neighbour discovery, RFC 4861).
    pub hardware: Option<[u8; 6]>,
}

/// An address of an interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Address {
    pub if_index: u32,
    pub address: IpAddr,
    pub prefix: u8,
    pub settled: bool,
    /// Whether the kernel keeps it until somebody takes it away. One with a lifetime is not permanent.
    pub permanent: bool,
}

/// Reads an `ifinfomsg` and its attributes.
pub fn link(body: &mut Cursor<'_>) -> Result<Option<Link>, Truncated> {
    const IFF_UP: u32 = 0x1;
    const IFF_LOOPBACK: u32 = 0x8;
    const IFF_RUNNING: u32 = 0x40;
    const IFF_NOARP: u32 = 0x80;
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const ARPHRD_ETHER: u16 = 1;
    // Family, padding.
    body.skip(2)?;
    let device = u16::from_ne_bytes(body.array()?);
    let if_index = u32::from_ne_bytes(body.array()?);
    let flags = u32::from_ne_bytes(body.array()?);
    body.skip(4)?;
    let (mut name, mut hardware) = (None, None);
    attributes(body, |kind, value| match kind {
        IFLA_IFNAME => {
            let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
            name = Some(String::from_utf8_lossy(&value[..end]).into_owned());
        }
        IFLA_ADDRESS => hardware = value.try_into().ok(),
        _ => {}
    })?;
    Ok(name.filter(|_| if_index != 0).map(|name| Link {
        if_index,
        name,
        up: flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING,
        loopback: flags & IFF_LOOPBACK != 0,
        hardware: hardware.filter(|_| device == ARPHRD_ETHER && flags & IFF_NOARP == 0),
    }))
}

/// Reads an `ifaddrmsg` and its attributes.
pub fn address(body: &mut Cursor<'_>) -> Result<Option<Address>, Truncated> {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    const IFA_FLAGS: u16 = 8;
    const IFA_F_DADFAILED: u32 = 0x8;
    const IFA_F_TENTATIVE: u32 = 0x40;
    const IFA_F_PERMANENT: u32 = 0x80;
    let [family, prefix, flags, _scope] = body.array()?;
    let if_index = u32::from_ne_bytes(body.array()?);
    let (mut other, mut own, mut flags) = (None, None, u32::from(flags));
    attributes(body, |kind, value| match kind {
        // On a link between two hosts this is the address of the other end.
        IFA_ADDRESS => other = ip(u16::from(family), value),
        IFA_LOCAL => own = ip(u16::from(family), value),
        IFA_FLAGS => flags = value.try_into().map_or(flags, u32::from_ne_bytes),
        _ => {}
    })?;
    let settled = flags & (IFA_F_DADFAILED | IFA_F_TENTATIVE) == 0;
    let permanent = flags & IFA_F_PERMANENT != 0;
    let address = own.or(other).filter(|_| if_index != 0);
    Ok(address.map(|address| Address { if_index, address, prefix, settled, permanent }))
}

fn ip(family: u16, value: &[u8]) -> Option<IpAddr> {
    match AddressFamily::from_raw(family) {
        AddressFamily::INET => <[u8; 4]>::try_from(value).ok().map(|octets| Ipv4Addr::from(octets).into()),
        AddressFamily::INET6 => <[u8; 16]>::try_from(value).ok().map(|octets| Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::tests::{answer, attribute, parsed};

    fn address_message(family: u8, flags: u8, attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut body = vec![family, 24, flags, 0];
        body.extend(7u32.to_ne_bytes());
        body.extend(attributes.concat());
        answer(ADDRESSES.answer, &body)
    }

    fn addresses(datagram: &[u8]) -> Vec<Address> {
        parsed(datagram, ADDRESSES.answer, address).expect("readable").0
    }

    #[test]
    fn the_own_end_of_a_link_between_two_hosts_counts() {
        let both = [attribute(1, &[192, 0, 2, 2]), attribute(2, &[192, 0, 2, 1])];
        let found = addresses(&address_message(2, 0, &both));
        let own = "192.0.2.1".parse().expect("an address");
        let address = Address { if_index: 7, address: own, prefix: 24, settled: true, permanent: false };
        assert_eq!(found, [address]);
    }

    #[test]
    fn an_address_without_a_lifetime_is_permanent() {
        let four = attribute(2, &[192, 0, 2, 1]);
        assert!(addresses(&address_message(2, 0x80, std::slice::from_ref(&four)))[0].permanent);
        let long = attribute(8, &0x80u32.to_ne_bytes());
        assert!(addresses(&address_message(2, 0, &[four, long]))[0].permanent);
    }

    #[test]
    fn an_address_that_is_still_being_tried_is_not_settled() {
        let six = attribute(1, &[0x20; 16]);
        // The short field of flags has no room for newer ones. If the attribute is present, it counts.
        assert!(!addresses(&address_message(10, 0x40, std::slice::from_ref(&six)))[0].settled);
        let long = attribute(8, &0x08u32.to_ne_bytes());
        assert!(!addresses(&address_message(10, 0, &[six.clone(), long]))[0].settled);
        assert!(addresses(&address_message(10, 0, &[six]))[0].settled);
    }

    /// The interface eth0 with a device type and flags.
    fn link_of(device: u16, flags: u32) -> Link {
        let mut body = vec![0; 2];
        body.extend(device.to_ne_bytes());
        body.extend(3u32.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend([0; 4]);
        body.extend(attribute(3, b"eth0\0"));
        body.extend(attribute(1, &[2, 0, 0, 0, 0, 9]));
        parsed(&answer(LINKS.answer, &body), LINKS.answer, link).expect("readable").0.remove(0)
    }

    #[test]
    fn only_an_ethernet_interface_with_address_resolution_has_a_hardware_address() {
        assert!(link_of(1, 0x41).hardware.is_some());
        // A tunnel, and an interface without ARP.
        assert_eq!((link_of(768, 0x41).hardware, link_of(1, 0xc1).hardware), (None, None));
    }

    #[test]
    fn a_link_without_a_carrier_is_down() {
        let link_message = |flags: u32| link_of(1, flags);
        let found = link_message(0x1 | 0x40);
        let hardware = Some([2, 0, 0, 0, 0, 9]);
        assert_eq!(found, Link { if_index: 3, name: "eth0".to_owned(), up: true, loopback: false, hardware });
        assert!(!link_message(0x1).up && !link_message(0x40).up && link_message(0x49).loopback);
    }

    #[test]
    fn no_bytes_make_it_panic_and_broken_ones_are_an_error() {
        let whole = address_message(2, 0, &[attribute(2, &[192, 0, 2, 1])]);
        for end in 16..whole.len() {
            assert!(parsed(&whole[..end], ADDRESSES.answer, address).is_err(), "{end}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _answer_or_error = parsed(&changed, ADDRESSES.answer, address);
                let _answer_or_error = parsed(&changed, ADDRESSES.answer, link);
            }
        }
    }
}
