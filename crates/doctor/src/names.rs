//! Layer 6: work with names. One after the other shows the cost of each; many at once show the rate of
//! the server.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use client::remote::{Directory, OpenMode};
use load::engine::{self, CompletedOperation, Kind, MeasurementPhase, MeasurementWindow, WorkerGroup};

use crate::cleanup::CreatedNames;
use crate::drive::{Failure, Moment};
use crate::measurements::{Cause, Metadata, NameWork, Stage, Stopped, median};
use crate::protocol;

/// Operations on names under way at once.
const DEPTH: u32 = 32;
/// The most names that are created.
const MOST: u32 = 3000;
/// The number of parts whose rates are taken.
const PARTS: usize = 10;

/// The limits of the work with names.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    /// The time for each kind of operation, one after the other and at once.
    pub(crate) time: Duration,
    /// The end of all of it.
    pub(crate) until: Instant,
    /// The longest time for one reply.
    pub(crate) stall: Duration,
    /// Round trips of a delete: one compound, or two requests in a session that ever had several
    /// channels.
    pub(crate) delete_trips: u32,
    /// The most operations a second.
    pub(crate) most_per_s: Option<f64>,
}

/// An operation with a name. It returns the time of the end of its first half, if it has two.
type TimedOperation = Pin<Box<dyn Future<Output = client::Result<Option<Instant>>> + Send>>;
type Operation = Arc<dyn Fn(Directory, u32) -> TimedOperation + Send + Sync>;

/// The times of a series of operations.
struct Series {
    times_ms: Vec<f64>,
    /// The times of the second halves.
    second_ms: Vec<f64>,
    parts: Vec<f64>,
    per_s: f64,
    idle: f64,
}

