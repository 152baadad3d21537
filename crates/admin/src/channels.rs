//! The connections of each session, and the reasons why it has no others. Get-SmbMultichannelConnection
//! answers the same question on Windows for the client.
//!
//! A [`Row`] has the names of that command's properties. Values that only the client knows are null.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The channels of all sessions at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// The time at which it was taken, RFC 3339.
    pub timestamp: String,
    /// The name that clients see.
    pub server_name: String,
    /// Every session that has a user.
    pub sessions: Vec<SessionChannels>,
}

/// The channels of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionChannels {
    /// The session id.
    pub session_id: String,
    /// The user's name.
    pub username: String,
    /// The accounts whose settings count; empty when the server's own settings count.
    pub accounts: Vec<String>,
    /// The dialect, such as `SMB3_11`.
    pub dialect: String,
    /// The number of connections that it may have.
    pub max_channels: usize,
    /// The number of connections that it has.
    pub current_channels: usize,
    /// The connections that it has lost while others went on.
    pub failure_count: u64,
    /// The reason why it has no more connections.
    pub reason: Reason,
    /// The reason in words.
    pub why: String,
    /// The session's connections, and behind them the addresses of the server to which it has none.
    pub connections: Vec<Row>,
}

/// A connection of a session, or an address of the server to which the session has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The name that clients see.
    pub server_name: String,
    /// Whether it is a connection.
    pub selected: bool,
    /// The client's address.
    pub client_ip: Option<String>,
    /// The server's address.
    pub server_ip: String,
    /// The client's interface. Only the client knows it.
    pub client_interface_index: Option<u32>,
    /// The interface that has the server's address.
    pub server_interface_index: u32,
    /// The client's link speed in bit/s. Only the client knows it.
    pub client_link_speed: Option<u64>,
    /// The server's link speed in bit/s. Null when the host does not tell it; clients are told 1 Gbit/s then.
    pub server_link_speed: Option<u64>,
    /// Whether the client's interface spreads its work. Only the client knows it.
    pub client_rss_capable: Option<bool>,
    /// Whether clients are told that the interface spreads its work.
    pub server_rss_capable: bool,
    /// Always false: RDMA is not served.
    pub client_rdma_capable: bool,
    /// Always false: RDMA is not served.
    pub server_rdma_capable: bool,
    /// The figures of the connection.
    pub channel: Option<ConnectionCounts>,
    /// The reason why there is no connection.
    pub reason: Option<Reason>,
    /// The reason in words.
    pub why: Option<String>,
}

/// The figures of a connection, for all its sessions together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// The channel id.
    pub channel_id: String,
    /// The client's port.
    pub client_port: u16,
    /// The server's port.
    pub server_port: u16,
    /// The time at which it was accepted, RFC 3339.
    pub creation_time: String,
    /// Seconds since then.
    pub age_seconds: u64,
    /// Requests and bytes.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// The way in which the data of large reads leaves.
    pub large_reads: LargeReads,
}

/// Requests and bytes of a connection of either protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests received.
    pub requests: u64,
    /// Bytes of messages received.
    pub bytes_in: u64,
    /// Bytes of messages sent.
    pub bytes_out: u64,
}

/// The way in which the data of large reads leaves a connection, on shares with `send_file = "auto"`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeReads {
    /// Whether the host sends the data from its page cache. Otherwise it is copied.
    pub sendfile: bool,
    /// The cost of both ways at the last trial; null before the first.
    pub tried: Option<SendMethodCost>,
}

/// The cost of both ways: processor time of the server and elapsed time, in microseconds for each MiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMethodCost {
    /// Processor time of copying.
    pub copied_cpu_us: u64,
    /// Processor time of sending by the host.
    pub sendfile_cpu_us: u64,
    /// Elapsed time of copying.
    pub copied_us: u64,
    /// Elapsed time of sending by the host.
    pub sendfile_us: u64,
}

impl LargeReads {
    /// The word for the way.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.sendfile { "sendfile" } else { "copied" }
    }

    /// The measurement in words; none before the first trial.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let tried = self.tried.as_ref()?;
        Some(format!(
            "{}; a MiB took {} µs of processor time and {} µs copied, {} µs and {} µs by sendfile",
            self.name(),
            tried.copied_cpu_us,
            tried.copied_us,
            tried.sendfile_cpu_us,
            tried.sendfile_us
        ))
    }
}

/// The reason why there is no connection, or no further one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The client speaks 2.0.2 or 2.1.
    OldDialect,
    /// `multichannel` is off for the account or the server.
    SwitchedOff,
    /// The client has no name. Its session stays on the connection on which it began.
    Anonymous,
    /// The client did not say that it can have several connections.
    NotAnnounced,
    /// The address leads back to this host.
    Loopback,
    /// The address says nothing without the name of the client's own interface.
    LinkLocal,
    /// The interface is switched off or has no carrier.
    Down,
    /// The host is not sure yet that the address is its own.
    Unsettled,
    /// The server does not listen on the address.
    NotListened,
    /// It does not move with the virtual server.
    OfNode,
    /// The address is an account's or a share's own, and the session came to another one.
    OtherEndpoint,
    /// The session has as many as it may have.
    ChannelLimit,
    /// The client has not asked where else the server is.
    NotAsked,
    /// The client has no address in the network of this one.
    OtherNetwork,
    /// Clients are not told that the interfaces can spread their work.
    NoRss,
    /// Nothing on the server's side is against it.
    #[default]
    NotTried,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::OldDialect => "the client speaks SMB 2.x; several channels need 3.0 or later",
            Reason::SwitchedOff => "`multichannel` is off for this account or server",
            Reason::Anonymous => "the client has no name; such sessions have one channel",
            Reason::NotAnnounced => "the client did not announce Multichannel",
            Reason::Loopback => "not offered: leads back to this host",
            Reason::LinkLocal => "not offered: link-local",
            Reason::Down => "not offered: the interface is down",
            Reason::Unsettled => "not offered: the host is not sure yet that the address is its own",
            Reason::NotListened => "not offered: the server does not listen on it",
            Reason::OfNode => "not offered: it does not move with the virtual server",
            Reason::OtherEndpoint => "not offered: an account's or a share's own address (`smb_listen`)",
            Reason::ChannelLimit => "the session has as many channels as `max_channels` allows",
            Reason::NotAsked => "the client has not asked for the server's addresses",
            Reason::OtherNetwork => "no connection; the client is in another network, a route is not known",
            Reason::NoRss => "`rss` is not offered: clients open one channel to each address",
            Reason::NotTried => "the client opens none; look at its settings, and at firewalls between",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_written_for_programs_and_for_people() {
        assert_eq!(serde_json::to_string(&Reason::ChannelLimit).unwrap(), "\"channel_limit\"");
        assert_eq!(Reason::LinkLocal.to_string(), "not offered: link-local");
    }
}
