//! The replies to one frame. They are collected in one buffer, then chained, signed and sealed in place
//! (MS-SMB2 3.3.4.1).

use std::sync::Arc;

use auth::crypto::{GmacNonce, Signer};
use smallvec::SmallVec;
use smb_wire::header::transform::{self, TransformHeader};
use smb_wire::{FileId, Header, NtStatus, SmbCommand, header, read};
use wire::Frame;

use crate::limits::MAX_IO;
use crate::state::Session;
use crate::state::index::Claim;

/// The values that a related request inherits from the one before it (MS-SMB2 3.3.5.2.7.2).
#[derive(Debug, Clone, Copy, Default)]
pub struct Related {
    /// SessionId.
    pub session_id: u64,
    /// TreeId.
    pub tree_id: u32,
    /// FileId that the previous request created or used.
    pub file_id: Option<FileId>,
    /// The status of the previous request if it failed and created no Open.
    pub failed: Option<NtStatus>,
    /// Whether there was a previous request.
    pub any: bool,
    /// The first request of the frame claimed to be related. So all requests that are related to it are
    /// invalid.
    pub invalid: bool,
}

/// The key that signs a reply (MS-SMB2 3.3.4.1.1).
pub enum SigningKey<'a> {
    /// The key of the channel that carries the reply.
    Channel(&'a Signer),
    /// The key of the session, while a log-on or a binding is unfinished or has failed.
    Session(Arc<Session>),
}

impl SigningKey<'_> {
    fn signer(&self) -> Option<&Signer> {
        match self {
            SigningKey::Channel(signer) => Some(signer),
            SigningKey::Session(session) => {
                session.authenticated().map(|authenticated| &authenticated.signer)
            }
        }
    }
}

#[derive(Debug)]
struct ReplyEntry {
    at: usize,
    header: Header,
    signed: bool,
}

/// The replies to one frame.
#[derive(Debug, Default)]
pub struct Compound {
    /// Headers and bodies, one after the other.
    pub frame: Frame,
    entries: SmallVec<[ReplyEntry; 1]>,
    /// The values that the next request may inherit.
    pub related: Related,
    /// The session whose keys sealed the request. They seal the replies too.
    pub sealed_by: Option<u64>,
    /// The claim of a waiting CREATE.
    pub claim: Option<Claim>,
}

impl Compound {
    /// The replies to a frame. `sealed_by` is the session whose keys sealed it.
    pub fn new(frame: Frame, sealed_by: Option<u64>) -> Compound {
        Compound { frame, entries: SmallVec::new(), related: Related::default(), sealed_by, claim: None }
    }

    /// Makes space for a header and returns its position. The body is appended after it.
    pub fn begin(&mut self) -> usize {
        let at = self.next_header_at();
        let more = at - self.frame.len() + header::SIZE;
        let tail = self.frame.tail();
        tail.resize(tail.len() + more, 0);
        at
    }

    /// Removes the space from [`Compound::begin`] and everything after it.
    pub fn abandon(&mut self, len_before: usize) {
        self.frame.truncate(len_before);
    }

    /// Removes the body after the header at `at`.
    pub fn cut_body(&mut self, at: usize) {
        self.frame.truncate(at + header::SIZE);
    }

    /// The position of the next header. Replies begin at multiples of eight.
    fn next_header_at(&self) -> usize {
        self.frame.len().next_multiple_of(8)
    }

    /// Completes a reply with the header for position `at`.
    pub fn end(&mut self, at: usize, header: Header, signed: bool) {
        if let Some(last) = self.entries.last_mut() {
            last.header.set_next_command((at - last.at) as u32);
        }
        self.entries.push(ReplyEntry { at, header, signed });
    }

    /// The number of replies.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no reply.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether there is no reply, and none will be sealed.
    pub fn is_bare(&self) -> bool {
        self.entries.is_empty() && self.sealed_by.is_none()
    }

    /// Writes the headers and signs. `key` returns the key for a reply.
    pub fn write_headers<'a>(&mut self, key: impl Fn(&Header) -> Option<SigningKey<'a>>) {
        if self.entries.len() > 1 {
            // MS-SMB2 3.3.4.1.3: Windows pads the last reply of a compound like the others.
            let padding = self.next_header_at() - self.frame.len();
            let tail = self.frame.tail();
            tail.resize(tail.len() + padding, 0);
        }
        let bytes = self.frame.bytes_mut();
        let end = bytes.len();
        for entry in &mut self.entries {
            let next = entry.header.next_command() as usize;
            let stop = if next == 0 { end } else { entry.at + next };
            let message = &mut bytes[entry.at..stop];
            // A signature covers the message with the flag set and the signature field zero (MS-SMB2
            // 3.1.4.1).
            let key = if entry.signed { key(&entry.header) } else { None };
            let signer = key.as_ref().and_then(SigningKey::signer);
            if signer.is_some() {
                entry.header.set_flags(entry.header.flags() | header::Flags::SIGNED);
            }
            let Some(buffer) = message.first_chunk_mut() else { continue };
            entry.header.write(buffer);
            if let Some(signer) = signer {
                let signature = signer.sign(message, GmacNonce::response(entry.header.message_id()));
                message[header::SIZE - 16..header::SIZE].copy_from_slice(&signature);
            }
        }
    }

    /// Seals the replies if `sealing` is set, and prepends the transport's prefix.
    pub fn into_frame(mut self, sealing: Option<&Session>) -> Frame {
        if let Some(session) = sealing {
            seal(&mut self.frame, session);
        }
        prefix(&mut self.frame);
        self.frame
    }
}

/// Seals the content of the frame with the session's key (MS-SMB2 3.1.4.3).
pub fn seal(frame: &mut Frame, session: &Session) {
    let Some(seal) = session.authenticated().and_then(|authenticated| authenticated.seal.as_ref()) else {
        return;
    };
    let mut transform = TransformHeader::new(session.id, frame.len() as u32);
    let nonce = session.next_nonce();
    transform.set_nonce(nonce);
    let tag = seal.out.seal(&nonce, transform.associated_data(), frame.bytes_mut());
    transform.set_signature(tag);
    if let Some(buffer) = frame.prepend(transform::SIZE).first_chunk_mut() {
        transform.write(buffer);
    }
}

/// Prepends the four bytes before each message on a direct TCP connection (MS-SMB2 2.1).
pub fn prefix(frame: &mut Frame) {
    let len = (frame.len() as u32).to_be_bytes();
    frame.prepend(4).copy_from_slice(&len);
}

/// The probable size of the replies to a frame, so that READ data needs no second buffer.
pub(crate) fn expected_size(messages: &[u8]) -> usize {
    const SMALL: usize = 900;
    let Ok(header) = Header::parse(messages) else { return SMALL };
    let wanted = match header.command() {
        SmbCommand::Read => {
            let length = messages.get(68..72).and_then(|bytes| bytes.first_chunk());
            length.map_or(0, |bytes| u32::from_le_bytes(*bytes)).min(MAX_IO) as usize
                + read::RESPONSE_FIXED
                + header::SIZE
        }
        SmbCommand::QueryDirectory | SmbCommand::Ioctl => 16 * 1024,
        _ => SMALL,
    };
    wanted.max(SMALL)
}
