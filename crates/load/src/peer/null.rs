//! The null server ([`crate::null`]), asked by as many workers as there are.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use net::lowat::Mark;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::Error;
use crate::null::put_request;

/// What is said of all that it does not do.
pub(super) const ONLY_READS: &str = "the null server only reads";
/// From this length of an answer on it is not worth waking up for each piece of it that comes.
const LARGE: u32 = 32 * 1024;
/// How much of such answers is waited for at most: a second part comes while one is taken.
const PART: u32 = 256 * 1024;

/// A connection. Copies share it.
#[derive(Debug, Clone)]
pub(crate) struct Share(Arc<Line>);

/// The two tasks of a connection; they end with it.
#[derive(Debug)]
pub(super) struct Tasks([JoinHandle<()>; 2]);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

#[derive(Debug, Default)]
struct Line {
    state: Mutex<State>,
    written: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that have not left.
    out: Vec<u8>,
    /// What is asked for and not answered, in order.
    asked: VecDeque<Asked>,
    /// How many were answered before these.
    answered: u64,
    /// Bytes of them that have not come.
    outstanding: usize,
    is_over: bool,
}

#[derive(Debug)]
struct Asked {
    /// Bytes that have not come.
    left: usize,
    /// Who waits for them.
    waker: Option<Waker>,
}

/// Resolves when the request is answered.
struct Answered<'a> {
    line: &'a Line,
    number: u64,
}

impl Future for Answered<'_> {
    type Output = io::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.line.with(|state| {
            let Some(place) = self.number.checked_sub(state.answered) else { return Poll::Ready(Ok(())) };
            match state.asked.get_mut(place as usize) {
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

/// Connects.
pub(super) async fn open(host: &str, port: u16, block: u32) -> Result<(Tasks, Share), Error> {
    let failed = |why| Error::host(format!("connecting to the null server at {host} port {port}"), why);
    let stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let line = Arc::new(Line::default());
    let part = if block < LARGE { 1 } else { block.min(PART) as usize };
    let (read, write) = stream.into_split();
    let [for_writing, for_reading] = [Arc::clone(&line), Arc::clone(&line)];
    let writing = tokio::spawn(async move {
        // A failure shows to the other task, as the end of what comes.
        let _ = for_writing.write(write).await;
    });
    let reading = tokio::spawn(async move {
        // Whoever waits is told that it is over.
        let _ = for_reading.read(read, part).await;
        for_reading.end();
    });
    Ok((Tasks([writing, reading]), Share(line)))
}

impl Line {
    fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn end(&self) {
        self.with(|state| {
            state.is_over = true;
            state.asked.drain(..).filter_map(|asked| asked.waker).for_each(Waker::wake);
        });
    }

    /// Sends what has gathered while others worked.
    async fn write(&self, mut stream: OwnedWriteHalf) -> io::Result<()> {
        let mut out = Vec::new();
        loop {
            self.written.notified().await;
            self.with(|state| std::mem::swap(&mut state.out, &mut out));
            stream.write_all(&out).await?;
            out.clear();
        }
    }

    /// Wakes up for so many bytes, as long as as many are to come.
    async fn read(&self, mut stream: OwnedReadHalf, part: usize) -> io::Result<()> {
        let (mut buffer, mut mark) = (vec![0; 1 << 20], Mark::default());
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
                    // A worker that went away waits no more.
                    if let Some(waker) = state.asked.pop_front().and_then(|first| first.waker) {
                        waker.wake();
                    }
                }
            });
        }
    }
}

impl Share {
    /// Reads; the bytes are counted and dropped.
    pub(super) async fn read(&self, offset: u64, length: u32) -> io::Result<usize> {
        let (number, is_first) = self.0.with(|state| {
            if state.is_over {
                return Err(over());
            }
            let is_first = state.out.is_empty();
            put_request(&mut state.out, offset, length);
            state.asked.push_back(Asked { left: length as usize, waker: None });
            state.outstanding += length as usize;
            Ok((state.answered + state.asked.len() as u64 - 1, is_first))
        })?;
        // The others leave with the first.
        if is_first {
            self.0.written.notify_one();
        }
        Answered { line: &self.0, number }.await?;
        Ok(length as usize)
    }
}
