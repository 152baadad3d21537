//! The kernel's counters of TCP connections of this host: round trip, window, retransmissions. They are
//! requested by netlink (sock_diag(7)). So the connections of the kernel's own clients are included, and
//! no socket is needed.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use net::netlink::{DumpRequest, NetlinkFamily, Socket, attributes};
use serde::Serialize;
use wire::{Cursor, Truncated};

/// The kernel's counters of one connection (struct tcp_info). Values that an older kernel does not have
/// are zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TcpInfo {
    /// The smoothed round trip.
    pub rtt_ms: f64,
    /// The shortest round trip that was seen.
    pub min_rtt_ms: f64,
    /// Packets that may be under way at once.
    pub congestion_window: u32,
    /// Bytes of data in a packet that this host sends.
    pub segment: u32,
    /// Bytes that the other side accepts ahead.
    pub peer_window: u32,
    /// The MTU of the path in bytes.
    pub path_mtu: u32,
    /// Segments that were sent, including those that were sent again.
    pub segments_sent: u32,
    /// Segments that were sent again.
    pub segments_sent_again: u32,
    /// Segments among those that the other side had already, as it reports in duplicate SACKs (RFC 2883).
    pub sent_again_in_vain: u32,
    /// Received segments.
    pub segments_came: u32,
    /// Received segments out of order.
    pub out_of_order: u32,
    /// Received bytes.
    pub bytes_came: u64,
    /// Segments with data that arrived, including those out of order.
    pub data_segments_came: u32,
    /// Bytes of data in a segment that arrives.
    pub segment_that_comes: u32,
    /// Sent bytes that the other side has acknowledged.
    pub bytes_acknowledged: u64,
    /// Sent segments that the other side has beyond a gap (SACK, RFC 2018).
    pub acknowledged_beyond_gap: u32,
    /// Microseconds with data to send.
    pub busy_us: u64,
    /// Microseconds of those in which the other side's window was full.
    pub peer_window_full_us: u64,
    /// Microseconds of those in which the local send buffer was full.
    pub send_buffer_full_us: u64,
    /// The name of the congestion control.
    pub congestion_control: String,
}

impl TcpInfo {
    /// Sent bytes that the other side has, including those beyond a gap. `bytes_acknowledged` does not
    /// change until a lost segment has arrived, and then jumps over everything behind it.
    #[must_use]
    pub fn bytes_delivered(&self) -> u64 {
        self.bytes_acknowledged + u64::from(self.acknowledged_beyond_gap) * u64::from(self.segment)
    }

    /// Bytes that arrived since `before`, including those beyond a gap, for the same reason. They are
    /// exact until a segment arrives out of order. From then on full segments are counted.
    #[must_use]
    pub fn bytes_came_since(&self, before: &TcpInfo) -> u64 {
        let segments = self.data_segments_came.saturating_sub(before.data_segments_came);
        if self.out_of_order == 0 || segments == 0 {
            return self.bytes_came.saturating_sub(before.bytes_came);
        }
        u64::from(segments) * u64::from(self.segment_that_comes)
    }
}

/// SOCK_DIAG_BY_FAMILY. The replies have the same type.
const BY_FAMILY: u16 = 20;
/// The sizes of inet_diag_req_v2 and inet_diag_msg.
const QUESTION: usize = 56;
const ANSWER: usize = 72;
/// INET_DIAG_INFO and INET_DIAG_CONG. Each is requested by a bit.
const INFO: u16 = 2;
const CONGESTION: u16 = 4;
/// AF_INET and AF_INET6.
const V4: u8 = 2;
const V6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// TCP_ESTABLISHED as a bit.
const ESTABLISHED: u32 = 1 << 1;

/// The connections of this host to `peer`, with the local end of each.
///
/// # Errors
/// If the kernel refuses such requests, or if its reply makes no sense.
pub fn to(peer: SocketAddr) -> io::Result<Vec<(SocketAddr, TcpInfo)>> {
    let found = dump(peer)?.into_iter();
    Ok(found.filter(|(_, remote, _)| *remote == peer).map(|(local, _, info)| (local, info)).collect())
}

/// The ports of `address` that this host has connections to, one entry for each connection.
///
/// # Errors
/// Those of [`to`].
pub fn ports(address: IpAddr) -> io::Result<Vec<u16>> {
    // Port 0 stands for all ports.
    let found = dump(SocketAddr::new(address, 0))?.into_iter();
    Ok(found.filter(|(_, remote, _)| remote.ip() == address).map(|(_, remote, _)| remote.port()).collect())
}

/// The connections of this host to the port of `peer`, at any address.
fn dump(peer: SocketAddr) -> io::Result<Vec<(SocketAddr, SocketAddr, TcpInfo)>> {
    let body = question(peer);
    let asked = DumpRequest { ask: BY_FAMILY, answer: BY_FAMILY, body: &body };
    Socket::open(NetlinkFamily::SockDiag, 0)?.dump(asked, |answer| connection(answer).map(Some))
}

/// An inet_diag_req_v2 with the port.
fn question(peer: SocketAddr) -> [u8; QUESTION] {
    let mut body = [0; QUESTION];
    body[0] = if peer.is_ipv4() { V4 } else { V6 };
    body[1] = IPPROTO_TCP;
    body[2] = 1 << (INFO - 1) | 1 << (CONGESTION - 1);
    body[4..8].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    body[10..12].copy_from_slice(&peer.port().to_be_bytes());
    body
}

