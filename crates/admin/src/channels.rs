//! Which connections carry each session, and why no others do: the answer to the question that
//! Get-SmbMultichannelConnection answers on Windows, asked of the server.
//!
//! A [`Row`] has the names of that command's properties. What only the client knows is null.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The channels of all sessions at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Channels {
    /// When it was taken, RFC 3339.
    pub timestamp: String,
    /// Name that clients see.
    pub server_name: String,
    /// Every session that has a user.
    pub sessions: Vec<SessionChannels>,
}

/// One session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionChannels {
    /// Session id.
    pub session_id: String,
    /// The user's name.
    pub username: String,
    /// The accounts whose settings count; none when the server's own do.
    pub accounts: Vec<String>,
    /// Dialect, such as `SMB3_11`.
    pub dialect: String,
    /// How many connections it may have.
    pub max_channels: usize,
    /// How many it has.
    pub current_channels: usize,
    /// Connections it has lost while others went on.
    pub failure_count: u64,
    /// Why it has no more than it has.
    pub reason: Reason,
    /// The same in words.
    pub why: String,
    /// Its connections, then the addresses of the server to which it has none.
    pub connections: Vec<Row>,
}

/// A connection of a session, or an address of the server to which the session has none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Name that clients see.
    pub server_name: String,
    /// Whether it is a connection.
    pub selected: bool,
    /// The client's address.
    pub client_ip: Option<String>,
    /// Our address.
    pub server_ip: String,
    /// Only the client knows it.
    pub client_interface_index: Option<u32>,
    /// The interface that has our address.
    pub server_interface_index: u32,
    /// In bit/s; only the client knows it.
    pub client_link_speed: Option<u64>,
    /// In bit/s; null when it is not known, and clients are told 1 Gbit/s.
    pub server_link_speed: Option<u64>,
    /// Only the client knows it.
    pub client_rss_capable: Option<bool>,
    /// As clients are told.
    pub server_rss_capable: bool,
    /// Never: RDMA is not served.
    pub client_rdma_capable: bool,
    /// Never: RDMA is not served.
    pub server_rdma_capable: bool,
    /// What the connection has done.
    pub channel: Option<Use>,
    /// Why there is no connection.
    pub reason: Option<Reason>,
    /// The same in words.
    pub why: Option<String>,
}

/// What a connection has done, for all its sessions together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Use {
    /// Channel id.
    pub channel_id: String,
    /// The client's port.
    pub client_port: u16,
    /// Our port.
    pub server_port: u16,
    /// When it was accepted, RFC 3339.
    pub creation_time: String,
    /// Seconds since then.
    pub age_seconds: u64,
    /// What came and went.
    #[serde(flatten)]
    pub traffic: Traffic,
    /// How the data of large reads leaves.
    pub large_reads: LargeReads,
}

/// What came and went on a connection of either protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Requests received.
    pub requests: u64,
    /// Bytes of messages received.
    pub bytes_in: u64,
    /// Bytes of messages sent.
    pub bytes_out: u64,
}

/// How the data of large reads leaves a connection, on shares with `send_file = "auto"`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeReads {
    /// Whether the host sends it from its page cache; else it is copied.
    pub sendfile: bool,
    /// The cost of both ways when they were tried last; null before that.
    pub tried: Option<Tried>,
}

/// The cost of both ways: processor time of the server, and time, in microseconds for each MiB.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    /// Processor time when it was copied.
    pub copied_cpu_us: u64,
    /// Processor time when the host sent it.
    pub sendfile_cpu_us: u64,
    /// Time when it was copied.
    pub copied_us: u64,
    /// Time when the host sent it.
    pub sendfile_us: u64,
}

impl LargeReads {
    /// The word for it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.sendfile { "sendfile" } else { "copied" }
    }

    /// The measurement in words; none before both ways were tried.
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

/// Why there is no connection, or no further one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The client speaks 2.0.2 or 2.1.
    OldDialect,
    /// `multichannel` is off for the account or the server.
    SwitchedOff,
    /// The client has no name, and such sessions stay where they are.
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
