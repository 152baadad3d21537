//! A stream of lines: a bounded queue, and a thread that writes it to a file or to syslog. The log of single
//! requests and the audit are two such streams.
//!
//! [`LineStream`] is the queue, [`writer`] its thread, and [`target`] the place that lines go to:
//! [`mod@file`] or [`syslog`]. [`json`] makes a line.
//!
//! A line is copied into memory that the writer later takes as a whole. Nobody waits for a target, and in the
//! steady state nothing is allocated. A line that finds no room is counted. The writer puts a line about lost
//! ones into the stream as soon as there is room again.

pub mod file;
#[cfg(test)]
mod full_disk;
pub mod json;
pub mod syslog;
pub mod target;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use target::LineTarget;

/// Bytes that are gathered before they are written. They stay in the cache of a processor.
const GATHERED_BYTES: usize = 256 << 10;
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
        let (len, most) = (queued.bytes.len(), GATHERED_BYTES.min(queued.room / 2));
        drop(queued);
        // The writer sleeps without work, and gathers for a while when there is some.
        if before == 0 || (before < most && len >= most) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};
    use std::sync::mpsc::{Sender, sync_channel};
    use std::time::Instant;
    use target::LineTarget;

    /// A target whose writes wait for a permit: how many bytes may be taken, or none for a full disk.
    struct Gated {
        permits: Receiver<Option<usize>>,
        taken: Sender<Vec<u8>>,
    }

    impl LineTarget for Gated {
        fn write(&mut self, lines: &[u8], done: usize) -> std::io::Result<usize> {
            let lines = &lines[done..];
            // Without a tester nothing waits.
            let permit = self.permits.recv().unwrap_or(Some(usize::MAX));
            let room = permit.ok_or_else(|| Error::from(ErrorKind::StorageFull))?;
            let part = &lines[..lines.len().min(room)];
            let _tester_is_gone = self.taken.send(part.to_vec());
            Ok(done + part.len())
        }

        fn name(&self) -> String {
            "gate".to_owned()
        }
    }

    fn gated(
        room: usize,
    ) -> (Arc<LineStream>, std::sync::mpsc::SyncSender<Option<usize>>, Receiver<Vec<u8>>) {
        let (permit, permits) = sync_channel(100);
        let (taken, got) = channel();
        let tell = |lost: &Losses, out: &mut Vec<u8>| {
            assert!(lost.first_ns <= lost.last_ns);
            out.extend_from_slice(format!("lost {}\n", lost.count).as_bytes());
        };
        let target = Box::new(Gated { permits, taken });
        (LineStream::start("test", target, room, Some(tell)).unwrap(), permit, got)
    }

    fn text(got: &Receiver<Vec<u8>>) -> String {
        let mut all = Vec::new();
        while let Ok(part) = got.try_recv() {
            all.extend(part);
        }
        String::from_utf8(all).unwrap()
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_secs(20);
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn lines_that_find_no_room_are_counted_and_told_in_their_place() {
        let (stream, permit, got) = gated(40);
        stream.put(b"first\n");
        until("the writer has taken the first line", || held(&stream.queued).bytes.is_empty());
        // The writer waits for its permit, so these fill the room.
        for number in 0..100 {
            stream.put(format!("line {number:04}\n").as_bytes());
        }
        assert_eq!(stream.lost(), 96);
        for _ in 0..3 {
            permit.send(Some(usize::MAX)).unwrap();
        }
        until("all is written", || stream.written() == 6);
        stream.put(b"last\n");
        stream.stop();
        let wanted = "first\nline 0000\nline 0001\nline 0002\nline 0003\nlost 96\nlast\n";
        assert_eq!((text(&got).as_str(), stream.written(), stream.lost()), (wanted, 7, 96));
    }

    #[test]
    fn a_target_that_was_full_goes_on_where_it_stopped() {
        let (stream, permit, got) = gated(1000);
        stream.put(b"one\ntwo\n");
        permit.send(Some(2)).unwrap();
        permit.send(None).unwrap();
        until("the failure is seen", || stream.is_failing());
        stream.put(b"three\n");
        permit.send(Some(3)).unwrap();
        permit.send(Some(usize::MAX)).unwrap();
        permit.send(Some(usize::MAX)).unwrap();
        until("it has gone on", || stream.written() == 2);
        assert!(!stream.is_failing());
        stream.stop();
        assert_eq!((text(&got).as_str(), stream.lost()), ("one\ntwo\nthree\n", 0));
    }

    #[test]
    fn lines_of_a_failing_target_go_to_the_next_one() {
        let (stream, permit, got) = gated(1000);
        stream.put(b"one\n");
        // The first target has half of the line when it fails.
        permit.send(Some(2)).unwrap();
        permit.send(None).unwrap();
        until("the failure is seen", || stream.is_failing());
        let (_open, permits) = sync_channel(1);
        drop(_open);
        let (taken, next) = channel();
        stream.go_on(Box::new(Gated { permits, taken }), 1000);
        until("it is written", || stream.written() == 1);
        assert_eq!((text(&got).as_str(), text(&next).as_str()), ("on", "one\n"));
    }

    #[test]
    fn lines_that_are_left_at_the_end_are_counted_as_lost() {
        let (stream, permit, _got) = gated(1000);
        stream.put(b"one\n");
        permit.send(None).unwrap();
        until("the failure is seen", || stream.is_failing());
        stream.put(b"two\n");
        stream.stop();
        assert_eq!((stream.written(), stream.lost()), (0, 2));
        stream.put(b"late\n");
        assert_eq!(stream.lost(), 3);
    }

    #[test]
    fn many_threads_lose_nothing_while_there_is_room() {
        let (stream, permit, got) = gated(1 << 20);
        drop(permit);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let stream = &stream;
                scope.spawn(move || {
                    (0..5000).for_each(|number| stream.put(format!("{thread} {number}\n").as_bytes()));
                });
            }
        });
        stream.stop();
        let text = text(&got);
        assert_eq!((text.lines().count(), stream.written(), stream.lost()), (20_000, 20_000, 0));
        for thread in 0..4 {
            let own = text.lines().filter_map(|line| line.strip_prefix(&format!("{thread} ")));
            assert!(own.map(|number| number.parse::<u32>().unwrap()).eq(0..5000), "each in its order");
        }
    }
}
