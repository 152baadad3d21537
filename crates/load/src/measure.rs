//! What is counted, and when.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// Latencies above this are counted as this.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Operations of one kind: how many, how many bytes, how long each took.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    /// Nanoseconds, to three digits.
    pub(crate) latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Tally {
        let latency = Histogram::new_with_bounds(1, MAX_LATENCY_NS, 3).expect("the bounds are in order");
        Tally { operations: 0, bytes: 0, latency }
    }
}

impl Tally {
    pub(crate) fn add(&mut self, bytes: u64, took: Duration) {
        self.operations += 1;
        self.bytes += bytes;
        self.latency.saturating_record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("all histograms have the same bounds");
    }
}

/// What an operation was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
    Metadata,
}

/// What one connection has done in the measured time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    pub(crate) read: Tally,
    pub(crate) write: Tally,
    pub(crate) metadata: Tally,
    /// From the begin of the measured time to the end of the last operation.
    pub(crate) lasted: Duration,
}

impl Record {
    pub(crate) fn tally(&mut self, kind: Kind) -> &mut Tally {
        match kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Metadata => &mut self.metadata,
        }
    }

    pub(crate) fn merge(&mut self, other: &Record) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.metadata.merge(&other.metadata);
        self.lasted = self.lasted.max(other.lasted);
    }

    pub(crate) fn operations(&self) -> u64 {
        self.read.operations + self.write.operations + self.metadata.operations
    }
}

/// Whether an operation that begins now counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It warms up.
    Ramp,
    /// It counts; the number is its own among all that count.
    Counts(u64),
    /// There is nothing more to do.
    Over,
}

/// When what counts begins and ends, for all connections.
#[derive(Debug)]
pub(crate) struct Course {
    start: OnceLock<Instant>,
    ramp: Duration,
    runtime: Option<Duration>,
    operations: Option<u64>,
    given: AtomicU64,
    stopped: AtomicBool,
}

impl Course {
    pub(crate) fn new(ramp: Duration, runtime: Option<Duration>, operations: Option<u64>) -> Course {
        let (given, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Course { start: OnceLock::new(), ramp, runtime, operations, given, stopped }
    }

    /// Starts it.
    pub(crate) fn begin(&self, at: Instant) {
        self.start.get_or_init(|| at);
    }

    /// Ends it, because something went wrong.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// When the measured time begins.
    pub(crate) fn measured_from(&self) -> Instant {
        *self.start.get().expect("nobody asks before it has begun") + self.ramp
    }

    /// What an operation is that begins at `now`.
    pub(crate) fn turn(&self, now: Instant) -> Turn {
        if self.is_stopped() {
            return Turn::Over;
        }
        let from = self.measured_from();
        if now < from {
            return Turn::Ramp;
        }
        if self.runtime.is_some_and(|runtime| now - from >= runtime) {
            return Turn::Over;
        }
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        match self.operations {
            Some(limit) if number >= limit => Turn::Over,
            _ => Turn::Counts(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_operations_that_were_asked_for_count() {
        let course = Course::new(Duration::from_secs(1), None, Some(3));
        let start = Instant::now();
        course.begin(start);
        let at = |ms| course.turn(start + Duration::from_millis(ms));
        assert_eq!([at(0), at(999)], [Turn::Ramp, Turn::Ramp]);
        let turns = [at(1000), at(1001), at(9000), at(9001)];
        assert_eq!(turns, [Turn::Counts(0), Turn::Counts(1), Turn::Counts(2), Turn::Over]);
    }

    #[test]
    fn the_time_ends_it_and_so_does_a_failure() {
        let course = Course::new(Duration::ZERO, Some(Duration::from_secs(2)), None);
        let start = Instant::now();
        course.begin(start);
        assert_eq!(course.turn(start + Duration::from_millis(1999)), Turn::Counts(0));
        assert_eq!(course.turn(start + Duration::from_secs(2)), Turn::Over);
        assert_eq!(course.turn(start), Turn::Counts(1));
        course.stop();
        assert_eq!(course.turn(start), Turn::Over);
    }

    #[test]
    fn records_of_connections_add_up() {
        let (mut a, mut b) = (Record::default(), Record::default());
        a.tally(Kind::Read).add(4096, Duration::from_micros(10));
        b.tally(Kind::Read).add(100, Duration::from_micros(30));
        b.tally(Kind::Write).add(7, Duration::from_secs(7200));
        b.lasted = Duration::from_secs(3);
        a.merge(&b);
        assert_eq!((a.read.operations, a.read.bytes, a.operations()), (2, 4196, 3));
        assert_eq!(a.read.latency.len(), 2);
        assert!(a.write.latency.max() <= MAX_LATENCY_NS + MAX_LATENCY_NS / 1000);
        assert_eq!(a.lasted, Duration::from_secs(3));
    }
}
