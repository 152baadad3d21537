//! The counted operations, and the time in which they count.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies above this value are recorded as this value.
const MAX_LATENCY_NS: u64 = 3_600_000_000_000;

/// Operations of one kind: their number, their bytes and their latencies.
#[derive(Clone, Serialize, Deserialize)]
pub struct Tally {
    /// The number of operations.
    pub operations: u64,
    /// The bytes of data that they moved.
    pub bytes: u64,
    /// Latencies in nanoseconds, to three digits.
    #[serde(with = "as_pairs")]
    pub(crate) latency: Histogram<u64>,
    /// The operations and bytes in each slice of the measured time.
    slices: Vec<(u64, u64)>,
    /// The length of a slice in nanoseconds. Agents send only tallies with the usual length.
    #[serde(skip, default = "usual_slice")]
    slice: u64,
}

/// The length of the slices whose rates show how even a load was; the same as in fio.
pub(crate) const SLICE: Duration = Duration::from_millis(500);

fn usual_slice() -> u64 {
    nanoseconds(SLICE)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The most slices that are kept, enough for some days. Later operations count, but belong to no slice.
const MAX_SLICES: usize = 1 << 20;

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The thousands of counts of the histogram are left out.
        let (operations, bytes, mean) = (self.operations, self.bytes, self.latency.mean());
        write!(f, "{operations} operations of {bytes} bytes, {mean:.0} ns each")
    }
}

impl Default for Tally {
    fn default() -> Tally {
        // The histogram starts small and grows, because there may be many.
        let latency = Histogram::new(3).expect("three digits can be had");
        Tally { operations: 0, bytes: 0, latency, slices: Vec::new(), slice: usual_slice() }
    }
}

impl Tally {
    /// Adds an operation that took `took` and was done `at` after the start of the measured time.
    pub(crate) fn add(&mut self, bytes: u64, took: Duration, at: Duration) {
        self.operations += 1;
        self.bytes += bytes;
        self.latency.record(nanoseconds(took).clamp(1, MAX_LATENCY_NS)).expect("it grows as far as this");
        let slice = (nanoseconds(at) / self.slice) as usize;
        if slice < MAX_SLICES {
            if self.slices.len() <= slice {
                self.slices.resize(slice + 1, (0, 0));
            }
            self.slices[slice].0 += 1;
            self.slices[slice].1 += bytes;
        }
    }

    pub(crate) fn merge(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.latency.add(&other.latency).expect("all histograms have three digits and grow");
        if self.slices.len() < other.slices.len() {
            self.slices.resize(other.slices.len(), (0, 0));
        }
        for (own, other) in self.slices.iter_mut().zip(&other.slices) {
            *own = (own.0 + other.0, own.1 + other.1);
        }
    }

    /// Appends the operations of a later measurement. They follow `lasted`, the measured time so far.
    fn then(&mut self, other: &Tally, lasted: Duration) {
        let slices = std::mem::take(&mut self.slices);
        self.merge(&Tally { slices: Vec::new(), ..other.clone() });
        let whole = (nanoseconds(lasted) / self.slice) as usize;
        self.slices = slices;
        self.slices.resize(whole.min(MAX_SLICES), (0, 0));
        self.slices.extend(other.slices.iter().take(MAX_SLICES - self.slices.len()));
    }

    /// The latency in nanoseconds that this percentage of the operations did not exceed.
    #[must_use]
    pub fn latency_ns(&self, percent: f64) -> u64 {
        self.latency.value_at_percentile(percent)
    }

    /// Operations and bytes a second, in each slice that lies completely in the measured time.
    pub fn rates(&self, lasted: Duration) -> Vec<(f64, f64)> {
        let whole = (nanoseconds(lasted) / self.slice) as usize;
        let rate = |count: u64| count as f64 * 1e9 / self.slice as f64;
        let slices = self.slices.iter().copied().chain(std::iter::repeat((0, 0)));
        slices
            .take(whole.min(MAX_SLICES))
            .map(|(operations, bytes)| (rate(operations), rate(bytes)))
            .collect()
    }
}

/// Writes a histogram as pairs of a value and its count. Recording the pairs again gives the same
/// histogram.
mod as_pairs {
    use hdrhistogram::Histogram;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use super::{MAX_LATENCY_NS, Tally};

