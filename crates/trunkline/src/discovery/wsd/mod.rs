//! WS-Discovery, so that Explorer lists the server under Network: SOAP over UDP for Hello, Bye, Probe and
//! Resolve, and one HTTP document with the name and the workgroup.
//!
//! [`request`] parses the messages of clients, [`reply`] writes messages, and [`http`] serves the document.
//! Only IPv4 is supported: every Windows client asks on it, and mDNS covers IPv6.
//!
//! Sources: WS-Discovery 1.0 (2005/04), SOAP-over-UDP, Devices Profile for Web Services (2006/02),
//! Publication Services Data Structure ([MS-PBSD]).

mod http;
mod reply;
mod request;

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

use super::{Announcement, interfaces};
use reply::DiscoveryWriter;
use request::DiscoveryRequest;

/// WS-Discovery 1.0, 2.4
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 255, 250);
const PORT: u16 = 3702;
/// Largest datagram that is parsed.
const MAX_DATAGRAM: usize = 8 * 1024;
/// A message to the group is sent once more after this time (SOAP-over-UDP, appendix I).
const REPEAT_AFTER: Duration = Duration::from_millis(150);
/// The number of concurrent answers. Further requests are dropped.
const MAX_ANSWERS: usize = 32;

/// The number of remembered requests. Each request is sent several times (SOAP-over-UDP, appendix I).
const MAX_KNOWN: usize = 64;

/// A running responder.
pub struct Wsd {
    writer: Arc<DiscoveryWriter>,
    addresses: Vec<Ipv4Addr>,
    tasks: Vec<JoinHandle<()>>,
}

impl Wsd {
    /// Binds the ports and sends Hello.
    pub async fn start(announcement: &Announcement) -> io::Result<Wsd> {
        let addresses = interfaces::ipv4(&announcement.addresses)?;
        if addresses.is_empty() {
            return Err(io::Error::other("no IPv4 address to announce"));
        }
        let documents = http::Documents::bind(&addresses).await?;
        let writer = Arc::new(DiscoveryWriter::new(announcement, http::PORT));
        let socket = Arc::new(group_socket(&addresses)?);
        let tasks = vec![
            tokio::spawn(answer_all(Arc::clone(&socket), Arc::clone(&writer))),
            tokio::spawn(documents.serve(Arc::clone(&writer))),
        ];
        let wsd = Wsd { writer, addresses, tasks };
        wsd.tell_group(DiscoveryWriter::hello).await;
        Ok(wsd)
    }

    /// Sends Bye and stops.
    pub async fn end(self) {
        for task in &self.tasks {
            task.abort();
        }
        self.tell_group(DiscoveryWriter::bye).await;
    }

    /// Sends a message to the group, twice, from each address.
    async fn tell_group(&self, message: impl Fn(&DiscoveryWriter, Ipv4Addr) -> String) {
        let mut last = Vec::new();
        for address in &self.addresses {
            let text = message(&self.writer, *address);
            match send_to_group(*address, &text).await {
                Ok(()) => last.push((*address, text)),
                Err(error) => tracing::debug!(%address, %error, "no WS-Discovery message"),
            }
        }
        tokio::time::sleep(REPEAT_AFTER).await;
        for (address, text) in last {
            // The first copy was sent, so a failure of the second one does not matter.
            let _ = send_to_group(address, &text).await;
        }
    }
}

async fn send_to_group(from: Ipv4Addr, text: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((from, 0))?;
    rustix::net::sockopt::set_ip_multicast_if(&socket, &from)?;
    socket.set_multicast_ttl_v4(1)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)?.send_to(text.as_bytes(), (GROUP, PORT)).await.map(|_| ())
}

/// The socket that receives requests.
fn group_socket(addresses: &[Ipv4Addr]) -> io::Result<UdpSocket> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT))
        .map_err(|e| io::Error::other(format!("UDP port {PORT}: {e}")))?;
    let socket = std::net::UdpSocket::from(socket);
    join_group(&socket, addresses)?;
    UdpSocket::from_std(socket)
}

/// Joins the group on the interfaces that have these addresses.
fn join_group(socket: &std::net::UdpSocket, addresses: &[Ipv4Addr]) -> io::Result<()> {
    for address in addresses {
        match socket.join_multicast_v4(&GROUP, address) {
            // An interface with two addresses has joined by the first one.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            other => other?,
        }
    }
    Ok(())
}

async fn answer_all(socket: Arc<UdpSocket>, writer: Arc<DiscoveryWriter>) {
    let slots = Arc::new(tokio::sync::Semaphore::new(MAX_ANSWERS));
    let mut buffer = vec![0; MAX_DATAGRAM];
    let mut known = RecentProbes::default();
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "WS-Discovery receives nothing");
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        // A datagram that fills the buffer was longer and has been truncated.
        let Some(request) =
            buffer.get(..length).filter(|_| length < MAX_DATAGRAM).and_then(DiscoveryRequest::parse)
        else {
            continue;
        };
        if !known.is_new(from, &request.message_id) {
            continue;
        }
        let (Some(reach), Ok(slot)) = (own_address_towards(from), Arc::clone(&slots).try_acquire_owned())
        else {
            continue;
        };
        let Some(text) = writer.answer(&request, reach) else { continue };
        let socket = Arc::clone(&socket);
        tokio::spawn(async move {
            tokio::time::sleep(delay(&request.message_id)).await;
            if let Err(error) = socket.send_to(text.as_bytes(), from).await {
                tracing::debug!(%from, %error, "no WS-Discovery answer");
            }
            drop(slot);
        });
    }
}

/// The latest requests.
#[derive(Default)]
struct RecentProbes(VecDeque<(SocketAddr, String)>);

impl RecentProbes {
    /// Whether a request is not among the latest ones. It is remembered from then on.
    fn is_new(&mut self, from: SocketAddr, message_id: &str) -> bool {
        if self.0.iter().any(|(peer, id)| *peer == from && id == message_id) {
            return false;
        }
        if self.0.len() == MAX_KNOWN {
            self.0.pop_front();
        }
        self.0.push_back((from, message_id.to_owned()));
        true
    }
}

/// A delay of up to 500 ms, so that not all servers answer at once (WS-Discovery 1.0, 2.4: APP_MAX_DELAY).
fn delay(message_id: &str) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    Duration::from_millis(RandomState::new().hash_one(message_id) % 500)
}

/// The own address on the route to `peer`. Sends nothing.
fn own_address_towards(peer: SocketAddr) -> Option<Ipv4Addr> {
    let socket = std::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(peer).ok()?;
    match socket.local_addr().ok()? {
        SocketAddr::V4(address) if !address.ip().is_unspecified() => Some(*address.ip()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_question_is_known_and_memory_is_bounded() {
        let mut known = RecentProbes::default();
        let (ann, bob) = ("192.0.2.1:1".parse().unwrap(), "192.0.2.2:1".parse().unwrap());
        assert!(known.is_new(ann, "1") && known.is_new(bob, "1"));
        assert!(!known.is_new(ann, "1"));
        for id in 0..10 * MAX_KNOWN {
            known.is_new(ann, &format!("x{id}"));
        }
        assert_eq!(known.0.len(), MAX_KNOWN);
        assert!(known.is_new(ann, "1"));
    }

    #[test]
    fn an_interface_with_two_addresses_joins_the_group_once() {
        let socket = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        join_group(&socket, &[Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)]).unwrap();
        let elsewhere = join_group(&socket, &[Ipv4Addr::new(192, 0, 2, 1)]);
        assert!(elsewhere.is_err(), "no interface has this address");
    }
}
