//! The remaining messages of a frame.

use smb_wire::header::Chain;
use smb_wire::{Header, Malformed};

/// The messages of a frame from one request on.
pub(crate) struct RemainingMessages<'m> {
    messages: Messages<'m>,
    /// The number of bytes of the answered requests.
    passed: usize,
}

enum Messages<'m> {
    /// The buffer of the transport.
    Borrowed(&'m mut [u8]),
    /// A copy, for a frame whose requests wait.
    Owned(Vec<u8>),
}

/// The first remaining message.
pub(crate) struct First<'r> {
    pub header: &'r Header,
    /// The whole message with a zero signature field. A signature covers such a message (MS-SMB2 3.1.4.1).
    pub message: &'r [u8],
    /// The signature that was in it.
    pub signature: [u8; 16],
}

impl<'m> RemainingMessages<'m> {
    /// All messages of a frame.
    pub fn new(frame: &'m mut [u8]) -> RemainingMessages<'m> {
        RemainingMessages { messages: Messages::Borrowed(frame), passed: 0 }
    }

    /// The first remaining request.
    #[inline]
    pub fn first(&mut self) -> Option<Result<First<'_>, Malformed>> {
        let all = match &mut self.messages {
            Messages::Borrowed(messages) => messages,
            Messages::Owned(messages) => messages.as_mut_slice(),
        };
        let left = all.get_mut(self.passed..)?;
        let mut signature = [0; 16];
        if let Ok(header) = Header::parse_mut(left) {
            signature = *header.signature();
            header.set_signature([0; 16]);
        }
        let first = Chain::new(left).next()?;
        Some(first.map(|(header, message)| First { header, message, signature }))
    }

    /// Passes the first request, which has `len` bytes.
    pub fn pass(&mut self, len: usize) {
        self.passed += len;
    }

    /// The remaining bytes.
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.messages {
            Messages::Borrowed(messages) => messages,
            Messages::Owned(messages) => messages.as_slice(),
        };
        all.get(self.passed..).unwrap_or_default()
    }

    /// A copy with only the remaining messages.
    pub fn keep(self) -> RemainingMessages<'static> {
        let messages = match self {
            RemainingMessages { messages: Messages::Owned(messages), passed: 0 } => messages,
            rest => rest.bytes().to_vec(),
        };
        RemainingMessages { messages: Messages::Owned(messages), passed: 0 }
    }

    /// Bytes that it keeps, not including itself.
    pub fn keeps(&self) -> usize {
        match &self.messages {
            Messages::Borrowed(_) => 0,
            Messages::Owned(messages) => messages.capacity(),
        }
    }
}
