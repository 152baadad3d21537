//! Packets with one segment of TCP (RFC 9293 3.1) in IPv4 (RFC 791) or IPv6 (RFC 8200).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::checksum;

const TCP: u8 = 6;
/// The size of headers without options.
const IPV4_HEADER: u16 = 20;
const TCP_HEADER: u16 = 20;
const ACK: u8 = 0x10;
/// The packet is not to be fragmented.
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];
const HOPS: u8 = 64;
/// A window that stops nobody, if the segment should fit in spite of all.
const WINDOW: u16 = 1024;

/// A packet with an acknowledgement from the server to the client that has a sequence number of its own. None
/// if the two are not of the same family.
pub(super) fn acknowledgement(client: SocketAddr, server: SocketAddr, sequence: u32) -> Option<Vec<u8>> {
    let segment = segment(server.port(), client.port(), sequence);
    match (server, client) {
        (SocketAddr::V4(from), SocketAddr::V4(to)) => Some(ipv4(*from.ip(), *to.ip(), segment)),
        (SocketAddr::V6(from), SocketAddr::V6(to)) => Some(ipv6(*from.ip(), *to.ip(), segment)),
        _ => None,
    }
}

/// A segment whose checksum is still to be filled in.
fn segment(from: u16, to: u16, sequence: u32) -> Vec<u8> {
    let mut segment = Vec::with_capacity(usize::from(TCP_HEADER));
    segment.extend(from.to_be_bytes());
    segment.extend(to.to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    // The sequence number is judged first, so this one does not matter.
    segment.extend(sequence.to_be_bytes());
    // The header's length in words, in the upper half of the byte.
    segment.extend([((TCP_HEADER / 4) << 4) as u8, ACK]);
    segment.extend(WINDOW.to_be_bytes());
    // The checksum, and no urgent data.
    segment.extend([0; 4]);
    segment
}

fn put_checksum(segment: &mut [u8], sum: u16) {
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
}

fn ipv4(from: Ipv4Addr, to: Ipv4Addr, mut segment: Vec<u8>) -> Vec<u8> {
    let sum = checksum::over_ipv4(from, to, TCP, &segment);
    put_checksum(&mut segment, sum);
    let mut packet = vec![0x45, 0];
    packet.extend((IPV4_HEADER + TCP_HEADER).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(DONT_FRAGMENT);
    packet.extend([HOPS, TCP, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(segment);
    packet
}

fn ipv6(from: Ipv6Addr, to: Ipv6Addr, mut segment: Vec<u8>) -> Vec<u8> {
    let sum = checksum::over_ipv6(from, to, TCP, &segment);
    put_checksum(&mut segment, sum);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(TCP_HEADER.to_be_bytes());
    packet.extend([TCP, HOPS]);
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend(segment);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address and a port")
    }

    #[test]
    fn a_packet_of_ipv4_has_the_layout_of_the_rfcs() {
        let packet = acknowledgement(at("10.77.0.9:51234"), at("10.77.0.50:445"), 0x8000_0000);
        let expected = [
            0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x25, 0xfc, 10, 77, 0, 50, 10, 77, 0, 9, // IPv4
            0x01, 0xbd, 0xc8, 0x22, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 0x50, 0x10, 0x04, 0, 0xcd, 0x1f, 0,
            0, // TCP
        ];
        assert_eq!(packet.expect("one family"), expected);
    }

    #[test]
    fn a_packet_of_ipv6_has_the_layout_of_the_rfcs() {
        let (client, server) = (at("[fd77::9]:51234"), at("[fd77::50]:2049"));
        let packet = acknowledgement(client, server, 0).expect("one family");
        assert_eq!(packet[..8], [0x60, 0, 0, 0, 0, 20, 6, 64]);
        let addresses = ["fd77::50", "fd77::9"].map(|text| text.parse::<Ipv6Addr>().expect("an address"));
        assert_eq!(packet[8..40], addresses.map(|address| address.octets()).concat());
        assert_eq!(packet[40..52], [0x08, 0x01, 0xc8, 0x22, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((packet[52], packet[53], packet.len()), (0x50, ACK, 60));
        assert_eq!(checksum::over_ipv6(addresses[0], addresses[1], TCP, &packet[40..]), 0);
    }

    #[test]
    fn ends_of_different_families_make_no_packet() {
        assert_eq!(acknowledgement(at("10.77.0.9:1"), at("[fd77::50]:445"), 0), None);
        assert_eq!(acknowledgement(at("[fd77::9]:1"), at("10.77.0.50:445"), 0), None);
    }
}
