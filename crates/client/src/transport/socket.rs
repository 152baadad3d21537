//! The receiving side of the socket, with a threshold of bytes below which it does not wake the reader.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

/// The socket and its threshold.
pub(super) struct Socket {
    half: OwnedReadHalf,
    /// Its SO_RCVLOWAT, in bytes.
    part: usize,
}

impl Socket {
    /// A new connection. Every byte wakes the reader.
    pub(super) fn new(half: OwnedReadHalf) -> Socket {
        Socket { half, part: 1 }
    }

    /// Reads what has arrived, at least one byte and at most the length of `into`. Returns zero when the
    /// connection has ended. If nothing is known to have arrived, it waits for `part` bytes or the end.
    /// `part` must not exceed the bytes that will come, or the wait never ends.
    pub(super) async fn read(&mut self, into: &mut [u8], part: usize) -> io::Result<usize> {
        loop {
            match read_once(self.half.as_ref(), into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.part != part {
                // If that many bytes have arrived by now, this raises the event that is awaited next.
                set_part(self.half.as_ref(), part)?;
                self.part = part;
            }
            self.half.readable().await?;
        }
    }
}

/// Makes one system call. A result shorter than the buffer means that the socket is empty. tokio is told so,
/// which saves a call that would find nothing.
fn read_once(stream: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
    let mut result: io::Result<usize> = Err(io::ErrorKind::WouldBlock.into());
    let attempt = stream.try_io(Interest::READABLE, || {
        result = rustix::io::retry_on_intr(|| rustix::io::read(stream, &mut *into)).map_err(Into::into);
        match &result {
            Ok(count) if *count > 0 && *count < into.len() => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    });
    // The outcome is in `result`; the error only carries the readiness to tokio.
    drop(attempt);
    result
}

/// Sets SO_RCVLOWAT.
#[allow(unsafe_code)]
fn set_part(stream: &TcpStream, part: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(part).map_err(io::Error::other)?;
    // SAFETY: the option takes one `int`, which outlives the call, and its size is given.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn pair() -> (Socket, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let near = TcpStream::connect(address).await.expect("it is there");
        let (far, _) = listener.accept().await.expect("it came");
        (Socket::new(near.into_split().0), far)
    }

    /// Polls once and says whether there is an answer.
    async fn ready(reading: &mut (impl Future<Output = io::Result<usize>> + Unpin)) -> Option<usize> {
        let soon = tokio::time::timeout(Duration::from_millis(20), reading).await;
        soon.ok().map(|count| count.expect("no error"))
    }

    #[tokio::test]
    async fn it_waits_for_a_part_and_then_for_less() {
        let (mut socket, mut far) = pair().await;
        let mut room = [0; 1000];
        far.write_all(&[1; 10]).await.expect("it is sent");
        assert_eq!(socket.read(&mut room, 1).await.expect("ten"), 10);
        {
            let mut reading = Box::pin(socket.read(&mut room, 500));
            far.write_all(&[2; 499]).await.expect("it is sent");
            assert_eq!(ready(&mut reading).await, None, "one byte is missing");
            far.write_all(&[2]).await.expect("it is sent");
            assert_eq!(reading.await.expect("the part"), 500);
        }
        far.write_all(&[3; 7]).await.expect("it is sent");
        assert_eq!(socket.read(&mut room, 1).await.expect("seven"), 7);
    }

    #[tokio::test]
    async fn what_came_before_it_was_told_of_less_wakes_it() {
        let (mut socket, mut far) = pair().await;
        let mut room = [0; 1000];
        far.write_all(&[1; 5]).await.expect("it is sent");
        assert_eq!(socket.read(&mut room, 5).await.expect("five"), 5);
        assert_eq!(ready(&mut Box::pin(socket.read(&mut room, 900))).await, None);
        far.write_all(&[2; 100]).await.expect("it is sent");
        assert_eq!(ready(&mut Box::pin(socket.read(&mut room, 900))).await, None);
        assert_eq!(socket.read(&mut room, 100).await.expect("all of it"), 100);
    }

    #[tokio::test]
    async fn the_end_wakes_it_however_much_is_missing() {
        let (mut socket, mut far) = pair().await;
        let mut room = [0; 1000];
        far.write_all(&[1; 5]).await.expect("it is sent");
        assert_eq!(socket.read(&mut room, 5).await.expect("five"), 5);
        far.write_all(&[2; 100]).await.expect("it is sent");
        drop(far);
        assert_eq!(socket.read(&mut room, 900).await.expect("what there was"), 100);
        assert_eq!(socket.read(&mut room, 900).await.expect("the end"), 0);
    }
}
