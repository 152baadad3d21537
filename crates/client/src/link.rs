//! The inside of a connection: what is under way, what is to be written, and who waits for what.
//!
//! A request goes through [`Link::send`]: it takes its credits, gets its message ids and an entry in the
//! table, is written into a frame of its own, protected, and queued. [`writer`] writes all that is queued with
//! one system call; [`reader`] splits what comes in and completes the entries. The locks are held for a few
//! table operations only: neither cryptography nor copying happens under them.

mod pending;
mod reader;
mod writer;

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};

use smb_wire::header::{self, Flags, transform};
use smb_wire::{Command, FileId, Header};
use tokio::sync::Notify;
use wire::frame::{Frame, FramePool};

use crate::buffer::{Buffers, Reply};
use crate::credits::{Credits, Taken};
use crate::protection::{ChannelKeys, Protection};
use crate::{Error, Result};

pub(crate) use pending::Pending;

/// The prefix of a frame on TCP: a zero byte and a 24-bit length (MS-SMB2 2.1).
const PREFIX: usize = 4;

/// One request of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) command: Command,
    /// The larger of what is sent and what may be answered, in bytes.
    pub(crate) payload: u32,
    /// Appends the body.
    pub(crate) body: &'a (dyn Fn(&mut Vec<u8>) + Sync),
}

/// What the requests of a frame have in common.
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'a> {
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) protection: Protection,
    /// Needed where there is any protection.
    pub(crate) keys: Option<&'a ChannelKeys>,
}

impl Envelope<'_> {
    /// That of messages before there is a session.
    pub(crate) const PLAIN: Envelope<'static> =
        Envelope { session_id: 0, tree_id: 0, protection: Protection::None, keys: None };
}

/// A request whose reply has not been fetched.
#[derive(Debug)]
struct Entry {
    state: EntryState,
    command: Command,
    charge: u16,
    asked: u16,
    protection: Protection,
    session_id: u64,
}

#[derive(Debug)]
enum EntryState {
    /// No final reply yet.
    Waiting(Option<Waker>),
    /// Nobody waits any more.
    Abandoned,
    /// The reply has come.
    Done(Reply),
}

/// Spreads message ids, which are consecutive numbers, over the table.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only message ids are hashed");
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[derive(Debug)]
struct State {
    credits: Credits,
    next_message_id: u64,
    entries: HashMap<u64, Entry, BuildHasherDefault<IdHasher>>,
    outbox: VecDeque<Frame>,
    frames: FramePool,
    channels: Vec<(u64, Weak<ChannelKeys>)>,
    failed: Option<Error>,
}

/// The shared part of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    state: Mutex<State>,
    written: Notify,
    buffers: Arc<Buffers>,
    /// Whether requests carry a credit charge: dialect 2.1 and later with large MTU.
    multi_credit: AtomicBool,
}

