//! What is left of a frame: its requests, and the signatures that were taken out of them.

use std::borrow::Cow;

use smallvec::SmallVec;
use smb_wire::header::Chain;
use smb_wire::{Header, Malformed, header};

/// The messages of a frame from one request on.
pub(crate) struct Rest<'m> {
    messages: Cow<'m, [u8]>,
    /// How many bytes of them are behind.
    passed: usize,
    /// One for each message, from the first that is left on.
    signatures: SmallVec<[[u8; 16]; 4]>,
    /// How many of those are behind.
    signatures_passed: usize,
}

impl<'m> Rest<'m> {
    /// All of a frame. Takes the signatures out of its messages: they are made over messages whose field is zero
    /// (MS-SMB2 3.1.4.1). A malformed chain ends early here, and is refused where it is walked.
    pub fn new(frame: &'m mut [u8]) -> Rest<'m> {
        let mut signatures = SmallVec::new();
        let mut rest = &mut *frame;
        while let Ok(header) = Header::parse_mut(rest) {
            signatures.push(*header.signature());
            header.set_signature([0; 16]);
            let next = header.next_command() as usize;
            if next < header::SIZE || next >= rest.len() {
                break;
            }
            rest = &mut rest[next..];
        }
        Rest { messages: Cow::Borrowed(frame), passed: 0, signatures, signatures_passed: 0 }
    }

    /// The bytes of the requests that are left.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.messages.get(self.passed..).unwrap_or_default()
    }

    /// The first request that is left.
    #[inline]
    pub fn first(&self) -> Option<Result<(&Header, &[u8]), Malformed>> {
        Chain::new(self.bytes()).next()
    }

    /// The signature that was taken out of it.
    pub fn signature(&self) -> [u8; 16] {
        self.signatures.get(self.signatures_passed).copied().unwrap_or_default()
    }

    /// That request, of so many bytes, is behind.
    pub fn pass(&mut self, len: usize) {
        self.passed += len;
        self.signatures_passed += 1;
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// The same with bytes of its own, and none that are behind.
    pub fn keep(self) -> Rest<'static> {
        let signatures = self.signatures.get(self.signatures_passed..).unwrap_or_default().into();
        let messages = match self.messages {
            Cow::Owned(messages) if self.passed == 0 => messages,
            messages => messages.get(self.passed..).unwrap_or_default().to_vec(),
        };
        Rest { messages: Cow::Owned(messages), passed: 0, signatures, signatures_passed: 0 }
    }

    /// Bytes that it keeps beside itself.
    pub fn keeps(&self) -> usize {
        let messages = match &self.messages {
            Cow::Borrowed(_) => 0,
            Cow::Owned(messages) => messages.capacity(),
        };
        let signatures = if self.signatures.spilled() { self.signatures.capacity() } else { 0 };
        messages + signatures * size_of::<[u8; 16]>()
    }
}
