//! The addresses at which clients can find the server: which addresses of the host are offered, and why the
//! others are not.
//!
//! Start with [`weigh`], which decides. [`Addresses`] keeps the server's list up to date with the host and
//! the configuration.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use net::interfaces::InterfaceAddress;
use smb::interfaces::NetworkAddress;

use super::locks::held;
use crate::config::{self, Advertised, Rss};

/// Number of the first interface of an advertised address. The kernel's numbers are far lower.
const FIRST_ADVERTISED: u32 = 0x4000_0000;

/// The reason why an address is not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOfferedReason {
    /// It is a loopback address.
    Loopback,
    /// It is ambiguous without the name of the client's interface.
    LinkLocal,
    /// The interface is turned off or has no carrier.
    Down,
    /// The kernel is still checking for another host with the same address, or has found one.
    Unsettled,
    /// The server does not listen on it.
    NotListened,
    /// It is the node's own and stays behind when the virtual server moves.
    OfNode,
}

/// An address of the host, or an advertised one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The address in the form for clients.
    pub told: NetworkAddress,
    /// Length of the network prefix in bits. None for an advertised address, whose network is not known.
    pub prefix: Option<u8>,
    /// Name of the interface; `advertise` for an advertised address.
    pub interface: String,
    /// The reason why it is not offered. None if it is.
    pub withheld: Option<NotOfferedReason>,
}

/// All addresses of the host and of the configuration, with the offered ones marked.
pub fn weigh(
    host: &[InterfaceAddress],
    listen: &[SocketAddr],
    rss: Rss,
    advertise: &[Advertised],
) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = host.iter().map(|at| candidate(at, listen, rss)).collect();
    for (number, advertised) in (FIRST_ADVERTISED..).zip(advertise) {
        let known = all.iter_mut().find(|candidate| candidate.told.address == advertised.address);
        if let Some(known) = known {
            // An address that is down cannot be reached, so it is not offered even if it is advertised.
            known.withheld = known.withheld.filter(|why| *why == NotOfferedReason::Down);
            known.told.offered = known.withheld.is_none();
            known.told.link_speed_bps = advertised.link_speed_bps.or(known.told.link_speed_bps);
            continue;
        }
        all.push(Candidate {
            told: NetworkAddress {
                if_index: number,
                address: advertised.address,
                link_speed_bps: advertised.link_speed_bps,
                // The interface behind a translated address is not known, so its queues cannot be counted.
                rss: rss == Rss::Always,
                offered: true,
            },
            prefix: None,
            interface: "advertise".to_owned(),
            withheld: None,
        });
    }
    all
}

fn candidate(at: &InterfaceAddress, listen: &[SocketAddr], rss: Rss) -> Candidate {
    let withheld = withheld(at, listen);
    Candidate {
        told: NetworkAddress {
            if_index: at.if_index,
            address: at.address,
            link_speed_bps: at.link_speed_bps,
            rss: match rss {
                Rss::Always => true,
                Rss::Auto => at.receive_queues > 1,
                Rss::Never => false,
            },
            offered: withheld.is_none(),
        },
        prefix: Some(at.prefix),
        interface: at.interface.clone(),
        withheld,
    }
}

fn withheld(at: &InterfaceAddress, listen: &[SocketAddr]) -> Option<NotOfferedReason> {
    let link_local = match at.address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    let listened = listen.iter().any(|listening| net::accepts(listening.ip(), at.address));
    let reasons = [
        (at.loopback || at.address.is_loopback(), NotOfferedReason::Loopback),
        (link_local, NotOfferedReason::LinkLocal),
        (!at.up, NotOfferedReason::Down),
        (!at.settled, NotOfferedReason::Unsettled),
        (!listened, NotOfferedReason::NotListened),
    ];
    reasons.into_iter().find_map(|(applies, why)| applies.then_some(why))
}

/// Withholds the host's other addresses. A client with a channel to one of them would lose it with the node.
fn withhold_all_but(candidates: &mut [Candidate], moving: &[IpAddr]) {
    let of_host = candidates.iter_mut().filter(|candidate| candidate.prefix.is_some());
    for candidate in of_host.filter(|candidate| !moving.contains(&candidate.told.address)) {
        candidate.withheld.get_or_insert(NotOfferedReason::OfNode);
        candidate.told.offered = false;
    }
}