    pub(super) fn serialize<S: Serializer>(histogram: &Histogram<u64>, to: S) -> Result<S::Ok, S::Error> {
        let pairs = histogram.iter_recorded().map(|it| (it.value_iterated_to(), it.count_at_value()));
        pairs.collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Histogram<u64>, D::Error> {
        let mut histogram = Tally::default().latency;
        for (value, count) in Vec::<(u64, u64)>::deserialize(from)? {
            // The highest value that is equivalent to a value may lie a little above the limit.
            let value = value.clamp(1, MAX_LATENCY_NS);
            histogram.record_n(value, count).map_err(D::Error::custom)?;
        }
        Ok(histogram)
    }
}

/// The kind of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A read.
    Read,
    /// A write.
    Write,
    /// An operation on names.
    Metadata,
}

/// The operations of one job in the measured time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Record {
    pub(crate) read: Tally,
    pub(crate) write: Tally,
    pub(crate) metadata: Tally,
    /// The time from the start of the measured time to the end of the last operation.
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

    /// Appends a later measurement of the same job.
    pub(crate) fn then(&mut self, other: &Record) {
        for (own, more) in [
            (&mut self.read, &other.read),
            (&mut self.write, &other.write),
            (&mut self.metadata, &other.metadata),
        ] {
            own.then(more, self.lasted);
        }
        self.lasted += other.lasted;
    }

    pub(crate) fn operations(&self) -> u64 {
        self.read.operations + self.write.operations + self.metadata.operations
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes + self.metadata.bytes
    }

    /// An empty record whose rates are taken over slices of this length.
    #[must_use]
    pub fn by_slices(slice: Duration) -> Record {
        let tally = || Tally { slice: nanoseconds(slice).max(1), ..Tally::default() };
        Record { read: tally(), write: tally(), metadata: tally(), lasted: Duration::ZERO }
    }

    /// The tally of all kinds together.
    #[must_use]
    pub fn total(&self) -> Tally {
        let mut total = self.read.clone();
        total.merge(&self.write);
        total.merge(&self.metadata);
        total
    }
}

/// Decides whether an operation that begins now counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasurementPhase {
    /// It runs before or after the measured time, and does not count.
    Aside,
    /// It counts. The number is unique among all operations that count.
    Counts(u64),
    /// No operation begins any more.
    Over,
}

/// Ends a run from outside. All clones refer to the same run.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Ends the run: no operation begins any more, and those under way finish.
    pub fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The measured time, for all connections.
///
/// An operation that begins in the measured time counts when it is done. After a warm-up some operations
/// are under way at the start, which do not count, and as many are under way at the end, which do. If the
/// start is set during the run ([`MeasurementWindow::opened_later`]), the operations that end in the time
/// count.
#[derive(Debug)]
pub struct MeasurementWindow {
    start: OnceLock<Instant>,
    /// The start of the measured time.
    from: OnceLock<Instant>,
    /// The time before the measured time. `None` if the start is set during the run.
    ramp: Option<Duration>,
    runtime: Option<Duration>,
    cool_down: Duration,
    operations: Option<u64>,
    given: AtomicU64,
    stopped: Stop,
}

impl MeasurementWindow {
    /// A window that ends `runtime` after `ramp`, or after this number of operations.
    #[must_use]
    pub fn new(ramp: Duration, runtime: Option<Duration>, operations: Option<u64>) -> MeasurementWindow {
        MeasurementWindow {
            start: OnceLock::new(),
            from: OnceLock::new(),
            ramp: Some(ramp),
            runtime,
            cool_down: Duration::ZERO,
            operations,
            given: AtomicU64::new(0),
            stopped: Stop::default(),
        }
    }

    /// A window whose measured time starts with [`MeasurementWindow::open`] and lasts for `runtime`.
    #[must_use]
    pub fn opened_later(runtime: Duration) -> MeasurementWindow {
        MeasurementWindow { ramp: None, ..MeasurementWindow::new(Duration::ZERO, Some(runtime), None) }
    }

    /// The same window, after which work continues for a while without being counted.
    pub(crate) fn and_cool_down(self, cool_down: Duration) -> MeasurementWindow {
        MeasurementWindow { cool_down, ..self }
    }

    /// The same window, which `stop` can end too.
    pub(crate) fn and_stopped_by(self, stop: &Stop) -> MeasurementWindow {
        MeasurementWindow { stopped: stop.clone(), ..self }
    }

    /// Starts the work.
    pub fn begin(&self, at: Instant) {
        self.start.get_or_init(|| at);
        if let Some(ramp) = self.ramp {
            self.open(at + ramp);
        }
    }

