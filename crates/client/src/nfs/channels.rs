//! The connections of a client: the choice of one for each request, and the loss of connections.
//!
//! Requests use the connections in turn, as Linux does with `nconnect`. A connection with more in flight than
//! the average is skipped, so that a slow one delays no more than its share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::callback::Responder;
use super::link::Link;
use super::{Options, port};
use crate::error::Result;
use crate::retry::within;
use crate::transport::{Tasks, Tuning, tune};
use crate::{ChannelStatus, Error};

/// One connection.
#[derive(Debug)]
pub(crate) struct BoundConnection {
    pub(crate) link: Arc<Link>,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    /// Its place among the connections. Its replacement takes the same place.
    index: usize,
    outstanding: AtomicUsize,
    requests: AtomicU64,
    bytes: AtomicU64,
    _tasks: Tasks,
}

impl BoundConnection {
    /// Connects to `address`.
    pub(crate) async fn connect(
        address: SocketAddr,
        index: usize,
        options: &Options,
        responder: Option<Arc<Responder>>,
    ) -> Result<BoundConnection> {
        let connecting = async { Ok(port::connect(address).await?) };
        let stream = within(options.connect_timeout, connecting).await?;
        tune(&stream, Tuning { dead_after: options.dead_after, is_paced: options.pace.is_some() })?;
        let (local, peer) = (stream.local_addr()?, stream.peer_addr()?);
        let (link, tasks) = Link::start(stream, responder, options.silence);
        link.rate.set(options.pace);
        let [requests, bytes] = [const { AtomicU64::new(0) }; 2];
        Ok(BoundConnection {
            link,
            local,
            peer,
            index,
            outstanding: AtomicUsize::new(0),
            requests,
            bytes,
            _tasks: tasks,
        })
    }
}

/// The connections of one client.
#[derive(Debug)]
pub(crate) struct Channels {
    state: RwLock<ConnectionList>,
    /// Counts the choices.
    next: AtomicUsize,
    /// The requests in flight on all connections.
    outstanding: AtomicUsize,
    /// Whether there was a reply since the last loss.
    answered: AtomicBool,
    /// Notified when a connection is lost.
    pub(crate) lost: Arc<Notify>,
    /// Notified when a connection is back.
    back: Notify,
}

#[derive(Debug)]
struct ConnectionList {
    /// Ordered by place.
    list: Vec<Arc<BoundConnection>>,
    losses: u64,
    /// The time of the first loss since the last reply.
    fruitless_since: Option<Instant>,
    /// The error that ended the last lost connection.
    failure: Option<Error>,
    /// Whether a task reconnects lost connections.
    is_kept: bool,
    closed: bool,
}

/// The connection chosen for one request. Dropping it ends the request's count on the connection.
#[derive(Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) channel: Arc<BoundConnection>,
    channels: &'a Channels,
}