/// Keeps the server's list of addresses up to date.
pub struct Addresses {
    server: Arc<smb::Server>,
    listen: Vec<SocketAddr>,
    /// The addresses that move with the virtual server. Empty if the server stays on this host.
    moving: Vec<IpAddr>,
    state: Mutex<AddressState>,
}

struct AddressState {
    host: Vec<InterfaceAddress>,
    rss: Rss,
    advertise: Vec<Advertised>,
    candidates: Vec<Candidate>,
    /// The offered addresses of the last log line. None before the first.
    logged: Option<Vec<IpAddr>>,
}

impl Addresses {
    /// A list for a server that listens on `listen` and moves with the addresses `moving`, if there are any.
    /// The host's addresses are not known yet.
    pub fn new(server: Arc<smb::Server>, listen: Vec<SocketAddr>, moving: Vec<IpAddr>) -> Addresses {
        let state = AddressState {
            host: Vec::new(),
            rss: Rss::Always,
            advertise: Vec::new(),
            candidates: Vec::new(),
            logged: None,
        };
        Addresses { server, listen, moving, state: Mutex::new(state) }
    }

    /// Sets the host's addresses.
    pub fn host_has(&self, host: &[InterfaceAddress]) {
        let mut state = held(&self.state);
        state.host = host.to_vec();
        self.publish(&mut state);
    }

    /// Sets the configuration.
    pub fn configure(&self, config: &config::Server) {
        let mut state = held(&self.state);
        state.rss = config.rss.value;
        state.advertise.clone_from(&config.advertise.value);
        self.publish(&mut state);
    }

    /// All addresses, with the reasons why some are not offered.
    pub fn candidates(&self) -> Vec<Candidate> {
        held(&self.state).candidates.clone()
    }

    fn publish(&self, state: &mut AddressState) {
        state.candidates = weigh(&state.host, &self.listen, state.rss, &state.advertise);
        if !self.moving.is_empty() {
            withhold_all_but(&mut state.candidates, &self.moving);
        }
        if let Some(offered) = state.newly_offered() {
            tracing::info!(?offered, "addresses that are offered to clients for further channels");
        }
        self.server.set_interfaces(state.candidates.iter().map(|candidate| candidate.told).collect());
    }
}

