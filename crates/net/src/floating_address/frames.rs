//! The Ethernet frames of ARP (RFC 826, 5227) and of neighbour discovery (RFC 4861, 4862).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::{Cursor, Truncated};

use super::{HardwareAddress, checksum};

/// EtherType of ARP.
pub(super) const ARP: u16 = 0x0806;
/// EtherType of IPv6.
pub(super) const IPV6: u16 = 0x86dd;
/// The longest frame that [`claimant`] can need: all headers, the fixed part and options.
pub(super) const LONGEST: usize = 256;

const ETHER_BROADCAST: [u8; 6] = [0xff; 6];
/// Ethernet and IPv4, and the lengths of both addresses.
const ARP_HEADER: [u8; 6] = [0, 1, 0x08, 0, 6, 4];
const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;

const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Only frames of the same link have it (RFC 4861 6.1).
const HOP_LIMIT: u8 = 255;
/// The flags of an advertisement.
const ROUTER: u8 = 0x80;
const OVERRIDE: u8 = 0x20;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The type of the frames in which another host shows that it has the address.
pub(super) fn ether_type(address: IpAddr) -> u16 {
    if address.is_ipv4() { ARP } else { IPV6 }
}

/// A frame that asks who has the address, from a host that does not claim it: an ARP probe (RFC 5227 2.1.1),
/// or a solicitation from the unspecified address (RFC 4862 5.4.2).
pub(super) fn probe(own: HardwareAddress, address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(four) => arp(own, ARP_REQUEST, Ipv4Addr::UNSPECIFIED, [0; 6], four),
        IpAddr::V6(six) => {
            // The checksum, and a reserved word.
            let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
            message.extend(six.octets());
            icmpv6(own, Ipv6Addr::UNSPECIFIED, solicited_node(six), message)
        }
    }
}

/// The frames that tell all hosts that the address is here. Two of ARP: some hosts take only requests and
/// some only replies (RFC 5227 3). One of neighbour discovery, which says whether this host is a router (RFC
/// 4861 4.4).
pub(super) fn announcements(own: HardwareAddress, address: IpAddr, is_router: bool) -> Vec<Vec<u8>> {
    match address {
        IpAddr::V4(four) => {
            vec![arp(own, ARP_REQUEST, four, [0; 6], four), arp(own, ARP_REPLY, four, own.0, four)]
        }
        IpAddr::V6(six) => {
            let flags = OVERRIDE | if is_router { ROUTER } else { 0 };
            let mut message = vec![ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0];
            message.extend(six.octets());
            // The length counts words of eight bytes.
            message.extend([TARGET_LINK_LAYER_ADDRESS, 1]);
            message.extend(own.0);
            vec![icmpv6(own, six, ALL_NODES, message)]
        }
    }
}

/// The host whose frame shows that it has the address, or that it probes for it too (RFC 5227 2.1.1, RFC 4862
/// 5.4.3 and 5.4.4). None for any other frame.
pub(super) fn claimant(frame: &[u8], address: IpAddr) -> Option<HardwareAddress> {
    match address {
        IpAddr::V4(four) => claimant_of_arp(frame, four),
        IpAddr::V6(six) => claimant_of_discovery(frame, six),
    }
    .ok()
    .flatten()
}

/// The group of all hosts whose address ends like this one (RFC 4291 2.7.1).
pub(super) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let last = u16::from_be_bytes([b, c]);
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), last)
}

fn ethernet(to: [u8; 6], own: HardwareAddress, kind: u16) -> Vec<u8> {
    [&to[..], &own.0, &kind.to_be_bytes()].concat()
}

fn arp(
    own: HardwareAddress,
    operation: u16,
    sender: Ipv4Addr,
    target: [u8; 6],
    address: Ipv4Addr,
) -> Vec<u8> {
    let mut frame = ethernet(ETHER_BROADCAST, own, ARP);
    frame.extend(ARP_HEADER);
    frame.extend(operation.to_be_bytes());
    frame.extend(own.0);
    frame.extend(sender.octets());
    frame.extend(target);
    frame.extend(address.octets());
    frame
}

