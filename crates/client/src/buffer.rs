//! Received messages and the store of buffers they come from, so that the steady state allocates nothing.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use smb_wire::{Command, Header, NtStatus};

use crate::Error;

/// Sizes of kept buffers: small replies, 4 to 16 KiB reads, 64 KiB reads, 1 MiB reads, 8 MiB reads. Each has
/// room for the headers around its round number.
const CLASSES: [usize; 5] = [1024, 17 * 1024, 65 * 1024, 1025 * 1024, 8193 * 1024];
/// How many of each size are kept.
const KEPT: [usize; 5] = [256, 256, 64, 16, 2];

/// Buffers that stay initialised over their whole length, so that reading into them costs no clearing.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: Mutex<[Vec<Vec<u8>>; CLASSES.len()]>,
}

impl Buffers {
    /// A buffer of at least `len` bytes. What it holds means nothing.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let Some(class) = CLASSES.iter().position(|&size| len <= size) else {
            return vec![0; len];
        };
        let kept = self.free.lock().unwrap_or_else(PoisonError::into_inner)[class].pop();
        kept.unwrap_or_else(|| vec![0; CLASSES[class]])
    }

    fn give_back(&self, buffer: Vec<u8>) {
        if let Some(class) = CLASSES.iter().position(|&size| size == buffer.len()) {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            if free[class].len() < KEPT[class] {
                free[class].push(buffer);
            }
        }
    }
}

/// One message of the server, from its header on, already checked against its signature or unsealed.
#[derive(Debug)]
pub struct Reply {
    buffer: Vec<u8>,
    range: Range<usize>,
    store: Arc<Buffers>,
}

impl Reply {
    /// A message that lies in `range` of a buffer from `store`. It begins with a whole header.
    pub(crate) fn new(buffer: Vec<u8>, range: Range<usize>, store: &Arc<Buffers>) -> Reply {
        Reply { buffer, range, store: Arc::clone(store) }
    }

    /// A copy of `message`, which begins with a whole header.
    pub(crate) fn copy(message: &[u8], store: &Arc<Buffers>) -> Reply {
        let mut buffer = store.take(message.len());
        buffer[..message.len()].copy_from_slice(message);
        Reply::new(buffer, 0..message.len(), store)
    }

    /// The whole message, as the parsers of smb-wire want it.
    #[must_use]
    pub fn message(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }

    /// The header.
    ///
    /// # Panics
    /// Never: a reply is only made of a message whose header has been read.
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
    pub fn command(&self) -> Command {
        self.header().command()
    }

    /// The same, if the status is one of success.
    ///
    /// # Errors
    /// [`Error::Status`] with any other status.
    pub fn success(self) -> Result<Reply, Error> {
        let status = self.status();
        if status.is_success() { Ok(self) } else { Err(self.refused()) }
    }

    /// The error that this reply is.
    pub(crate) fn refused(&self) -> Error {
        Error::Status { command: self.command(), status: self.status() }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.store.give_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_reply_gives_its_buffer_to_the_next_of_its_size() {
        let store = Arc::new(Buffers::default());
        let mut message = Vec::new();
        Header::request(Command::Read, 7).push(&mut message);
        message.resize(4096 + 80, 9);
        let first = Reply::copy(&message, &store);
        let place = first.buffer.as_ptr();
        assert_eq!(first.message(), message);
        drop(first);
        let (small, fitting) = (store.take(100), store.take(16 * 1024));
        assert_ne!(small.as_ptr(), place);
        assert_eq!(fitting.as_ptr(), place);
    }
}
