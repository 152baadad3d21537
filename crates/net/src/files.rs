//! Pieces of files in replies: sent by the host from its page cache, or read into memory where it does not.

use std::io;

use rustix::io::Errno;
use tokio::net::TcpStream;
use wire::{FileRange, Frame, Source};

use crate::calls::Sent;

/// One call that sends up to `len` bytes of a file from offset `at`. A short one means that the socket is full
/// or that the file has ended. (SIGPIPE, which no flag can prevent here, is ignored in every Rust program.)
pub(crate) fn send(stream: &TcpStream, file: &dyn Source, at: u64, len: usize) -> Sent {
    let mut from = at;
    match rustix::fs::sendfile(stream, file.fd(), Some(&mut from), len) {
        // The file has become shorter.
        Ok(0) => Sent::Withheld,
        Ok(count) => Sent::Bytes(count),
        Err(Errno::AGAIN) => Sent::Nothing,
        Err(Errno::INTR) => Sent::Bytes(0),
        Err(Errno::PIPE | Errno::CONNRESET) => Sent::Failed,
        // Not a file that can be sent from, or an error of its device: reading it tells.
        Err(_) => Sent::Withheld,
    }
}

/// Reads the piece as it is now; for the blocking pool. Its length was promised, so zeros stand for what the
/// file does not hold any more.
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