fn operation<F>(what: impl Fn(Directory, String) -> F + Send + Sync + 'static) -> Operation
where
    F: Future<Output = client::Result<Option<Instant>>> + Send + 'static,
{
    Arc::new(move |directory, number| Box::pin(what(directory, format!("n{number}"))))
}

/// Creates an empty file and closes it.
pub(crate) async fn create(directory: &Directory, name: &str) -> client::Result<()> {
    directory.open(name, OpenMode::Make).await?.close().await
}

/// Opens a file and closes it. Returns the time at which it was open.
async fn open_and_close(directory: &Directory, name: &str) -> client::Result<Instant> {
    let file = directory.open(name, OpenMode::Read).await?;
    let opened = Instant::now();
    file.close().await?;
    Ok(opened)
}

/// Measures in an empty directory. The caller deletes the names that are left: those in `made`. Results
/// are in `metadata` even after a failure, or when the caller stops waiting.
pub(crate) async fn measure(
    directory: &Directory,
    bounds: &Bounds,
    made: &CreatedNames,
    metadata: &mut Metadata,
) -> Result<(), Stopped> {
    // An open and a close take a round trip each. A stat is one compound in SMB and in NFS.
    let trips = 2;
    let noted = made.clone();
    let create = operation(move |directory, name| {
        noted.note(&name);
        async move { create(&directory, &name).await.map(|()| None) }
    });
    let one = series(directory, &create, bounds, 1, 0..MOST / 2).await?;
    let begun = one.times_ms.len() as u32;
    let many = series(directory, &create, bounds, DEPTH, begun..MOST).await?;
    metadata.names = begun + many.times_ms.len() as u32;
    metadata.operations.push(work("create", trips, &one, &many));
    let names = metadata.names.max(1);
    for (what, trips, operation) in [
        (
            "open",
            trips,
            operation(|directory, name| async move { open_and_close(&directory, &name).await.map(Some) }),
        ),
        ("stat", 1, operation(|directory, name| async move { directory.stat(&name).await.map(|_| None) })),
    ] {
        let turned: Operation = Arc::new(move |directory, number| operation(directory, number % names));
        let one = series(directory, &turned, bounds, 1, 0..u32::MAX).await?;
        let many = series(directory, &turned, bounds, DEPTH, 0..u32::MAX).await?;
        metadata.operations.push(work(what, trips, &one, &many));
        metadata.operations.extend(second("close", &one));
    }
    let mut listed = 0;
    for _ in 0..3 {
        let begun = Instant::now();
        listed = within(bounds, directory.list()).await?.len();
        metadata.list_ms.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    metadata.list_names_per_s = median(&metadata.list_ms).map(|ms| listed as f64 * 1000.0 / ms.max(1e-3));
    let mut missing = Vec::new();
    for number in 0..5 {
        let begun = Instant::now();
        let name = format!("missing{number}");
        let absent = tokio::time::timeout(bounds.stall, directory.stat(&name)).await;
        if absent.is_err() {
            return Err(silent(bounds));
        }
        missing.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    metadata.missing_ms = median(&missing);
    let noted = made.clone();
    let delete = operation(move |directory, name| {
        let noted = noted.clone();
        async move {
            directory.remove(&name).await?;
            noted.forget(&name);
            Ok(None)
        }
    });
    let one = series(directory, &delete, bounds, 1, 0..names / 3).await?;
    let gone = one.times_ms.len() as u32;
    let many = series(directory, &delete, bounds, DEPTH, gone..names).await?;
    metadata.operations.push(work("delete", bounds.delete_trips, &one, &many));
    Ok(())
}

fn work(what: &'static str, trips: u32, one: &Series, many: &Series) -> NameWork {
    NameWork {
        what,
        trips,
        median_ms: median(&one.times_ms).unwrap_or(0.0),
        per_s: (!many.times_ms.is_empty()).then_some(many.per_s),
        depth: DEPTH,
        parts: many.parts.clone(),
        idle: many.idle,
    }
}

/// The second halves of operations that ran one after the other. With many at once both halves are done
/// together, so the second has no rate of its own.
fn second(what: &'static str, one: &Series) -> Option<NameWork> {
    let median_ms = median(&one.second_ms)?;
    Some(NameWork { what, trips: 1, median_ms, per_s: None, depth: 1, parts: Vec::new(), idle: one.idle })
}

fn silent(bounds: &Bounds) -> Stopped {
    Stopped {
        stage: Stage::Metadata,
        why: format!("work with a name: no answer within {} s", bounds.stall.as_secs_f64()),
        stalled: true,
        cause: Cause::Silent,
    }
}

async fn within<T>(bounds: &Bounds, work: impl Future<Output = client::Result<T>>) -> Result<T, Stopped> {
    match tokio::time::timeout(bounds.stall, work).await {
        Ok(done) => done.map_err(|why| protocol::stopped(Stage::Metadata, &why)),
        Err(_) => Err(silent(bounds)),
    }
}

/// The start of an operation, the end of its first half, and its end.
type Times = (Instant, Option<Instant>, Instant);

/// Runs one operation after the other, and records the times.
struct NameWorker {
    directory: Directory,
    operation: Operation,
    stall: Duration,
    /// The number of the first operation.
    first: u32,
    times: Arc<Mutex<Vec<Times>>>,
}

impl engine::Operation for NameWorker {
    type Error = Failure;

    fn waiting(why: io::Error) -> Failure {
        Failure::Server(client::Error::Local(why.into()))
    }

    async fn once(&mut self, phase: MeasurementPhase) -> Result<CompletedOperation, Failure> {
        let number = if let MeasurementPhase::Counts(number) = phase {
            self.first + number as u32
        } else {
            self.first
        };
        let begin = Instant::now();
        let doing = (self.operation)(self.directory.clone(), number);
        let done = tokio::time::timeout(self.stall, doing).await;
        let halfway = done.map_err(|_| Failure::Stalled(self.stall))??;
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push((begin, halfway, Instant::now()));
        Ok(CompletedOperation { kind: Kind::Metadata, bytes: 0, begun: None })
    }
}

/// Runs the operation with the numbers in `range`, `depth` at once, until the numbers or the time are
/// used up.
async fn series(
    directory: &Directory,
    operation: &Operation,
    bounds: &Bounds,
    depth: u32,
    range: std::ops::Range<u32>,
) -> Result<Series, Stopped> {
    let begun = Instant::now();
    let until = (begun + bounds.time).min(bounds.until);
    let course = Arc::new(MeasurementWindow::new(
        Duration::ZERO,
        Some(until.saturating_duration_since(begun)),
        Some(range.len() as u64),
    ));
    course.begin(begun);
    let before = Moment::read(&Vec::new);
    let times: Arc<Mutex<Vec<Times>>> = Arc::default();
    let worker = |_| NameWorker {
        directory: directory.clone(),
        operation: Arc::clone(operation),
        stall: bounds.stall,
        first: range.start,
        times: Arc::clone(&times),
    };
    let crew = WorkerGroup::begin(depth, worker, &course, bounds.most_per_s, &Arc::default());
    crew.end().await.map_err(|why| match why {
        Failure::Server(why) => protocol::stopped(Stage::Metadata, &why),
        Failure::Stalled(_) => silent(bounds),
    })?;
    let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    let last = times.iter().map(|(.., end)| *end).max().unwrap_or(begun);
    let lasted = (last - begun).as_secs_f64().max(1e-6);
    let mut parts = vec![0.0; PARTS];
    for (.., end) in &times {
        let part = ((*end - begun).as_secs_f64() / lasted * PARTS as f64) as usize;
        parts[part.min(PARTS - 1)] += PARTS as f64 / lasted;
    }
    Ok(Series {
        per_s: times.len() as f64 / lasted,
        times_ms: times.iter().map(|(begin, _, end)| (*end - *begin).as_secs_f64() * 1000.0).collect(),
        second_ms: times
            .iter()
            .filter_map(|(_, halfway, end)| Some((*end - (*halfway)?).as_secs_f64() * 1000.0))
            .collect(),
        parts,
        idle: before.idle_since(),
    })
}
