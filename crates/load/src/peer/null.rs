//! The null server ([`crate::null`]), asked by as many workers as there are.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use crate::null::put_request;
use crate::report::Security;
use crate::{Error, Plan};

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
    /// Who waits for an answer of so many bytes, in order.
    waiting: VecDeque<(usize, oneshot::Sender<()>)>,
    is_over: bool,
}

pub(super) fn security() -> Security {
    let off = || "off".to_owned();
    Security { protocol: "null".to_owned(), dialect: "1".to_owned(), signing: off(), encryption: off() }
}

/// Connects.
pub(super) async fn open(plan: &Plan) -> Result<(Tasks, Share), Error> {
    let target = &plan.target;
    let failed = |why| {
        Error::host(format!("connecting to the null server at {} port {}", target.host, target.port), why)
    };
    let stream = TcpStream::connect((target.host.as_str(), target.port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let line = Arc::new(Line::default());
    let (read, write) = stream.into_split();
    let [for_writing, for_reading] = [Arc::clone(&line), Arc::clone(&line)];
    let writing = tokio::spawn(async move {
        // A failure shows to the other task, as the end of what comes.
        let _ = for_writing.write(write).await;
    });
    let reading = tokio::spawn(async move {
        // Whoever waits is told that it is over.
        let _ = for_reading.read(read).await;
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
            state.waiting.clear();
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

    async fn read(&self, mut stream: OwnedReadHalf) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 20];
        loop {
            let mut read = stream.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            self.with(|state| {
                while let Some((left, _)) = state.waiting.front_mut() {
                    if *left > read {
                        *left -= read;
                        return;
                    }
                    read -= *left;
                    if let Some((_, waiting)) = state.waiting.pop_front() {
                        // A worker that went away needs no answer.
                        let _ = waiting.send(());
                    }
                }
            });
        }
    }
}

impl Share {
    /// Reads; the bytes are counted and dropped.
    pub(super) async fn read(&self, offset: u64, length: u32) -> io::Result<usize> {
        let answered = self.0.with(|state| {
            if state.is_over {
                return Err(io::Error::from(ErrorKind::ConnectionReset));
            }
            let (waiting, answered) = oneshot::channel();
            put_request(&mut state.out, offset, length);
            state.waiting.push_back((length as usize, waiting));
            Ok(answered)
        })?;
        self.0.written.notify_one();
        answered.await.map_err(|_| io::Error::from(ErrorKind::ConnectionReset))?;
        Ok(length as usize)
    }
}

/// What the null server does not do.
pub(super) fn only_reads() -> io::Error {
    io::Error::other("the null server only reads")
}
