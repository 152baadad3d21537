//! A client of the null server ([`crate::null`]). Any number of workers share a connection.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use net::lowat::LowWatermark;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::Error;
use crate::null::put_request;

/// The error for operations that it does not have.
pub(super) const ONLY_READS: &str = "the null server only reads";
/// The length of a reply from which it is not worth waking up for each received part.
const LARGE: u32 = 32 * 1024;
/// The largest part of such replies to wait for: another part arrives while one is processed.
const PART: u32 = 256 * 1024;

/// A connection. All clones share it.
#[derive(Debug, Clone)]
pub(crate) struct NullDirectory(Arc<NullConnection>);

/// The two tasks of a connection. They end when it is dropped.
#[derive(Debug)]
pub(super) struct Tasks([JoinHandle<()>; 2]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

#[derive(Debug, Default)]
struct NullConnection {
    state: Mutex<RequestQueue>,
    written: Notify,
}

#[derive(Debug, Default)]
struct RequestQueue {
    /// Requests that are not sent yet.
    out: Vec<u8>,
    /// Requests without a complete reply, in order.
    asked: VecDeque<PendingRead>,
    /// The number of requests that were answered before these.
    answered: u64,
    /// Bytes of their replies that have not arrived.
    outstanding: usize,
    is_over: bool,
}

#[derive(Debug)]
struct PendingRead {
    /// Bytes that have not arrived.
    left: usize,
    /// The task that waits for them.
    waker: Option<Waker>,
}

/// Resolves when the request is answered.
struct Answered<'a> {
    connection: &'a NullConnection,
    number: u64,
}

impl Future for Answered<'_> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.with(|state| {
            let Some(index) = self.number.checked_sub(state.answered) else { return Poll::Ready(Ok(())) };
            match state.asked.get_mut(index as usize) {
                Some(asked) => asked.waker = Some(context.waker().clone()),
                None => return Poll::Ready(Err(over())),
            }
            Poll::Pending
        })
    }
}

fn over() -> io::Error {
    ErrorKind::ConnectionReset.into()
}

/// Connects to the null server.
pub(super) async fn open(host: &str, port: u16, block: u32) -> Result<(Tasks, NullDirectory), Error> {
    let failed = |why| Error::host(format!("connecting to the null server at {host} port {port}"), why);
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let connection = Arc::new(NullConnection::default());
    let part = if block < LARGE { 1 } else { block.min(PART) as usize };
    let (read, write) = stream.into_split();
    let [for_writing, for_reading] = [Arc::clone(&connection), Arc::clone(&connection)];
    let writing = tokio::spawn(async move {
        // The other task sees a failure as the end of the incoming data.
        let _ = for_writing.write(write).await;
    });
    let reading = tokio::spawn(async move {
        // All waiting workers learn that the connection has ended.
        let _ = for_reading.read(read, part).await;
        for_reading.end();
    });
    Ok((Tasks([writing, reading]), NullDirectory(connection)))
}

impl NullConnection {
    fn with<T>(&self, what: impl FnOnce(&mut RequestQueue) -> T) -> T {
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&self) {
        self.with(|state| {
            state.is_over = true;
            state.asked.drain(..).filter_map(|asked| asked.waker).for_each(Waker::wake);
        });
    }

    /// Sends the requests that have accumulated while others worked.
    async fn write(&self, mut stream: OwnedWriteHalf) -> io::Result<()> {
        let mut out = Vec::new();
        loop {
            self.written.notified().await;
            self.with(|state| std::mem::swap(&mut state.out, &mut out));
            stream.write_all(&out).await?;
            out.clear();
        }
    }

    /// Wakes up for `part` bytes at once, if that many are outstanding.
    async fn read(&self, mut stream: OwnedReadHalf, part: usize) -> io::Result<()> {
        let (mut buffer, mut mark) = (vec![0; 1 << 20], LowWatermark::default());
        loop {
            mark.set(stream.as_ref(), self.with(|state| state.outstanding).clamp(1, part));
            let mut read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            self.with(|state| {
                state.outstanding = state.outstanding.saturating_sub(read);
                while let Some(first) = state.asked.front_mut() {
                    if first.left > read {
                        first.left -= read;
                        return;
                    }
                    read -= first.left;
                    state.answered += 1;
                    // A worker that has gone away does not wait any more.
                    if let Some(waker) = state.asked.pop_front().and_then(|first| first.waker) {
                        waker.wake();
                    }
                }
            });
        }
    }
}

impl NullDirectory {
    /// Reads. The bytes are counted and dropped.
    pub(super) async fn read(&self, offset: u64, length: u32) -> io::Result<usize> {
        let (number, is_first) = self.0.with(|state| {
            if state.is_over {
                return Err(over());
            }
            let is_first = state.out.is_empty();
            put_request(&mut state.out, offset, length);
            state.asked.push_back(PendingRead { left: length as usize, waker: None });
            state.outstanding += length as usize;
            Ok((state.answered + state.asked.len() as u64 - 1, is_first))
        })?;
        // The other requests are sent with the first one.
        if is_first {
            self.0.written.notify_one();
        }
        Answered { connection: &self.0, number }.await?;
        Ok(length as usize)
    }
}
