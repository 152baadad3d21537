//! The interface for programs: [`serve`] starts the workers, and [`Handle`] watches and ends them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wire::endpoint::Service;

use crate::config::Config;
use crate::counters::{Counters, Totals};
use crate::listen::Listeners;
use crate::memory;
use crate::pool::Pool;
use crate::registry::{Bounds, ConnectionRegistry, Refusals};
use crate::worker::{self, Command};

/// The server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The host has no thread, or no epoll, for a worker.
    #[error("cannot start worker {worker}: {reason}")]
    Worker {
        /// Its number.
        worker: usize,
        /// The host's error.
        #[source]
        reason: std::io::Error,
    },
}

/// The parts that all workers of one server share.
pub(crate) struct ServerContext<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) config: Config,
    pub(crate) pool: Arc<Pool>,
    pub(crate) registry: Arc<ConnectionRegistry>,
    pub(crate) counters: Vec<Counters>,
    workers: Vec<UnboundedSender<Command<S>>>,
}

impl<S: Service> ServerContext<S> {
    /// Sends a command to a worker. A worker that has ended drops it, which closes the connection in it.
    pub(crate) fn ask(&self, worker: usize, command: Command<S>) {
        if let Some(sender) = self.workers.get(worker) {
            let _ended = sender.send(command);
        }
    }
}

/// A running server. Dropping it ends the server at once.
pub struct Handle<S: Service> {
    shared: Arc<ServerContext<S>>,
    threads: Vec<JoinHandle<usize>>,
    addresses: Vec<SocketAddr>,
}

/// The result of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// Connections that were still busy at the end of the grace time.
    pub cut: usize,
    /// Whether all jobs have ended. One that has not continues by itself, and its result is lost.
    pub jobs_ended: bool,
}

/// Serves `service` to all clients that connect to `listeners`, on its own threads.
///
/// # Errors
/// A worker could not be started. Nothing is served then.
pub fn serve<S: Service>(
    listeners: Listeners,
    service: Arc<S>,
    config: Config,
) -> Result<Handle<S>, StartError> {
    let count = config.worker_count();
    // On one processor a client cannot send while its server polls.
    let has_others = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    let busy_poll = if has_others { config.busy_poll } else { Duration::ZERO };
    // The priority lane comes after the workers.
    let (workers, commands): (Vec<_>, Vec<_>) = (0..=count).map(|_| unbounded_channel()).unzip();
    let shared = Arc::new(ServerContext {
        service,
        pool: Pool::new(config.pool_threads, config.pool_queue, config.pool_idle),
        registry: ConnectionRegistry::new(count, Bounds::of(&config)),
        counters: (0..=count).map(|_| Counters::default()).collect(),
        workers,
        config: Config { busy_poll, ..config },
    });
    // From here on dropping the handle ends everything that was started.
    let mut handle =
        Handle { shared, threads: Vec::with_capacity(count + 1), addresses: listeners.local_addresses() };
    for (index, commands) in commands.into_iter().enumerate() {
        let shared = Arc::clone(&handle.shared);
        let (started, outcome) = std::sync::mpsc::channel();
        let name =
            if index == count { "trunkline-net-lane".to_owned() } else { format!("trunkline-net-{index}") };
        let work = move || {
            memory::join_arena();
            match worker::runtime(index, &shared) {
                Ok(runtime) => {
                    let _ = started.send(Ok(()));
                    worker::run(index, shared, runtime, commands)
                }
                Err(reason) => {
                    let _ = started.send(Err(reason));
                    0
                }
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(work);
        let failed = |reason| StartError::Worker { worker: index, reason };
        handle.threads.push(thread.map_err(failed)?);
        if let Ok(Err(reason)) = outcome.recv() {
            return Err(failed(reason));
        }
    }
    // Not in the lane: clients that connect again and again would fill it.
    for (at, (listener, _)) in listeners.sockets.into_iter().enumerate() {
        handle.shared.ask(at % count, Command::Listen(listener));
    }
    Ok(handle)
}

impl<S: Service> Handle<S> {
    /// The addresses it listens on.
    #[must_use]
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.registry.total()
    }

    /// Number of connections of unproved clients: those that have not logged on or made a session.
    #[must_use]
    pub fn unproved_connections(&self) -> usize {
        self.shared.registry.unproved()
    }

    /// Number of refused connections, by reason.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.shared.registry.refusals()
    }

    /// Number of connections on each worker, and then on the priority lane.
    #[must_use]
    pub fn connections_by_worker(&self) -> Vec<usize> {
        self.shared.registry.load()
    }

    /// Number of threads of the blocking pool.
    #[must_use]
    pub fn pool_threads(&self) -> usize {
        self.shared.pool.threads()
    }

    /// The counters of each worker, and then of the priority lane.
    #[must_use]
    pub fn totals_by_worker(&self) -> Vec<Totals> {
        self.shared.counters.iter().map(Counters::read).collect()
    }

    /// The counters of all workers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals_by_worker().into_iter().fold(Totals::default(), |sum, one| sum + one)
    }

    /// Stops accepting and reading, lets running batches and jobs end, sends the queued replies and closes
    /// all connections, within `grace`. Then cuts the remaining connections. Blocks the calling thread
    /// meanwhile.
    pub fn shutdown(mut self, grace: Duration) -> Shutdown {
        self.end(grace)
    }

    fn end(&mut self, grace: Duration) -> Shutdown {
        let until = Instant::now() + grace;
        for worker in 0..self.threads.len() {
            self.shared.ask(worker, Command::Finish(grace));
        }
        let mut cut = 0;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(count) => cut += count,
                Err(_) => tracing::error!("a worker panicked"),
            }
        }
        let jobs_ended = self.shared.pool.close(until.saturating_duration_since(Instant::now()));
        Shutdown { cut, jobs_ended }
    }
}

impl<S: Service> Drop for Handle<S> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.end(Duration::ZERO);
        }
    }
}

/// Descriptors that this process may have.
pub(crate) fn descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the soft limit of the process on descriptors to the hard one and returns it, since each connection
/// needs a descriptor.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let bound = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    bound.unwrap_or(u64::MAX)
}
