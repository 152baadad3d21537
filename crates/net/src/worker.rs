//! One worker: a thread with a single-threaded runtime, the connections placed on it, and their common parts.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use wire::FileRange;
use wire::endpoint::{Output, Peer, Service};

use crate::balance::{Balance, ConnectionLoad};
use crate::buffers::Buffers;
use crate::clock;
use crate::config::Config;
use crate::connection::{ActiveConnection, Connection, End, EventOf};
use crate::counters::Counters;
use crate::mailbox::ConnectionMailbox;
use crate::memory;
use crate::priority_lane::{self, Ledger, Occupancy, Standing};
use crate::registry::Registration;
use crate::sends::SendQueue;
use crate::server::ServerContext;
use crate::thread_work;

/// The interval at which a worker frees unused memory.
const TIDY_INTERVAL: Duration = Duration::from_secs(2);
/// The pause after the host refused to accept (usually because no descriptor is left), and the pause until
/// another connection has made room.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const ROOM_PAUSE: Duration = Duration::from_millis(1);
/// Connections to accept before the existing ones are served.
const ACCEPTS: usize = 512;
/// The time, and the number of reads, for which a worker reads from a client after the last reply, until the
/// client closes too.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_READS: usize = 1024;
/// A worker checks for other ready connections after this many polls; the priority lane after each.
const POLLS: u32 = 61;
const POLLS_IN_LANE: u32 = 1;
/// If a poll lasts longer than this (ns), the priority lane checks whether the thread waited or was without a
/// processor.
const LONG_WAIT_NS: u64 = 1_000_000;
/// Outputs that are kept for trips to the pool.
const SPARES: usize = 2;

/// A command of another thread to a worker.
pub(crate) enum Command<S: Service> {
    /// Accept from this listener.
    Listen(TcpListener),
    /// Start a conversation on this socket.
    Start(std::net::TcpStream, Peer, Registration),
    /// Continue a connection of another worker.
    Adopt(std::net::TcpStream, Box<Connection<S>>),
    /// Stop accepting and reading, and let running work end, for at most this time.
    Finish(Duration),
}

/// The parts that the connections of one worker share. They stay on its thread.
pub(crate) struct Worker<S: Service> {
    index: usize,
    shared: Arc<ServerContext<S>>,
    output: RefCell<Output<EventOf<S>>>,
    spares: RefCell<Vec<Output<EventOf<S>>>>,
    buffers: RefCell<Buffers>,
    balance: RefCell<Balance>,
    /// The worker's share of working time, and in the priority lane the time of each principal.
    occupancy: RefCell<Occupancy>,
    ledger: RefCell<Ledger>,
    /// The time for which the priority lane had been without a processor at the last look (ns).
    put_aside_ns: Cell<u64>,
    /// Mailboxes of the connections that are here.
    posts: RefCell<HashMap<u64, Arc<ConnectionMailbox<S::Conversation>>>>,
    next_id: Cell<u64>,
    finishing: Cell<bool>,
    /// The time for which its connections polled for requests that had not arrived (ns). It is no work, and
    /// no reason to move a connection away.
    busy_polled_ns: Cell<u64>,
    /// Notified whenever a connection leaves.
    left: Notify,
}

/// The runtime of a worker, created on the worker's thread. It counts how often the worker waits.
pub(crate) fn runtime<S: Service>(
    index: usize,
    shared: &Arc<ServerContext<S>>,
) -> std::io::Result<LocalRuntime> {
    let shared = Arc::clone(shared);
    let is_lane = index == shared.registry.lane().worker();
    Builder::new_current_thread()
        .event_interval(if is_lane { POLLS_IN_LANE } else { POLLS })
        .enable_io()
        .enable_time()
        .on_thread_park(move || {
            shared.counters[index].wait_calls.add(1);
            priority_lane::wait_begins(clock::mono_ns());
        })
        .on_thread_unpark(|| priority_lane::wait_ends(clock::mono_ns()))
        .build_local(LocalOptions::default())
}

