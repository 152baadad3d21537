//! The connections of each session, and the reason why it has no others.
//!
//! Start with [`fill`]. A reason that makes later ones meaningless comes first: reasons of the client and the
//! settings, which exclude further channels of the whole session, then reasons against one address.

use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;

use admin::channels::{ConnectionCounts, LargeReads, Reason, Row, SendMethodCost, SessionChannels, Traffic};
use smb::account::ChannelRule;
use smb::interfaces::{self, NetworkAddress};
use smb::state::Handle;
use smb::state::Session;

use super::addresses::{Candidate, NotOfferedReason};
use super::report;
use crate::calendar::rfc3339;

/// The channels of all sessions of a server with these addresses, at the monotonic time `now_ns`.
pub fn fill(server: &smb::Server, addresses: &[Candidate], now_ns: u64) -> Vec<SessionChannels> {
    let mut sessions: Vec<_> = server.sessions();
    sessions.sort_by_key(|session| (session.created.mono_ns, session.id));
    let proved = sessions.iter().filter(|session| session.authenticated().is_some());
    let config = server.config();
    proved.map(|session| one(session, addresses, &config, now_ns)).collect()
}

fn one(
    session: &Session,
    addresses: &[Candidate],
    config: &smb::ServerConfig,
    now_ns: u64,
) -> SessionChannels {
    let told: Vec<NetworkAddress> = addresses.iter().map(|at| at.told).collect();
    let channels = session.channels();
    let used: Vec<IpAddr> = channels.iter().map(|channel| channel.peer.local.ip().to_canonical()).collect();
    let is_elsewhere = |at: &IpAddr| used.first().is_some_and(|own| !config.is_one_endpoint(*own, *at));
    let elsewhere = told.iter().map(|at| at.address).filter(is_elsewhere).collect();
    let conditions = ChannelConditions { elsewhere, ..ChannelConditions::of(session, &channels) };
    let mut connections: Vec<Row> =
        channels.iter().map(|channel| connection(channel, &told, now_ns)).collect();
    let others = addresses.iter().filter(|at| !used.contains(&at.told.address));
    connections.extend(others.map(|at| unused(at, conditions.against(at))));
    let reason = conditions.against_more(&told, &used);
    SessionChannels {
        session_id: session.id.to_string(),
        username: session.user_name().to_owned(),
        accounts: session.channel_rule().map(|rule| rule.accounts.clone()).unwrap_or_default(),
        dialect: report::dialect(session.protection.dialect).to_owned(),
        max_channels: conditions.most,
        current_channels: channels.len(),
        failure_count: session.failures.load(Relaxed),
        reason,
        why: reason.to_string(),
        connections,
    }
}

fn connection(channel: &Handle, told: &[NetworkAddress], now_ns: u64) -> Row {
    let at = interfaces::find(told, channel.peer.local.ip());
    let counted = channel.counters.read();
    Row {
        selected: true,
        client_ip: Some(channel.peer.remote.ip().to_canonical().to_string()),
        server_ip: at.address.to_string(),
        server_interface_index: at.if_index,
        server_link_speed: at.link_speed_bps,
        server_rss_capable: at.rss,
        channel: Some(ConnectionCounts {
            channel_id: channel.id.to_string(),
            client_port: channel.peer.remote.port(),
            server_port: channel.peer.local.port(),
            creation_time: rfc3339(channel.since.wall_ns),
            age_seconds: now_ns.saturating_sub(channel.since.mono_ns) / 1_000_000_000,
            traffic: Traffic {
                requests: counted.requests,
                bytes_in: counted.bytes_in,
                bytes_out: counted.bytes_out,
            },
            large_reads: large_reads(&channel.transfer),
        }),
        ..Row::default()
    }
}

/// Whether a connection's large reads are copied or sent by sendfile.
pub fn large_reads(transfer: &wire::Transfer) -> LargeReads {
    let tried = transfer.trial().map(|trial| SendMethodCost {
        copied_cpu_us: trial.copied.cpu_ns / 1000,
        sendfile_cpu_us: trial.uncopied.cpu_ns / 1000,
        copied_us: trial.copied.time_ns / 1000,
        sendfile_us: trial.uncopied.time_ns / 1000,
    });
    LargeReads { sendfile: transfer.is_uncopied(), tried }
}