/// Reads an inet_diag_msg and its attributes.
fn connection(message: &mut Cursor<'_>) -> Result<(SocketAddr, SocketAddr, TcpInfo), Truncated> {
    let head: [u8; ANSWER] = message.array()?;
    let is_v4 = head[0] == V4;
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&head[at..at + 16]);
        match is_v4 {
            true => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
            false => IpAddr::V6(Ipv6Addr::from(octets)),
        }
    };
    let port = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let (local, remote) = (SocketAddr::new(address(8), port(4)), SocketAddr::new(address(24), port(6)));
    let (mut info, mut congestion_control) = (TcpInfo::default(), String::new());
    attributes(message, |kind, bytes| match kind {
        INFO => info = account(bytes),
        CONGESTION => {
            let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            congestion_control = String::from_utf8_lossy(name).into_owned();
        }
        _ => {}
    })?;
    Ok((local, remote, TcpInfo { congestion_control, ..info }))
}

/// Reads a tcp_info as far as this kernel fills it.
fn account(bytes: &[u8]) -> TcpInfo {
    let u32_at =
        |at: usize| bytes.get(at..at + 4).map_or(0, |it| u32::from_ne_bytes([it[0], it[1], it[2], it[3]]));
    let u64_at = |at: usize| {
        let low_first = cfg!(target_endian = "little");
        let (a, b) = (u64::from(u32_at(at)), u64::from(u32_at(at + 4)));
        if low_first { a | b << 32 } else { b | a << 32 }
    };
    // All ones means that nothing was measured yet.
    let min_rtt = Some(u32_at(148)).filter(|it| *it != u32::MAX).unwrap_or(0);
    TcpInfo {
        segment: u32_at(16),
        segment_that_comes: u32_at(20),
        acknowledged_beyond_gap: u32_at(28),
        path_mtu: u32_at(60),
        rtt_ms: f64::from(u32_at(68)) / 1000.0,
        congestion_window: u32_at(80),
        segments_sent_again: u32_at(100),
        bytes_acknowledged: u64_at(120),
        bytes_came: u64_at(128),
        segments_sent: u32_at(136),
        segments_came: u32_at(140),
        min_rtt_ms: f64::from(min_rtt) / 1000.0,
        data_segments_came: u32_at(152),
        busy_us: u64_at(168),
        peer_window_full_us: u64_at(176),
        send_buffer_full_us: u64_at(184),
        sent_again_in_vain: u32_at(216),
        out_of_order: u32_at(224),
        peer_window: u32_at(228),
        congestion_control: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_of_ours_is_found_with_what_it_has_carried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let mut near = TcpStream::connect(peer).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[7; 100_000]).unwrap();
        far.read_exact(&mut [0; 100_000]).unwrap();
        far.write_all(&[8; 5]).unwrap();
        near.read_exact(&mut [0; 5]).unwrap();
        let found = to(peer).unwrap();
        let (local, info) = found.first().expect("it is there");
        assert_eq!((found.len(), *local), (1, near.local_addr().unwrap()));
        assert_eq!((info.bytes_came, info.segments_sent_again), (5, 0));
        assert!((1..=100_001).contains(&info.bytes_acknowledged), "{info:?}");
        assert!(info.rtt_ms > 0.0 && info.rtt_ms < 1000.0 && info.congestion_window > 0, "{info:?}");
        assert_eq!(ports(peer.ip()).unwrap().iter().filter(|port| **port == peer.port()).count(), 1);
        assert_eq!((info.data_segments_came, info.bytes_delivered()), (1, info.bytes_acknowledged));
        assert!(info.path_mtu > 500 && !info.congestion_control.is_empty(), "{info:?}");
    }

    #[test]
    fn an_account_that_ends_early_is_read_as_far_as_it_goes() {
        assert_eq!(account(&[]), TcpInfo::default());
        let mut bytes = vec![0; 72];
        bytes[68..].copy_from_slice(&23_000u32.to_ne_bytes());
        assert_eq!(account(&bytes).rtt_ms, 23.0);
        assert!(connection(&mut Cursor::new(&[0; 60])).is_err());
    }

    #[test]
    fn what_comes_behind_a_gap_counts_when_it_comes() {
        let before = TcpInfo {
            bytes_acknowledged: 1000,
            segment: 100,
            acknowledged_beyond_gap: 7,
            ..TcpInfo::default()
        };
        let after = TcpInfo { bytes_acknowledged: 1800, segment: 100, ..TcpInfo::default() };
        assert_eq!(after.bytes_delivered() - before.bytes_delivered(), 100, "one segment filled the gap");
        let before = TcpInfo {
            bytes_came: 1000,
            data_segments_came: 17,
            segment_that_comes: 100,
            ..TcpInfo::default()
        };
        let after = TcpInfo { bytes_came: 1790, data_segments_came: 25, ..before.clone() };
        assert_eq!(after.bytes_came_since(&before), 790, "nothing came out of order");
        let after = TcpInfo { bytes_came: 1900, out_of_order: 7, data_segments_came: 18, ..before.clone() };
        assert_eq!(after.bytes_came_since(&before), 100, "one segment filled the gap");
    }
}
