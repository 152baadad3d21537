//! The search for another host that has an address.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use super::error::{FloatingAddressError, Result};
use super::packet_socket::PacketSocket;
use super::{FloatingAddress, HardwareAddress, frames, rtnetlink};
use crate::interfaces::messages::Link;

/// The number of probes (RFC 5227 1.1, PROBE_NUM).
const PROBES: u32 = 3;

/// Looks for another host that has one of the addresses, as [`FloatingAddress::is_taken`] does, for all of
/// them at the same time. So several addresses take no longer than one. Returns the first that is taken.
///
/// # Errors
/// Those of [`FloatingAddress::is_taken`].
pub fn first_taken(
    addresses: &[FloatingAddress],
    within: Duration,
) -> Result<Option<(FloatingAddress, HardwareAddress)>> {
    let look = |address: &FloatingAddress| {
        let other = address.is_taken(within)?;
        Ok(other.map(|other| (address.clone(), other)))
    };
    std::thread::scope(|scope| {
        let begin = |address| {
            let builder = std::thread::Builder::new().name("trunkline-probe".to_owned());
            (address, builder.spawn_scoped(scope, move || look(address)).ok())
        };
        let begun: Vec<_> = addresses.iter().map(begin).collect();
        // Without a thread of its own, an address is looked for now.
        let mut ends = begun.into_iter().map(|(address, thread)| {
            thread.and_then(|thread| thread.join().ok()).unwrap_or_else(|| look(address))
        });
        ends.find(|end| !matches!(end, Ok(None))).unwrap_or(Ok(None))
    })
}

/// Another host that has the address or probes for it.
pub(super) fn claimant(
    floating: &FloatingAddress,
    link: &Link,
    within: Duration,
) -> Result<Option<HardwareAddress>> {
    let Some(own) = hardware(floating, link)? else { return Ok(None) };
    let failed = |reason| {
        let doing = format!("look for another host with the address {floating} on {}", link.name);
        FloatingAddressError::host(doing, "CAP_NET_RAW", reason)
    };
    // Another interface of this host in the same network replies too.
    let links = rtnetlink::links().map_err(failed)?;
    let ours: Vec<_> = links.into_iter().filter_map(|link| link.hardware.map(HardwareAddress)).collect();
    let is_other = |claimant: HardwareAddress| claimant != own && !ours.contains(&claimant);
    listen(floating.address, link.if_index, own, within, is_other).map_err(failed)
}

/// The hardware address of the interface. None if it has no address resolution.
pub(super) fn hardware(floating: &FloatingAddress, link: &Link) -> Result<Option<HardwareAddress>> {
    if link.hardware.is_some() && !link.up {
        let interface = link.name.clone();
        return Err(FloatingAddressError::Down { address: floating.address, interface });
    }
    Ok(link.hardware.map(HardwareAddress))
}

fn listen(
    address: IpAddr,
    if_index: u32,
    own: HardwareAddress,
    within: Duration,
    is_other: impl Fn(HardwareAddress) -> bool,
) -> io::Result<Option<HardwareAddress>> {
    let socket = PacketSocket::open(if_index, frames::ether_type(address))?;
    // Other hosts' probes are sent to this group, which the interface must receive.
    let _member = match address {
        IpAddr::V6(six) => Some(join(frames::solicited_node(six), if_index)?),
        IpAddr::V4(_) => None,
    };
    let start = Instant::now();
    let mut frame = [0; frames::LONGEST];
    for turn in 1..=PROBES {
        socket.send(&frames::probe(own, address))?;
        let until = start + within * turn / PROBES;
        while let Some(received) = socket.receive(&mut frame, until)? {
            match frames::claimant(&frame[..received], address) {
                Some(claimant) if is_other(claimant) => return Ok(Some(claimant)),
                // A stream of frames must not make this last longer.
                _ if Instant::now() >= until => break,
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Makes the interface receive a group of IPv6 until the result is dropped.
fn join(group: Ipv6Addr, if_index: u32) -> io::Result<OwnedFd> {
    let udp = Some(ipproto::UDP);
    let socket =
        rustix::net::socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, udp)?;
    sockopt::set_ipv6_add_membership(&socket, &group, if_index)?;
    Ok(socket)
}
