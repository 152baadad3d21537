//! The contract between a protocol's state machine and the transport that carries it.
//!
//! A protocol is a plain object, a [`Conversation`]: messages, events and the time go in, frames and
//! jobs come out through [`Output`]. It owns no socket, starts no thread and reads no clock. The
//! transport (`net`) reads bytes, cuts them into messages, calls the conversation, writes what was
//! queued with one system call, and runs jobs that would block on a bounded pool.
//!
//! Nothing that outlives a transport connection may be owned by a conversation: it only carries bytes.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Frame, FramePool, Now, Transfer};

/// Both ends of a transport connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Our own address, as the client reached it.
    pub local: SocketAddr,
    /// The client's address.
    pub remote: SocketAddr,
}

/// Work that may block; it runs on the transport's pool, and its result comes back as an event.
pub type Job<E> = Box<dyn FnOnce() -> E + Send>;

/// A way to reach one conversation from anywhere: another connection, the engine, a job.
pub trait Mailbox<E>: Send + Sync {
    /// Hands `event` to the conversation on its own thread. False when the connection is gone; the
    /// event is lost then, and the caller tries another connection where that matters.
    fn post(&self, event: E) -> bool;

    /// The same for an event whose conversation is to tell its client of what the caller is about to answer: that
    /// leaves first, where it can leave at once. A transport that orders nothing may just post it.
    fn post_ahead(&self, event: E) -> bool {
        self.post(event)
    }
}

/// A question to the transport: whether the peer's host has acknowledged what was queued until now.
/// [`Conversation::on_receipt`] takes the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Tells this question from others.
    pub token: u64,
    /// How many of [`Output::frames`] it is about.
    pub frames: usize,
    /// When it is answered (monotonic ns).
    pub at_ns: u64,
}

/// What a conversation wants done after a call.
#[derive(Debug)]
pub struct Output<E> {
    /// Replies in the order in which they are to be sent, complete with the transport's prefix.
    pub frames: Vec<Frame>,
    /// Questions about the frames.
    pub receipts: Vec<Receipt>,
    /// Work for the blocking pool.
    pub jobs: Vec<JobSlot<E>>,
    /// Buffers for new frames.
    pub pool: FramePool,
    /// Send what is queued, then close the connection.
    pub close: bool,
    /// Connections of one client share this key; the transport spreads them over its workers.
    pub placement: Option<u128>,
}

/// A [`Job`] in a list; its own type so that [`Output`] can be printed.
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
    /// Asks to be told at `at_ns` whether everything that is queued now has arrived at the peer's host.
    pub fn ask_receipt(&mut self, token: u64, at_ns: u64) {
        self.receipts.push(Receipt { token, frames: self.frames.len(), at_ns });
    }

    /// Queues work for the blocking pool.
    pub fn run(&mut self, job: impl FnOnce() -> E + Send + 'static) {
        self.jobs.push(JobSlot(Box::new(job)));
    }
}

/// For whom a connection works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Principal {
    /// For the host that it comes from.
    Host,
    /// For a user, wherever the user is: the same number says that it is the same one.
    User(u64),
}

/// One connection's protocol state machine.
pub trait Conversation: Send + 'static {
    /// What reaches it besides messages: results of jobs, breaks, wake-ups, orders to end.
    type Event: Send + 'static;

    /// Answers one whole message (without the transport's prefix). It may be changed in place, since
    /// that is how a sealed message is opened.
    fn on_message(&mut self, message: &mut [u8], now: Now, out: &mut Output<Self::Event>);

    /// Takes an event.
    fn on_event(&mut self, event: Self::Event, now: Now, out: &mut Output<Self::Event>);

    /// Whether an event is taken also while the client takes no replies: others wait for what comes of it, and it is
    /// answered with next to nothing.
    fn is_urgent(&self, _event: &Self::Event) -> bool {
        false
    }

    /// The longest message that is taken now, in bytes. A client that has proved nothing yet need not be
    /// given room for the largest.
    fn max_message(&self) -> usize {
        crate::limits::MAX_MESSAGE
    }

    /// Whether a message longer than [`Conversation::max_message`] is taken all the same, of which `head` is the beginning:
    /// [`crate::limits::HEAD`] bytes at most. Nothing else of it is held before that is answered.
    fn vouches_for(&self, _head: &[u8]) -> bool {
        false
    }

    /// Whether the client has proved that it may be here, or that it is somebody known. One that has not is given less of
    /// everything.
    fn is_proved(&self) -> bool {
        true
    }

    /// For whom it works, once that is known. While processors are short, clients of one principal count as one, and those that are
    /// not known yet have to wait for the others.
    fn principal(&self) -> Option<Principal> {
        self.is_proved().then_some(Principal::Host)
    }

    /// Bytes that the conversation itself keeps, for requests that wait.
    fn holds(&self) -> usize {
        0
    }

    /// Bytes that an event keeps besides itself.
    fn event_bytes(&self, _event: &Self::Event) -> usize {
        0
    }

    /// Monotonic time (ns) at which [`Conversation::on_deadline`] wants to be called; none when idle.
    fn deadline(&self) -> Option<u64>;

    /// The deadline has passed.
    fn on_deadline(&mut self, now: Now, out: &mut Output<Self::Event>);

    /// Answers [`Output::ask_receipt`], once for each question. `arrived`
    /// says that the peer's host has acknowledged the bytes, not that the peer has read them. A connection
    /// that ends before answers no more questions: then [`Conversation::on_close`] tells.
    fn on_receipt(&mut self, _token: u64, _arrived: bool, _now: Now, _out: &mut Output<Self::Event>) {}

    /// What was queued leaves next: the place to write at once what all the answers of a batch promise.
    fn before_leaving(&mut self) {}

    /// A turn has ended: at this time (monotonic ns), and what it has put out ends at `end` in the stream of all that this
    /// connection sends, in bytes.
    fn turned(&mut self, _ended_ns: u64, _end: u64) {}

    /// The host has taken the first `taken` bytes of that stream, the last of them at this time (monotonic ns).
    fn sent(&mut self, _taken: u64, _at_ns: u64) {}

    /// How the data of its large reads leaves; none where there is no choice.
    fn transfer(&self) -> Option<&Transfer> {
        None
    }

    /// The transport connection is gone; nothing can be sent any more. Called exactly once.
    fn on_close(&mut self, now: Now);
}

/// What the first four bytes of a transport record say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPrefix {
    /// A message of this many bytes follows, or the last so many of one that came in fragments.
    Message(usize),
    /// So many bytes of a message follow, and it goes on in the next record.
    Fragment(usize),
    /// Bytes to pass over (a keep-alive).
    Skip(usize),
    /// Not this protocol, or longer than allowed: close.
    Hostile,
}

/// A protocol on offer: cuts records and starts a conversation for each connection.
pub trait Service: Send + Sync + 'static {
    /// Its state machine.
    type Conversation: Conversation;

    /// Reads the four bytes in front of each record.
    fn record(&self, prefix: [u8; 4]) -> RecordPrefix;

    /// A new connection. None refuses it (too many).
    fn accept(
        &self,
        peer: Peer,
        mailbox: Arc<dyn Mailbox<<Self::Conversation as Conversation>::Event>>,
        now: Now,
    ) -> Option<Self::Conversation>;

    /// Called once for each batch before its first message: the place to take in what happened
    /// outside (changes on the host) before anything is answered from a cache.
    fn before_batch(&self, _now: Now) {}
}
