//! Writes the queued frames, all with one call as long as the socket takes them.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;

use super::pace::Pace;
use super::{Outgoing, Protocol, Transport};

/// The most pieces of one call.
const MAX_SLICES: usize = 64;

/// Runs until the connection fails or is dropped.
pub(super) async fn run<P: Protocol>(transport: Arc<Transport<P>>, mut socket: OwnedWriteHalf) {
    let (mut taken, mut pace) = (VecDeque::new(), Pace::default());
    loop {
        {
            let mut state = transport.lock();
            if state.failed.is_some() {
                return;
            }
            std::mem::swap(&mut taken, &mut state.outbox);
        }
        if taken.is_empty() {
            transport.written.notified().await;
            continue;
        }
        transport.writing.store(true, Ordering::Relaxed);
        if let Err(error) = write_all(&transport, &mut socket, &mut taken, &mut pace).await {
            transport.fail(error.into());
            return;
        }
        transport.writing.store(false, Ordering::Relaxed);
    }
}

/// Writes the frames in order and returns them to the pool.
async fn write_all<P: Protocol>(
    transport: &Transport<P>,
    socket: &mut OwnedWriteHalf,
    frames: &mut VecDeque<Outgoing>,
    pace: &mut Pace,
) -> io::Result<()> {
    // The bytes of the first frame that are already written.
    let mut done = 0;
    while !frames.is_empty() {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = gather(frames, done, &mut slices);
        let mut written = done + socket.write_vectored(&slices[..count]).await?;
        if written == done {
            return Err(io::ErrorKind::WriteZero.into());
        }
        pace.after(&transport.rate, written - done).await;
        let mut state = transport.lock();
        while let Some(first) = frames.front().map(Outgoing::len)
            && written >= first
        {
            written -= first;
            if let Some(sent) = frames.pop_front() {
                state.frames.give_back(sent.frame);
            }
        }
        done = written;
    }
    Ok(())
}

/// Puts the pieces of `frames` after their first `skip` bytes into `slices`, and returns their number.
fn gather<'a>(
    frames: &'a VecDeque<Outgoing>,
    mut skip: usize,
    slices: &mut [IoSlice<'a>; MAX_SLICES],
) -> usize {
    let pieces = frames.iter().flat_map(Outgoing::pieces).filter_map(|piece| {
        let left = piece.get(skip..);
        skip = if left.is_some() { 0 } else { skip - piece.len() };
        left.filter(|left| !left.is_empty())
    });
    let mut count = 0;
    for (slice, piece) in slices.iter_mut().zip(pieces) {
        *slice = IoSlice::new(piece);
        count += 1;
    }
    count
}

impl Outgoing {
    /// The pieces to send, in order.
    fn pieces(&self) -> [&[u8]; 3] {
        let frame = self.frame.bytes();
        match &self.payload {
            None => [frame, &[], &[]],
            Some((at, payload)) => [&frame[..*at], payload, &frame[*at..]],
        }
    }

    fn len(&self) -> usize {
        self.frame.len() + self.payload.as_ref().map_or(0, |(_, payload)| payload.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use wire::frame::Frame;

    fn outgoing(text: &[u8], payload: Option<(usize, &'static [u8])>) -> Outgoing {
        let mut frame = Frame::with_capacity(10);
        frame.tail().extend_from_slice(text);
        Outgoing { frame, payload: payload.map(|(at, data)| (at, Bytes::from_static(data))) }
    }

    #[test]
    fn wherever_the_socket_stops_the_rest_follows() {
        let frames =
            VecDeque::from([outgoing(b"ab", None), outgoing(b"cdg", Some((2, b"ef"))), outgoing(b"h", None)]);
        assert_eq!(frames.iter().map(Outgoing::len).collect::<Vec<_>>(), [2, 5, 1]);
        // What was written of the first frame is skipped; whole frames are taken off before.
        for skip in 0..8 {
            let mut slices = [IoSlice::new(&[]); MAX_SLICES];
            let count = gather(&frames, skip, &mut slices);
            let left: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(left, b"abcdefgh"[skip..]);
        }
    }
}
