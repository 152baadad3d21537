//! The contract between a protocol's state machine and the transport that carries it.
//!
//! A protocol is a plain object, a [`Conversation`]. Its inputs are messages, events and the time; its
//! results are frames and jobs in an [`Output`]. It owns no socket, starts no thread and reads no clock. The
//! transport (`net`) reads bytes, cuts them into messages, calls the conversation, writes the queued frames
//! with one system call, and runs blocking jobs on a bounded pool.
//!
//! A conversation must not own anything that outlives its transport connection: it only carries bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Frame, FramePool, Now, Transfer};

/// The addresses of both ends of a transport connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// The local address, as the client reached it.
    pub local: SocketAddr,
    /// The client's address.
    pub remote: SocketAddr,
}

/// Work that may block. It runs on the transport's pool, and its result returns as an event.
pub type Job<E> = Box<dyn FnOnce() -> E + Send>;

/// The mailbox of one conversation. Other connections, the engine and jobs can use it from any thread.
pub trait Mailbox<E>: Send + Sync {
    /// Delivers `event` to the conversation on its own thread. Returns false if the connection is gone. The
    /// event is lost then, and the caller tries another connection if that matters.
    fn post(&self, event: E) -> bool;

    /// The same for an event that makes the conversation notify its client of something that the caller is
    /// about to answer. The notice leaves before the answer, if it can leave at once. A transport without
    /// such an order may simply post the event.
    fn post_ahead(&self, event: E) -> bool {
        self.post(event)
    }

    /// The same for an event that lets another conversation go on after what the caller is about to answer.
    /// The answer leaves first, if it can leave at once. A transport without such an order may simply post
    /// the event.
    fn post_behind(self: Arc<Self>, event: E) {
        self.post(event);
    }
}

/// A receipt that was asked of the transport: whether the peer's host has acknowledged everything that was
/// queued until now. [`Conversation::on_receipt`] gets the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Distinguishes it from other receipts.
    pub token: u64,
    /// Number of [`Output::frames`] that it covers.
    pub frames: usize,
    /// The time of the result (monotonic ns).
    pub at_ns: u64,
}

/// The requests of a conversation to the transport after a call.
#[derive(Debug)]
pub struct Output<E> {
    /// Replies in the order in which to send them, with the transport's prefix.
    pub frames: Vec<Frame>,
    /// Receipts for the frames.
    pub receipts: Vec<Receipt>,
    /// Jobs for the blocking pool.
    pub jobs: Vec<JobSlot<E>>,
    /// Buffers for new frames.
    pub pool: FramePool,
    /// Send the queued frames, then close the connection.
    pub close: bool,
    /// A key that all connections of one client share. The transport spreads them over its workers.
    pub placement: Option<u128>,
}

/// A [`Job`] in a list. The type exists so that [`Output`] can be printed.
pub struct JobSlot<E>(pub Job<E>);

impl<E> std::fmt::Debug for JobSlot<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Job")
    }
}

impl<E> Default for Output<E> {
    fn default() -> Self {
        Output {
            frames: Vec::new(),
            receipts: Vec::new(),
            jobs: Vec::new(),
            pool: FramePool::default(),
            close: false,
            placement: None,
        }
    }
}

impl<E> Output<E> {
    /// Asks for a receipt at `at_ns`: whether everything that is queued now has arrived at the peer's host.
    pub fn ask_receipt(&mut self, token: u64, at_ns: u64) {
        self.receipts.push(Receipt { token, frames: self.frames.len(), at_ns });
    }

    /// Queues a job for the blocking pool.
    pub fn run(&mut self, job: impl FnOnce() -> E + Send + 'static) {
        self.jobs.push(JobSlot(Box::new(job)));
    }
}

/// The principal that a connection works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Principal {
    /// The host that the connection comes from.
    Host,
    /// A user, on any host. The same number means the same user.
    User(u64),
}

