//! A connection of either protocol: a table of pending requests, a queue of frames to write, and three tasks.
//!
//! The protocol ([`Protocol`]) makes the entries and the frames. [`writer`] writes all queued frames with one
//! system call. [`incoming`] splits the received bytes into frames. The protocol's [`Receiver`] reads them
//! and passes the replies to [`Transport::complete`]. [`Pending`] is the future of one reply. [`liveness`]
//! notices a server that has gone silent.
//!
//! The lock is held for a few table operations only. No cryptography and no copying happens under it.

mod buffers;
mod incoming;
mod liveness;
mod pace;
mod pending;
mod socket;
mod traffic;
mod tune;
mod writer;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use wire::frame::{Frame, FramePool};

use crate::Error;
use crate::error::Result;
use traffic::Meter;

pub(crate) use buffers::{Buffers, Message};
pub(crate) use incoming::{PREFIX, Receiver};
pub(crate) use pace::Rate;
pub(crate) use pending::Pending;
pub use traffic::Traffic;
pub(crate) use tune::{Tuning, tune};

/// The protocol's part of a connection.
pub(crate) trait Protocol: fmt::Debug + Sized + Send + Sync + 'static {
    /// The protocol's data beside the lock.
    type Unlocked: fmt::Debug + Default + Send + Sync;
    /// The protocol's data under the lock.
    type LinkState: fmt::Debug + Send;
    /// The data of a request that is kept until its reply has been fetched.
    type Request: fmt::Debug + Send;
    /// A reply as the caller receives it.
    type Reply: fmt::Debug + Send;

    /// The connection has ended. Wakes the waiters inside `own`.
    fn ended(own: &mut Self::LinkState);

    /// Sends a request that the server answers at once, whatever else waits there. The reply is ignored.
    fn ask(transport: &Arc<Transport<Self>>) -> impl Future<Output = ()> + Send;
}

/// A request whose reply has not been fetched.
#[derive(Debug)]
pub(crate) struct UnfetchedRequest<P: Protocol> {
    state: EntryState<P::Reply>,
    pub(crate) request: P::Request,
}

impl<P: Protocol> UnfetchedRequest<P> {
    pub(crate) fn new(request: P::Request) -> UnfetchedRequest<P> {
        UnfetchedRequest { state: EntryState::Waiting(None), request }
    }

    /// Whether the reply has come.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, EntryState::Done(_))
    }
}

#[derive(Debug)]
enum EntryState<R> {
    /// The final reply has not arrived.
    Waiting(Option<Waker>),
    /// The waiter has been dropped.
    Abandoned,
    /// The reply has arrived.
    Done(R),
}

/// A hasher that spreads the consecutive numbers of requests over the table.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers of requests are hashed");
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// An outgoing frame, with a payload that was not copied into it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) frame: Frame,
    /// The payload, and its offset in the frame.
    pub(crate) payload: Option<(usize, Bytes)>,
}

impl From<Frame> for Outgoing {
    fn from(frame: Frame) -> Outgoing {
        Outgoing { frame, payload: None }
    }
}

/// The data under the lock.
#[derive(Debug)]
pub(crate) struct TransportState<P: Protocol> {
    pub(crate) own: P::LinkState,
    pub(crate) entries: HashMap<u64, UnfetchedRequest<P>, BuildHasherDefault<IdHasher>>,
    pub(crate) frames: FramePool,
    pub(crate) failed: Option<Error>,
    outbox: VecDeque<Outgoing>,
    /// Tasks that are notified when the connection ends.
    watchers: Vec<Arc<Notify>>,
}

/// The shared part of a connection.
#[derive(Debug)]
pub(crate) struct Transport<P: Protocol> {
    state: Mutex<TransportState<P>>,
    written: Notify,
    /// Whether the writer holds data that the host has not taken.
    writing: AtomicBool,
    meter: Meter,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) rate: Rate,
    pub(crate) shared: P::Unlocked,
}