    /// Starts the measured time, unless it has started. Returns its start.
    pub fn open(&self, at: Instant) -> Instant {
        *self.from.get_or_init(|| at)
    }

    /// Ends the work: no operation begins any more.
    pub fn stop(&self) {
        self.stopped.now();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_asked_for()
    }

    pub(crate) fn start(&self) -> Instant {
        *self.start.get().expect("nobody asks before it has begun")
    }

    /// The start of the measured time.
    pub(crate) fn measured_from(&self) -> Instant {
        *self.from.get().expect("nobody asks before it is decided")
    }

    /// The end of the measured time. `None` if only a number of operations ends it, or if the start is
    /// not set.
    pub(crate) fn measured_to(&self) -> Option<Instant> {
        Some(*self.from.get()? + self.runtime?)
    }

    /// Whether it is too late to begin an operation.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.is_stopped() || self.measured_to().is_some_and(|end| now >= end + self.cool_down)
    }

    /// The phase of an operation that begins at `now`.
    pub(crate) fn phase(&self, now: Instant) -> MeasurementPhase {
        if self.is_over(now) {
            return MeasurementPhase::Over;
        }
        let has_begun = self.from.get().is_some_and(|from| now >= *from);
        if !has_begun || self.measured_to().is_some_and(|end| now >= end) {
            return MeasurementPhase::Aside;
        }
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        match self.operations {
            Some(limit) if number >= limit => MeasurementPhase::Over,
            _ => MeasurementPhase::Counts(number),
        }
    }
}

