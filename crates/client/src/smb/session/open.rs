//! Opens further channels of a session: the choice of addresses, and the binding (MS-SMB2 3.2.5.14.11).

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use smb_wire::ioctl::interfaces::{InterfaceCapability, NetworkInterfaceInfo};
use smb_wire::negotiate::Capabilities;
use tokio::net::TcpStream;
use tokio::sync::MutexGuard;
use tokio::task::JoinSet;

use crate::Error;
use crate::error::Result;
use crate::retry::{answered, late, within};
use crate::smb::channels::Channel;
use crate::smb::connection::ConnectionCore;
use crate::smb::negotiate::Negotiated;
use crate::smb::protection::ChannelKeys;
use crate::smb::session::state::SessionInner;
use crate::smb::{Connection, log_on};

/// An attempt to open a channel may take this part of the time to connect. There may be four attempts, two at
/// the planned address and two at another.
const ATTEMPT: u32 = 4;
/// Other attempts wait for the answer to NEGOTIATE for this part of the time, which is plenty on any path.
const TURN: u32 = 30;

/// The number of channels of a session, and their addresses.
#[derive(Debug, Clone)]
pub struct ChannelOptions {
    /// The connections of the session, including its first one.
    pub channels: usize,
    /// The addresses of the further channels, used in turn. If empty, the server's interfaces are queried.
    pub addresses: Vec<SocketAddr>,
    /// The pause between a loss and the first attempt to reopen the channel. Each further pause is twice as
    /// long, up to a minute.
    pub reopen_after: Duration,
    /// Whether all channels are used, even if fewer would move as much. It serves to measure what each of
    /// them carries. Windows and Linux use them all.
    pub use_all: bool,
}

impl Default for ChannelOptions {
    fn default() -> ChannelOptions {
        ChannelOptions {
            channels: 4,
            addresses: Vec::new(),
            reopen_after: Duration::from_secs(1),
            use_all: false,
        }
    }
}

/// The outcome of opening channels.
#[derive(Debug)]
pub struct OpenedChannels {
    /// The present connections of the session.
    pub channels: usize,
    /// The reason, if there are fewer than requested.
    pub failure: Option<Error>,
}

/// Windows makes four connections to an interface with receive side scaling. Chance decides which of them
/// share a queue, so more are only made on request. An interface without it gets one.
fn limit(interface: &NetworkInterfaceInfo, channels: usize) -> usize {
    if interface.capability.contains(InterfaceCapability::RSS_CAPABLE) { channels } else { 1 }
}

/// The addresses of all channels, beginning with the first one, which goes to `peer`. `interfaces` are the
/// server's.
pub(crate) fn plan(
    peer: SocketAddr,
    interfaces: &[NetworkInterfaceInfo],
    channels: usize,
) -> Vec<SocketAddr> {
    // MS-SMB2 3.2.5.14.11
    let usable = |it: &&NetworkInterfaceInfo| it.if_index != 0 && is_routable(it.address, peer.ip());
    let best = interfaces
        .iter()
        .filter(usable)
        .map(|it| (it.capability.contains(InterfaceCapability::RSS_CAPABLE), it.link_speed))
        .max();
    // Each interface contributes one address: the one in use already, or else one of the same family.
    let mut chosen: Vec<&NetworkInterfaceInfo> = Vec::new();
    let rank = |it: &NetworkInterfaceInfo| (it.address != peer.ip(), it.address.is_ipv4() != peer.is_ipv4());
    for it in interfaces.iter().filter(usable) {
        let is_best = Some((it.capability.contains(InterfaceCapability::RSS_CAPABLE), it.link_speed)) == best;
        match chosen.iter_mut().find(|other| other.if_index == it.if_index) {
            Some(other) if rank(it) < rank(other) => *other = it,
            Some(_) => {}
            None if is_best || it.address == peer.ip() => chosen.push(it),
            None => {}
        }
    }
    chosen.sort_by_key(|it| rank(it));
    let mut left: Vec<usize> = chosen.iter().map(|it| limit(it, channels)).collect();
    let mut plan = vec![peer];
    if let Some(at) = chosen.iter().position(|it| it.address == peer.ip()) {
        left[at] = left[at].saturating_sub(1);
        // The next channel uses the next interface.
        chosen.rotate_left(at + 1);
        left.rotate_left(at + 1);
    }
    while plan.len() < channels && left.iter().any(|left| *left > 0) {
        for (it, left) in chosen.iter().zip(&mut left).filter(|(_, left)| **left > 0) {
            if plan.len() < channels {
                *left -= 1;
                plan.push(SocketAddr::new(it.address, peer.port()));
            }
        }
    }
    plan
}

