//! A stream of lines: a bounded queue, and a thread that writes it to a file or to syslog. The log of single
//! requests and the audit are two such streams.
//!
//! [`LineStream`] is the queue, [`writer`] its thread, and [`target`] the place that lines go to: [`file`] or
//! [`syslog`]. [`json`] makes a line.
//!
//! A line is copied into memory that the writer later takes as a whole. Nobody waits for a target, and in the
//! steady state nothing is allocated. A line that finds no room is counted. The writer puts a line about lost
//! ones into the stream as soon as there is room again.

pub mod file;
pub mod json;
pub mod syslog;
pub mod target;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use target::LineTarget;

/// The longest wait for a target that blocks, at the end.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// Lines that found no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Their number.
    pub count: u64,
    /// The time of the first one (wall ns).
    pub first_ns: i64,
    /// The time of the last one.
    pub last_ns: i64,
}

/// The contents of the queue.
#[derive(Default)]
struct Queued {
    /// Whole lines, each with its end.
    bytes: Vec<u8>,
    lines: u64,
    lost: Losses,
    /// The target to go on with.
    next: Option<Box<dyn LineTarget>>,
    /// The most bytes.
    room: usize,
    ends: bool,
}

/// The numbers of a stream.
#[derive(Default)]
struct Numbers {
    written: AtomicU64,
    lost: AtomicU64,
    /// The target takes nothing at this moment.
    is_failing: AtomicBool,
}

/// A stream of lines.
pub struct LineStream {
    /// The stream's subject, for messages.
    subject: &'static str,
    queued: Mutex<Queued>,
    /// Wakes the writer.
    has_work: Condvar,
    numbers: Numbers,
    /// Reports when the thread has ended.
    ended: Mutex<Receiver<()>>,
}

impl LineStream {
    /// Begins a stream of `subject` to a target, with room for `room` bytes that are not written yet.
    /// `tell_losses` makes the line about lost lines; with None they are only counted.
    ///
    /// # Errors
    /// The host has no thread.
    pub fn start(
        subject: &'static str,
        target: Box<dyn LineTarget>,
        room: usize,
        tell_losses: Option<fn(&Losses, &mut Vec<u8>)>,
    ) -> std::io::Result<Arc<LineStream>> {
        let (ends, ended) = channel();
        let stream = Arc::new(LineStream {
            subject,
            queued: Mutex::new(Queued { room, ..Queued::default() }),
            has_work: Condvar::new(),
            numbers: Numbers::default(),
            ended: Mutex::new(ended),
        });
        let of_thread = Arc::clone(&stream);
        let thread = std::thread::Builder::new().name(format!("trunkline-{subject}"));
        thread.spawn(move || {
            let _ends: std::sync::mpsc::Sender<()> = ends;
            writer::run(&of_thread, target, tell_losses);
        })?;
        Ok(stream)
    }

    /// Adds a line, which has its end. Never waits for the target.
    pub fn put(&self, line: &[u8]) {
        let mut queued = held(&self.queued);
        if queued.ends || queued.bytes.len() + line.len() > queued.room {
            let now_ns = net::now().wall_ns;
            let lost = &mut queued.lost;
            if lost.count == 0 {
                lost.first_ns = now_ns;
            }
            (lost.count, lost.last_ns) = (lost.count + 1, now_ns);
            drop(queued);
            self.numbers.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let before = queued.bytes.len();
        queued.bytes.extend_from_slice(line);
        queued.lines += 1;
        let (len, half) = (queued.bytes.len(), queued.room / 2);
        drop(queued);
        // The writer sleeps without work, and gathers for a while when there is some.
        if before == 0 || (before < half && len >= half) {
            self.has_work.notify_one();
        }
    }

    /// Goes on with another target and another room. Lines that wait go to the new target.
    pub fn go_on(&self, target: Box<dyn LineTarget>, room: usize) {
        let mut queued = held(&self.queued);
        (queued.next, queued.room) = (Some(target), room);
        drop(queued);
        self.has_work.notify_one();
    }

    /// Lines that were written.
    pub fn written(&self) -> u64 {
        self.numbers.written.load(Ordering::Relaxed)
    }

    /// Lines that were lost.
    pub fn lost(&self) -> u64 {
        self.numbers.lost.load(Ordering::Relaxed)
    }

    /// Whether the target takes nothing at this moment.
    pub fn is_failing(&self) -> bool {
        self.numbers.is_failing.load(Ordering::Relaxed)
    }

    /// Writes the lines that wait, and ends the thread. Lines that the target does not take are lost.
    pub fn stop(&self) {
        held(&self.queued).ends = true;
        self.has_work.notify_one();
        if held(&self.ended).recv_timeout(STOPS_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("{}: its target takes nothing, and the server ends without it", self.subject);
        }
    }
}

/// Locks a mutex. Another thread's panic leaves nothing half done in these.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
