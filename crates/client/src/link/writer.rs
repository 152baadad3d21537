//! Writes what is queued: all of it with one call, as long as the socket takes it.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::tcp::OwnedWriteHalf;
use wire::frame::Frame;

use super::Link;

/// Frames handed to one call.
const MAX_SLICES: usize = 64;

/// Runs until the link fails or the connection is dropped.
pub(super) async fn run(link: Arc<Link>, mut socket: OwnedWriteHalf) {
    let mut taken = VecDeque::new();
    loop {
        {
            let mut state = link.lock();
            if state.failed.is_some() {
                return;
            }
            std::mem::swap(&mut taken, &mut state.outbox);
        }
        if taken.is_empty() {
            link.written.notified().await;
            continue;
        }
        if let Err(error) = write_all(&link, &mut socket, &mut taken).await {
            link.fail(error.into());
            return;
        }
    }
}

/// Writes the frames in order and gives them back.
async fn write_all(link: &Link, socket: &mut OwnedWriteHalf, frames: &mut VecDeque<Frame>) -> io::Result<()> {
    // Bytes of the first frame that are written already.
    let mut done = 0;
    while !frames.is_empty() {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(frames.iter()) {
            let from = if count == 0 { done } else { 0 };
            *slice = IoSlice::new(&frame.bytes()[from..]);
            count += 1;
        }
        let mut written = done + socket.write_vectored(&slices[..count]).await?;
        if written == done {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let mut state = link.lock();
        while let Some(first) = frames.front().map(Frame::len)
            && written >= first
        {
            written -= first;
            if let Some(frame) = frames.pop_front() {
                state.frames.give_back(frame);
            }
        }
        done = written;
    }
    Ok(())
}
