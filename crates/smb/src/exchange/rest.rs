//! What is left of a frame.

use smb_wire::header::Chain;
use smb_wire::{Header, Malformed};

/// The messages of a frame from one request on.
pub(crate) struct Rest<'m> {
    messages: Messages<'m>,
    /// How many bytes of them are behind.
    passed: usize,
}

enum Messages<'m> {
    /// The transport's.
    Lent(&'m mut [u8]),
    /// Those of a frame whose answering has stopped.
    Kept(Vec<u8>),
}

/// The first of them.
pub(crate) struct First<'r> {
    pub header: &'r Header,
    /// All of it, with the signature field zero: a signature is made over such a message (MS-SMB2 3.1.4.1).
    pub message: &'r [u8],
    /// The signature that was taken out just now.
    pub signature: [u8; 16],
}

impl<'m> Rest<'m> {
    /// All of a frame.
    pub fn new(frame: &'m mut [u8]) -> Rest<'m> {
        Rest { messages: Messages::Lent(frame), passed: 0 }
    }

    /// The first request that is left.
    #[inline]
    pub fn first(&mut self) -> Option<Result<First<'_>, Malformed>> {
        let all = match &mut self.messages {
            Messages::Lent(messages) => messages,
            Messages::Kept(messages) => messages.as_mut_slice(),
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

    /// That request, of so many bytes, is behind.
    pub fn pass(&mut self, len: usize) {
        self.passed += len;
    }

    /// The bytes that are left.
    pub fn bytes(&self) -> &[u8] {
        let all = match &self.messages {
            Messages::Lent(messages) => messages,
            Messages::Kept(messages) => messages.as_slice(),
        };
        all.get(self.passed..).unwrap_or_default()
    }

    /// The same with bytes of its own, and none that are behind.
    pub fn keep(self) -> Rest<'static> {
        let messages = match self {
            Rest { messages: Messages::Kept(messages), passed: 0 } => messages,
            rest => rest.bytes().to_vec(),
        };
        Rest { messages: Messages::Kept(messages), passed: 0 }
    }

    /// Bytes that it keeps beside itself.
    pub fn keeps(&self) -> usize {
        match &self.messages {
            Messages::Lent(_) => 0,
            Messages::Kept(messages) => messages.capacity(),
        }
    }
}
