//! The requirements of a client, and its identity.

use std::time::Duration;

/// The options of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// The user of every call (AUTH_SYS).
    pub uid: u32,
    /// The group of every call.
    pub gid: u32,
    /// Further groups. The first 16 count.
    pub groups: Vec<u32>,
    /// The name of this host, as servers and their logs see it.
    pub machine_name: String,
    /// The minor version: 1 or 2.
    pub minor_version: u32,
    /// The connections of the session (`nconnect`), at least one.
    pub connections: usize,
    /// The slots to ask for. As many requests can be in flight, if the server grants them.
    pub slots: u32,
    /// The most data of one READ or WRITE, in bytes. The server may allow less.
    pub max_io: u32,
    /// Whether to have a back channel and take delegations. They are returned when the server recalls them.
    pub delegations: bool,
    /// The time limit of each step on the way to an export: one attempt to connect, each reply to the calls
    /// that create, bind and end the session (EXCHANGE_ID, CREATE_SESSION, ...), and each reply to those that
    /// find the export (PUTROOTFH, LOOKUP). A server that hangs in one of them may well answer others
    /// meanwhile.
    pub connect_timeout: Duration,
    /// The time of silence on the TCP level after which the connection counts as lost.
    pub dead_after: Duration,
    /// The time without any received byte, while a reply is awaited, after which the connection counts as
    /// lost. The host of a server that hangs goes on acknowledging for it. A server that only needs time is
    /// asked for a sign of life, and its reply counts. Zero waits for ever.
    pub silence: Duration,
    /// The pause between a loss and the first attempt to reconnect. Each further pause is twice as long, up
    /// to a minute.
    pub reconnect_after: Duration,
    /// The time for which requests wait for a connection when none is left or each is lost again without a
    /// reply, and for a server that answers NFS4ERR_DELAY or NFS4ERR_GRACE.
    pub patience: Duration,
    /// The bytes per second that each connection may carry in each direction. The client slows itself down to
    /// imitate a narrow path.
    pub pace: Option<u64>,
}

impl Options {
    /// The options of a caller with this user and group, or with our own where none is given. Another user or
    /// group is in none of our further groups.
    #[must_use]
    pub fn of_caller(uid: Option<u32>, gid: Option<u32>) -> Options {
        let own = Options::default();
        let groups = if uid.or(gid).is_some() { Vec::new() } else { own.groups };
        Options { uid: uid.unwrap_or(own.uid), gid: gid.unwrap_or(own.gid), groups, ..own }
    }
}

impl Default for Options {
    /// Our own user on one connection.
    fn default() -> Options {
        let groups = rustix::process::getgroups().unwrap_or_default();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Options {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            groups: groups.into_iter().map(rustix::process::Gid::as_raw).collect(),
            machine_name: host,
            minor_version: 1,
            connections: 1,
            slots: 64,
            max_io: 1024 * 1024,
            delegations: false,
            connect_timeout: Duration::from_secs(30),
            dead_after: Duration::from_secs(20),
            silence: Duration::from_secs(60),
            reconnect_after: Duration::from_millis(100),
            patience: Duration::from_secs(90),
            pace: None,
        }
    }
}