fn unused(at: &Candidate, reason: Reason) -> Row {
    Row {
        server_ip: at.told.address.to_string(),
        server_interface_index: at.told.if_index,
        server_link_speed: at.told.link_speed_bps,
        server_rss_capable: at.told.rss,
        reason: Some(reason),
        why: Some(reason.to_string()),
        ..Row::default()
    }
}

/// The conditions that determine how many channels a session has.
#[derive(Debug, Clone)]
struct ChannelConditions {
    smb3: bool,
    allowed: bool,
    anonymous: bool,
    announced: bool,
    asked: bool,
    current: usize,
    most: usize,
    /// The client's addresses on its connections.
    clients: Vec<IpAddr>,
    /// Addresses of endpoints other than that of the session.
    elsewhere: Vec<IpAddr>,
}

impl ChannelConditions {
    fn of(session: &Session, channels: &[std::sync::Arc<Handle>]) -> ChannelConditions {
        let rule = session.channel_rule();
        ChannelConditions {
            smb3: session.protection.dialect.is_smb3(),
            allowed: rule.is_none_or(|rule| rule.multichannel),
            anonymous: session.authenticated().is_some_and(|proved| proved.anonymous),
            announced: channels.iter().any(|channel| channel.announced_multichannel.load(Relaxed)),
            asked: session.asked_interfaces.load(Relaxed),
            current: channels.len(),
            most: rule.map_or(1, ChannelRule::most),
            clients: channels.iter().map(|channel| channel.peer.remote.ip().to_canonical()).collect(),
            elsewhere: Vec::new(),
        }
    }

    /// The reason that excludes any second channel.
    fn against_all(&self) -> Option<Reason> {
        let reasons = [
            (!self.smb3, Reason::OldDialect),
            (!self.allowed, Reason::SwitchedOff),
            (self.anonymous, Reason::Anonymous),
            (!self.announced, Reason::NotAnnounced),
        ];
        reasons.into_iter().find_map(|(applies, reason)| applies.then_some(reason))
    }

    /// The reason why the session has no connection to an address.
    fn against(&self, at: &Candidate) -> Reason {
        if let Some(reason) = self.against_all() {
            return reason;
        }
        if let Some(withheld) = at.withheld {
            return match withheld {
                NotOfferedReason::Loopback => Reason::Loopback,
                NotOfferedReason::LinkLocal => Reason::LinkLocal,
                NotOfferedReason::Down => Reason::Down,
                NotOfferedReason::Unsettled => Reason::Unsettled,
                NotOfferedReason::NotListened => Reason::NotListened,
                NotOfferedReason::OfNode => Reason::OfNode,
            };
        }
        let near = at.prefix.is_none_or(|prefix| {
            self.clients.iter().any(|client| same_network(at.told.address, *client, prefix))
        });
        match self {
            _ if self.elsewhere.contains(&at.told.address) => Reason::OtherEndpoint,
            _ if self.current >= self.most => Reason::ChannelLimit,
            _ if !self.asked => Reason::NotAsked,
            _ if !near => Reason::OtherNetwork,
            _ => Reason::NotTried,
        }
    }

    /// The reason why the session has no more connections, whatever their address.
    fn against_more(&self, told: &[NetworkAddress], used: &[IpAddr]) -> Reason {
        let rss = used.iter().any(|own| interfaces::find(told, *own).rss);
        match self.against_all() {
            Some(reason) => reason,
            None if self.current >= self.most => Reason::ChannelLimit,
            None if !self.asked => Reason::NotAsked,
            None if !rss => Reason::NoRss,
            None => Reason::NotTried,
        }
    }
}

