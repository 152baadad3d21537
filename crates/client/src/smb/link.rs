//! The inside of a connection: pending requests, queued frames and waiters.
//!
//! [`SmbTransport::send`] takes the credits of a request, assigns its message IDs and an entry in the table,
//! writes it into a frame of its own, protects it and queues it. From then on [`crate::transport`] carries
//! it. [`reader`] checks the received messages and completes the entries.

mod reader;

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use smb_wire::header::{self, Flags, transform};
use smb_wire::{FileId, Header, SmbCommand, echo};
use wire::frame::Frame;

use crate::Error;
use crate::error::Result;
use crate::smb::buffer::Reply;
use crate::smb::credits::{CreditOutcome, Credits};
use crate::smb::negotiate::CREDIT;
use crate::smb::protection::{ChannelKeys, Protection};
use crate::transport::{PREFIX, Pending, Protocol, Tasks, Transport, UnfetchedRequest};

/// One request of a frame.
#[derive(Clone, Copy)]
pub(crate) struct FrameRequest<'a> {
    pub(crate) command: SmbCommand,
    /// The larger of the payload sent and the payload that may be returned, in bytes.
    pub(crate) payload: u32,
    /// Appends the body.
    pub(crate) body: &'a (dyn Fn(&mut Vec<u8>) + Sync),
}

/// Checks that the server is alive.
pub(crate) const ECHO: FrameRequest<'static> =
    FrameRequest { command: SmbCommand::Echo, payload: 0, body: &|out| echo::Request.write(out) };

/// The common fields of the requests of a frame.
#[derive(Clone, Copy)]
pub(crate) struct Envelope<'a> {
    pub(crate) session_id: u64,
    pub(crate) tree_id: u32,
    pub(crate) protection: Protection,
    /// Required if there is any protection.
    pub(crate) keys: Option<&'a ChannelKeys>,
    /// The number of channels that the session has lost. It is zero before 3.0 (MS-SMB2 3.2.1.3).
    pub(crate) channel_sequence: u16,
    /// Whether the server may have carried out the requests already, on a lost channel.
    pub(crate) is_replay: bool,
}

impl Envelope<'_> {
    /// The envelope of messages outside of a session.
    pub(crate) const PLAIN: Envelope<'static> = Envelope {
        session_id: 0,
        tree_id: 0,
        protection: Protection::None,
        keys: None,
        channel_sequence: 0,
        is_replay: false,
    };
}

/// The protocol SMB on a connection.
#[derive(Debug)]
pub(crate) struct Smb;

/// A connection that carries SMB. A zero byte and a 24-bit length precede each frame (MS-SMB2 2.1).
pub(crate) type SmbTransport = Transport<Smb>;

/// The data of a pending request.
#[derive(Debug)]
pub(crate) struct SmbRequest {
    command: SmbCommand,
    charge: u16,
    asked: u16,
    protection: Protection,
    session_id: u64,
}

/// The data under the lock of a connection.
#[derive(Debug)]
pub(crate) struct LinkState {
    credits: Credits,
    next_message_id: u64,
    channels: Vec<(u64, Weak<ChannelKeys>)>,
}

/// The data beside the lock.
#[derive(Debug, Default)]
pub(crate) struct LinkSettings {
    /// Whether requests carry a credit charge: dialect 2.1 and later with large MTU.
    multi_credit: AtomicBool,
}

impl Protocol for Smb {
    type Unlocked = LinkSettings;
    type LinkState = LinkState;
    type Request = SmbRequest;
    type Reply = Reply;

    fn ended(own: &mut LinkState) {
        own.credits.wake_all();
    }

    async fn ask(link: &Arc<SmbTransport>) {
        // A failure ends the connection now or later.
        let _asked = link.send(Envelope::PLAIN, [ECHO], None).await;
    }
}

impl SmbTransport {
    /// Starts a link over `stream` and its tasks.
    pub(crate) fn start(
        stream: tokio::net::TcpStream,
        credits: u16,
        silence: Duration,
    ) -> (Arc<SmbTransport>, Tasks) {
        let own = LinkState { credits: Credits::new(credits), next_message_id: 0, channels: Vec::new() };
        Transport::begin(stream, own, reader::SmbReceiver::default(), silence)
    }

    /// Allows requests of more than 64 KiB to take more than one credit.
    pub(crate) fn allow_multi_credit(&self) {
        self.shared.multi_credit.store(true, Ordering::Relaxed);
    }

    /// The granted credits, including used ones.
    pub(crate) fn credits(&self) -> u32 {
        self.lock().own.credits.granted()
    }

    /// The most credits that the server grants at once, if it was asked for more in vain.
    pub(crate) fn most_credits(&self) -> Option<u32> {
        self.lock().own.credits.most()
    }

    /// Registers the keys that check and unseal the replies to a session.
    pub(crate) fn add_channel(&self, keys: &Arc<ChannelKeys>) {
        let mut state = self.lock();
        state.own.channels.retain(|(_, keys)| keys.strong_count() > 0);
        state.own.channels.push((keys.session_id, Arc::downgrade(keys)));
    }

    fn channel(&self, session_id: u64) -> Option<Arc<ChannelKeys>> {
        let state = self.lock();
        state.own.channels.iter().find(|(id, _)| *id == session_id).and_then(|(_, keys)| keys.upgrade())
    }

