//! What a program may set about the transport.
//!
//! These times say when a connection that nobody uses any more is noticed: a host that has forgotten it answers
//! the first [`Keepalive`] probe with a reset, after [`Keepalive::idle`] at the latest; a host that is gone is given
//! up after [`Config::user_timeout`], which Linux takes for unanswered probes too, whatever their count; and a client
//! that is there but does not read, after [`Config::write_stall`]. The last two are a minute.

use std::sync::Arc;
use std::time::Duration;

use crate::backlog::Backlog;

/// How the host probes a silent client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Probes without an answer after which the connection is lost.
    pub count: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive { idle: Duration::from_secs(10), interval: Duration::from_secs(10), count: 5 }
    }
}

/// Settings of a server; [`Config::default`] suits most.
#[derive(Debug, Clone)]
pub struct Config {
    /// Threads that serve connections; 0 is one for each core.
    pub workers: usize,
    /// Connections in all; one more is closed at once.
    pub max_connections: usize,
    /// Connections of one remote address; one more is closed at once.
    pub max_connections_per_address: usize,
    /// Of these, connections whose client has proved nothing.
    pub max_unproved_per_address: usize,
    /// Descriptors that this process may have; from the last eighth of them an address that has more than an equal share of the
    /// connections gets no new one.
    pub descriptors: u64,
    /// What is held for clients that do not read; several servers of one process may share it.
    pub backlog: Arc<Backlog>,
    /// TCP keep-alive; none leaves it off.
    pub keepalive: Option<Keepalive>,
    /// TCP_USER_TIMEOUT: how long sent bytes may stay without acknowledgement; none leaves it to the host.
    /// Linux takes a client that has no room for more for one that does not acknowledge, so shorter than
    /// `write_stall` this is the bound for both.
    pub user_timeout: Option<Duration>,
    /// How long replies may wait without the client taking a byte before the connection is closed.
    pub write_stall: Duration,
    /// How long a record may stay incomplete before the connection is closed.
    pub record_time: Duration,
    /// Mean time of a batch's calls above which it is slow; slow batches make the connection's next ones
    /// leave the worker's thread.
    pub slow_call: Duration,
    /// How long a connection asks for the next request of a client that sends one at a time before it sleeps, where that is seen to
    /// pay; zero: it sleeps at once, and so does every connection of a host with one processor.
    pub busy_poll: Duration,
    /// How long an answer waits at most until other connections have sent what their clients are to be told before
    /// (`Mailbox::post_ahead`).
    pub tell_first: Duration,
    /// Threads of the blocking pool at most.
    pub pool_threads: usize,
    /// Tasks that wait for a thread of the pool at most; connections hold back what exceeds it.
    pub pool_queue: usize,
    /// How long an unused thread of the pool stays.
    pub pool_idle: Duration,
    /// Jobs of one connection at which it is not read until some are done.
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
            keepalive: Some(Keepalive::default()),
            user_timeout: Some(Duration::from_secs(60)),
            write_stall: Duration::from_secs(60),
            record_time: Duration::from_secs(60),
            slow_call: Duration::from_micros(200),
            busy_poll: Duration::from_micros(50),
            // Longer than a thread takes to be woken, also on a busy host.
            tell_first: Duration::from_millis(10),
            pool_threads: 64,
            pool_queue: 4096,
            pool_idle: Duration::from_secs(10),
            jobs_per_connection: 128,
        }
    }
}

impl Config {
    /// Threads that serve connections, with 0 resolved.
    pub(crate) fn worker_count(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        }
    }
}
