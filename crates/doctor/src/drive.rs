//! Short measured runs with a number of operations under way over a number of connections. The measured
//! time is divided into parts. Their rates show how even it was and how certain the mean is. It begins
//! when the rate is even: a connection that still increases its rate would be measured too slow, and one
//! that has just dropped segments too fast.
//!
//! The engine of `trunkline load` ([`load::engine`]) keeps the operations under way and counts them. This
//! module has the operations, decides when the measured time begins, and computes the result.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::Bytes;
use client::remote::{Directory, OpenMode, RemoteFile};
use load::cpu::{Account, Usage};
use load::engine::{
    CompletedOperation, Kind, MeasurementPhase, MeasurementWindow, Operation, Record, Tally, WorkerGroup,
};
use load::host_activity::waited_ns;

use crate::cleanup::CreatedNames;
use crate::measurements::{Run, RunKind, Traffic};
use crate::tcp::TcpInfo;

/// The number of parts of a run.
const PARTS: u32 = 20;
/// With this many times the depth in operations, a run is so long that its exact start and end do not
/// matter.
const MANY_DEPTHS: u64 = 20;
/// The number of times that the kernel's round trip is read during a run.
const ROUND_TRIPS: u32 = 10;
/// Student's t for 19 degrees of freedom, 95 %.
const CONFIDENCE: f64 = 2.093;

/// Reads the kernel's counters of all connections.
type Accounting<'a> = dyn Fn() -> Vec<TcpInfo> + Sync + 'a;

/// The objects of a run: for each session a directory and, for data, the open file.
#[derive(Debug, Clone)]
pub(crate) struct RunFixture {
    pub(crate) places: Vec<(Directory, Option<Arc<RemoteFile>>)>,
    /// The bytes of the file that may be read or written.
    pub(crate) extent: u64,
    pub(crate) content: Bytes,
    /// The names of files that may exist.
    pub(crate) made: CreatedNames,
}

/// The parameters of one run.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) work: RunKind,
    pub(crate) block: u32,
    pub(crate) depth: u32,
    pub(crate) connections: u32,
    /// The least time before the measured time.
    pub(crate) ramp: Duration,
    /// The longest extension of that time while the rate changes, and the interval at which the rate is
    /// checked.
    pub(crate) settling: Duration,
    pub(crate) slice: Duration,
    pub(crate) time: Duration,
    /// The time without any progress after which the server counts as stalled.
    pub(crate) stall: Duration,
    /// The most operations that may begin in a second.
    pub(crate) most_per_s: Option<f64>,
}

/// The reason why a run has no result.
#[derive(Debug, Clone)]
pub(crate) enum Failure {
    Server(client::Error),
    Stalled(Duration),
}

impl From<client::Error> for Failure {
    fn from(why: client::Error) -> Failure {
        Failure::Server(why)
    }
}

/// Waits until the rate is even, and starts the measured time. Returns its start.
async fn open(
    course: &MeasurementWindow,
    order: &Order,
    begun: Instant,
    account: &Accounting<'_>,
) -> Instant {
    let last = begun + order.ramp + order.settling;
    let mut from = begun + order.ramp;
    if !order.settling.is_zero() {
        // The last two slices before the measured time are checked already.
        from = begun + order.ramp.saturating_sub(order.slice * 2);
        tokio::time::sleep_until(from.into()).await;
        let mut change = Change { seen: moved(&account()), before: None };
        while from + order.slice <= last {
            from += order.slice;
            tokio::time::sleep_until(from.into()).await;
            if !change.goes_on(moved(&account())) {
                break;
            }
        }
        // Two slices may be longer than the whole time before.
        from = from.max(begun + order.ramp);
    }
    tokio::time::sleep_until(from.into()).await;
    // Waking may take a while on a busy host.
    course.open(from.max(Instant::now()))
}

/// Bytes that arrived at the other side, and at this one.
fn moved(connections: &[TcpInfo]) -> u64 {
    connections.iter().map(|it| it.bytes_came + it.bytes_acknowledged).sum()
}