/// Whether an address can be reached from here. A link-local one lacks its scope, and loopback is our own
/// unless the server was reached there.
fn is_routable(address: IpAddr, peer: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let is_useless = address.is_unspecified() || address.is_multicast() || is_local;
    !is_useless && (!address.is_loopback() || peer.is_loopback())
}

/// A connection that is bound to the session.
struct Bound {
    connection: Arc<ConnectionCore>,
    keys: ChannelKeys,
}

impl SessionInner {
    /// Opens the missing channels of `plan`. A channel that fails at its planned address is opened at one
    /// that has answered, and `plan` is changed. Returns the reason if there are fewer.
    pub(crate) async fn open_all(self: &Arc<Self>, plan: &mut [SocketAddr]) -> Option<Error> {
        let failure = self.open_missing(plan).await?;
        // A server that refuses a further channel does so at all of its addresses.
        if failure.status().is_some() {
            return Some(failure);
        }
        let answered = self.channels.peers();
        for (slot, address) in self.channels.free_slots(plan.len()).into_iter().zip(answered.iter().cycle()) {
            plan[slot] = *address;
        }
        // The first of the two failures is about the planned addresses.
        let refused = self.open_missing(plan).await?;
        Some(if refused.status().is_some() { refused } else { failure })
    }

    /// Opens the missing channels of `plan`, all at once. On a long path each takes several round trips, and
    /// a dead address takes a long time. The successful ones take the first slots, so that no slot between
    /// them is free, and `plan` is reordered likewise. Returns the failure of one.
    pub(crate) async fn open_missing(self: &Arc<Self>, plan: &mut [SocketAddr]) -> Option<Error> {
        let mut opening = JoinSet::new();
        let free = self.channels.free_slots(plan.len());
        for slot in &free {
            let (session, address) = (Arc::clone(self), plan[*slot]);
            opening.spawn(async move { session.bind_at(address).await.map(|bound| (address, bound)) });
        }
        let mut free = &free[..];
        let mut failure: Option<Error> = None;
        while let Some(opened) = opening.join_next().await {
            let added = match opened {
                Ok(Ok((address, bound))) => {
                    let Some((slot, rest)) = free.split_first() else { continue };
                    if let Some(from) = free.iter().find(|from| plan[**from] == address) {
                        plan.swap(*slot, *from);
                    }
                    free = rest;
                    self.add_channel(bound, *slot)
                }
                Ok(Err(error)) => Err(error),
                Err(_) => Err(Error::Closed),
            };
            // A server's refusal tells more than a lost connection.
            if let Err(error) = added
                && failure.as_ref().is_none_or(Error::is_loss)
            {
                failure = Some(error);
            }
        }
        failure
    }

    /// Connects to `address` and binds the session to the connection. A server that stays silent there is
    /// tried once more over another connection. Samba occasionally loses one while it passes it to the
    /// process of the first.
    async fn bind_at(&self, address: SocketAddr) -> Result<Bound> {
        match self.bind_once(address).await? {
            Some(bound) => Ok(bound),
            None => self.bind_once(address).await?.ok_or_else(late),
        }
    }

