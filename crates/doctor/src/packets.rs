//! Layer 2: whether large packets arrive like small ones. A path that silently loses large packets (RFC
//! 2923 2.1) accepts connections and small requests and replies, and then nothing arrives any more. It
//! looks like a server that stalls.
//!
//! Separate connections carry one packet each. The other side's kernel acknowledges what has arrived,
//! regardless of the process that listens there. The local kernel counts the packets that it had to send
//! again ([`TcpInfo`]).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::measurements::Packets;
use crate::tcp::{self, TcpInfo};

/// Sizes of packets that known paths are limited to: the minimum of IPv6 (RFC 8200 5), tunnels, PPPoE
/// (RFC 2516 7), Ethernet.
const COMMON_MTUS: [u32; 10] = [576, 1280, 1360, 1400, 1420, 1440, 1460, 1480, 1492, 1500];
/// Packets that are tried at once to find the limit between two of these.
const BETWEEN: u32 = 8;
/// How often a packet must have been sent again, without an acknowledgement, to count as lost for good. A
/// path that loses one packet in a hundred by chance does so once in a hundred million.
const SENT_AGAIN_AT_LEAST: u32 = 3;
/// The longest time for that: the kernel sends again after 0.2, 0.4 and 0.8 s on a short path (RFC 6298
/// 2.4 asks for 1 s).
const PATIENCE: Duration = Duration::from_millis(2500);
/// The interval at which the kernel is asked.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// A message of 64 KiB in SMB's framing over TCP, and a fragment of a record in that of RPC. A server
/// that reads it waits for the rest.
const FRAME: [u8; 4] = [0, 1, 0, 0];

/// The fate of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Arrived,
    /// It was sent again this often, and was never acknowledged.
    Lost(u32),
    /// There is no connection, or no account of it.
    Unknown,
}

/// Sends a small packet and the largest one that this host would send. If the large one does not arrive,
/// it finds the limit. `None` if the kernel does not tell.
pub(crate) async fn probe(to: SocketAddr) -> Option<Packets> {
    let whole = largest(to).await?;
    let first = fates(to, &[COMMON_MTUS[0], whole]).await;
    judge(&first)?;
    if first.iter().all(|(_, fate)| *fate == Fate::Arrived) {
        return Some(Packets { arrived: whole, lost: None, sent_again: 0 });
    }
    let common: Vec<u32> = COMMON_MTUS.into_iter().filter(|it| *it < whole).collect();
    let mut all = [first, fates(to, &common).await].concat();
    let coarse = judge(&all)?;
    if let Some(lost) = coarse.lost {
        let step = ((lost - coarse.arrived) / (BETWEEN + 1)).max(1);
        let between: Vec<u32> =
            (1..=BETWEEN).map(|it| coarse.arrived + it * step).filter(|it| *it < lost).collect();
        all.extend(fates(to, &between).await);
    }
    judge(&all)
}

/// The conclusion from all packets. `None` if none is known to have arrived.
fn judge(all: &[(u32, Fate)]) -> Option<Packets> {
    let arrived = all.iter().filter(|(_, fate)| *fate == Fate::Arrived).map(|(size, _)| *size).max()?;
    let lost = all.iter().filter_map(|(size, fate)| match fate {
        Fate::Lost(again) if *size > arrived => Some((*size, *again)),
        _ => None,
    });
    let least = lost.min();
    Some(Packets { arrived, lost: least.map(|it| it.0), sent_again: least.map_or(0, |it| it.1) })
}

/// The size of the largest packet that this host sends to the address.
async fn largest(to: SocketAddr) -> Option<u32> {
    let stream = connect(to).await?;
    let info = account(to, stream.local_addr().ok()?)?;
    Some(info.path_mtu.min(info.segment + headers(to))).filter(|it| *it > COMMON_MTUS[0])
}

/// Bytes in front of the data of a packet: the headers of IP and TCP, and TCP's timestamps, which Linux
/// sends by default (RFC 7323).
fn headers(to: SocketAddr) -> u32 {
    let ip = if to.is_ipv6() { 40 } else { 20 };
    ip + 20 + 12
}

async fn connect(to: SocketAddr) -> Option<TcpStream> {
    let stream = tokio::time::timeout(PATIENCE, TcpStream::connect(to)).await.ok()?.ok()?;
    // Each write is sent at once.
    stream.set_nodelay(true).ok()?;
    Some(stream)
}

fn account(to: SocketAddr, local: SocketAddr) -> Option<TcpInfo> {
    tcp::to(to).ok()?.into_iter().find(|(ours, _)| *ours == local).map(|(_, info)| info)
}

/// Sends a packet of each size, all at the same time.
async fn fates(to: SocketAddr, sizes: &[u32]) -> Vec<(u32, Fate)> {
    let mut sending = JoinSet::new();
    for size in sizes.iter().copied() {
        sending.spawn(async move { (size, one(to, size).await.unwrap_or(Fate::Unknown)) });
    }
    sending.join_all().await
}

/// Sends one packet of `size` bytes, with its headers.
async fn one(to: SocketAddr, size: u32) -> Option<Fate> {
    let stream = connect(to).await?;
    let local = stream.local_addr().ok()?;
    let before = account(to, local)?;
    let mut content = vec![0; size.saturating_sub(headers(to)).max(FRAME.len() as u32) as usize];
    content[..FRAME.len()].copy_from_slice(&FRAME);
    if stream.try_write(&content).ok()? < content.len() {
        return None;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        tokio::time::sleep(ASK_EVERY).await;
        // A peer that has closed the connection has received the packet.
        let Some(now) = account(to, local) else { return Some(Fate::Arrived) };
        let again = now.segments_sent_again - before.segments_sent_again;
        if now.bytes_acknowledged >= before.bytes_acknowledged + content.len() as u64 {
            return Some(Fate::Arrived);
        }
        if again >= SENT_AGAIN_AT_LEAST {
            return Some(Fate::Lost(again));
        }
        if Instant::now() >= until {
            return Some(Fate::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn on_this_host_every_packet_arrives() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let packets = tokio::time::timeout(Duration::from_secs(20), probe(to)).await.unwrap().unwrap();
        assert!(packets.lost.is_none() && packets.arrived > 1280, "{packets:?}");
        drop(listener);
        assert_eq!(probe(to).await, None);
    }

    #[test]
    fn the_limit_lies_between_what_arrived_and_what_was_sent_again_and_again() {
        let all = [
            (576, Fate::Arrived),
            (1500, Fate::Lost(3)),
            (1400, Fate::Arrived),
            (1420, Fate::Lost(4)),
            (1280, Fate::Unknown),
        ];
        assert_eq!(judge(&all), Some(Packets { arrived: 1400, lost: Some(1420), sent_again: 4 }));
        // A host that answers nothing at all is no path with a limit.
        assert_eq!(judge(&[(576, Fate::Lost(3)), (1500, Fate::Lost(3))]), None);
        // A chance loss below the size that arrived is not the limit.
        let by_chance = [(576, Fate::Lost(3)), (1500, Fate::Arrived)];
        assert_eq!(judge(&by_chance), Some(Packets { arrived: 1500, lost: None, sent_again: 0 }));
    }
}