impl Link {
    /// A link over `stream`, and the tasks that serve it.
    pub(crate) fn start(
        stream: tokio::net::TcpStream,
        credits: u16,
    ) -> (Arc<Link>, [tokio::task::AbortHandle; 2]) {
        let link = Arc::new(Link {
            state: Mutex::new(State {
                credits: Credits::new(credits),
                next_message_id: 0,
                entries: HashMap::default(),
                outbox: VecDeque::new(),
                frames: FramePool::default(),
                channels: Vec::new(),
                failed: None,
            }),
            written: Notify::new(),
            buffers: Arc::default(),
            multi_credit: AtomicBool::new(false),
        });
        let (read, write) = stream.into_split();
        let reader = tokio::spawn(reader::run(Arc::clone(&link), read));
        let writer = tokio::spawn(writer::run(Arc::clone(&link), write));
        (link, [reader.abort_handle(), writer.abort_handle()])
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets requests of more than 64 KiB take more than one credit.
    pub(crate) fn allow_multi_credit(&self) {
        self.multi_credit.store(true, Ordering::Relaxed);
    }

    /// Makes the keys known with which replies to a session are checked and opened.
    pub(crate) fn add_channel(&self, keys: &Arc<ChannelKeys>) {
        let mut state = self.lock();
        state.channels.retain(|(_, keys)| keys.strong_count() > 0);
        state.channels.push((keys.session_id, Arc::downgrade(keys)));
    }

    fn channel(&self, session_id: u64) -> Option<Arc<ChannelKeys>> {
        let state = self.lock();
        state.channels.iter().find(|(id, _)| *id == session_id).and_then(|(_, keys)| keys.upgrade())
    }

    /// Ends the link: every request, now and later, fails with `error`.
    fn fail(&self, error: Error) {
        let mut state = self.lock();
        if state.failed.is_some() {
            return;
        }
        state.failed = Some(error);
        state.credits.wake_all();
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
        drop(state);
        self.written.notify_one();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sends one frame with the requests of `parts`, related to one another when there are several. The
    /// messages as they were before being sealed are appended to `kept`.
    ///
    /// # Errors
    /// What ended the link, or [`Error::Credits`].
    pub(crate) async fn send<const N: usize>(
        self: &Arc<Self>,
        envelope: Envelope<'_>,
        parts: [Part<'_>; N],
        kept: Option<&mut Vec<u8>>,
    ) -> Result<[Pending; N]> {
        if envelope.protection == Protection::Sealed && !envelope.keys.is_some_and(ChannelKeys::can_seal) {
            return Err(Error::NotOffered("encryption"));
        }
        let multi_credit = self.multi_credit.load(Ordering::Relaxed);
        let charges = parts.map(|part| if multi_credit { charge(part.payload) } else { 1 });
        let (mut frame, first_id, asks) = self.admit(&envelope, &parts, &charges).await?;
        // From here on nothing is awaited, so the entries that were made will be answered or fail.
        let mut next_id = first_id;
        let pending = std::array::from_fn(|at| {
            let id = next_id;
            next_id += u64::from(charges[at]);
            Pending::new(Arc::clone(self), id)
        });
        encode(&mut frame, first_id, &envelope, &parts, &charges, &asks, multi_credit);
        if let Some(kept) = kept {
            kept.extend_from_slice(frame.bytes());
        }
        if let (Protection::Sealed, Some(keys)) = (envelope.protection, envelope.keys) {
            frame.prepend(transform::SIZE);
            keys.seal(frame.bytes_mut())?;
        }
        let length = frame.len() as u32;
        frame.prepend(PREFIX).copy_from_slice(&length.to_be_bytes());
        self.post(frame)?;
        Ok(pending)
    }

    /// Waits for credits, then makes the entries and takes a frame.
    async fn admit<const N: usize>(
        &self,
        envelope: &Envelope<'_>,
        parts: &[Part<'_>; N],
        charges: &[u16; N],
    ) -> Result<(Frame, u64, [u16; N])> {
        let total: u16 = charges.iter().fold(0, |sum, charge| sum.saturating_add(*charge));
        let mut waiting = Waiting { link: self, ticket: None };
        poll_fn(|context| {
            let mut guard = self.lock();
            let state = &mut *guard;
            if let Some(error) = &state.failed {
                return Poll::Ready(Err(error.clone()));
            }
            let ask = match state.credits.take(total, waiting.ticket, context.waker()) {
                Taken::Ask(ask) => ask,
                Taken::Wait(ticket) => {
                    waiting.ticket = Some(ticket);
                    return Poll::Pending;
                }
                Taken::Starved(granted) => {
                    waiting.ticket = None;
                    return Poll::Ready(Err(Error::Credits { needed: total, granted }));
                }
            };
            waiting.ticket = None;
            let asks = spread(ask, charges);
            let first_id = state.next_message_id;
            for at in 0..N {
                let entry = Entry {
                    state: EntryState::Waiting(None),
                    command: parts[at].command,
                    charge: charges[at],
                    asked: asks[at],
                    protection: envelope.protection,
                    session_id: envelope.session_id,
                };
                state.entries.insert(state.next_message_id, entry);
                state.next_message_id += u64::from(charges[at]);
            }
            // What a body sends of its own is at most its payload, and often nothing.
            let size = parts.iter().map(|part| 256 + sent(part)).sum();
            Poll::Ready(Ok((state.frames.take(size), first_id, asks)))
        })
        .await
    }

    /// Queues a frame; the first one calls the writer.
    fn post(&self, frame: Frame) -> Result<()> {
        let mut state = self.lock();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let was_empty = state.outbox.is_empty();
        state.outbox.push_back(frame);
        drop(state);
        if was_empty {
            self.written.notify_one();
        }
        Ok(())
    }
}

/// A place in the queue for credits, given up when the request is dropped.
struct Waiting<'a> {
    link: &'a Link,
    ticket: Option<u64>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.link.lock().credits.forget(ticket);
        }
    }
}

/// CreditCharge for a payload (MS-SMB2 3.1.5.2).
pub(crate) fn charge(payload: u32) -> u16 {
    (payload.saturating_sub(1) / 65536 + 1) as u16
}

/// Bytes that a request itself carries, as far as they matter for the choice of a buffer.
fn sent(part: &Part<'_>) -> usize {
    match part.command {
        Command::Write | Command::SetInfo => part.payload as usize,
        _ => 0,
    }
}

/// The credits to ask for in each message: what it is charged, and what is missing beyond that in the first.
fn spread<const N: usize>(ask: u16, charges: &[u16; N]) -> [u16; N] {
    let mut left = ask;
    let mut asks = [0; N];
    for at in (1..N).rev() {
        asks[at] = charges[at].min(left);
        left -= asks[at];
    }
    asks[0] = left;
    asks
}

/// Writes the messages of a frame, and signs them where they are signed.
fn encode<const N: usize>(
    frame: &mut Frame,
    first_id: u64,
    envelope: &Envelope<'_>,
    parts: &[Part<'_>; N],
    charges: &[u16; N],
    asks: &[u16; N],
    multi_credit: bool,
) {
    let mut id = first_id;
    for at in 0..N {
        let start = frame.len();
        let mut header = Header::request(parts[at].command, id);
        header.set_credit_charge(if multi_credit { charges[at] } else { 0 });
        header.set_credits(asks[at]);
        header.set_session_id(envelope.session_id);
        header.set_tree_id(envelope.tree_id);
        if at > 0 {
            // MS-SMB2 3.2.4.1.4
            header.set_flags(header.flags() | Flags::RELATED_OPERATIONS);
        }
        header.push(frame.tail());
        (parts[at].body)(frame.tail());
        id += u64::from(charges[at]);
        if at + 1 < N {
            let end = frame.len().next_multiple_of(8);
            let padding = end - frame.len();
            let tail = frame.tail();
            tail.resize(tail.len() + padding, 0);
            header.set_next_command((end - start) as u32);
            if let Some(place) = frame.bytes_mut()[start..].first_chunk_mut::<{ header::SIZE }>() {
                header.write(place);
            }
        }
        if let (Protection::Signed, Some(keys)) = (envelope.protection, envelope.keys) {
            keys.sign(&mut frame.bytes_mut()[start..]);
        }
    }
}

/// In a related request, the open that the request before it made.
pub(crate) const RELATED: FileId = FileId::RELATED;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_covers_its_payload_in_steps_of_64_kib() {
        let charges = [0, 1, 65536, 65537, 1 << 20, 8 << 20].map(charge);
        assert_eq!(charges, [1, 1, 1, 2, 16, 128]);
    }

    #[test]
    fn a_compound_asks_for_what_each_message_costs_and_the_rest_in_the_first() {
        assert_eq!(spread(40, &[1, 16, 1]), [23, 16, 1]);
        assert_eq!(spread(3, &[1, 16, 1]), [0, 2, 1]);
        assert_eq!(spread(5, &[9]), [5]);
    }
}
