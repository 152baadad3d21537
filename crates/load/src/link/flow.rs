//! The assignment of packets to connections.

use std::net::IpAddr;

/// TCP and UDP (RFC 9293, RFC 768): both begin with the two ports.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A connection in one direction. For other protocols and for fragments, all packets from one host to
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Flow {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    ports: [u8; 4],
}

impl Flow {
    /// The flow of a packet that begins with its IP header. `None` if it is not an IP packet.
    pub(super) fn of(packet: &[u8]) -> Option<Flow> {
        match packet.first()? >> 4 {
            4 => Flow::of_v4(packet),
            6 => Flow::of_v6(packet),
            _ => None,
        }
    }

    /// RFC 791 3.1
    fn of_v4(packet: &[u8]) -> Option<Flow> {
        let address = |at| -> Option<IpAddr> { Some(packet.get(at..)?.first_chunk::<4>().copied()?.into()) };
        let header = usize::from(packet[0] & 0x0f) * 4;
        let fragment = u16::from_be_bytes(*packet.get(6..)?.first_chunk()?);
        // With more fragments to come, or an offset, the ports are not in every packet.
        let whole = fragment & 0x3fff == 0;
        Some(Flow::new(address(12)?, address(16)?, *packet.get(9)?, packet.get(header..).filter(|_| whole)))
    }

    /// RFC 8200 3; extension headers hide the ports.
    fn of_v6(packet: &[u8]) -> Option<Flow> {
        let address = |at| -> Option<IpAddr> { Some(packet.get(at..)?.first_chunk::<16>().copied()?.into()) };
        Some(Flow::new(address(8)?, address(24)?, *packet.get(6)?, packet.get(40..)))
    }

    fn new(from: IpAddr, to: IpAddr, protocol: u8, payload: Option<&[u8]>) -> Flow {
        let ports =
            payload.filter(|_| matches!(protocol, TCP | UDP)).and_then(|payload| payload.first_chunk());
        Flow { from, to, protocol, ports: ports.copied().unwrap_or_default() }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A TCP packet of `length` bytes over IPv4 from `port`.
    pub(in crate::link) fn tcp(port: u16, length: usize) -> Vec<u8> {
        let mut packet = vec![0; length];
        packet[0] = 0x45;
        packet[9] = TCP;
        packet[12..20].copy_from_slice(&[198, 18, 0, 2, 198, 18, 0, 1]);
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet
    }

    #[test]
    fn a_connection_is_told_by_addresses_and_ports() {
        let flow = |packet: &[u8]| Flow::of(packet).unwrap();
        assert_eq!(flow(&tcp(1, 40)), flow(&tcp(1, 1500)));
        assert_ne!(flow(&tcp(1, 40)), flow(&tcp(2, 40)));
        let mut other = tcp(1, 40);
        other[15] = 3;
        assert_ne!(flow(&tcp(1, 40)), flow(&other));
        // Behind options of IP.
        let mut with_options = tcp(0, 60);
        with_options[0] = 0x46;
        with_options[24..26].copy_from_slice(&7u16.to_be_bytes());
        let mut without = with_options.clone();
        without[24..26].copy_from_slice(&8u16.to_be_bytes());
        assert_ne!(flow(&with_options), flow(&without));
    }

    #[test]
    fn fragments_of_two_hosts_are_one_flow() {
        let [mut first, mut second] = [tcp(1, 60), tcp(2, 60)];
        first[6] = 0x20;
        second[7] = 0x10;
        assert_eq!(Flow::of(&first), Flow::of(&second));
    }

    #[test]
    fn ipv6_is_told_apart_too() {
        let packet = |port: u8| {
            let mut packet = vec![0; 60];
            packet[0] = 0x60;
            packet[6] = TCP;
            packet[41] = port;
            packet
        };
        assert_eq!(Flow::of(&packet(1)), Flow::of(&packet(1)));
        assert_ne!(Flow::of(&packet(1)), Flow::of(&packet(2)));
    }

    #[test]
    fn what_is_cut_short_has_no_flow_or_no_ports() {
        for length in 0..40 {
            let whole = tcp(9, 40);
            assert_eq!(Flow::of(&whole[..length]).is_some(), length >= 20, "{length}");
        }
        assert_eq!(Flow::of(&[0x10; 40]), None);
    }
}