/// Whether two addresses are in one network of `prefix` bits.
fn same_network(one: IpAddr, other: IpAddr, prefix: u8) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.leading_zeros() >= u32::from(prefix.min(32))
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.leading_zeros() >= u32::from(prefix.min(128))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions() -> ChannelConditions {
        ChannelConditions {
            smb3: true,
            allowed: true,
            anonymous: false,
            announced: true,
            asked: true,
            current: 1,
            most: 4,
            clients: vec!["10.0.0.5".parse().unwrap()],
            elsewhere: Vec::new(),
        }
    }

    fn at(address: &str, prefix: Option<u8>, withheld: Option<NotOfferedReason>) -> Candidate {
        let address = address.parse().unwrap();
        let offered = withheld.is_none();
        Candidate {
            told: NetworkAddress { if_index: 2, address, link_speed_bps: None, rss: true, offered },
            prefix,
            interface: "eth0".to_owned(),
            withheld,
        }
    }

    #[test]
    fn what_rules_out_a_session_comes_before_what_speaks_against_an_address() {
        let lo = at("127.0.0.1", Some(8), Some(NotOfferedReason::Loopback));
        assert_eq!(conditions().against(&lo), Reason::Loopback);
        assert_eq!(ChannelConditions { announced: false, ..conditions() }.against(&lo), Reason::NotAnnounced);
        assert_eq!(
            ChannelConditions { anonymous: true, announced: false, ..conditions() }.against(&lo),
            Reason::Anonymous
        );
        assert_eq!(
            ChannelConditions { allowed: false, anonymous: true, ..conditions() }.against(&lo),
            Reason::SwitchedOff
        );
        assert_eq!(
            ChannelConditions { smb3: false, allowed: false, ..conditions() }.against(&lo),
            Reason::OldDialect
        );
        assert_eq!(ChannelConditions { current: 4, ..conditions() }.against(&lo), Reason::Loopback);
    }

    #[test]
    fn an_offered_address_is_unused_for_the_first_reason_that_fits() {
        let (near, far) = (at("10.0.0.1", Some(24), None), at("192.0.2.1", Some(24), None));
        assert_eq!(conditions().against(&near), Reason::NotTried);
        assert_eq!(conditions().against(&far), Reason::OtherNetwork);
        assert_eq!(conditions().against(&at("2001:db8::1", Some(64), None)), Reason::OtherNetwork);
        // The network of an advertised address is not known.
        assert_eq!(conditions().against(&at("203.0.113.1", None, None)), Reason::NotTried);
        assert_eq!(ChannelConditions { asked: false, ..conditions() }.against(&far), Reason::NotAsked);
        let full = ChannelConditions { current: 4, asked: false, ..conditions() };
        assert_eq!(full.against(&far), Reason::ChannelLimit);
        let elsewhere = vec![far.told.address];
        assert_eq!(ChannelConditions { elsewhere, ..full }.against(&far), Reason::OtherEndpoint);
    }

    #[test]
    fn a_session_stays_at_one_channel_to_each_address_without_rss() {
        let mut only = at("10.0.0.1", Some(24), None);
        let used = [only.told.address];
        let more =
            |conditions: &ChannelConditions, at: &Candidate| conditions.against_more(&[at.told], &used);
        assert_eq!(more(&conditions(), &only), Reason::NotTried);
        assert_eq!(more(&ChannelConditions { current: 4, ..conditions() }, &only), Reason::ChannelLimit);
        only.told.rss = false;
        assert_eq!(more(&conditions(), &only), Reason::NoRss);
        assert_eq!(more(&ChannelConditions { asked: false, ..conditions() }, &only), Reason::NotAsked);
        assert_eq!(more(&ChannelConditions { smb3: false, ..conditions() }, &only), Reason::OldDialect);
    }

    #[test]
    fn networks_are_told_by_their_leading_bits() {
        let same = |one: &str, other: &str, prefix| {
            same_network(one.parse().unwrap(), other.parse().unwrap(), prefix)
        };
        assert!(same("10.0.0.1", "10.0.0.254", 24) && !same("10.0.0.1", "10.0.1.1", 24));
        assert!(same("10.0.0.1", "10.0.0.1", 32) && !same("10.0.0.1", "10.0.0.2", 32));
        assert!(same("10.0.0.1", "192.0.2.1", 0) && same("2001:db8::1", "2001:db8::2", 64));
        assert!(!same("2001:db8::1", "2001:db8:1::1", 64) && !same("10.0.0.1", "::ffff:10.0.0.1", 0));
    }
}
