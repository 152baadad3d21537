//! What a connection is made of, whichever protocol it carries: a table of requests under way, a queue of what is
//! to be written, and three tasks.
//!
//! A protocol's own part ([`Protocol`]) makes the entries and the frames; [`writer`] writes all that is queued with
//! one system call; [`incoming`] splits what comes into frames, which the protocol's [`Receiver`] reads and whose
//! replies it hands to [`Transport::complete`]; [`Pending`] is who waits for one; [`ward`] notices when nothing comes
//! any more. The lock is held for a few table
//! operations only: neither cryptography nor copying happens under it.

mod buffers;
mod incoming;
mod pace;
mod pending;
mod socket;
mod traffic;
mod tune;
mod ward;
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

/// What a protocol adds to a connection.
pub(crate) trait Protocol: fmt::Debug + Sized + Send + Sync + 'static {
    /// Beside the lock.
    type Shared: fmt::Debug + Default + Send + Sync;
    /// Under the lock.
    type Own: fmt::Debug + Send;
    /// What is remembered of a request until its reply has been fetched.
    type Request: fmt::Debug + Send;
    /// A reply as it is handed over.
    type Reply: fmt::Debug + Send;

    /// The connection has ended; whoever waits inside of `own` is to be woken.
    fn ended(own: &mut Self::Own);

    /// Asks the server for any answer that it has at once, whatever else waits there. Nobody looks at it.
    fn ask(transport: &Arc<Transport<Self>>) -> impl Future<Output = ()> + Send;
}

/// A request whose reply has not been fetched.
#[derive(Debug)]
pub(crate) struct Entry<P: Protocol> {
    state: EntryState<P::Reply>,
    pub(crate) request: P::Request,
}

impl<P: Protocol> Entry<P> {
    pub(crate) fn new(request: P::Request) -> Entry<P> {
        Entry { state: EntryState::Waiting(None), request }
    }

    /// Whether the reply has come.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, EntryState::Done(_))
    }
}

#[derive(Debug)]
enum EntryState<R> {
    /// No final reply yet.
    Waiting(Option<Waker>),
    /// Nobody waits any more.
    Abandoned,
    /// The reply has come.
    Done(R),
}

/// Spreads the numbers of requests, which are consecutive, over the table.
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

/// A frame on its way out, with data that nobody has copied into it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) frame: Frame,
    /// What is sent between two parts of the frame, and where the first of them ends.
    pub(crate) payload: Option<(usize, Bytes)>,
}

impl From<Frame> for Outgoing {
    fn from(frame: Frame) -> Outgoing {
        Outgoing { frame, payload: None }
    }
}

/// What is under the lock.
#[derive(Debug)]
pub(crate) struct State<P: Protocol> {
    pub(crate) own: P::Own,
    pub(crate) entries: HashMap<u64, Entry<P>, BuildHasherDefault<IdHasher>>,
    pub(crate) frames: FramePool,
    pub(crate) failed: Option<Error>,
    outbox: VecDeque<Outgoing>,
    /// Who wants to know when the connection ends.
    watchers: Vec<Arc<Notify>>,
}

/// The shared part of a connection.
#[derive(Debug)]
pub(crate) struct Transport<P: Protocol> {
    state: Mutex<State<P>>,
    written: Notify,
    /// Whether the writer has something that the host has not taken.
    writing: AtomicBool,
    meter: Meter,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) rate: Rate,
    pub(crate) shared: P::Shared,
}

impl<P: Protocol> Transport<P> {
    /// A connection over `stream`, and the tasks that serve it. It is lost when something is awaited and not a byte comes
    /// for as long as `silence`.
    pub(crate) fn begin(
        stream: TcpStream,
        own: P::Own,
        receiver: impl Receiver<P>,
        silence: Duration,
    ) -> (Arc<Transport<P>>, Tasks) {
        let state = State {
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
            shared: P::Shared::default(),
        });
        let (read, write) = stream.into_split();
        let reader = tokio::spawn(incoming::run(Arc::clone(&transport), read, receiver));
        let writer = tokio::spawn(writer::run(Arc::clone(&transport), write));
        let ward = tokio::spawn(ward::run(Arc::clone(&transport), silence));
        (transport, Tasks([reader, writer, ward].map(|task| task.abort_handle())))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<P>> {
        // Nothing under the lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `watcher` notified when the connection ends, at once if it has.
    pub(crate) fn watch(&self, watcher: &Arc<Notify>) {
        let mut state = self.lock();
        if state.failed.is_some() {
            watcher.notify_one();
        } else {
            state.watchers.push(Arc::clone(watcher));
        }
    }

    /// What the path has carried.
    pub(crate) fn traffic(&self) -> Traffic {
        self.meter.read()
    }

    /// What ended the connection, if it has ended.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.lock().failed.clone()
    }

    /// Ends the connection: every request, now and later, fails with `error`.
    pub(crate) fn fail(&self, error: Error) {
        let mut state = self.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(error);
        P::ended(&mut state.own);
        state.outbox.clear();
        // Replies that have come can still be fetched.
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

    /// Queues a frame; the first one calls the writer.
    ///
    /// # Errors
    /// What ended the connection.
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

    /// Hands the reply to request `id` to who waits for it; `settle` does the protocol's books under the lock. False
    /// when there is no such request.
    pub(crate) fn complete(
        &self,
        id: u64,
        reply: P::Reply,
        settle: impl FnOnce(&mut P::Own, &mut P::Request),
    ) -> bool {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(entry) = state.entries.get_mut(&id) else {
            // The reply gives its buffer back, which is no business of the lock.
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
        // Wakers, and buffers that go back to their store, take locks of their own.
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
