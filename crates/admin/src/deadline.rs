//! Reads with one deadline for the whole answer. A time limit for each read does not bound the whole: a peer
//! that sends a byte now and then would hold its reader for ever.

use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A stream whose reads can have a time limit.
pub trait ReadTimeout: Read {
    /// See [`TcpStream::set_read_timeout`].
    ///
    /// # Errors
    /// The host's error.
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
}

impl ReadTimeout for TcpStream {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }
}

impl ReadTimeout for UnixStream {
    fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }
}

/// A stream that must end before a deadline. Later reads fail with [`ErrorKind::TimedOut`].
#[derive(Debug)]
pub struct DeadlineReader<S> {
    stream: S,
    until: Instant,
}

impl<S: ReadTimeout> DeadlineReader<S> {
    /// Reads from `stream` within `patience` from now on.
    pub fn within(patience: Duration, stream: S) -> DeadlineReader<S> {
        DeadlineReader { stream, until: Instant::now() + patience }
    }
}

impl<S: ReadTimeout> Read for DeadlineReader<S> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(room)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn an_answer_that_comes_in_drops_is_given_up() {
        let (mut far, stream) = UnixStream::pair().unwrap();
        let dripping = std::thread::spawn(move || {
            while far.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let mut whole = DeadlineReader::within(Duration::from_millis(200), stream);
        assert!(whole.read_to_end(&mut Vec::new()).is_err());
        drop(whole);
        dripping.join().unwrap();
    }
}
