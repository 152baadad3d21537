//! Packets that make the clients of a former owner connect again at once.
//!
//! The new owner sends each client an acknowledgement that does not fit the connection. The client replies
//! with what it expects (RFC 9293 3.10.7.4). The kernel of the new owner has no such connection, so it
//! answers that with a reset, whose sequence number the client has just named. The client takes it and
//! connects again. Without this a client finds out by its own retransmissions, or, if it has sent nothing,
//! never. A client that has connected already is not harmed: its reply meets a connection that knows what it
//! means.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto};

use super::error::{FloatingAddressError, Result};
use super::record::MOST_RECORDED;
use super::segments::acknowledgement;

/// The pauses before the rounds after the first one. A round makes up for packets that were lost: the kernel
/// keeps few of them while it looks for the hardware address of a client. The first pause is on the caller's
/// thread.
const PAUSES: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(250), Duration::from_secs(1)];
/// The sequence numbers of the rounds in turn. A window is less than 1 GiB (RFC 7323 2.3), so each connection
/// has at most one of the two in its window.
const SEQUENCES: [u32; 2] = [0, 1 << 31];

/// The connections to one address of this host, and a socket that sends from it.
struct TickleBatch {
    socket: OwnedFd,
    connections: Vec<(SocketAddr, SocketAddr)>,
}

/// Makes the client of each connection (client, server) connect again, as far as this host has the server's
/// address and not the connection. Returns to how many clients a packet was sent. Two rounds of packets are
/// sent before this returns, and two more within 1.3 s by a thread. The bound is [`MOST_RECORDED`]
/// connections; the rest is left out. Connections between link-local addresses are, too.
///
/// A firewall of this host must let the clients' replies in. A rule that drops packets of connections that it
/// does not know (such as `ct state invalid drop` of nft(8)) loses them.
///
/// # Errors
/// This process may not send raw packets (CAP_NET_RAW).
pub fn tickle(connections: &[(SocketAddr, SocketAddr)]) -> Result<usize> {
    let failed =
        |reason| FloatingAddressError::host("reset the connections of the last owner", "CAP_NET_RAW", reason);
    let batches = batches(connections).map_err(failed)?;
    if batches.is_empty() {
        return Ok(0);
    }
    let sent = send_round(&batches, 0);
    std::thread::sleep(PAUSES[0]);
    send_round(&batches, 1);
    let run = move || {
        for (round, pause) in PAUSES.iter().enumerate().skip(1) {
            std::thread::sleep(*pause);
            send_round(&batches, round + 1);
        }
    };
    // The thread ends by itself after the last round.
    let thread = std::thread::Builder::new().name("trunkline-tickle".to_owned()).spawn(run);
    thread.map_err(failed)?;
    Ok(sent)
}

/// The connections by the server's address, without those that cannot be served here.
fn batches(connections: &[(SocketAddr, SocketAddr)]) -> io::Result<Vec<TickleBatch>> {
    let canonical = |at: &SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let mut pairs: Vec<(SocketAddr, SocketAddr)> = connections
        .iter()
        .take(MOST_RECORDED)
        .map(|(client, server)| (canonical(client), canonical(server)))
        .filter(|(client, server)| client.is_ipv4() == server.is_ipv4())
        .filter(|(client, server)| !is_link_local(client.ip()) && !is_link_local(server.ip()))
        .collect();
    pairs.sort_unstable_by_key(|(client, server)| (*server, *client));
    pairs.dedup();
    let mut batches = Vec::new();
    for connections in pairs.chunk_by(|(_, a), (_, b)| a.ip() == b.ip()) {
        let Some((_, server)) = connections.first() else { continue };
        match open(server.ip()) {
            Ok(socket) => batches.push(TickleBatch { socket, connections: connections.to_vec() }),
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {
                let (address, count) = (server.ip(), connections.len());
                tracing::warn!(%address, count, "connections are not reset: this host lacks their address");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(batches)
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

/// A socket that sends packets with their headers from an address, and receives nothing (raw(7)).
fn open(from: IpAddr) -> io::Result<OwnedFd> {
    let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::RAW))?;
    // The route is that of the address, and EADDRNOTAVAIL says that this host does not have it.
    rustix::net::bind(&socket, &SocketAddr::new(from, 0))?;
    Ok(socket)
}

/// Sends one packet for each connection. Returns the number of those that were sent.
fn send_round(batches: &[TickleBatch], round: usize) -> usize {
    let sequence = SEQUENCES[round % SEQUENCES.len()];
    let sent = |socket: &OwnedFd, (client, server): &(SocketAddr, SocketAddr)| {
        let packet = acknowledgement(*client, *server, sequence)?;
        // The kernel takes the port of a raw socket's address for a protocol.
        let to = SocketAddr::new(client.ip(), 0);
        let send = || rustix::net::sendto(socket, &packet, SendFlags::empty(), &to);
        match rustix::io::retry_on_intr(send) {
            Ok(_) => Some(()),
            Err(error) => {
                log_failure(*client, error);
                None
            }
        }
    };
    let of = |batch: &TickleBatch| batch.connections.iter().filter_map(|it| sent(&batch.socket, it)).count();
    batches.iter().map(of).sum()
}

fn log_failure(client: SocketAddr, error: Errno) {
    tracing::debug!(%client, %error, "a connection of the last owner could not be reset");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address and a port")
    }

    #[test]
    fn what_cannot_be_reset_is_left_out_before_anything_is_sent() {
        let pairs = [
            (at("10.77.0.9:1"), at("[fd77::50]:445")),
            (at("[fe80::9]:1"), at("[fe80::50]:445")),
            (at("169.254.0.9:1"), at("10.77.0.50:445")),
        ];
        assert_eq!(tickle(&pairs).expect("nothing to do"), 0);
        assert_eq!(tickle(&[]).expect("nothing to do"), 0);
    }

    #[test]
    fn one_of_the_sequence_numbers_is_outside_of_any_window() {
        // The largest window is (2^16 - 1) << 14 (RFC 7323 2.3).
        let window = 0xffff_u32 << 14;
        let [a, b] = SEQUENCES;
        assert!(a.wrapping_sub(b) > window && b.wrapping_sub(a) > window);
    }
}