impl MeasurementWindow {
    /// The time from the start of the measured time to `end`, for an operation of this phase.
    /// `None` if it does not count.
    pub(crate) fn counted(&self, phase: MeasurementPhase, end: Instant) -> Option<Duration> {
        let at = end.checked_duration_since(*self.from.get()?)?;
        let counts = match self.ramp {
            Some(_) => matches!(phase, MeasurementPhase::Counts(_)),
            None => self.runtime.is_none_or(|runtime| at < runtime),
        };
        counts.then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_begins_once_and_lasts_for_its_time() {
        let window = MeasurementWindow::opened_later(Duration::from_millis(100));
        let now = Instant::now();
        assert_eq!(
            (window.phase(now), window.counted(MeasurementPhase::Aside, now)),
            (MeasurementPhase::Aside, None),
            "it has not begun"
        );
        assert_eq!((window.open(now), window.open(now + Duration::from_secs(1))), (now, now));
        let at = |ms| now + Duration::from_millis(ms);
        // An operation that began earlier counts too.
        assert_eq!(window.counted(MeasurementPhase::Aside, at(99)), Some(Duration::from_millis(99)));
        assert!(window.counted(MeasurementPhase::Counts(0), at(100)).is_none());
        assert_eq!(window.phase(at(100)), MeasurementPhase::Over);
    }

    #[test]
    fn exactly_the_operations_that_were_asked_for_count() {
        let window = MeasurementWindow::new(Duration::from_secs(1), None, Some(3));
        let start = Instant::now();
        window.begin(start);
        let at = |ms| window.phase(start + Duration::from_millis(ms));
        assert_eq!([at(0), at(999)], [MeasurementPhase::Aside, MeasurementPhase::Aside]);
        let turns = [at(1000), at(1001), at(9000), at(9001)];
        assert_eq!(
            turns,
            [
                MeasurementPhase::Counts(0),
                MeasurementPhase::Counts(1),
                MeasurementPhase::Counts(2),
                MeasurementPhase::Over
            ]
        );
    }

    #[test]
    fn the_time_ends_it_and_so_does_a_failure() {
        let window = MeasurementWindow::new(Duration::ZERO, Some(Duration::from_secs(2)), None);
        let start = Instant::now();
        window.begin(start);
        assert_eq!(window.phase(start + Duration::from_millis(1999)), MeasurementPhase::Counts(0));
        assert_eq!(window.phase(start + Duration::from_secs(2)), MeasurementPhase::Over);
        assert_eq!(window.phase(start), MeasurementPhase::Counts(1));
        window.stop();
        assert_eq!(window.phase(start), MeasurementPhase::Over);
        let stop = Stop::default();
        let window = MeasurementWindow::new(Duration::ZERO, None, None).and_stopped_by(&stop);
        window.begin(start);
        assert_eq!(window.phase(start), MeasurementPhase::Counts(0));
        stop.clone().now();
        assert_eq!(window.phase(start), MeasurementPhase::Over);
    }

    #[test]
    fn behind_a_ramp_what_began_in_time_counts_when_it_is_done() {
        let seconds = Duration::from_secs;
        let window = MeasurementWindow::new(seconds(1), Some(seconds(2)), None);
        let start = Instant::now();
        window.begin(start);
        let (early, timely) = (window.phase(start), window.phase(start + seconds(2)));
        assert_eq!((early, timely), (MeasurementPhase::Aside, MeasurementPhase::Counts(0)));
        // One operation ends in the measured time, the other one after it.
        assert_eq!(window.counted(early, start + seconds(2)), None);
        assert_eq!(window.counted(timely, start + seconds(5)), Some(seconds(4)));
    }

    #[test]
    fn what_begins_while_it_cools_down_does_not_count() {
        let seconds = Duration::from_secs;
        let window = MeasurementWindow::new(seconds(1), Some(seconds(2)), None).and_cool_down(seconds(3));
        let start = Instant::now();
        window.begin(start);
        let turns = [0, 1, 2, 3, 5, 6].map(|second| window.phase(start + seconds(second)));
        assert_eq!(
            turns,
            [
                MeasurementPhase::Aside,
                MeasurementPhase::Counts(0),
                MeasurementPhase::Counts(1),
                MeasurementPhase::Aside,
                MeasurementPhase::Aside,
                MeasurementPhase::Over
            ]
        );
    }

    #[test]
    fn rates_are_those_of_whole_slices() {
        let mut tally = Tally::default();
        for at in [0, 100, 499, 1200, 1600] {
            tally.add(10, Duration::from_millis(1), Duration::from_millis(at));
        }
        assert_eq!(tally.rates(Duration::from_millis(1600)), [(6.0, 60.0), (0.0, 0.0), (2.0, 20.0)]);
        assert_eq!(tally.rates(Duration::from_millis(400)), []);
    }

    #[test]
    fn a_record_comes_back_from_its_text_as_it_was() {
        let mut record = Record { lasted: Duration::from_millis(1234), ..Record::default() };
        for ns in [1, 999, 1_000_003, 77_777_777, 5_000_000_000_000] {
            record.tally(Kind::Write).add(5, Duration::from_nanos(ns), SLICE);
        }
        let text = serde_json::to_string(&record).unwrap();
        let back: Record = serde_json::from_str(&text).unwrap();
        assert_eq!((back.write.operations, back.write.bytes, back.lasted), (5, 25, record.lasted));
        assert_eq!(back.write.slices, record.write.slices);
        for percent in [0.0, 20.0, 40.0, 60.0, 80.0, 100.0] {
            let of = |record: &Record| record.write.latency.value_at_percentile(percent);
            assert_eq!(of(&back), of(&record), "{percent}");
        }
    }

    #[test]
    fn what_comes_in_a_later_turn_stands_behind_what_was_before() {
        let half = |count| {
            let mut record = Record { lasted: 2 * SLICE, ..Record::default() };
            (0..count).for_each(|_| record.tally(Kind::Read).add(10, Duration::from_millis(1), SLICE));
            record
        };
        let mut record = half(2);
        record.then(&half(3));
        assert_eq!((record.lasted, record.operations(), record.bytes()), (4 * SLICE, 5, 50));
        assert_eq!(record.read.slices, [(0, 0), (2, 20), (0, 0), (3, 30)]);
        assert_eq!(record.read.latency.len(), 5);
    }

    #[test]
    fn records_of_connections_add_up() {
        let (mut a, mut b) = (Record::default(), Record::default());
        a.tally(Kind::Read).add(4096, Duration::from_micros(10), Duration::ZERO);
        b.tally(Kind::Read).add(100, Duration::from_micros(30), SLICE);
        b.tally(Kind::Write).add(7, Duration::from_secs(7200), SLICE);
        b.lasted = Duration::from_secs(3);
        a.merge(&b);
        assert_eq!((a.read.operations, a.read.bytes, a.operations()), (2, 4196, 3));
        assert_eq!((a.read.latency.len(), a.total().latency.len()), (2, 3));
        assert_eq!(a.read.slices, [(1, 4096), (1, 100)]);
        assert!(a.write.latency.max() <= MAX_LATENCY_NS + MAX_LATENCY_NS / 1000);
        assert_eq!(a.lasted, Duration::from_secs(3));
    }
}