/// Detects whether the rate still changes from slice to slice. It grows while a connection increases its
/// rate, and it falls to the rate of the path when the segments that a full queue dropped have arrived.
/// Bytes show this better than operations, which may be few.
#[derive(Debug)]
struct Change {
    /// The bytes at the end of the last slice.
    seen: u64,
    /// The bytes of the last slice.
    before: Option<u64>,
}

impl Change {
    /// Adds the bytes at the end of one more slice. True if the slice had clearly more or fewer bytes
    /// than the one before, or if it is the first.
    fn goes_on(&mut self, moved: u64) -> bool {
        // The sum decreases when a connection is lost together with its counter.
        let now = moved.saturating_sub(self.seen);
        let goes_on = self.before.is_none_or(|before| now.abs_diff(before) > before / 8);
        (self.seen, self.before) = (moved, Some(now));
        goes_on
    }
}

/// The number of operations that began, and that ended.
#[derive(Debug, Default)]
struct Progress {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Progress {
    /// Ends when the operations under way made no progress for `stall`: no reply, and not a byte in
    /// either direction. A slow path needs time for much data that is sent at once, which is no stall.
    async fn stalls(&self, stall: Duration, account: &Accounting<'_>) -> Failure {
        let (mut before, mut since) = (None, Instant::now());
        loop {
            tokio::time::sleep(stall / 10).await;
            let ended = self.ended.load(Ordering::Relaxed);
            let now = Some((ended, moved(&account())));
            if now != before || self.begun.load(Ordering::Relaxed) == ended {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() >= stall {
                return Failure::Stalled(stall);
            }
        }
    }
}

/// Runs `order`. `account` reads the kernel's counters of all connections.
pub(crate) async fn run(bench: &RunFixture, order: &Order, account: &Accounting<'_>) -> Result<Run, Failure> {
    let progress = Arc::new(Progress::default());
    tokio::select! {
        done = measured(bench, order, account, &progress) => done,
        stalled = progress.stalls(order.stall, account) => Err(stalled),
    }
}

/// Runs `order` on a server that does not stall.
async fn measured(
    bench: &RunFixture,
    order: &Order,
    account: &Accounting<'_>,
    progress: &Arc<Progress>,
) -> Result<Run, Failure> {
    let begun = Instant::now();
    let course = Arc::new(MeasurementWindow::opened_later(order.time));
    let record = Arc::new(Mutex::new(Record::by_slices(order.time / PARTS)));
    let worker = |number: u32| Worker {
        bench: bench.clone(),
        order: order.clone(),
        progress: Arc::clone(progress),
        number: u64::from(number),
        turn: 0,
    };
    let crew = WorkerGroup::begin(order.depth, worker, &course, order.most_per_s, &record);
    let from = open(&course, order, begun, account).await;
    let before = Moment::read(account);
    let mut longest_rtt_ms = 0.0f64;
    for look in 1..=ROUND_TRIPS {
        tokio::time::sleep_until((from + order.time * look / ROUND_TRIPS).into()).await;
        longest_rtt_ms = longest_rtt_ms.max(rtt_ms(&account()));
    }
    let after = Moment::read(account);
    course.stop();
    crew.end().await?;
    let tally = record.lock().unwrap_or_else(PoisonError::into_inner).total();
    Ok(result(order, &tally, &before, &after, longest_rtt_ms))
}

fn result(order: &Order, tally: &Tally, before: &Moment, after: &Moment, longest_rtt_ms: f64) -> Run {
    let seconds = order.time.as_secs_f64();
    let by_operations = (tally.operations as f64 / seconds, 1.0 / tally.operations.max(1) as f64);
    let by_bytes = moved_per_s(order, tally.operations, before, after);
    let (per_s, cut) = by_bytes.map_or(by_operations, |bytes| (bytes / f64::from(order.block), 0.0));
    let parts: Vec<f64> = tally.rates(order.time).into_iter().map(|(operations, _)| operations).collect();
    let at = |percent: f64| tally.latency_ns(percent) as f64 / 1e6;
    let wall = (after.at - before.at).as_nanos().max(1) as f64;
    let own = after.own.as_ref().zip(before.own.as_ref()).map_or(0, |(after, before)| after.since(before));
    Run {
        work: order.work,
        block: order.block,
        depth: order.depth,
        connections: order.connections,
        lasted_s: seconds,
        operations: tally.operations,
        per_s,
        cut,
        interval: interval(&parts),
        turns: vec![per_s],
        mib_s: per_s * f64::from(order.block) / 1_048_576.0,
        median_ms: at(50.0),
        p99_ms: at(99.0),
        parts,
        own_processors: own as f64 / wall,
        idle: after.all.since(&before.all).idle(),
        waited: after
            .waited_ns
            .zip(before.waited_ns)
            .map(|(after, before)| after.saturating_sub(before) as f64 / wall),
        tcp: traffic(&before.tcp, &after.tcp, longest_rtt_ms),
    }
}

/// Bytes a second by the kernel's count, which the ends of the run do not cut. `None` if the operations
/// are numerous enough to tell the same, or if the kernel does not count the same connections at both
/// ends.
fn moved_per_s(order: &Order, operations: u64, before: &Moment, after: &Moment) -> Option<f64> {
    let is_long = operations >= MANY_DEPTHS * u64::from(order.depth);
    if is_long || before.tcp.is_empty() || before.tcp.len() != after.tcp.len() {
        return None;
    }
    let of: fn((&TcpInfo, &TcpInfo)) -> u64 = match order.work {
        RunKind::Write => |(before, after)| after.bytes_delivered().saturating_sub(before.bytes_delivered()),
        RunKind::Read | RunKind::ReadAgain => |(before, after)| after.bytes_came_since(before),
        RunKind::SmallRead | RunKind::SmallFiles => return None,
    };
    let moved: u64 = before.tcp.iter().zip(&after.tcp).map(of).sum();
    Some(moved as f64 / (after.at - before.at).as_secs_f64().max(1e-9))
}

/// The mean of the parts, minus and plus its error.
fn interval(parts: &[f64]) -> [f64; 2] {
    let count = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / count;
    let variance = parts.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let wrong = CONFIDENCE * (variance / count).sqrt();
    [(mean - wrong).max(0.0), mean + wrong]
}

/// The counters at one moment.
pub(crate) struct Moment {
    at: Instant,
    own: Option<Account>,
    all: Usage,
    waited_ns: Option<u64>,
    tcp: Vec<TcpInfo>,
}

impl Moment {
    pub(crate) fn read(account: &Accounting<'_>) -> Moment {
        Moment {
            at: Instant::now(),
            own: Account::own().ok(),
            all: Usage::read(),
            // The doctor works on one thread (`run::run`).
            waited_ns: waited_ns(),
            tcp: account(),
        }
    }