/// Serves until it is told to finish. Returns the number of connections that had to be cut.
pub(crate) fn run<S: Service>(
    index: usize,
    shared: Arc<ServerContext<S>>,
    runtime: LocalRuntime,
    commands: UnboundedReceiver<Command<S>>,
) -> usize {
    let worker = Rc::new(Worker {
        index,
        shared,
        output: RefCell::default(),
        spares: RefCell::default(),
        buffers: RefCell::default(),
        balance: RefCell::default(),
        occupancy: RefCell::default(),
        ledger: RefCell::default(),
        put_aside_ns: Cell::new(0),
        posts: RefCell::default(),
        next_id: Cell::new(0),
        finishing: Cell::new(false),
        busy_polled_ns: Cell::new(0),
        left: Notify::new(),
    });
    let cut = runtime.block_on(Rc::clone(&worker).serve(commands));
    // Ends the remaining tasks. Each ends its conversation.
    drop(runtime);
    cut
}

impl<S: Service> Worker<S> {
    /// Its number.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters[self.index]
    }

    pub(crate) fn is_finishing(&self) -> bool {
        self.finishing.get()
    }

    /// The output that all connections of the worker use in turn, so that they share its buffers.
    pub(crate) fn output(&self) -> RefMut<'_, Output<EventOf<S>>> {
        self.output.borrow_mut()
    }

    /// Whether this worker is the priority lane.
    pub(crate) fn is_lane(&self) -> bool {
        self.index == self.shared.registry.lane().worker()
    }

    /// Charges a principal in the priority lane for the processor time of `work`, and for long waits in it.
    pub(crate) fn charge<R>(&self, standing: Option<&Arc<Standing>>, work: impl FnOnce() -> R) -> R {
        let Some(standing) = standing else { return work() };
        let (began_ns, before_ns) = (clock::mono_ns(), thread_work::cpu_ns());
        let result = work();
        let now_ns = clock::mono_ns();
        let mut took_ns = thread_work::cpu_ns().saturating_sub(before_ns);
        let away_ns = now_ns.saturating_sub(began_ns).saturating_sub(took_ns);
        if away_ns > LONG_WAIT_NS
            && let Some(put_aside_ns) = thread_work::put_aside_ns()
        {
            let aside_ns = put_aside_ns.saturating_sub(self.put_aside_ns.replace(put_aside_ns));
            took_ns += away_ns.saturating_sub(aside_ns);
        }
        self.ledger.borrow_mut().charge(standing, took_ns, now_ns);
        result
    }

    /// Counts the time in which a connection polled for a request that had not arrived.
    pub(crate) fn polled_busily(&self, spent_ns: u64) {
        self.busy_polled_ns.set(self.busy_polled_ns.get() + spent_ns);
        priority_lane::waited(spent_ns);
    }

    /// Counts a batch of a connection here. Returns the worker to move the connection to, if this one has too
    /// much work.
    pub(crate) fn counted(&self, share: &mut ConnectionLoad, took_ns: u64, ended_ns: u64) -> Option<usize> {
        // The lane moves connections only by its own rule. A worker that ends serves its connections to the
        // end.
        if self.is_lane() || self.is_finishing() {
            return None;
        }
        self.occupancy.borrow_mut().update_lane(self.shared.registry.lane(), ended_ns);
        if self.shared.registry.has_one_worker() {
            return None;
        }
        let mut balance = self.balance.borrow_mut();
        if balance.count(share, took_ns, ended_ns) {
            let worked_ns = thread_work::cpu_ns().saturating_sub(self.busy_polled_ns.get());
            let busy = balance.end_span(ended_ns, worked_ns, thread_work::idle_ns);
            self.shared.registry.report_load(self.index, busy, ended_ns);
        }
        if !balance.moves_one() {
            return None;
        }
        let target = self.shared.registry.idlest(self.index, balance.room_for(share)?, ended_ns)?;
        balance.connection_moved();
        Some(target)
    }

    pub(crate) fn buffers(&self) -> RefMut<'_, Buffers> {
        self.buffers.borrow_mut()
    }

    /// An output that may leave the thread.
    pub(crate) fn take_spare(&self) -> Output<EventOf<S>> {
        self.spares.borrow_mut().pop().unwrap_or_default()
    }

    /// Returns such an output.
    pub(crate) fn give_spare(&self, out: Output<EventOf<S>>) {
        let mut spares = self.spares.borrow_mut();
        if spares.len() < SPARES {
            spares.push(out);
        }
    }

    /// Handles `count` bytes that the socket took. Their frames return to the pool that serves such
    /// connections.
    pub(crate) fn give_back(&self, sends: &mut SendQueue, count: usize, hops: bool) {
        let mut spares = self.spares.borrow_mut();
        match spares.last_mut() {
            Some(spare) if hops => sends.advance(count, &mut spare.pool),
            _ => sends.advance(count, &mut self.output.borrow_mut().pool),
        }
    }

    /// Takes the rest of the next piece of a file out of the queue.
    pub(crate) fn take_file(&self, sends: &mut SendQueue) -> Option<FileRange> {
        sends.take_file(&mut self.output.borrow_mut().pool)
    }

    async fn serve(self: Rc<Self>, mut commands: UnboundedReceiver<Command<S>>) -> usize {
        let mut listening = Vec::new();
        let mut seen = 0;
        let mut tidies_at = tokio::time::Instant::now() + TIDY_INTERVAL;
        loop {
            let Ok(command) = tokio::time::timeout_at(tidies_at, commands.recv()).await else {
                let batches = self.shared.counters[self.index].read().batches;
                self.tidy(std::mem::replace(&mut seen, batches) == batches);
                tidies_at = tokio::time::Instant::now() + TIDY_INTERVAL;
                continue;
            };
            match command {
                Some(Command::Listen(listener)) => {
                    let accepting = Rc::clone(&self).accept_all(listener);
                    listening.push(tokio::task::spawn_local(accepting).abort_handle());
                }
                Some(Command::Start(stream, peer, registration)) => self.start(stream, peer, registration),
                Some(Command::Adopt(stream, connection)) => self.adopt(stream, connection),
                Some(Command::Finish(grace)) => {
                    listening.iter().for_each(tokio::task::AbortHandle::abort);
                    return self.finish(grace, commands).await;
                }
                None => return self.finish(Duration::ZERO, commands).await,
            }
        }
    }

    /// Frees unused memory. A worker that has been idle frees its buffers too.
    fn tidy(&self, is_idle: bool) {
        if is_idle {
            self.buffers.borrow_mut().clear();
            self.output.borrow_mut().pool.clear();
            self.spares.borrow_mut().clear();
        }
        memory::give_back(!is_idle);
    }

    async fn finish(self: &Rc<Self>, grace: Duration, mut commands: UnboundedReceiver<Command<S>>) -> usize {
        self.finishing.set(true);
        for post in self.posts.borrow().values() {
            post.wake();
        }
        let mut emptied = std::pin::pin!(async {
            while !self.posts.borrow().is_empty() {
                self.left.notified().await;
            }
        });
        let ended = poll_fn(|cx| {
            // A connection that was on its way to this worker ends here.
            while let Poll::Ready(Some(command)) = commands.poll_recv(cx) {
                if let Command::Adopt(stream, connection) = command {
                    self.adopt(stream, connection);
                }
            }
            emptied.as_mut().poll(cx)
        });
        let _in_time = tokio::time::timeout(grace, ended).await;
        self.posts.borrow().len()
    }

    async fn accept_all(self: Rc<Self>, listener: TcpListener) {
        // SAFETY: a `TcpListener` owns its descriptor: it is the same one until the `AsyncFd` is dropped,
        // since nothing below takes it out or replaces it.
        #[allow(unsafe_code)]
        let registered = unsafe { AsyncFd::register(listener) };
        let listener = match registered {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, "a listener cannot be waited for");
                return;
            }
        };
        // Logged once for each time of trouble, not ten times a second.
        let mut troubled = false;
        for count in 1usize.. {
            if count.is_multiple_of(ACCEPTS) {
                tokio::task::yield_now().await;
            }
            let accepted = match listener.readable().await {
                Ok(mut ready) => ready.try_io(|listener| listener.get_ref().accept()),
                Err(_) => return,
            };
            match accepted {
                Ok(Ok((stream, remote))) => {
                    troubled = false;
                    self.admit(stream, remote);
                }
                Ok(Err(error)) if is_of_one_client(&error) => {}
                // Another thread has ended its listening.
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidInput => return,
                Ok(Err(error)) if is_short_of_descriptors(&error) && self.makes_room() => {
                    tokio::time::sleep(ROOM_PAUSE).await;
                }
                Ok(Err(error)) => {
                    if !std::mem::replace(&mut troubled, true) {
                        tracing::error!(%error, "cannot accept");
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                // None left; wait for more.
                Err(_) => {}
            }
        }
    }

    fn makes_room(&self) -> bool {
        self.shared.registry.make_room(clock::mono_ns())
    }

    /// Checks the bounds and hands the socket to the worker with most room. A connection over a bound is
    /// closed.
    fn admit(&self, stream: std::net::TcpStream, remote: SocketAddr) {
        let descriptor = u64::try_from(stream.as_raw_fd()).unwrap_or(0);
        let mut registration = match self.shared.registry.admit(remote.ip(), descriptor, clock::mono_ns()) {
            Ok(registration) => registration,
            Err(refused) => {
                self.counters().refused.add(1);
                let (why, connections) = (refused.why.text(), refused.connections);
                match refused.is_logged {
                    true => tracing::warn!(address = %remote.ip(), connections, "connection refused: {why}"),
                    false => tracing::debug!(%remote, connections, "connection refused: {why}"),
                }
                return;
            }
        };
        self.counters().accepted.add(1);
        let prepared = prepare(&stream, &self.shared.config).and_then(|()| stream.local_addr());
        // It is no news if the client is gone already.
        let Ok(local) = prepared else { return };
        let peer = Peer { local, remote };
        let live = self.shared.config.live_connections.as_ref();
        registration.keep_listed(live.and_then(|live| live.enter(remote, local)));
        self.shared.ask(registration.worker(), Command::Start(stream, peer, registration));
    }

    fn start(self: &Rc<Self>, stream: std::net::TcpStream, peer: Peer, registration: Registration) {
        let worker = Rc::clone(self);
        // In the task, so that a service that panics affects only this connection.
        tokio::task::spawn_local(async move {
            let Ok(stream) = TcpStream::from_std(stream) else {
                return;
            };
            if let Some(connection) = Connection::accept(&worker.shared, registration, peer) {
                let here = WorkerGuard::new(&worker, connection.post());
                worker.drive(connection, stream, here).await;
            }
        });
    }

    fn adopt(self: &Rc<Self>, stream: std::net::TcpStream, connection: Box<Connection<S>>) {
        let worker = Rc::clone(self);
        // At once, so that a worker that ends waits for it.
        let here = WorkerGuard::new(&worker, connection.post());
        tokio::task::spawn_local(async move {
            match TcpStream::from_std(stream) {
                Ok(stream) => worker.drive(connection, stream, here).await,
                Err(error) => tracing::error!(%error, "a connection cannot be waited for"),
            }
        });
    }

    /// Serves one connection until it leaves.
    async fn drive(self: Rc<Self>, connection: Box<Connection<S>>, stream: TcpStream, _here: WorkerGuard<S>) {
        let mut served = ActiveConnection::new(connection, stream, Rc::clone(&self));
        // Unconstrained: a round is bounded by itself, and the timer must be registered when it is polled.
        let end = tokio::task::unconstrained(poll_fn(|cx| served.poll(cx))).await;
        let ActiveConnection { mut connection, stream, .. } = served;
        let remote = connection.peer().remote;
        match end {
            End::Closed(why) => tracing::debug!(%remote, why, "connection closed"),
            End::Ended(why) => {
                tracing::debug!(%remote, why, "connection ended");
                connection.leave();
                if let Some(parked) = self.shared.config.parked.as_ref().filter(|_| self.is_finishing()) {
                    match stream.into_std() {
                        Ok(stream) => parked.park(stream),
                        Err(error) => tracing::error!(%error, "a connection cannot stay open"),
                    }
                    return;
                }
                let patience = if self.is_finishing() { Duration::ZERO } else { LINGER };
                let _late = tokio::time::timeout(patience, part(&stream)).await;
            }
            End::Move(target) => match stream.into_std() {
                Ok(stream) => {
                    self.counters().moves.add(1);
                    self.shared.ask(target, Command::Adopt(stream, connection));
                }
                Err(error) => tracing::error!(%error, "a connection cannot move"),
            },
        }
    }
}

