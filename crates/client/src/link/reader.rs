//! Reads the socket, splits what comes into messages, checks them and hands them to who waits.
//!
//! Small frames come many at a time into one buffer and are copied out of it; a frame that is larger than
//! [`LARGE`] is read straight into the buffer in which its reply will be handed over.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use smb_wire::header::{Packet, SIZE, transform};
use smb_wire::{Header, Malformed, NtStatus};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use wire::limits::MAX_MESSAGE;

use super::{EntryState, Link, PREFIX};
use crate::buffer::Reply;
use crate::protection::{ChannelKeys, Protection};
use crate::{Error, Result};

/// Bytes that are read at once.
const HELD: usize = 256 * 1024;
/// Frames from this size on are not copied.
const LARGE: usize = 32 * 1024;
/// How much is read at once while large frames come: enough to see how long the next one is.
const PEEK: usize = 128;

/// Runs until the connection ends, which fails all requests.
pub(super) async fn run(link: Arc<Link>, socket: OwnedReadHalf) {
    let mut reader = Reader { held: link.buffers.take(HELD), filled: 0..0, keys: None, link, socket };
    let error = match reader.read().await {
        Ok(()) => Error::Closed,
        Err(error) => error,
    };
    reader.link.fail(error);
}

struct Reader {
    link: Arc<Link>,
    socket: OwnedReadHalf,
    held: Vec<u8>,
    /// The part of `held` that has not been dealt with.
    filled: Range<usize>,
    /// The keys that were used last, so that the usual connection with one session looks nothing up.
    keys: Option<Arc<ChannelKeys>>,
}

/// What is known of a message after a look at its entry.
enum Judged {
    /// Nobody asked for it, or nobody wants it.
    Dropped,
    /// The operation goes on.
    Interim,
    /// This is the answer.
    Final,
}

impl Reader {
    /// Reads until the server closes the connection between two frames.
    async fn read(&mut self) -> Result<()> {
        let mut peeking = false;
        loop {
            while let Some(length) = self.next_length()? {
                let there = self.filled.len() - PREFIX;
                if there >= length {
                    let start = self.filled.start + PREFIX;
                    self.filled.start = start + length;
                    self.take_held(start..start + length)?;
                    peeking = false;
                } else if length >= LARGE {
                    self.read_large(length).await?;
                    peeking = true;
                } else {
                    break;
                }
            }
            if !self.fill(peeking).await? {
                return Ok(());
            }
        }
    }

    /// The length of the frame that begins next, once its prefix is there.
    fn next_length(&self) -> Result<Option<usize>> {
        // MS-SMB2 2.1
        let Some(prefix) = self.held[self.filled.clone()].first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        if prefix[0] != 0 {
            return Err(Error::Protocol("a frame that does not begin with zero"));
        }
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > MAX_MESSAGE {
            return Err(Error::Protocol("a frame that is too long"));
        }
        Ok(Some(length))
    }

