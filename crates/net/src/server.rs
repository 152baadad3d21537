//! What a program calls: [`serve`] starts the workers, [`Handle`] watches and ends them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use wire::endpoint::Service;

use crate::census::{Bounds, Census, Refusals};
use crate::config::Config;
use crate::counters::{Counters, Totals};
use crate::listen::Listeners;
use crate::pool::Pool;
use crate::worker::{self, Command};

/// The server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The host gave no thread, or no epoll, for a worker.
    #[error("cannot start worker {worker}: {reason}")]
    Worker {
        /// Its number.
        worker: usize,
        /// What the host said.
        #[source]
        reason: std::io::Error,
    },
}

/// What all workers of one server share.
pub(crate) struct Shared<S: Service> {
    pub(crate) service: Arc<S>,
    pub(crate) config: Config,
    pub(crate) pool: Arc<Pool>,
    pub(crate) census: Arc<Census>,
    pub(crate) counters: Vec<Counters>,
    workers: Vec<UnboundedSender<Command<S>>>,
}

impl<S: Service> Shared<S> {
    /// Asks a worker for something. One that has ended drops it, which closes what it was about.
    pub(crate) fn ask(&self, worker: usize, command: Command<S>) {
        if let Some(sender) = self.workers.get(worker) {
            let _ended = sender.send(command);
        }
    }
}

/// A running server. Dropping it ends the server without grace.
pub struct Handle<S: Service> {
    shared: Arc<Shared<S>>,
    threads: Vec<JoinHandle<usize>>,
    addresses: Vec<SocketAddr>,
}

/// How a shutdown went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// Connections that were not at rest when the grace was over.
    pub cut: usize,
    /// Whether all jobs ended; one that did not goes on by itself, and its result is lost.
    pub jobs_ended: bool,
}

/// Serves `service` to whoever connects to `listeners`, on threads of its own.
///
/// # Errors
/// A worker could not be started; then nothing is served.
pub fn serve<S: Service>(
    listeners: Listeners,
    service: Arc<S>,
    config: Config,
) -> Result<Handle<S>, StartError> {
    let count = config.worker_count();
    // On one processor a client cannot send while its server asks.
    let has_others = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    let busy_poll = if has_others { config.busy_poll } else { Duration::ZERO };
    // The priority lane is the one behind them.
    let (workers, commands): (Vec<_>, Vec<_>) = (0..=count).map(|_| unbounded_channel()).unzip();
    let shared = Arc::new(Shared {
        service,
        pool: Pool::new(config.pool_threads, config.pool_queue, config.pool_idle),
        census: Census::new(count, Bounds::of(&config)),
        counters: (0..=count).map(|_| Counters::default()).collect(),
        workers,
        config: Config { busy_poll, ..config },
    });
    // From here on dropping the handle ends what has been started.
    let mut handle =
        Handle { shared, threads: Vec::with_capacity(count + 1), addresses: listeners.local_addresses() };
    for (index, commands) in commands.into_iter().enumerate() {
        let shared = Arc::clone(&handle.shared);
        let (started, outcome) = std::sync::mpsc::channel();
        let name =
            if index == count { "trunkline-net-lane".to_owned() } else { format!("trunkline-net-{index}") };
        let thread =
            std::thread::Builder::new().name(name).spawn(move || match worker::runtime(index, &shared) {
                Ok(runtime) => {
                    let _ = started.send(Ok(()));
                    worker::run(index, shared, runtime, commands)
                }
                Err(reason) => {
                    let _ = started.send(Err(reason));
                    0
                }
            });
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

    /// Connections now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.census.total()
    }

    /// Connections now whose client has proved nothing.
    #[must_use]
    pub fn unproved_connections(&self) -> usize {
        self.shared.census.unproved()
    }

    /// Why connections were refused.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.shared.census.refusals()
    }

    /// Connections of each worker now, and of the priority lane behind them.
    #[must_use]
    pub fn connections_by_worker(&self) -> Vec<usize> {
        self.shared.census.load()
    }

    /// Threads of the blocking pool now.
    #[must_use]
    pub fn pool_threads(&self) -> usize {
        self.shared.pool.threads()
    }

    /// The counters of each worker, and of the priority lane behind them.
    #[must_use]
    pub fn totals_by_worker(&self) -> Vec<Totals> {
        self.shared.counters.iter().map(Counters::read).collect()
    }

    /// The counters of all workers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals_by_worker().into_iter().fold(Totals::default(), |sum, one| sum + one)
    }

    /// Stops accepting and reading, lets batches and jobs in work end, sends what is queued and closes all
    /// connections, within `grace`; then cuts what is left. Blocks the calling thread meanwhile.
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

/// Raises the process's soft bound on descriptors to the hard one and returns it, since each connection
/// needs one.
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
