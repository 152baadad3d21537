//! Reads the frames of a connection: unseals them, checks their messages and passes the replies to the
//! waiters.

use std::ops::Range;
use std::sync::Arc;

use smb_wire::header::{Packet, SIZE, transform};
use smb_wire::{Header, Malformed, NtStatus};
use wire::limits::MAX_MESSAGE;

use super::{Smb, SmbTransport};
use crate::Error;
use crate::error::Result;
use crate::smb::buffer::Reply;
use crate::smb::protection::{ChannelKeys, Protection};
use crate::transport::{Message, PREFIX, Receiver};

/// The receiving end of a connection.
#[derive(Default)]
pub(super) struct SmbReceiver {
    /// The keys used last. A connection with one session, the usual case, needs no lookup.
    keys: Option<Arc<ChannelKeys>>,
}

/// The verdict on a message after a look at its entry.
enum Judged {
    /// No request of ours, or nobody waits for the reply any more.
    Dropped,
    /// The operation goes on.
    Interim,
    /// The final reply.
    Final,
}

impl Receiver<Smb> for SmbReceiver {
    fn length(prefix: [u8; PREFIX]) -> Result<usize> {
        // MS-SMB2 2.1
        if prefix[0] != 0 {
            return Err(Error::Protocol("a frame that does not begin with zero"));
        }
        let length = u32::from_be_bytes(prefix) as usize;
        if length > MAX_MESSAGE {
            return Err(Error::Protocol("a frame that is too long"));
        }
        Ok(length)
    }

    fn take(&mut self, link: &Arc<SmbTransport>, _: [u8; PREFIX], frame: &mut [u8]) -> Result<()> {
        let (messages, sealed_in) = self.unseal(link, frame)?;
        self.take_messages(link, &mut frame[messages], sealed_in)
    }

    fn take_large(
        &mut self,
        link: &Arc<SmbTransport>,
        _: [u8; PREFIX],
        mut buffer: Vec<u8>,
        length: usize,
    ) -> Result<()> {
        let (messages, sealed_in) = self.unseal(link, &mut buffer[..length])?;
        let only = Header::parse(&buffer[messages.clone()])?.next_command() == 0;
        if !only {
            return self.take_messages(link, &mut buffer[messages], sealed_in);
        }
        let message = &mut buffer[messages.clone()];
        let id = Header::parse(message)?.message_id();
        if let Judged::Final = self.judge(link, message, sealed_in)? {
            let reply = Reply::new(Message::new(buffer, messages, &link.buffers));
            complete(link, id, reply);
        }
        Ok(())
    }
}

impl SmbReceiver {
    /// Processes the messages of a frame, one after the other.
    fn take_messages(
        &mut self,
        link: &Arc<SmbTransport>,
        mut rest: &mut [u8],
        sealed_in: Option<u64>,
    ) -> Result<()> {
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
            if let Judged::Final = self.judge(link, message, sealed_in)? {
                let reply = Reply::new(Message::copy(message, &link.buffers));
                complete(link, id, reply);
            }
        }
        Ok(())
    }

    /// Returns the range of the messages in `frame`, and the session whose keys sealed them.
    fn unseal(&mut self, link: &SmbTransport, frame: &mut [u8]) -> Result<(Range<usize>, Option<u64>)> {
        match Packet::classify(frame) {
            Some(Packet::Smb2) => Ok((0..frame.len(), None)),
            Some(Packet::Transform) => {
                // MS-SMB2 3.2.5.1.1
                let session_id = transform::TransformHeader::parse(frame)?.0.session_id();
                let keys = self
                    .keys_of(link, session_id)
                    .ok_or(Error::Protocol("a sealed reply in an unknown session"))?;
                keys.open(frame)?;
                Ok((transform::SIZE..frame.len(), Some(session_id)))
            }
            _ => Err(Error::Protocol("a frame that is not one of SMB2")),
        }
    }

    fn keys_of(&mut self, link: &SmbTransport, session_id: u64) -> Option<Arc<ChannelKeys>> {
        if self.keys.as_ref().is_none_or(|keys| keys.session_id != session_id) {
            self.keys = link.channel(session_id);
        }
        self.keys.clone()
    }

    /// Checks a message against its request: its protection, and whether it is final. Accounts for the
    /// credits of an interim reply. The credits of a final reply are accounted for when it is completed.
    fn judge(&mut self, link: &SmbTransport, message: &mut [u8], sealed_in: Option<u64>) -> Result<Judged> {
        let header = Header::parse(message)?;
        if !header.is_response() {
            return Err(Error::Protocol("a request"));
        }
        let id = header.message_id();
        // MS-SMB2 3.2.5.19
        if id == u64::MAX {
            // The notice of an oplock or lease break. This client never asks for one.
            return Ok(Judged::Dropped);
        }
        let interim = header.is_async() && header.status() == NtStatus::PENDING;
        // MS-SMB2 3.3.5.2.9: a server that does not know the session does not have its key either. An
        // attacker on the path can end the session anyhow.
        let is_keyless = header.status() == NtStatus::USER_SESSION_DELETED;
        let (granted, is_signed) = (header.credits(), header.is_signed());
        let (protection, session_id) = {
            let mut state = link.lock();
            let state = &mut *state;
            let Some(entry) = state.entries.get_mut(&id) else { return Ok(Judged::Dropped) };
            if header.command() != entry.request.command {
                return Err(Error::Protocol("a reply with another command than its request"));
            }
            if entry.is_done() {
                return Err(Error::Protocol("a second reply to one request"));
            }
            if interim {
                // MS-SMB2 3.2.5.1.5
                state.own.credits.settle(0, std::mem::take(&mut entry.request.asked), granted);
            }
            (entry.request.protection, entry.request.session_id)
        };
        // MS-SMB2 3.2.5.1.3
        let is_sealed = sealed_in == Some(session_id);
        match protection {
            _ if is_sealed || (is_keyless && !is_signed) => {}
            Protection::Sealed => return Err(Error::Unprotected(header.command())),
            // It only says that the reply comes later.
            _ if interim => {}
            Protection::Binding => {}
            Protection::None if !is_signed => {}
            Protection::Signed | Protection::None => {
                match self.keys_of(link, session_id) {
                    Some(keys) => keys.verify(message)?,
                    None if protection == Protection::Signed => return Err(Error::WrongSignature),
                    // The last reply of a SESSION_SETUP. The session checks it when it has derived its keys.
                    None => {}
                }
            }
        }
        Ok(if interim { Judged::Interim } else { Judged::Final })
    }
}

/// Passes the reply to its waiter, and accounts for its credits.
fn complete(link: &SmbTransport, id: u64, reply: Reply) {
    let granted = reply.header().credits();
    link.complete(id, reply, |own, request| {
        let (charge, asked) = (std::mem::take(&mut request.charge), std::mem::take(&mut request.asked));
        own.credits.settle(charge, asked, granted);
    });
}
