//! What a client asks for, and who it says that it is.

use std::time::Duration;

/// What a client asks for.
#[derive(Debug, Clone)]
pub struct Options {
    /// User of every call (AUTH_SYS).
    pub uid: u32,
    /// Group of every call.
    pub gid: u32,
    /// Further groups, of which the first 16 count.
    pub groups: Vec<u32>,
    /// Name of this host, as servers and their logs see it.
    pub machine_name: String,
    /// Minor version: 1 or 2.
    pub minor_version: u32,
    /// Connections of the session (`nconnect`), at least one.
    pub connections: usize,
    /// Slots to ask for: as many requests can be under way at once, if the server grants them.
    pub slots: u32,
    /// The most data of one READ or WRITE, in bytes. The server may allow less.
    pub max_io: u32,
    /// Whether to have a back channel and take delegations; they are given back when the server asks.
    pub delegations: bool,
    /// How long each step on the way to an export may take: one attempt to connect, and each answer to what makes, binds and
    /// ends the session (EXCHANGE_ID, CREATE_SESSION, ...) or finds the export (PUTROOTFH, LOOKUP). A server that hangs in one
    /// of them may well answer others meanwhile.
    pub connect_timeout: Duration,
    /// How long a server may be silent, on the level of TCP, before the connection counts as lost.
    pub dead_after: Duration,
    /// How long nothing at all may come while something is awaited, before the connection counts as lost: the host of a
    /// server that hangs goes on acknowledging for it. A server that only takes its time is asked whether it is there,
    /// and its answer counts. Zero to wait for ever.
    pub silence: Duration,
    /// How long after a loss the first attempt to connect again is made. Each further attempt waits twice as
    /// long, up to a minute.
    pub reconnect_after: Duration,
    /// How long requests wait for a connection when none is left or each is lost again without an answer, and for a
    /// server that says NFS4ERR_DELAY or NFS4ERR_GRACE.
    pub patience: Duration,
    /// Bytes that each connection may carry in a second in each direction: a stand-in for a narrow path, with
    /// which the client slows itself down.
    pub pace: Option<u64>,
}

impl Options {
    /// Those of a caller that is this user and in this group, of ours where none is given. Another one is in none of our further
    /// groups.
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