/// One connection's protocol state machine.
pub trait Conversation: Send + 'static {
    /// The type of input besides messages: results of jobs, breaks, wake-ups, orders to end.
    type Event: Send + 'static;

    /// Handles one complete message (without the transport's prefix). It may change the message in place,
    /// which decryption does.
    fn on_message(&mut self, message: &mut [u8], now: Now, out: &mut Output<Self::Event>);

    /// Handles an event.
    fn on_event(&mut self, event: Self::Event, now: Now, out: &mut Output<Self::Event>);

    /// Whether an event is handled even while the client takes no replies, because others wait for its
    /// result. Its answer is tiny.
    fn is_urgent(&self, _event: &Self::Event) -> bool {
        false
    }

    /// The longest message that is accepted now, in bytes. A client that has not logged on or made a session
    /// need not be given room for the largest.
    fn max_message(&self) -> usize {
        crate::limits::MAX_MESSAGE
    }

    /// Whether to accept a message longer than [`Conversation::max_message`]. `head` is its beginning, at
    /// most [`crate::limits::HEAD`] bytes. No more of the message is held before this has returned.
    fn vouches_for(&self, _head: &[u8]) -> bool {
        false
    }

    /// Whether the client has proved that it may be here, or is a known one. Until then it is unproved and
    /// gets less of everything.
    fn is_proved(&self) -> bool {
        true
    }

    /// The principal that the connection works for, once it is known. While processor time is short, all
    /// clients of one principal count as one, and clients without a known principal have to wait for the
    /// others.
    fn principal(&self) -> Option<Principal> {
        self.is_proved().then_some(Principal::Host)
    }

    /// Bytes of memory that the conversation itself holds for waiting requests.
    fn holds(&self) -> usize {
        0
    }

    /// Bytes of memory that an event holds besides itself.
    fn event_bytes(&self, _event: &Self::Event) -> usize {
        0
    }

    /// The monotonic time (ns) at which to call [`Conversation::on_deadline`]. None if idle.
    fn deadline(&self) -> Option<u64>;

    /// Handles the deadline, which has passed.
    fn on_deadline(&mut self, now: Now, out: &mut Output<Self::Event>);

    /// The result of [`Output::ask_receipt`], once for each receipt. `arrived` says that the peer's host has
    /// acknowledged the bytes, not that the peer has read them. If the connection ends first, there is no
    /// result; [`Conversation::on_close`] is called instead.
    fn on_receipt(&mut self, _token: u64, _arrived: bool, _now: Now, _out: &mut Output<Self::Event>) {}

    /// Called before the queued replies are sent. This is the place for one write of everything that the
    /// replies of a batch promise.
    fn before_sending(&mut self) {}

    /// Called at the end of a batch, with the time (monotonic ns). The output of the batch ends at `end` in
    /// the stream of all bytes that this connection sends.
    fn batch_ended(&mut self, _ended_ns: u64, _end: u64) {}

    /// Called when the host has taken the first `taken` bytes of that stream, the last of them at this time
    /// (monotonic ns).
    fn sent(&mut self, _taken: u64, _at_ns: u64) {}

    /// The method by which the data of large reads is sent. None if there is no choice.
    fn transfer(&self) -> Option<&Transfer> {
        None
    }

    /// Called exactly once, when the transport connection is gone. Nothing can be sent any more.
    fn on_close(&mut self, now: Now);
}

/// The meaning of the first four bytes of a transport record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPrefix {
    /// A message of this many bytes follows, or the last fragment of one.
    Message(usize),
    /// A fragment of this many bytes follows, and the message continues in the next record.
    Fragment(usize),
    /// This many bytes are to be skipped (a keep-alive).
    Skip(usize),
    /// Not this protocol, or longer than allowed: close the connection.
    Hostile,
}

/// A protocol that is served. It parses record prefixes and starts a conversation for each connection.
pub trait Service: Send + Sync + 'static {
    /// Its state machine.
    type Conversation: Conversation;

    /// Parses the four bytes before each record.
    fn record(&self, prefix: [u8; 4]) -> RecordPrefix;

    /// Starts the conversation of a new connection. None refuses the connection (too many).
    fn accept(
        &self,
        peer: Peer,
        mailbox: Arc<dyn Mailbox<<Self::Conversation as Conversation>::Event>>,
        now: Now,
    ) -> Option<Self::Conversation>;

    /// Called once for each batch, before its first message. This is the place to take in changes from
    /// outside (changes on the host) before anything is answered from a cache.
    fn before_batch(&self, _now: Now) {}
}