/// Closes this side, then reads until the client closes its own. Closing a socket with unread bytes makes the
/// host discard replies that are still to be delivered.
async fn part(stream: &TcpStream) {
    if rustix::net::shutdown(stream, rustix::net::Shutdown::Write).is_err() {
        return;
    }
    // On the heap: an array would be part of every connection's future for its whole life.
    let mut unwanted = vec![0; 4096];
    for _ in 0..LINGER_READS {
        match stream.try_read(&mut unwanted) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                if stream.readable().await.is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

/// Notes that a connection is on this worker, until it is dropped.
struct WorkerGuard<S: Service> {
    worker: Rc<Worker<S>>,
    id: u64,
}

impl<S: Service> WorkerGuard<S> {
    fn new(worker: &Rc<Worker<S>>, post: &Arc<ConnectionMailbox<S::Conversation>>) -> WorkerGuard<S> {
        let id = worker.next_id.get();
        worker.next_id.set(id + 1);
        worker.posts.borrow_mut().insert(id, Arc::clone(post));
        WorkerGuard { worker: Rc::clone(worker), id }
    }
}

impl<S: Service> Drop for WorkerGuard<S> {
    fn drop(&mut self) {
        self.worker.posts.borrow_mut().remove(&self.id);
        self.worker.left.notify_one();
    }
}

/// Whether accepting failed because of the client, so that the next one may be tried at once.
fn is_of_one_client(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// Whether this process or the host has no descriptor left.
fn is_short_of_descriptors(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Sets the options that every connection's socket has.
fn prepare(stream: &std::net::TcpStream, config: &Config) -> std::io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nonblocking(true)?;
    sockopt::set_tcp_nodelay(stream, true)?;
    if let Some(keepalive) = config.keepalive {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, keepalive.idle)?;
        sockopt::set_tcp_keepintvl(stream, keepalive.interval)?;
        sockopt::set_tcp_keepcnt(stream, keepalive.count)?;
    }
    if let Some(time) = config.user_timeout {
        let time_ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        sockopt::set_tcp_user_timeout(stream, time_ms)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt;

    #[test]
    fn a_socket_is_told_when_to_give_a_silent_client_up() {
        let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let stream = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        prepare(&stream, &Config::default()).expect("it can be set");
        assert!(sockopt::socket_keepalive(&stream).expect("it is known"));
        let idle = sockopt::tcp_keepidle(&stream).expect("it is known");
        let interval = sockopt::tcp_keepintvl(&stream).expect("it is known");
        let count = sockopt::tcp_keepcnt(&stream).expect("it is known");
        assert_eq!(idle + interval * count, Duration::from_secs(60));
        assert_eq!(sockopt::tcp_user_timeout(&stream).expect("it is known"), 60_000);
        let none = Config { keepalive: None, user_timeout: None, ..Config::default() };
        let stream = std::net::TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        prepare(&stream, &none).expect("it can be set");
        assert!(!sockopt::socket_keepalive(&stream).expect("it is known"));
    }
}