    /// Tries [`SessionInner::bind_at`] once. Returns none when the server accepts the connection and does not
    /// answer in time.
    async fn bind_once(&self, address: SocketAddr) -> Result<Option<Bound>> {
        let patience = self.options.connect_timeout / ATTEMPT;
        let stream = within(patience, async { Ok(TcpStream::connect(address).await?) }).await?;
        // One after the other. Samba passes each further connection of a client, when it negotiates, to the
        // process of the first. If two arrive there at the same moment, one is never answered.
        let turn = self.negotiating.lock().await;
        match self.bind_over(stream, turn, patience).await {
            Ok(bound) => Ok(Some(bound)),
            Err(Error::Late { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Negotiates over `stream` and binds the session to it. Each reply has to come within `patience`. `turn`
    /// is released when the server has answered, or when it is silent for so long that others should not wait
    /// any more.
    async fn bind_over(
        &self,
        stream: TcpStream,
        turn: MutexGuard<'_, ()>,
        patience: Duration,
    ) -> Result<Bound> {
        // MS-SMB2 3.2.4.2.3
        let mut negotiating = pin!(Connection::over(stream, &self.host, &self.options));
        let soon = tokio::time::timeout(self.options.connect_timeout / TURN, &mut negotiating).await;
        drop(turn);
        let connection = match soon {
            Ok(connection) => connection?,
            Err(_) => answered("NEGOTIATE", patience, negotiating).await?,
        }
        .inner;
        same_server(&self.negotiated, &connection)?;
        let keys = log_on::bind(&connection, &self.credentials, &self.keys, patience).await?;
        Ok(Bound { connection, keys })
    }

    /// Makes a bound connection the channel in `slot`.
    fn add_channel(&self, Bound { connection, keys }: Bound, slot: usize) -> Result<()> {
        connection.link.watch(&self.channels.lost);
        match self.channels.add(Channel::new(connection, keys, slot)) {
            true => Ok(()),
            false => Err(Error::Closed),
        }
    }
}

/// Compares the negotiated values of a further channel with those of the session's first connection.
/// Different values would be those of another server, or of an attacker in between.
fn same_server(first: &Negotiated, connection: &ConnectionCore) -> Result<()> {
    let other = &connection.negotiated;
    let same = first.dialect == other.dialect
        && first.server_guid == other.server_guid
        && first.security_mode == other.security_mode
        && first.signing == other.signing
        && first.cipher == other.cipher
        && first.capabilities == other.capabilities;
    let as_large = other.max_read_size >= first.max_read_size
        && other.max_write_size >= first.max_write_size
        && other.max_transact_size >= first.max_transact_size;
    if same && as_large {
        Ok(())
    } else {
        Err(Error::Protocol("another server answers at the address of a channel"))
    }
}

/// Whether sessions on a connection can have several channels.
pub(crate) fn is_offered(negotiated: &Negotiated) -> bool {
    negotiated.dialect.is_smb3() && negotiated.capabilities.contains(Capabilities::MULTI_CHANNEL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(if_index: u32, address: &str, rss: bool, gbits: u64) -> NetworkInterfaceInfo {
        let capability = if rss { InterfaceCapability::RSS_CAPABLE } else { InterfaceCapability::empty() };
        let link_speed = gbits * 1_000_000_000;
        NetworkInterfaceInfo { if_index, capability, link_speed, address: address.parse().unwrap() }
    }

    fn plan_of(peer: &str, interfaces: &[NetworkInterfaceInfo], channels: usize) -> Vec<String> {
        let plan = plan(SocketAddr::new(peer.parse().unwrap(), 4450), interfaces, channels);
        assert!(plan.iter().all(|it| it.port() == 4450), "the list has no ports");
        plan.iter().map(|it| it.ip().to_string()).collect()
    }

    #[test]
    fn one_interface_with_rss_carries_all_channels_and_one_without_a_single_one() {
        let with = [interface(2, "192.0.2.7", true, 10)];
        assert_eq!(plan_of("192.0.2.7", &with, 4), ["192.0.2.7"; 4]);
        let without = [interface(2, "192.0.2.7", false, 10)];
        assert_eq!(plan_of("192.0.2.7", &without, 4), ["192.0.2.7"]);
        assert_eq!(plan_of("192.0.2.7", &[], 4), ["192.0.2.7"]);
    }

    #[test]
    fn channels_take_turns_among_interfaces_of_the_best_kind() {
        let list = [
            interface(2, "192.0.2.7", true, 10),
            interface(3, "198.51.100.7", true, 10),
            interface(4, "203.0.113.7", false, 100),
            interface(5, "203.0.113.8", true, 1),
        ];
        let turns = ["192.0.2.7", "198.51.100.7", "192.0.2.7", "198.51.100.7"];
        assert_eq!(plan_of("192.0.2.7", &list, 4), turns);
        // Each interface without RSS gets one channel.
        let list = [interface(2, "192.0.2.7", false, 1), interface(3, "198.51.100.7", false, 1)];
        assert_eq!(plan_of("198.51.100.7", &list, 4), ["198.51.100.7", "192.0.2.7"]);
    }

    #[test]
    fn addresses_of_our_own_family_go_first_and_useless_ones_are_left_out() {
        let list = [
            interface(2, "fe80::1", true, 10),
            interface(2, "2001:db8::7", true, 10),
            interface(2, "192.0.2.7", true, 10),
            interface(3, "127.0.0.1", true, 10),
            interface(0, "192.0.2.9", true, 10),
        ];
        assert_eq!(plan_of("192.0.2.200", &list, 3), ["192.0.2.200", "192.0.2.7", "192.0.2.7"]);
        assert_eq!(plan_of("2001:db8::7", &list, 2), ["2001:db8::7", "2001:db8::7"]);
        assert_eq!(plan_of("127.0.0.1", &list[3..], 2), ["127.0.0.1", "127.0.0.1"]);
    }
}