impl<P: Protocol> Transport<P> {
    /// Starts a connection over `stream` and its tasks. The connection is lost when a reply is awaited and no
    /// byte arrives during `silence`.
    pub(crate) fn begin(
        stream: TcpStream,
        own: P::LinkState,
        receiver: impl Receiver<P>,
        silence: Duration,
    ) -> (Arc<Transport<P>>, Tasks) {
        let state = TransportState {
            own,
            entries: HashMap::default(),
            frames: FramePool::default(),
            failed: None,
            outbox: VecDeque::new(),
            watchers: Vec::new(),
        };
        let transport = Arc::new(Transport {
            state: Mutex::new(state),
            written: Notify::new(),
            writing: AtomicBool::new(false),
            meter: Meter::of(&stream),
            buffers: Arc::default(),
            rate: Rate::default(),
            shared: P::Unlocked::default(),
        });
        let (read, write) = stream.into_split();
        let reader = tokio::spawn(incoming::run(Arc::clone(&transport), read, receiver));
        let writer = tokio::spawn(writer::run(Arc::clone(&transport), write));
        let liveness = tokio::spawn(liveness::run(Arc::clone(&transport), silence));
        (transport, Tasks([reader, writer, liveness].map(|task| task.abort_handle())))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TransportState<P>> {
        // Nothing under the lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies `watcher` when the connection ends, or at once if it has ended.
    pub(crate) fn watch(&self, watcher: &Arc<Notify>) {
        let mut state = self.lock();
        if state.failed.is_some() {
            watcher.notify_one();
        } else {
            state.watchers.push(Arc::clone(watcher));
        }
    }

    /// The bytes that the path has carried.
    pub(crate) fn traffic(&self) -> Traffic {
        self.meter.read()
    }

    /// The error that ended the connection, if it has ended.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failed.clone()
    }

    /// Ends the connection. Every present and later request fails with `error`.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(error);
        P::ended(&mut state.own);
        state.outbox.clear();
        // Replies that have arrived can still be fetched.
        let mut wakers = Vec::new();
        state.entries.retain(|_, entry| match &mut entry.state {
            EntryState::Waiting(waker) => {
                wakers.extend(waker.take());
                false
            }
            EntryState::Abandoned => false,
            EntryState::Done(_) => true,
        });
        let watchers = std::mem::take(&mut state.watchers);
        drop(state);
        self.written.notify_one();
        wakers.into_iter().for_each(Waker::wake);
        watchers.iter().for_each(|watcher| watcher.notify_one());
    }

    /// Queues a frame. The first frame in the queue wakes the writer.
    ///
    /// # Errors
    /// The error that ended the connection.
    pub(crate) fn post(&self, frame: impl Into<Outgoing>) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let was_empty = state.outbox.is_empty();
        state.outbox.push_back(frame.into());
        drop(state);
        if was_empty {
            self.written.notify_one();
        }
        Ok(())
    }

    /// Hands the reply to the waiter of request `id`. `settle` updates the protocol's data under the lock.
    /// Returns false when there is no such request.
    pub(crate) fn complete(
        &self,
        id: u64,
        reply: P::Reply,
        settle: impl FnOnce(&mut P::LinkState, &mut P::Request),
    ) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(entry) = state.entries.get_mut(&id) else {
            // Dropping the reply returns its buffer to the pool, which must not happen under the lock.
            drop(guard);
            drop(reply);
            return false;
        };
        settle(&mut state.own, &mut entry.request);
        let before = std::mem::replace(&mut entry.state, EntryState::Done(reply));
        let unwanted = match before {
            EntryState::Abandoned => state.entries.remove(&id),
            _ => None,
        };
        // Wakers and returned buffers take locks of their own.
        drop(guard);
        drop(unwanted);
        if let EntryState::Waiting(Some(waker)) = before {
            waker.wake();
        }
        true
    }
}

/// The tasks of a connection, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Tasks([AbortHandle; 3]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}
