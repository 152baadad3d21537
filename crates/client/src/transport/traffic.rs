//! The bytes that the path has carried, from the host's own counters: the bytes that the server's host has
//! acknowledged and those that have arrived from it. The counters are exact at every moment, while requests
//! count only when they are done.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use tokio::net::TcpStream;

/// The bytes that a connection has carried so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes that the server's host has acknowledged.
    pub sent: u64,
    /// Bytes that have come from it.
    pub received: u64,
    /// The smoothed round-trip time.
    pub round_trip: Duration,
}

/// Counters that show whether the other end is alive.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sign {
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Whether some of the data that the host was given has not been acknowledged.
    pub(super) is_sending: bool,
}

/// Access to the counters of a connection.
#[derive(Debug)]
pub(super) struct Meter(Option<OwnedFd>);

/// The length of the part of `struct tcp_info` that is read, and the offsets of its fields (linux/tcp.h).
const SIZE: usize = 148;
const UNACKED: usize = 24;
const RTT_US: usize = 68;
const BYTES_ACKED: usize = 120;
const BYTES_RECEIVED: usize = 128;
const NOTSENT_BYTES: usize = 144;

impl Meter {
    pub(super) fn of(stream: &TcpStream) -> Meter {
        // Without a descriptor the counters are unknown, which `read` and `sign` report.
        Meter(stream.as_fd().try_clone_to_owned().ok())
    }

    /// The bytes that the connection has carried, or zeros where the host does not tell.
    pub(super) fn read(&self) -> Traffic {
        let Some(info) = self.0.as_ref().and_then(tcp_info) else { return Traffic::default() };
        Traffic {
            sent: long(&info, BYTES_ACKED),
            received: long(&info, BYTES_RECEIVED),
            round_trip: Duration::from_micros(word(&info, RTT_US).into()),
        }
    }

    /// The counters in which a change shows life, or none where the host does not tell.
    pub(super) fn sign(&self) -> Option<Sign> {
        let info = self.0.as_ref().and_then(tcp_info)?;
        let is_sending = word(&info, UNACKED) > 0 || word(&info, NOTSENT_BYTES) > 0;
        Some(Sign { received: long(&info, BYTES_RECEIVED), sent: long(&info, BYTES_ACKED), is_sending })
    }
}

fn long(info: &[u8; SIZE], at: usize) -> u64 {
    info[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
}

fn word(info: &[u8; SIZE], at: usize) -> u32 {
    info[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// TCP_INFO.
#[allow(unsafe_code)]
fn tcp_info(socket: &OwnedFd) -> Option<[u8; SIZE]> {
    let mut info = [0; SIZE];
    let mut length = SIZE as libc::socklen_t;
    // SAFETY: at most `length` bytes are written to `info`, which has as many, and both outlive the call.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    // An older kernel fills in a shorter structure.
    (done == 0 && length as usize == SIZE).then_some(info)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn both_directions_are_counted_to_the_byte() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut near = TcpStream::connect(address).await.expect("it is there");
        let (mut far, _) = listener.accept().await.expect("it came");
        let meter = Meter::of(&near);
        near.write_all(&[1; 3000]).await.expect("it is sent");
        far.read_exact(&mut [0; 3000]).await.expect("it comes");
        far.write_all(&[2; 700]).await.expect("it is sent");
        near.read_exact(&mut [0; 700]).await.expect("it comes");
        let traffic = meter.read();
        // The answer acknowledges; the SYN counts as a byte on some kernels.
        assert!((3000..=3001).contains(&traffic.sent), "{traffic:?}");
        assert_eq!(traffic.received, 700);
        assert!(traffic.round_trip > Duration::ZERO && traffic.round_trip < Duration::from_secs(1));
    }

    #[tokio::test]
    async fn what_the_other_end_does_not_take_is_still_being_sent() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut near = TcpStream::connect(address).await.expect("it is there");
        let (mut far, _) = listener.accept().await.expect("it came");
        let meter = Meter::of(&near);
        near.write_all(&[1; 10]).await.expect("it is sent");
        far.read_exact(&mut [0; 10]).await.expect("it comes");
        far.write_all(&[2]).await.expect("it is sent");
        near.read_exact(&mut [0]).await.expect("it comes, and acknowledges");
        let sign = meter.sign().expect("the host says it");
        assert!(!sign.is_sending && sign.received == 1, "{sign:?}");
        // As much as both hosts hold.
        near.writable().await.expect("it is open");
        while near.try_write(&[3; 65536]).is_ok() {}
        assert!(meter.sign().is_some_and(|sign| sign.is_sending));
    }
}
