//! Reads the socket and splits the incoming bytes into frames.
//!
//! Many small frames arrive in one buffer and are handed over in it. A frame larger than [`LARGE`] is read
//! straight into the buffer in which its reply is handed over.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tokio::net::tcp::OwnedReadHalf;

use super::pace::Pace;
use super::socket::Socket;
use super::{Protocol, Transport};
use crate::Error;
use crate::error::Result;

/// The bytes in front of a frame. They hold its length.
pub(crate) const PREFIX: usize = 4;

/// The most bytes of one read.
const HELD: usize = 256 * 1024;
/// Frames from this size on are not copied.
const LARGE: usize = 32 * 1024;
/// The bytes of such a frame that must have arrived before the reader wakes up, or all that is missing. On a
/// slow path a frame arrives packet by packet. Each wake-up costs more than copying many KiB, and if the
/// server runs on the same machine, the server pays for it.
const PART: usize = 256 * 1024;
/// The most bytes of one read while large frames arrive. They are enough to learn the length of the next
/// frame.
const PEEK: usize = 128;

/// How a protocol reads frames. An error ends the connection.
pub(crate) trait Receiver<P: Protocol>: Send + 'static {
    /// The length of the frame behind `prefix`.
    fn length(prefix: [u8; PREFIX]) -> Result<usize>;

    /// Reads a frame in a buffer that later frames reuse.
    fn take(&mut self, transport: &Arc<Transport<P>>, prefix: [u8; PREFIX], frame: &mut [u8]) -> Result<()>;

    /// Reads a large frame, which is the first `length` bytes of a buffer of its own.
    fn take_large(
        &mut self,
        transport: &Arc<Transport<P>>,
        prefix: [u8; PREFIX],
        buffer: Vec<u8>,
        length: usize,
    ) -> Result<()>;
}

/// Runs until the connection ends, and then fails all requests.
pub(super) async fn run<P: Protocol, R: Receiver<P>>(
    transport: Arc<Transport<P>>,
    socket: OwnedReadHalf,
    receiver: R,
) {
    let socket = Socket::new(socket);
    let mut reader = StreamReader {
        held: transport.buffers.take(HELD),
        filled: 0..0,
        pace: Pace::default(),
        transport,
        socket,
        receiver,
    };
    let error = match reader.read().await {
        Ok(()) => Error::Closed,
        Err(error) => error,
    };
    reader.transport.fail(error);
}

struct StreamReader<P: Protocol, R> {
    transport: Arc<Transport<P>>,
    socket: Socket,
    held: Vec<u8>,
    /// The part of `held` that has not been processed.
    filled: Range<usize>,
    pace: Pace,
    receiver: R,
}

impl<P: Protocol, R: Receiver<P>> StreamReader<P, R> {
    /// Reads until the server closes the connection between two frames.
    async fn read(&mut self) -> Result<()> {
        let mut peeking = false;
        loop {
            while let Some(prefix) = self.held[self.filled.clone()].first_chunk::<PREFIX>().copied() {
                let length = R::length(prefix)?;
                let there = self.filled.len() - PREFIX;
                if there >= length {
                    let start = self.filled.start + PREFIX;
                    self.filled.start = start + length;
                    let frame = &mut self.held[start..start + length];
                    self.receiver.take(&self.transport, prefix, frame)?;
                    peeking = false;
                } else if length >= LARGE {
                    let buffer = self.read_large(length).await?;
                    self.receiver.take_large(&self.transport, prefix, buffer, length)?;
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

    /// Reads the bytes that have arrived. Returns false when the connection has ended.
    async fn fill(&mut self, peeking: bool) -> Result<bool> {
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.filled.start > 0 {
            self.held.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let end = self.held.len().min(if peeking { PEEK.max(self.filled.end + 1) } else { usize::MAX });
        let count = self.socket.read(&mut self.held[self.filled.end..end], 1).await?;
        self.pace.after(&self.transport.rate, count).await;
        self.filled.end += count;
        if count == 0 && !self.filled.is_empty() {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(count > 0)
    }

    /// Reads a frame of `length` bytes into a buffer of its own. The first bytes are already in `held`.
    async fn read_large(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut buffer = self.transport.buffers.take(length);
        let there = &self.held[self.filled.start + PREFIX..self.filled.end];
        buffer[..there.len()].copy_from_slice(there);
        let mut there = there.len();
        self.filled = 0..0;
        let missing = length - there;
        while there < length {
            let part = (length - there).min(PART);
            match self.socket.read(&mut buffer[there..length], part).await? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                count => there += count,
            }
        }
        self.pace.after(&self.transport.rate, missing).await;
        Ok(buffer)
    }
}