    /// The idle part of all processors since that moment.
    pub(crate) fn idle_since(&self) -> f64 {
        Usage::read().since(&self.all).idle()
    }
}

/// The mean round trip of the connections.
fn rtt_ms(connections: &[TcpInfo]) -> f64 {
    connections.iter().map(|it| it.rtt_ms).sum::<f64>() / connections.len().max(1) as f64
}

fn traffic(before: &[TcpInfo], after: &[TcpInfo], longest_rtt_ms: f64) -> Option<Traffic> {
    if after.is_empty() {
        return None;
    }
    let sum = |of: fn(&TcpInfo) -> u64| {
        let sum = |all: &[TcpInfo]| all.iter().map(of).sum::<u64>();
        sum(after).saturating_sub(sum(before))
    };
    let busy = sum(|it| it.busy_us).max(1) as f64;
    Some(Traffic {
        sent: sum(|it| it.segments_sent.into()),
        sent_again: sum(|it| it.segments_sent_again.saturating_sub(it.sent_again_in_vain).into()),
        came: sum(|it| it.segments_came.into()),
        out_of_order: sum(|it| it.out_of_order.into()),
        rtt_ms: longest_rtt_ms.max(rtt_ms(after)),
        held_by_peer_window: sum(|it| it.peer_window_full_us) as f64 / busy,
        held_by_send_buffer: sum(|it| it.send_buffer_full_us) as f64 / busy,
    })
}

/// A worker that does one operation after the other.
struct Worker {
    bench: RunFixture,
    order: Order,
    progress: Arc<Progress>,
    /// The number of the worker among all.
    number: u64,
    turn: u64,
}

impl Operation for Worker {
    type Error = Failure;

