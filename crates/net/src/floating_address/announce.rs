//! The announcement of an address that has come to this host.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::detect::hardware;
use super::error::{FloatingAddressError, Result};
use super::packet_socket::PacketSocket;
use super::{FloatingAddress, HardwareAddress, frames, rtnetlink};
use crate::interfaces::messages::Link;

/// The times of the later announcements after the first one. A switch that has just changed its ports, or a
/// host that was busy, may miss the first.
const LATER: [Duration; 3] = [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(2)];

/// The content of an announcement.
struct Announcement {
    if_index: u32,
    interface: String,
    own: HardwareAddress,
    address: IpAddr,
}

/// Announces the address now, and later on a thread.
pub(super) fn announce(floating: &FloatingAddress, link: &Link) -> Result<()> {
    let Some(own) = hardware(floating, link)? else { return Ok(()) };
    let (if_index, interface) = (link.if_index, link.name.clone());
    let announcement = Announcement { if_index, interface, own, address: floating.address };
    let failed = |reason| {
        let doing = format!("announce the address {floating} on {}", link.name);
        FloatingAddressError::host(doing, "CAP_NET_RAW", reason)
    };
    let start = Instant::now();
    announcement.send().map_err(failed)?;
    let run = move || announcement.repeat(start);
    // The thread ends by itself after the last announcement.
    let thread = std::thread::Builder::new().name("trunkline-announce".to_owned()).spawn(run);
    thread.map(drop).map_err(failed)
}

impl Announcement {
    fn send(&self) -> io::Result<()> {
        let socket = PacketSocket::open(self.if_index, frames::ether_type(self.address))?;
        let is_router = self.address.is_ipv6() && is_router(&self.interface);
        let frames = frames::announcements(self.own, self.address, is_router);
        frames.iter().try_for_each(|frame| socket.send(frame))
    }

    /// Sends the later announcements while the interface has the address. Afterwards they would draw clients
    /// away from its new owner.
    fn repeat(&self, start: Instant) {
        for after in LATER {
            std::thread::sleep((start + after).saturating_duration_since(Instant::now()));
            let sent = match self.is_here() {
                Ok(false) => return,
                Ok(true) => self.send(),
                Err(error) => Err(error),
            };
            if let Err(error) = sent {
                let (address, interface) = (self.address, &self.interface);
                tracing::warn!(%address, %interface, %error, "an address could not be announced again");
            }
        }
    }

    fn is_here(&self) -> io::Result<bool> {
        let here = |have: &crate::interfaces::messages::Address| {
            have.if_index == self.if_index && have.address == self.address
        };
        Ok(rtnetlink::addresses()?.iter().any(here))
    }
}

/// Whether this host forwards IPv6 from the interface. An advertisement without the flag of a router would
/// make hosts give up their route by it (RFC 4861 7.2.5).
fn is_router(interface: &str) -> bool {
    let setting = format!("/proc/sys/net/ipv6/conf/{interface}/forwarding");
    std::fs::read_to_string(setting).is_ok_and(|text| !matches!(text.trim(), "0" | ""))
}
