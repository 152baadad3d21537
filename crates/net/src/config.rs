//! The settings of the transport.
//!
//! Some of the times decide when an unused connection is detected. A host that has forgotten the connection
//! answers the first [`Keepalive`] probe with a reset, after [`Keepalive::idle`] at the latest. A host that
//! is gone is given up after [`Config::user_timeout`], which Linux also applies to unanswered probes,
//! whatever their count. A client that exists but does not read is given up after [`Config::write_stall`].
//! The last two are a minute.

use std::sync::Arc;
use std::time::Duration;

use tenure::ServingTerm;

use crate::backlog::Backlog;
use crate::live_connections::LiveConnections;
use crate::parked::ParkedSockets;

/// How the host probes a silent client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes after which the connection is lost.
    pub count: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive { idle: Duration::from_secs(10), interval: Duration::from_secs(10), count: 5 }
    }
}

/// The settings of a server. [`Config::default`] suits most.
#[derive(Debug, Clone)]
pub struct Config {
    /// Threads that serve connections. Zero means one for each processor.
    pub workers: usize,
    /// Connections in all. A further one is closed at once.
    pub max_connections: usize,
    /// Connections of one remote address. A further one is closed at once.
    pub max_connections_per_address: usize,
    /// Connections of unproved clients at one remote address.
    pub max_unproved_per_address: usize,
    /// Descriptors that this process may have. When only the last eighth is left, an address with more than
    /// an equal share of the connections gets no new one.
    pub descriptors: u64,
    /// The memory held for clients that do not read. Several servers of one process may share it.
    pub backlog: Arc<Backlog>,
    /// The list that has the connections to addresses that may move to another machine. Several servers of
    /// one process may share it.
    pub live_connections: Option<Arc<LiveConnections>>,
    /// TCP keep-alive. None leaves it off.
    pub keepalive: Option<Keepalive>,
    /// TCP_USER_TIMEOUT: the time for which sent bytes may stay unacknowledged. None leaves it to the host.
    /// Linux treats a client without room for more as one that does not acknowledge, so a time shorter than
    /// `write_stall` is the bound for both.
    pub user_timeout: Option<Duration>,
    /// A connection is closed after this time if its client takes no byte of the waiting replies.
    pub write_stall: Duration,
    /// A connection is closed after this time if a record stays incomplete.
    pub record_time: Duration,
    /// The mean time of the calls of a batch above which the batch is slow. After slow batches the
    /// connection's next ones run on the blocking pool.
    pub slow_call: Duration,
    /// The time for which a connection polls for the next request before it sleeps, if its client sends
    /// single requests and polling has proved useful. With zero it sleeps at once, as does every connection
    /// of a host with one processor.
    pub busy_poll: Duration,
    /// The longest time for which a reply waits until other connections have sent their notices
    /// (`Mailbox::post_ahead`).
    pub tell_first: Duration,
    /// The most threads of the blocking pool.
    pub pool_threads: usize,
    /// The most tasks that wait for a thread of the pool. Connections hold back the rest.
    pub pool_queue: usize,
    /// The time after which an unused thread of the pool ends.
    pub pool_idle: Duration,
    /// The time until which anything may be sent. A server that is no node has no end of its term.
    pub term: Arc<ServingTerm>,
    /// The sockets that a shutdown leaves open, for a server that moves to another node. None closes them.
    pub parked: Option<Arc<ParkedSockets>>,
    /// Number of jobs at which a connection is not read until some are done.
    pub jobs_per_connection: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            workers: 0,
            max_connections: 16 * 1024,
            max_connections_per_address: 16 * 1024,
            max_unproved_per_address: 64,
            descriptors: crate::server::descriptor_limit(),
            backlog: Backlog::of_host(),
            live_connections: None,
            keepalive: Some(Keepalive::default()),
            user_timeout: Some(Duration::from_secs(60)),
            write_stall: Duration::from_secs(60),
            record_time: Duration::from_secs(60),
            slow_call: Duration::from_micros(200),
            busy_poll: Duration::from_micros(50),
            // Longer than it takes to wake a thread, even on a busy host.
            tell_first: Duration::from_millis(10),
            pool_threads: 64,
            pool_queue: 4096,
            pool_idle: Duration::from_secs(10),
            term: Arc::default(),
            parked: None,
            jobs_per_connection: 128,
        }
    }
}

impl Config {
    /// Threads that serve connections, with zero resolved.
    pub(crate) fn worker_count(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }
}