impl Chosen<'_> {
    /// Counts the reply to the request, which has moved `bytes` of data.
    pub(crate) fn moved(&self, bytes: usize) {
        if !self.channels.answered.load(Ordering::Relaxed) {
            self.channels.answered.store(true, Ordering::Relaxed);
        }
        self.channel.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        self.channel.outstanding.fetch_sub(1, Ordering::Relaxed);
        self.channels.outstanding.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Channels {
    /// No connection yet.
    pub(crate) fn new() -> Channels {
        let state = ConnectionList {
            list: Vec::new(),
            losses: 0,
            fruitless_since: None,
            failure: None,
            is_kept: false,
            closed: false,
        };
        Channels {
            state: RwLock::new(state),
            next: AtomicUsize::new(0),
            outstanding: AtomicUsize::new(0),
            answered: AtomicBool::new(false),
            lost: Arc::default(),
            back: Notify::new(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, ConnectionList> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ConnectionList> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Chooses the connection for the next request. If none is left, it waits for up to `patience`, if one is
    /// to come.
    ///
    /// # Errors
    /// The error that ended the last connection.
    pub(crate) async fn choose(&self, patience: Duration) -> Result<Chosen<'_>> {
        loop {
            // Registered before the check, so that no notification is missed.
            let back = self.back.notified();
            if let Some(chosen) = self.try_choose()? {
                return Ok(chosen);
            }
            if !self.read().is_kept || tokio::time::timeout(patience, back).await.is_err() {
                return Err(self.read().failure.clone().unwrap_or(Error::Closed));
            }
        }
    }

    fn try_choose(&self) -> Result<Option<Chosen<'_>>> {
        let state = self.read();
        if state.closed {
            return Err(Error::Closed);
        }
        let count = state.list.len();
        let Some(first) = state.list.first() else { return Ok(None) };
        let mut chosen = first;
        if count > 1 {
            let all = self.outstanding.load(Ordering::Relaxed);
            let start = self.next.fetch_add(1, Ordering::Relaxed);
            for at in start..start.wrapping_add(count) {
                chosen = &state.list[at % count];
                if chosen.outstanding.load(Ordering::Relaxed) * count <= all {
                    break;
                }
                // Skipped connections have had their turn.
                self.next.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.outstanding.fetch_add(1, Ordering::Relaxed);
        chosen.outstanding.fetch_add(1, Ordering::Relaxed);
        chosen.requests.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Chosen { channel: Arc::clone(chosen), channels: self }))
    }

    /// Drops a connection that has failed with `error`, unless it has been dropped already.
    pub(crate) fn lose(&self, channel: &Arc<BoundConnection>, error: &Error) {
        let mut state = self.write();
        if let Some(at) = state.list.iter().position(|it| Arc::ptr_eq(it, channel)) {
            let lost = state.list.remove(at);
            state.losses += 1;
            state.failure = Some(error.clone());
            if self.answered.swap(false, Ordering::Relaxed) || state.fruitless_since.is_none() {
                state.fruitless_since = Some(Instant::now());
            }
            drop(state);
            drop(lost);
            self.lost.notify_one();
        }
    }

    /// The time for which connections have been lost one after the other without a reply over any of them.
    pub(crate) fn fruitless_for(&self) -> Duration {
        let since = self.read().fruitless_since.filter(|_| !self.answered.load(Ordering::Relaxed));
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Sets whether a task reconnects lost connections.
    pub(crate) fn keep(&self, is_kept: bool) {
        self.write().is_kept = is_kept;
    }

    /// Drops all connections that have ended.
    pub(crate) fn lose_failed(&self) {
        let ended = |it: &Arc<BoundConnection>| it.link.failure().map(|error| (Arc::clone(it), error));
        let failed: Vec<_> = self.read().list.iter().filter_map(ended).collect();
        for (channel, error) in &failed {
            self.lose(channel, error);
        }
    }

    /// Adds a connection, unless the client has ended.
    pub(crate) fn add(&self, channel: BoundConnection) {
        channel.link.watch(&self.lost);
        let mut state = self.write();
        if !state.closed {
            let at = state.list.partition_point(|it| it.index < channel.index);
            state.list.insert(at, Arc::new(channel));
            drop(state);
            self.back.notify_waiters();
        }
    }

    /// Sets the error for requests that wait for a connection.
    pub(crate) fn set_failure(&self, error: Error) {
        self.write().failure = Some(error);
    }

    /// Drops all connections at place `count` or above. Requests pending on them still end there.
    pub(crate) fn narrow(&self, count: usize) {
        let mut state = self.write();
        let at = state.list.partition_point(|it| it.index < count);
        let gone = state.list.split_off(at);
        drop(state);
        drop(gone);
    }

    /// Drops all connections. The client is over.
    pub(crate) fn close(&self) {
        let list = {
            let mut state = self.write();
            state.closed = true;
            std::mem::take(&mut state.list)
        };
        drop(list);
        self.back.notify_waiters();
        self.lost.notify_one();
    }

    /// The places below `count` that no connection has.
    pub(crate) fn free_places(&self, count: usize) -> Vec<usize> {
        let state = self.read();
        (0..count).filter(|index| state.list.iter().all(|it| it.index != *index)).collect()
    }

    /// All present connections.
    pub(crate) fn all(&self) -> Vec<Arc<BoundConnection>> {
        self.read().list.clone()
    }

    /// The number of connections lost so far.
    pub(crate) fn losses(&self) -> u64 {
        self.read().losses
    }

    pub(crate) fn status(&self) -> Vec<ChannelStatus> {
        let status = |channel: &Arc<BoundConnection>| ChannelStatus {
            local: channel.local,
            peer: channel.peer,
            requests: channel.requests.load(Ordering::Relaxed),
            bytes: channel.bytes.load(Ordering::Relaxed),
            traffic: channel.link.traffic(),
            is_busy: channel.outstanding.load(Ordering::Relaxed) > 0,
            most_credits: None,
        };
        self.read().list.iter().map(status).collect()
    }
}