    /// Reads what is there. False when the connection has ended.
    async fn fill(&mut self, peeking: bool) -> Result<bool> {
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.filled.start > 0 {
            self.held.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let end = self.held.len().min(if peeking { PEEK.max(self.filled.end + 1) } else { usize::MAX });
        let count = self.socket.read(&mut self.held[self.filled.end..end]).await?;
        self.filled.end += count;
        if count == 0 && !self.filled.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(count > 0)
    }

    /// Reads a frame of `length` bytes into a buffer of its own. Some of it is there already.
    async fn read_large(&mut self, length: usize) -> Result<()> {
        let mut buffer = self.link.buffers.take(length);
        let there = &self.held[self.filled.start + PREFIX..self.filled.end];
        buffer[..there.len()].copy_from_slice(there);
        let there = there.len();
        self.filled = 0..0;
        self.socket.read_exact(&mut buffer[there..length]).await?;
        let (messages, sealed_in) = self.unseal(&mut buffer[..length])?;
        let only = Header::parse(&buffer[messages.clone()])?.next_command() == 0;
        if !only {
            return self.take_messages(&mut buffer[messages], sealed_in);
        }
        let message = &mut buffer[messages.clone()];
        let id = Header::parse(message)?.message_id();
        if let Judged::Final = self.judge(message, sealed_in)? {
            let reply = Reply::new(buffer, messages, &self.link.buffers);
            self.complete(id, reply);
        }
        Ok(())
    }

    /// Deals with a frame that lies in `held`.
    fn take_held(&mut self, frame: Range<usize>) -> Result<()> {
        let mut held = std::mem::take(&mut self.held);
        let dealt = self
            .unseal(&mut held[frame.clone()])
            .and_then(|(messages, sealed_in)| self.take_messages(&mut held[frame][messages], sealed_in));
        self.held = held;
        dealt
    }

    /// Deals with the messages of a frame, one after the other.
    fn take_messages(&mut self, mut rest: &mut [u8], sealed_in: Option<u64>) -> Result<()> {
        while !rest.is_empty() {
            let header = Header::parse(rest)?;
            let id = header.message_id();
            let next = header.next_command() as usize;
            // MS-SMB2 3.2.5.1.9
            if next != 0 && (next < SIZE || !next.is_multiple_of(8) || next >= rest.len()) {
                return Err(Malformed::new("SMB2 header", "NextCommand").into());
            }
            let length = if next == 0 { rest.len() } else { next };
            let (message, behind) = rest.split_at_mut(length);
            rest = behind;
            if let Judged::Final = self.judge(message, sealed_in)? {
                let reply = Reply::copy(message, &self.link.buffers);
                self.complete(id, reply);
            }
        }
        Ok(())
    }

    /// Where the messages lie in `frame`, and the session in whose name they are sealed.
    fn unseal(&mut self, frame: &mut [u8]) -> Result<(Range<usize>, Option<u64>)> {
        match Packet::classify(frame) {
            Some(Packet::Smb2) => Ok((0..frame.len(), None)),
            Some(Packet::Transform) => {
                // MS-SMB2 3.2.5.1.1
                let session_id = transform::TransformHeader::parse(frame)?.0.session_id();
                let keys = self
                    .keys_of(session_id)
                    .ok_or(Error::Protocol("a sealed reply in an unknown session"))?;
                keys.open(frame)?;
                Ok((transform::SIZE..frame.len(), Some(session_id)))
            }
            _ => Err(Error::Protocol("a frame that is not one of SMB2")),
        }
    }

    fn keys_of(&mut self, session_id: u64) -> Option<Arc<ChannelKeys>> {
        if self.keys.as_ref().is_none_or(|keys| keys.session_id != session_id) {
            self.keys = self.link.channel(session_id);
        }
        self.keys.clone()
    }

    /// Holds a message against its request: is it protected as it must be, and is it final? Books the credits
    /// of an interim reply; those of a final one are booked when it is completed.
    fn judge(&mut self, message: &mut [u8], sealed_in: Option<u64>) -> Result<Judged> {
        let header = Header::parse(message)?;
        if !header.is_response() {
            return Err(Error::Protocol("a request"));
        }
        let id = header.message_id();
        // MS-SMB2 3.2.5.19
        if id == u64::MAX {
            // A break of a caching right. This client never asks for one.
            return Ok(Judged::Dropped);
        }
        let interim = header.is_async() && header.status() == NtStatus::PENDING;
        let (granted, is_signed) = (header.credits(), header.is_signed());
        let (protection, session_id) = {
            let mut state = self.link.lock();
            let state = &mut *state;
            let Some(entry) = state.entries.get_mut(&id) else { return Ok(Judged::Dropped) };
            if header.command() != entry.command {
                return Err(Error::Protocol("a reply with another command than its request"));
            }
            if matches!(entry.state, EntryState::Done(_)) {
                return Err(Error::Protocol("a second reply to one request"));
            }
            if interim {
                // MS-SMB2 3.2.5.1.5
                state.credits.settle(0, std::mem::take(&mut entry.asked), granted);
            }
            (entry.protection, entry.session_id)
        };
        // MS-SMB2 3.2.5.1.3
        let is_sealed = sealed_in == Some(session_id);
        match protection {
            _ if is_sealed => {}
            Protection::Sealed => return Err(Error::Unprotected(header.command())),
            // An interim reply need not be signed; it says nothing but that the answer comes later.
            Protection::Signed if interim && !is_signed => {}
            Protection::None if !is_signed => {}
            Protection::Signed | Protection::None => match self.keys_of(session_id) {
                Some(keys) => keys.verify(message)?,
                None if protection == Protection::Signed => return Err(Error::WrongSignature),
                // The last reply of a SESSION_SETUP: the session checks it when it has derived its keys.
                None => {}
            },
        }
        Ok(if interim { Judged::Interim } else { Judged::Final })
    }

    /// Hands the reply to who waits for it.
    fn complete(&self, id: u64, reply: Reply) {
        let granted = reply.header().credits();
        let mut guard = self.link.lock();
        let state = &mut *guard;
        let Some(entry) = state.entries.get_mut(&id) else { return };
        state.credits.settle(std::mem::take(&mut entry.charge), std::mem::take(&mut entry.asked), granted);
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
    }
}