    /// Sends one frame with the requests of `parts`. Several requests are related. The messages before
    /// sealing are appended to `kept`.
    ///
    /// Servers may grant the requested credits little by little. Windows before 2016 grants 32 credits at a
    /// time. When no pending request brings more, as with the first large request, an ECHO asks for them.
    ///
    /// # Errors
    /// The error that ended the link, or [`Error::Credits`] when no more credits come. Later
    /// requests then fail at once, until the server grants more.
    pub(crate) async fn send<const N: usize>(
        self: &Arc<Self>,
        envelope: Envelope<'_>,
        parts: [FrameRequest<'_>; N],
        mut kept: Option<&mut Vec<u8>>,
    ) -> Result<[Pending<Smb>; N]> {
        let mut before = None;
        loop {
            match self.send_now(envelope, parts, kept.as_deref_mut()).await {
                Err(Error::Credits { needed, granted }) if granted > 0 => {
                    let in_vain = before.is_some_and(|before| granted <= before);
                    if self.lock().own.credits.is_bound(granted, in_vain) {
                        return Err(Error::Credits { needed, granted });
                    }
                    before = Some(granted);
                    let [asked] = self.send_now(Envelope::PLAIN, [ECHO], None).await?;
                    asked.await?;
                }
                sent => return sent,
            }
        }
    }

    /// Does the same with the present and coming credits.
    async fn send_now<const N: usize>(
        self: &Arc<Self>,
        envelope: Envelope<'_>,
        parts: [FrameRequest<'_>; N],
        kept: Option<&mut Vec<u8>>,
    ) -> Result<[Pending<Smb>; N]> {
        if envelope.protection == Protection::Sealed && !envelope.keys.is_some_and(ChannelKeys::can_seal) {
            return Err(Error::NotOffered("encryption"));
        }
        let multi_credit = self.shared.multi_credit.load(Ordering::Relaxed);
        let charges = parts.map(|part| if multi_credit { charge(part.payload) } else { 1 });
        let (mut frame, first_id, asks) = self.admit(&envelope, &parts, &charges).await?;
        // Nothing is awaited from here on, so the new entries will be answered or fail.
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
        parts: &[FrameRequest<'_>; N],
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
            let ask = match state.own.credits.take(total, waiting.ticket, context.waker()) {
                CreditOutcome::Ask(ask) => ask,
                CreditOutcome::Wait(ticket) => {
                    waiting.ticket = Some(ticket);
                    return Poll::Pending;
                }
                CreditOutcome::Starved(granted) => {
                    waiting.ticket = None;
                    return Poll::Ready(Err(Error::Credits { needed: total, granted }));
                }
            };
            waiting.ticket = None;
            let asks = spread(ask, charges);
            let first_id = state.own.next_message_id;
            for at in 0..N {
                let entry = UnfetchedRequest::new(SmbRequest {
                    command: parts[at].command,
                    charge: charges[at],
                    asked: asks[at],
                    protection: envelope.protection,
                    session_id: envelope.session_id,
                });
                state.entries.insert(state.own.next_message_id, entry);
                state.own.next_message_id += u64::from(charges[at]);
            }
            // The data that a body itself sends is at most its payload, and often empty.
            let size = parts.iter().map(|part| 256 + sent(part)).sum();
            Poll::Ready(Ok((state.frames.take(size), first_id, asks)))
        })
        .await
    }
}

/// A place in the queue for credits. It is given up when the request is dropped.
struct Waiting<'a> {
    link: &'a SmbTransport,
    ticket: Option<u64>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.link.lock().own.credits.forget(ticket);
        }
    }
}

/// CreditCharge for a payload (MS-SMB2 3.1.5.2).
pub(crate) fn charge(payload: u32) -> u16 {
    (payload.saturating_sub(1) / CREDIT + 1) as u16
}

/// The bytes that a request itself carries, for the choice of a buffer.
fn sent(part: &FrameRequest<'_>) -> usize {
    match part.command {
        SmbCommand::Write | SmbCommand::SetInfo => part.payload as usize,
        _ => 0,
    }
}

/// The credits to ask for in each message: its charge, and in the first message also the rest.
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

/// Writes the messages of a frame, and signs them if required.
fn encode<const N: usize>(
    frame: &mut Frame,
    first_id: u64,
    envelope: &Envelope<'_>,
    parts: &[FrameRequest<'_>; N],
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
        header.set_channel_sequence(envelope.channel_sequence);
        if at > 0 {
            // MS-SMB2 3.2.4.1.4
            header.set_flags(header.flags() | Flags::RELATED_OPERATIONS);
            if parts[0].command == SmbCommand::TreeConnect {
                // The tree ID is not known yet. All bits set stand for the result of the first request
                // (MS-SMB2 3.3.5.2.7.2).
                header.set_tree_id(u32::MAX);
            }
        }
        if envelope.is_replay && is_told_as_replay(parts[at].command) {
            // MS-SMB2 3.2.7.1
            header.set_flags(header.flags() | Flags::REPLAY_OPERATION);
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
            if let Some(header_bytes) = frame.bytes_mut()[start..].first_chunk_mut::<{ header::SIZE }>() {
                header.write(header_bytes);
            }
        }
        if let (Protection::Signed | Protection::Binding, Some(keys)) = (envelope.protection, envelope.keys) {
            keys.sign(&mut frame.bytes_mut()[start..]);
        }
    }
}

/// Whether the server compares a replay of this command with its earlier work: CREATE by its CreateGuid, the
/// others by the channel sequence (MS-SMB2 3.3.5.2.10). Every other command is simply sent again.
fn is_told_as_replay(command: SmbCommand) -> bool {
    matches!(command, SmbCommand::Create | SmbCommand::Write | SmbCommand::SetInfo | SmbCommand::Ioctl)
}

/// In a related request, the open of the previous request.
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