fn icmpv6(own: HardwareAddress, from: Ipv6Addr, to: Ipv6Addr, mut message: Vec<u8>) -> Vec<u8> {
    let sum = checksum::over_ipv6(from, to, ICMPV6, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    // RFC 2464 7: 33-33 and the last four bytes of the group.
    let [.., a, b, c, d] = to.octets();
    let mut frame = ethernet([0x33, 0x33, a, b, c, d], own, IPV6);
    frame.extend([0x60, 0, 0, 0]);
    frame.extend((message.len() as u16).to_be_bytes());
    frame.extend([ICMPV6, HOP_LIMIT]);
    frame.extend(from.octets());
    frame.extend(to.octets());
    frame.extend(message);
    frame
}

/// The sender of an Ethernet frame, if it is of the type. The cursor is at its content then.
fn sender(frame: &mut Cursor<'_>, kind: u16) -> Result<Option<HardwareAddress>, Truncated> {
    frame.skip(6)?;
    let from = HardwareAddress(frame.array()?);
    Ok((frame.array::<2>()? == kind.to_be_bytes()).then_some(from))
}

fn claimant_of_arp(frame: &[u8], address: Ipv4Addr) -> Result<Option<HardwareAddress>, Truncated> {
    let mut rest = Cursor::new(frame);
    if sender(&mut rest, ARP)?.is_none() || rest.array::<6>()? != ARP_HEADER {
        return Ok(None);
    }
    let operation = u16::from_be_bytes(rest.array()?);
    let from = HardwareAddress(rest.array()?);
    let from_address = Ipv4Addr::from(rest.array::<4>()?);
    rest.skip(6)?;
    let target = Ipv4Addr::from(rest.array::<4>()?);
    let has = from_address == address && matches!(operation, ARP_REQUEST | ARP_REPLY);
    let probes = operation == ARP_REQUEST && from_address.is_unspecified() && target == address;
    Ok((has || probes).then_some(from))
}

fn claimant_of_discovery(frame: &[u8], address: Ipv6Addr) -> Result<Option<HardwareAddress>, Truncated> {
    let mut rest = Cursor::new(frame);
    let Some(from) = sender(&mut rest, IPV6)? else { return Ok(None) };
    let [version, ..] = rest.array::<4>()?;
    rest.skip(2)?;
    let headers: [u8; 2] = rest.array()?;
    let from_address = Ipv6Addr::from(rest.array::<16>()?);
    rest.skip(16)?;
    if version >> 4 != 6 || headers != [ICMPV6, HOP_LIMIT] {
        return Ok(None);
    }
    let [kind, code] = rest.array()?;
    // The checksum, which the sender's host computes, and the flags or the reserved word.
    rest.skip(6)?;
    let is_target = code == 0 && Ipv6Addr::from(rest.array::<16>()?) == address;
    let has = kind == ADVERTISEMENT;
    let probes = kind == SOLICITATION && from_address.is_unspecified();
    Ok((is_target && (has || probes)).then_some(from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: HardwareAddress = HardwareAddress([2, 0, 0, 0, 0, 9]);
    const FOUR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 50);
    const SIX: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0x12, 0x3456);

    /// Bytes of hexadecimal digits, in which blanks do not count.
    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    #[test]
    fn an_arp_probe_has_no_address_of_its_sender() {
        // arping -D of iputils sends the same.
        let probe_bytes = "ffffffffffff 020000000009 0806 0001 0800 06 04 0001
            020000000009 00000000 000000000000 0a4d0032";
        assert_eq!(probe(OWN, FOUR.into()), hex(probe_bytes));
    }

    #[test]
    fn arp_announcements_name_the_address_as_sender_and_target() {
        let head = "ffffffffffff 020000000009 0806 0001 0800 06 04";
        let request = format!("{head} 0001 020000000009 0a4d0032 000000000000 0a4d0032");
        let reply = format!("{head} 0002 020000000009 0a4d0032 020000000009 0a4d0032");
        assert_eq!(announcements(OWN, FOUR.into(), true), [hex(&request), hex(&reply)]);
    }

    #[test]
    fn a_solicitation_goes_to_the_group_of_the_address_from_nowhere() {
        // The ICMPv6 message: type, code, checksum (of another implementation), reserved, target.
        let solicitation = "3333ff123456 020000000009 86dd 60000000 0018 3a ff
            00000000000000000000000000000000 ff0200000000000000000001ff123456
            87 00 1460 00000000 fd770000000000000000000000123456";
        assert_eq!(probe(OWN, SIX.into()), hex(solicitation));
    }

    #[test]
    fn an_advertisement_overrides_and_has_the_hardware_address() {
        for (is_router, flags) in [(false, 0x20), (true, 0xa0)] {
            let frames = announcements(OWN, SIX.into(), is_router);
            let [frame] = &frames[..] else { panic!("{frames:?}") };
            assert_eq!(frame[..14], hex("333300000001 020000000009 86dd"));
            assert_eq!(frame[14..22], hex("60000000 0020 3a ff"));
            assert_eq!(frame[22..54], [SIX.octets(), ALL_NODES.octets()].concat());
            assert_eq!((frame[54], frame[55], frame[58]), (136, 0, flags));
            assert_eq!(frame[62..], [&SIX.octets()[..], &hex("0201 020000000009")].concat());
            assert_eq!(checksum::over_ipv6(SIX, ALL_NODES, 58, &frame[54..]), 0);
        }
    }

    #[test]
    fn who_has_the_address_or_probes_for_it_is_found() {
        for address in [IpAddr::from(FOUR), IpAddr::from(SIX)] {
            for frame in announcements(OWN, address, false) {
                assert_eq!(claimant(&frame, address), Some(OWN));
            }
            assert_eq!(claimant(&probe(OWN, address), address), Some(OWN));
        }
        // The reply of Linux to a probe is for the prober alone.
        let reply = "020000000001 020000000009 0806 0001 0800 06 04 0002
            020000000009 0a4d0032 020000000001 00000000 000000000000000000000000000000000000";
        assert_eq!(claimant(&hex(reply), FOUR.into()), Some(OWN));
    }

    #[test]
    fn frames_about_other_addresses_and_questions_of_their_users_are_passed_over() {
        let others = [IpAddr::from([10, 77, 0, 51]), IpAddr::from([0xfd; 16])];
        for (other, address) in others.into_iter().zip([IpAddr::from(FOUR), IpAddr::from(SIX)]) {
            assert_eq!(claimant(&probe(OWN, other), address), None);
            assert!(announcements(OWN, other, false).iter().all(|frame| claimant(frame, address).is_none()));
        }
        // A host that looks for the address does not have it.
        let asks = arp(OWN, ARP_REQUEST, Ipv4Addr::new(10, 77, 0, 9), [0; 6], FOUR);
        assert_eq!(claimant(&asks, FOUR.into()), None);
        let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        message.extend(SIX.octets());
        let asks = icmpv6(OWN, Ipv6Addr::from([0xfd; 16]), solicited_node(SIX), message);
        assert_eq!(claimant(&asks, SIX.into()), None);
    }

    #[test]
    fn no_bytes_make_it_panic_and_a_frame_that_is_cut_off_says_nothing() {
        for address in [IpAddr::from(FOUR), IpAddr::from(SIX)] {
            let whole = probe(OWN, address);
            for end in 0..whole.len() {
                assert_eq!(claimant(&whole[..end], address), None, "{end}");
            }
            for at in 0..whole.len() {
                for value in [0, 1, 2, 0x7f, 0x88, 0xff] {
                    let mut changed = whole.clone();
                    changed[at] = value;
                    let _anything_but_a_panic = claimant(&changed, address);
                }
            }
        }
    }
}
