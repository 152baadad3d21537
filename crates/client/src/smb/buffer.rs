//! Received messages of SMB.

use std::ops::Range;

use smb_wire::{Header, NtStatus, SmbCommand};

use crate::Error;
use crate::transport::Message;

/// One message of the server, from its header on. Its signature has been checked, or it has been unsealed.
#[derive(Debug)]
pub struct Reply(Message);

impl Reply {
    /// A message that begins with a whole header.
    pub(crate) fn new(message: Message) -> Reply {
        Reply(message)
    }

    /// A reply made here, in the place of the replies to several requests or of one to a request that was not
    /// sent.
    pub(crate) fn made(command: SmbCommand, status: NtStatus, body: impl FnOnce(&mut Vec<u8>)) -> Reply {
        let mut message = Vec::new();
        Header::response_to(&Header::request(command, 0), status).push(&mut message);
        body(&mut message);
        Reply(Message::own(message))
    }

    /// The range of the message that `part`, a subslice of it, covers.
    pub(crate) fn range_of(&self, part: &[u8]) -> Range<usize> {
        self.0.range_of(part)
    }

    /// The whole message, in the form that the parsers of smb-wire take.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The header.
    ///
    /// # Panics
    /// Never. A reply is only made from a message with a parsed header.
    #[must_use]
    pub fn header(&self) -> &Header {
        Header::parse(self.message()).expect("checked when the reply came in")
    }

    /// The server's status.
    #[must_use]
    pub fn status(&self) -> NtStatus {
        self.header().status()
    }

    /// The command that was answered.
    #[must_use]
    pub fn command(&self) -> SmbCommand {
        self.header().command()
    }

    /// Returns the reply if its status is a success.
    ///
    /// # Errors
    /// [`Error::Status`] with any other status.
    pub fn success(self) -> Result<Reply, Error> {
        let status = self.status();
        if status.is_success() { Ok(self) } else { Err(self.refused()) }
    }

    /// The error that this reply stands for.
    pub(crate) fn refused(&self) -> Error {
        Error::Status { command: self.command(), status: self.status() }
    }
}
