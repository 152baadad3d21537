//! Pieces of files in replies. The host sends them from its page cache; if it cannot, they are read into
//! memory.

use std::io;

use rustix::io::Errno;
use tokio::net::TcpStream;
use wire::{FileRange, Frame, Source};

use crate::socket_calls::SendOutcome;

/// One call that sends up to `len` bytes of a file from offset `at`. A short result means that the socket is
/// full or that the file has ended. (SIGPIPE, which no flag can prevent here, is ignored in every Rust
/// program.)
pub(crate) fn send(stream: &TcpStream, file: &dyn Source, at: u64, len: usize) -> SendOutcome {
    let mut from = at;
    match rustix::fs::sendfile(stream, file.fd(), Some(&mut from), len) {
        // The file has become shorter.
        Ok(0) => SendOutcome::Withheld,
        Ok(count) => SendOutcome::Bytes(count),
        Err(Errno::AGAIN) => SendOutcome::Nothing,
        Err(Errno::INTR) => SendOutcome::Bytes(0),
        Err(Errno::PIPE | Errno::CONNRESET) => SendOutcome::Failed,
        // The host cannot send from this file, or its device has an error. Reading the file shows which.
        Err(_) => SendOutcome::Withheld,
    }
}

/// Reads the piece as it is now; runs on the blocking pool. The reply has announced the length, so zeros
/// replace the bytes that the file no longer holds.
pub(crate) fn read(range: &FileRange) -> io::Result<Frame> {
    let mut frame = Frame::with_capacity(range.len);
    let tail = frame.tail();
    let start = tail.len();
    tail.resize(start + range.len, 0);
    let mut done = 0;
    while done < range.len {
        match rustix::io::pread(range.file.fd(), &mut tail[start + done..], range.at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(frame)
}
