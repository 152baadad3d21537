//! Single system calls that receive or send, and the readiness of the socket that follows from their results.

use std::io::{self, IoSlice, IoSliceMut};

use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::files;
use crate::sends::Piece;

/// The result of one call that receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// No call was made: the socket is known to be empty.
    Unready,
    /// The socket was empty, although it was reported readable.
    Empty,
    /// No call was made, since no more data is wanted now.
    NotAsked,
    /// The socket is empty, and the task is woken when it is not.
    Waiting,
    /// This many bytes, and no more for now.
    Some(usize),
    /// As many bytes as there was room for. There may be more.
    All(usize),
    /// The client closed its side.
    End,
    /// The connection is broken.
    Failed,
}

/// The result of one call that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// No call was made: the socket is known to be full.
    Unready,
    /// The socket took nothing.
    Nothing,
    /// The socket took this many bytes.
    Bytes(usize),
    /// The file's bytes could not be sent this way.
    Withheld,
    /// The connection is broken.
    Failed,
}

/// One receiving call. A short result tells tokio that the socket is empty, which saves the call that would
/// find nothing. Data that arrives later raises an edge of its own.
pub(crate) fn receive_once(
    stream: &TcpStream,
    slices: &mut [IoSliceMut<'_>],
    room: usize,
) -> (usize, Received) {
    let mut received = Received::Unready;
    let attempt = stream.try_io(Interest::READABLE, || {
        received = receive(stream, slices, room);
        match received {
            Received::Some(_) | Received::Empty => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    });
    // The outcome is in `received`; the error above only carries the readiness to tokio.
    drop(attempt);
    (bytes(received), received)
}

/// The same for a socket that tokio knows to be empty. Data that is received here raises no edge later: the
/// host checks for data when it reports an edge (epoll(7)).
pub(crate) fn ask_once(stream: &TcpStream, slices: &mut [IoSliceMut<'_>], room: usize) -> (usize, Received) {
    let received = receive(stream, slices, room);
    (bytes(received), received)
}

fn receive(stream: &TcpStream, slices: &mut [IoSliceMut<'_>], room: usize) -> Received {
    match rustix::io::readv(stream, slices) {
        Ok(0) => Received::End,
        Ok(count) if count < room => Received::Some(count),
        Ok(count) => Received::All(count),
        Err(rustix::io::Errno::AGAIN) => Received::Empty,
        // Treat it as if there was more, so that the call is repeated.
        Err(rustix::io::Errno::INTR) => Received::All(0),
        Err(_) => Received::Failed,
    }
}

fn bytes(received: Received) -> usize {
    match received {
        Received::Some(count) | Received::All(count) => count,
        _ => 0,
    }
}

/// One sending call for all of `piece`. A short result for buffers tells tokio that the socket is full.
pub(crate) fn send_once(stream: &TcpStream, piece: Piece<'_>) -> SendOutcome {
    let mut sent = SendOutcome::Unready;
    let attempt = stream.try_io(Interest::WRITABLE, || {
        let whole;
        (sent, whole) = match piece {
            Piece::Buffers { slices, bytes, more } => (send_buffers(stream, slices, more), bytes),
            // A short result may mean the end of the file as well as a full socket. The next call shows
            // which.
            Piece::File { file, at, len } => (files::send(stream, file, at, len), 0),
        };
        match sent {
            SendOutcome::Bytes(count) if count >= whole => Ok(()),
            SendOutcome::Withheld | SendOutcome::Failed => Ok(()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    });
    drop(attempt);
    sent
}

fn send_buffers(stream: &TcpStream, slices: &[IoSlice<'_>], more: bool) -> SendOutcome {
    let mut control = SendAncillaryBuffer::default();
    // NOSIGNAL: a client that is gone must not raise SIGPIPE.
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::MORE, more);
    match rustix::net::sendmsg(stream, slices, &mut control, flags) {
        Ok(count) => SendOutcome::Bytes(count),
        Err(rustix::io::Errno::AGAIN) => SendOutcome::Nothing,
        Err(rustix::io::Errno::INTR) => SendOutcome::Bytes(0),
        Err(_) => SendOutcome::Failed,
    }
}