    fn waiting(why: io::Error) -> Failure {
        Failure::Server(client::Error::Local(why.into()))
    }

    async fn once(&mut self, _phase: MeasurementPhase) -> Result<CompletedOperation, Failure> {
        self.progress.begun.fetch_add(1, Ordering::Relaxed);
        let kind = self.operation().await?;
        self.progress.ended.fetch_add(1, Ordering::Relaxed);
        Ok(CompletedOperation { kind, bytes: self.order.block.into(), begun: None })
    }
}

impl Worker {
    async fn operation(&mut self) -> client::Result<Kind> {
        let count = self.bench.places.len() as u64;
        let (directory, file) = &self.bench.places[(self.number % count) as usize];
        let block = self.order.block;
        let blocks = (self.bench.extent / u64::from(block)).max(1);
        let turn = self.turn * u64::from(self.order.depth) + self.number;
        self.turn += 1;
        match (self.order.work, file) {
            (RunKind::SmallFiles, _) => {
                let name = format!("s{}", self.number);
                self.bench.made.note(&name);
                directory.put(&name, OpenMode::Anew, &self.bench.content.slice(..block as usize)).await?;
                directory.remove(&name).await?;
                self.bench.made.forget(&name);
                Ok(Kind::Metadata)
            }
            (RunKind::Write, Some(file)) => {
                let content = self.bench.content.slice(..block as usize);
                file.write(turn % blocks * u64::from(block), &content).await?;
                Ok(Kind::Write)
            }
            (RunKind::SmallRead, Some(file)) => {
                // Fibonacci hashing: everywhere, and never the same twice in a row.
                let at = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                file.read(at % blocks * u64::from(block), block).await?;
                Ok(Kind::Read)
            }
            (_, Some(file)) => {
                file.read(turn % blocks * u64::from(block), block).await?;
                Ok(Kind::Read)
            }
            (_, None) => Err(client::Error::Protocol("a run with data has no file")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_changes_is_told_from_one_that_varies() {
        // The number of slices before the measured time.
        let settled = |slices: &[u64]| {
            let mut change = Change { seen: 7, before: None };
            let mut done = 7;
            slices.iter().position(|count| {
                done += count;
                !change.goes_on(done)
            })
        };
        assert_eq!(settled(&[100, 112]), Some(1));
        assert_eq!(settled(&[0, 0]), Some(1));
        assert_eq!(settled(&[1, 2, 4, 8, 16, 31, 33, 32]), Some(6));
        assert_eq!(settled(&[80, 70]), Some(1));
        assert_eq!(settled(&[1, 3, 9, 27]), None);
        // Segments that a full queue dropped arrive late, and all later ones with them.
        assert_eq!(settled(&[96, 30, 0, 340, 96, 94]), Some(5));
        // A connection was lost, together with its counter.
        let mut change = Change { seen: 1000, before: Some(100) };
        assert!(change.goes_on(400) && change.goes_on(500) && !change.goes_on(600));
        let account = |came, acknowledged| TcpInfo {
            bytes_came: came,
            bytes_acknowledged: acknowledged,
            ..TcpInfo::default()
        };
        assert_eq!(moved(&[account(1, 20), account(300, 0)]), 321);
    }

    /// The counters after this many bytes.
    fn account(bytes: u64) -> Vec<TcpInfo> {
        vec![TcpInfo { bytes_acknowledged: bytes, ..TcpInfo::default() }]
    }

    #[tokio::test]
    async fn a_server_stalls_when_nothing_comes_of_what_is_under_way() {
        let (stall, long) = (Duration::from_millis(50), Duration::from_millis(400));
        let progress = Progress::default();
        let still = || account(7);
        // Nothing is under way.
        assert!(tokio::time::timeout(long, progress.stalls(stall, &still)).await.is_err());
        progress.begun.fetch_add(1, Ordering::Relaxed);
        let bytes = AtomicU64::new(0);
        let slow = || account(bytes.fetch_add(1, Ordering::Relaxed));
        assert!(tokio::time::timeout(long, progress.stalls(stall, &slow)).await.is_err());
        assert!(matches!(progress.stalls(stall, &still).await, Failure::Stalled(_)));
    }

    #[test]
    fn the_interval_is_narrow_where_parts_are_even() {
        assert_eq!(interval(&[10.0; 20]), [10.0, 10.0]);
        let uneven: Vec<f64> = (0..20).map(|it| if it % 2 == 0 { 5.0 } else { 15.0 }).collect();
        let [least, most] = interval(&uneven);
        assert!((least - 7.6).abs() < 0.1 && (most - 12.4).abs() < 0.1, "{least} {most}");
    }

    #[test]
    fn few_operations_are_counted_by_their_bytes() {
        let order = |work| Order {
            work,
            block: 1000,
            depth: 8,
            connections: 1,
            ramp: Duration::ZERO,
            settling: Duration::ZERO,
            slice: Duration::ZERO,
            time: Duration::from_secs(2),
            stall: Duration::from_secs(1),
            most_per_s: None,
        };
        let at = Instant::now();
        let moment = |at, tcp| Moment { at, own: None, all: Usage(Vec::new()), waited_ns: None, tcp };
        let came = |bytes| vec![TcpInfo { bytes_came: bytes, ..TcpInfo::default() }];
        let before = moment(at, came(500));
        let after = moment(at + Duration::from_secs(2), came(30_500));
        let per_s = |work, operations| moved_per_s(&order(work), operations, &before, &after);
        assert_eq!((per_s(RunKind::Read, 7), per_s(RunKind::Write, 7)), (Some(15_000.0), Some(0.0)));
        assert_eq!((per_s(RunKind::Read, 8 * MANY_DEPTHS), per_s(RunKind::SmallRead, 7)), (None, None));
        // A connection was lost.
        let fewer = moment(after.at, Vec::new());
        assert_eq!(moved_per_s(&order(RunKind::Read), 7, &before, &fewer), None);
        let mut tally = Tally::default();
        tally.operations = 7;
        let run = result(&order(RunKind::Read), &tally, &before, &after, 0.0);
        assert_eq!((run.per_s, run.cut, run.operations), (15.0, 0.0, 7));
        let run = result(&order(RunKind::Read), &tally, &before, &fewer, 0.0);
        assert_eq!((run.per_s, run.cut), (3.5, 1.0 / 7.0));
    }

    #[test]
    fn traffic_is_what_came_to_the_accounts() {
        let account = |sent, again, busy, full| TcpInfo {
            segments_sent: sent,
            segments_sent_again: again,
            busy_us: busy,
            peer_window_full_us: full,
            rtt_ms: 23.0,
            ..TcpInfo::default()
        };
        let vain = TcpInfo { sent_again_in_vain: 4, ..account(5, 4, 0, 0) };
        let traffic = traffic(&[account(10, 1, 100, 0)], &[account(110, 3, 300, 100), vain], 0.0).unwrap();
        assert_eq!((traffic.sent, traffic.sent_again, traffic.rtt_ms), (105, 2, 23.0));
        assert_eq!(traffic.held_by_peer_window, 0.5);
    }
}