impl AddressState {
    /// The offered addresses, if they differ from those that were logged last. Addresses that are not offered
    /// may change often, such as those of containers.
    fn newly_offered(&mut self) -> Option<&[IpAddr]> {
        if self.candidates.is_empty() && self.logged.is_none() {
            return None;
        }
        let offered = self.candidates.iter().filter(|candidate| candidate.withheld.is_none());
        let offered: Vec<IpAddr> = offered.map(|candidate| candidate.told.address).collect();
        if self.logged.as_ref() == Some(&offered) {
            return None;
        }
        Some(self.logged.insert(offered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(if_index: u32, interface: &str, address: &str) -> InterfaceAddress {
        InterfaceAddress {
            if_index,
            address: address.parse().unwrap(),
            prefix: 24,
            interface: interface.to_owned(),
            loopback: interface == "lo",
            up: true,
            settled: true,
            link_speed_bps: None,
            receive_queues: 1,
        }
    }

    fn why(host: &InterfaceAddress, listen: &str) -> Option<NotOfferedReason> {
        let listen = [listen.parse().unwrap(), "[::]:445".parse().unwrap()];
        let weighed = weigh(std::slice::from_ref(host), &listen, Rss::Always, &[]);
        assert_eq!(weighed[0].told.offered, weighed[0].withheld.is_none());
        weighed[0].withheld
    }

    #[test]
    fn an_address_is_offered_unless_there_is_a_reason_against_it() {
        let any = "0.0.0.0:445";
        let nic = on(2, "eth0", "192.0.2.1");
        assert_eq!(why(&nic, any), None);
        assert_eq!(why(&nic, "192.0.2.1:445"), None);
        assert_eq!(why(&nic, "192.0.2.2:445"), Some(NotOfferedReason::NotListened));
        assert_eq!(why(&InterfaceAddress { up: false, ..nic.clone() }, any), Some(NotOfferedReason::Down));
        assert_eq!(why(&InterfaceAddress { settled: false, ..nic }, any), Some(NotOfferedReason::Unsettled));
        assert_eq!(why(&on(1, "lo", "127.0.0.1"), any), Some(NotOfferedReason::Loopback));
        assert_eq!(why(&on(1, "lo", "192.0.2.7"), any), Some(NotOfferedReason::Loopback));
        assert_eq!(why(&on(2, "eth0", "169.254.7.7"), any), Some(NotOfferedReason::LinkLocal));
        assert_eq!(why(&on(2, "eth0", "fe80::1"), any), Some(NotOfferedReason::LinkLocal));
        assert_eq!(why(&on(2, "eth0", "2001:db8::1"), any), None);
    }

    #[test]
    fn only_a_change_of_the_offered_addresses_is_logged() {
        let (rss, advertise) = (Rss::Always, Vec::new());
        let mut state =
            AddressState { host: Vec::new(), rss, advertise, candidates: Vec::new(), logged: None };
        let mut with = |host: &[InterfaceAddress]| {
            state.candidates = weigh(host, &["127.0.0.1:445".parse().unwrap()], rss, &[]);
            state.newly_offered().map(<[IpAddr]>::to_vec)
        };
        let (lo, container) = (on(1, "lo", "127.0.0.1"), on(2, "veth0", "172.17.0.1"));
        assert_eq!(with(&[]), None, "the host is not known yet");
        assert_eq!(with(std::slice::from_ref(&lo)), Some(Vec::new()));
        assert_eq!(with(&[lo.clone(), container]), None);
        assert_eq!(with(&[lo]), None);
    }

    #[test]
    fn queues_are_told_as_the_setting_says() {
        let any = ["0.0.0.0:445".parse().unwrap()];
        let one = on(2, "eth0", "192.0.2.1");
        let many = InterfaceAddress { receive_queues: 8, ..on(3, "eth1", "192.0.2.2") };
        let outside = Advertised { address: "203.0.113.1".parse().unwrap(), link_speed_bps: None };
        let told = |rss| {
            let all = weigh(&[one.clone(), many.clone()], &any, rss, std::slice::from_ref(&outside));
            all.iter().map(|candidate| candidate.told.rss).collect::<Vec<_>>()
        };
        assert_eq!(told(Rss::Always), [true, true, true]);
        assert_eq!(told(Rss::Auto), [false, true, false]);
        assert_eq!(told(Rss::Never), [false, false, false]);
    }

    #[test]
    fn advertised_addresses_are_interfaces_of_their_own_unless_the_host_has_them() {
        let listen = ["127.0.0.1:445".parse().unwrap()];
        let host = [on(2, "eth0", "192.0.2.1")];
        let advertise = [
            Advertised { address: "192.0.2.1".parse().unwrap(), link_speed_bps: Some(5) },
            Advertised { address: "203.0.113.1".parse().unwrap(), link_speed_bps: Some(7) },
        ];
        let all = weigh(&host, &listen, Rss::Always, &advertise);
        let told: Vec<_> = all.iter().map(|one| (one.told.if_index, one.told.link_speed_bps)).collect();
        assert_eq!(told, [(2, Some(5)), (FIRST_ADVERTISED + 1, Some(7))]);
        assert!(all.iter().all(|one| one.told.offered && one.withheld.is_none()));
        // An address whose interface is down cannot be reached.
        let down = [InterfaceAddress { up: false, ..host[0].clone() }];
        let all = weigh(&down, &listen, Rss::Always, &advertise);
        assert_eq!((all[0].told.offered, all[0].withheld), (false, Some(NotOfferedReason::Down)));
        assert!(all[1].told.offered);
    }

    #[test]
    fn a_virtual_server_offers_only_the_addresses_that_move_with_it() {
        let host = [on(2, "eth0", "192.0.2.1"), on(2, "eth0", "192.0.2.50")];
        let any = ["0.0.0.0:445".parse().unwrap()];
        let mut all = weigh(&host, &any, Rss::Always, &[]);
        withhold_all_but(&mut all, &["192.0.2.50".parse().unwrap()]);
        let offered: Vec<_> =
            all.iter().map(|candidate| (candidate.told.offered, candidate.withheld)).collect();
        assert_eq!(offered, [(false, Some(NotOfferedReason::OfNode)), (true, None)]);
    }
}
