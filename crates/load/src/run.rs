//! Runs a plan: creates the files, drives the connections, measures, and adds up the results.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use client::Bytes;
use tokio::sync::Semaphore;

use crate::channel::{Channel, Security};
use crate::cpu::{Account, Usage, own_user_ns};
use crate::engine::{self, CompletedOperation, Operation};
use crate::error::ErrorContext;
use crate::measure::{MeasurementPhase, MeasurementWindow, Record, Stop};
use crate::pace::{ArrivalSchedule, Pacing, Timer};
use crate::peer::{TargetDirectory, TargetSession};
use crate::plan::{Protocol, Workload};
use crate::progress::Progress;
use crate::random::Random;
use crate::report::{Measured, Processor};
use crate::work::data::{self, Job};
use crate::work::make_directories;
use crate::work::metadata::Names;
use crate::{Error, Plan, Report, threads};

/// The most connections that log on at a time. A server may limit the unauthenticated connections of an
/// address.
const MOST_LOG_ONS: u32 = 32;

/// The state that all connections of a load share.
pub(crate) struct LoadRun {
    pub(crate) plan: Plan,
    /// Permits for connections that log on.
    log_ons: Semaphore,
    pub(crate) window: MeasurementWindow,
    pace: Option<ArrivalSchedule>,
    /// The positions of sequential jobs.
    positions: Vec<Arc<AtomicU64>>,
    /// The data for writes.
    content: Bytes,
    /// The records by connection and job, for each job with workers on the connection.
    pub(crate) records: BTreeMap<(u32, u32), Mutex<Record>>,
    /// The barriers: all are ready; start; the counted work is done; the accounts are read and
    /// connections may end.
    ready: Barrier,
    go: Barrier,
    done: Barrier,
    read: Barrier,
}

impl LoadRun {
    fn new(plan: Plan, stop: &Stop) -> LoadRun {
        let parties = plan.connections as usize + 1;
        let pairs = (0..plan.workers()).map(|worker| (worker % plan.connections, worker / plan.depth));
        LoadRun {
            window: MeasurementWindow::new(plan.ramp, plan.runtime, plan.operations)
                .and_cool_down(plan.cool_down)
                .and_stopped_by(stop),
            pace: plan.rate.map(|rate| ArrivalSchedule::new(rate, plan.jobs)),
            positions: (0..plan.jobs).map(|_| Arc::default()).collect(),
            content: match &plan.work {
                Workload::Data(shape) => data::content(&plan, shape),
                Workload::Metadata { .. } => Bytes::new(),
            },
            records: pairs.map(|pair| (pair, Mutex::default())).collect(),
            ready: Barrier::new(parties),
            go: Barrier::new(parties),
            done: Barrier::new(parties),
            read: Barrier::new(parties),
            log_ons: Semaphore::new(MOST_LOG_ONS as usize),
            plan,
        }
    }

    /// The record of each job so far.
    pub(crate) fn by_job(&self) -> Vec<Record> {
        let mut jobs = vec![Record::default(); self.plan.jobs as usize];
        for ((_, job), record) in &self.records {
            jobs[*job as usize].merge(&record.lock().unwrap_or_else(PoisonError::into_inner));
        }
        jobs
    }

    /// The final record of each job with its measured time. After a warm-up, operations under way at the
    /// start of the measured time do not count, and those under way at its end do. The two balance each
    /// other, and the time is the requested one. Without a warm-up nothing is under way at the start, and
    /// the last reply ends the time. The same holds for a run that was stopped.
    fn final_records(&self) -> Vec<Record> {
        let mut jobs = self.by_job();
        let is_even = !self.plan.ramp.is_zero() && self.plan.operations.is_none();
        if let Some(runtime) = self.plan.runtime.filter(|_| is_even && !self.window.is_stopped()) {
            jobs.iter_mut().for_each(|job| job.lasted = runtime);
        }
        jobs
    }

    /// The operations and bytes of all jobs so far.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        self.records.values().fold((0, 0), |sum, record| {
            let record = record.lock().unwrap_or_else(PoisonError::into_inner);
            (sum.0 + record.operations(), sum.1 + record.bytes())
        })
    }

    /// Planned operations that did not begin, because earlier ones were not done.
    fn missed(&self) -> u64 {
        let Some((pace, runtime)) = self.pace.as_ref().zip(self.plan.runtime) else { return 0 };
        if self.plan.operations.is_some() {
            return 0;
        }
        let jobs = self.by_job();
        let lasted = jobs.iter().map(|job| job.lasted).max().unwrap_or_default();
        let time = if self.window.is_stopped() { lasted.min(runtime) } else { runtime };
        let planned = pace.planned_within(self.plan.ramp + time) - pace.planned_within(self.plan.ramp);
        planned.saturating_sub(jobs.iter().map(Record::operations).sum())
    }
}

/// Runs `plan` to its end.
///
/// # Errors
/// The first error.
pub fn run(plan: Plan) -> Result<Report, Error> {
    run_until(plan, &Stop::default())
}

/// Runs `plan` to its end, or until `stop`. The report then has the results until that time.
///
/// # Errors
/// The first error.
pub fn run_until(plan: Plan, stop: &Stop) -> Result<Report, Error> {
    let measured = measure(&plan, stop, || Ok(()))?;
    clear(&plan)?;
    Ok(Report::new(&plan, measured))
}

/// Runs `plan`. It calls `ready` when everything is prepared, and starts the work when `ready` returns.
/// [`clear`] removes the files of the load later.
///
/// # Errors
/// The first error, in `ready` too.
pub(crate) fn measure(
    plan: &Plan,
    stop: &Stop,
    ready: impl FnOnce() -> Result<(), Error>,
) -> Result<Measured, Error> {
    if matches!(plan.protocol, Protocol::Local) {
        raise_limit();
    }
    threads::alone(plan)?.block_on(prepare(plan))?;
    let shared = Arc::new(LoadRun::new(plan.clone(), stop));
    let threads: Vec<_> = (0..shared.plan.connections)
        .map(|connection| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || serve(&shared, connection))
        })
        .collect();
    shared.ready.wait();
    let begun = if shared.window.is_stopped() { Ok(()) } else { ready() };
    if begun.is_err() {
        shared.window.stop();
    }
    let watched = watch(&shared);
    let (mut security, mut channels, mut first_error) = (None, Vec::new(), begun.err());
    for thread in threads {
        match thread.join() {
            Ok(Ok(served)) => {
                security.get_or_insert(served.security);
                channels.extend(served.channels);
            }
            Ok(Err(error)) => first_error = first_error.or(Some(error)),
            Err(_) => first_error = Some(Error::host("a thread of the generator", "it panicked")),
        }
    }
    if let Some(error) = first_error {
        return Err(error);
    }
    let (processor, usage) = watched?;
    let security = security.expect("there is at least one connection");
    Ok(Measured {
        jobs: shared.final_records(),
        missed: shared.missed(),
        processor,
        usage,
        security,
        channels,
    })
}

/// Raises the limit of open files to the maximum, because each thread has its own files.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If that is refused, the first open beyond the limit reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The properties of a connection, or of a session with several channels.
struct ConnectionSummary {
    security: Security,
    channels: Vec<Channel>,
}

/// The processor times of both sides and of all processors at one moment.
struct Accounts {
    server: Option<Account>,
    client: Option<Account>,
    client_user_ns: Option<u64>,
    usage: Usage,
}

impl Accounts {
    fn read(plan: &Plan) -> Result<Accounts, Error> {
        let server = plan.server_pid.map(Account::of_tree).transpose();
        let server = server.map_err(|why| Error::host("--server-pid", why))?;
        Ok(Accounts {
            server,
            client: Account::own().ok(),
            client_user_ns: own_user_ns(),
            usage: Usage::read(),
        })
    }

    fn since(&self, before: &Accounts) -> (Processor, Usage) {
        let spent =
            |after: &Option<Account>, before: &Option<Account>| Some(after.as_ref()?.since(before.as_ref()?));
        let processor = Processor {
            server_ns: spent(&self.server, &before.server),
            client_ns: spent(&self.client, &before.client),
            client_user_ns: self
                .client_user_ns
                .zip(before.client_user_ns)
                .map(|(after, before)| after.saturating_sub(before)),
        };
        (processor, self.usage.since(&before.usage))
    }
}

/// Starts all connections, and reads the processor times at the start and end of the measured time.
fn watch(shared: &Arc<LoadRun>) -> Result<(Processor, Usage), Error> {
    let at_start = Accounts::read(&shared.plan);
    if at_start.is_err() {
        shared.window.stop();
    }
    shared.window.begin(Instant::now());
    shared.go.wait();
    let progress = Progress::start(shared);
    let before = if shared.plan.ramp.is_zero() {
        at_start
    } else {
        wait_until(shared, shared.window.measured_from());
        Accounts::read(&shared.plan)
    };
    let at_end = shared.window.measured_to().filter(|_| !shared.plan.cool_down.is_zero()).map(|end| {
        wait_until(shared, end);
        Accounts::read(&shared.plan)
    });
    shared.done.wait();
    let after = at_end.unwrap_or_else(|| Accounts::read(&shared.plan));
    drop(progress);
    shared.read.wait();
    Ok(after?.since(&before?))
}

/// Sleeps until `then`, or until a connection fails.
fn wait_until(shared: &LoadRun, then: Instant) {
    while !shared.window.is_stopped() {
        let left = then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Creates the files and directories that the load needs.
async fn prepare(plan: &Plan) -> Result<(), Error> {
    let session = TargetSession::open(&plan.unhindered()).await?;
    if let TargetDirectory::Remote(directory) = &session.share {
        make_directories(directory, &load_directory(plan)).await?;
    }
    let share = enter(&session, plan).await?;
    if let Workload::Data(shape) = &plan.work {
        data::lay_out(&share, plan, shape).await?;
    }
    if let Some(names) = Names::of(plan) {
        names.lay_out(share.files()?).await?;
    }
    session.close().await
}

/// The directory of the load.
fn load_directory(plan: &Plan) -> String {
    match plan.work {
        Workload::Data(_) => plan.target.path.clone(),
        Workload::Metadata { .. } => Names::directory(plan),
    }
}

async fn enter(session: &TargetSession, plan: &Plan) -> Result<TargetDirectory, Error> {
    let path = load_directory(plan);
    session.share.directory(&path).await.doing(|| format!("looking for directory {path}"))
}

/// Removes the files that the operations of a [`measure`]d plan have created or left.
///
/// # Errors
/// The first error.
pub(crate) fn clear(plan: &Plan) -> Result<(), Error> {
    let Some(names) = Names::of(plan).filter(|_| !plan.keep) else { return Ok(()) };
    threads::alone(plan)?.block_on(async {
        let session = TargetSession::open(&plan.unhindered()).await?;
        let _left = names.sweep(enter(&session, plan).await?.files()?).await?;
        session.close().await
    })
}

/// Runs one connection from its log-on to its end. It reaches every barrier, even after an error.
fn serve(shared: &Arc<LoadRun>, connection: u32) -> Result<ConnectionSummary, Error> {
    let opened = threads::of_session(&shared.plan).and_then(|runtime| {
        let opened = runtime.block_on(Workers::open(shared, connection))?;
        Ok((runtime, opened))
    });
    if opened.is_err() {
        shared.window.stop();
    }
    shared.ready.wait();
    shared.go.wait();
    let measured = opened.and_then(|(runtime, workers)| {
        runtime.block_on(workers.run(shared))?;
        Ok((runtime, workers))
    });
    if measured.is_err() {
        shared.window.stop();
    }
    shared.done.wait();
    shared.read.wait();
    let (runtime, workers) = measured?;
    let (security, channels) = (workers.session.security(), workers.session.channels());
    runtime.block_on(workers.close())?;
    Ok(ConnectionSummary { security, channels })
}

/// The workers of one connection.
struct Workers {
    session: TargetSession,
    /// The directory in which they work.
    share: TargetDirectory,
    work: Arc<WorkerFiles>,
    /// The job of each worker, and the worker's number among all.
    workers: Vec<(u32, u64)>,
    /// The number of the connection.
    number: u32,
}

/// The open files or names of the workers of one connection.
enum WorkerFiles {
    /// The jobs with workers on this connection, by number.
    Data(BTreeMap<u32, Job>),
    Metadata(Names),
}

impl Workers {
    async fn open(shared: &LoadRun, connection: u32) -> Result<Workers, Error> {
        let plan = &shared.plan;
        let places = plan.channels.clamp(1, MOST_LOG_ONS);
        let log_on = shared.log_ons.acquire_many(places).await;
        let session = TargetSession::open(plan).await?;
        drop(log_on);
        let share = enter(&session, plan).await?;
        let workers: Vec<(u32, u64)> = (0..plan.workers())
            .filter(|worker| worker % plan.connections == connection)
            .map(|worker| (worker / plan.depth, u64::from(worker)))
            .collect();
        let work = match (&plan.work, Names::of(plan)) {
            (_, Some(names)) => WorkerFiles::Metadata(names),
            (Workload::Metadata { .. }, None) => return Err(Error::Usage("there are no names".to_owned())),
            (Workload::Data(shape), None) => {
                let mut jobs = BTreeMap::new();
                for (job, _) in &workers {
                    if !jobs.contains_key(job) {
                        let position = Arc::clone(&shared.positions[data::position_of(shape, *job) as usize]);
                        let content = shared.content.clone();
                        jobs.insert(*job, Job::open(&share, plan, shape, *job, position, content).await?);
                    }
                }
                WorkerFiles::Data(jobs)
            }
        };
        Ok(Workers { session, share, work: Arc::new(work), workers, number: connection })
    }

    /// Runs all workers until the load ends.
    async fn run(&self, shared: &Arc<LoadRun>) -> Result<(), Error> {
        let mut tasks = tokio::task::JoinSet::new();
        for &(job, number) in &self.workers {
            let worker = Worker {
                shared: Arc::clone(shared),
                work: Arc::clone(&self.work),
                share: self.share.clone(),
                connection: self.number,
                job,
                number,
                random: Random::new(number),
            };
            let shared = Arc::clone(shared);
            tasks.spawn(async move {
                let worked = worker.work().await;
                if worked.is_err() {
                    shared.window.stop();
                }
                worked
            });
        }
        let mut first_error = None;
        while let Some(worked) = tasks.join_next().await {
            let error = match worked {
                Ok(worked) => worked.err(),
                Err(why) => Some(Error::host("a task of the generator", why)),
            };
            first_error = first_error.or(error);
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn close(self) -> Result<(), Error> {
        if let Some(WorkerFiles::Data(jobs)) = Arc::into_inner(self.work) {
            for job in jobs.into_values() {
                job.close().await?;
            }
        }
        self.session.close().await
    }
}

/// A worker that does one operation after the other.
struct Worker {
    shared: Arc<LoadRun>,
    work: Arc<WorkerFiles>,
    share: TargetDirectory,
    connection: u32,
    job: u32,
    /// The number of the worker among all.
    number: u64,
    random: Random,
}

impl Worker {
    async fn work(mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let record = &shared.records[&(self.connection, self.job)];
        let pacing = self.pacing(&shared)?;
        engine::work(&mut self, &shared.window, pacing, record).await
    }

    fn pacing<'a>(&self, shared: &'a LoadRun) -> Result<Option<Pacing<'a>>, Error> {
        let Some(pace) = &shared.pace else { return Ok(None) };
        let timer = match shared.plan.protocol {
            Protocol::Local => Timer::Thread,
            _ => Timer::descriptor().map_err(|why| Error::host("making a timer for --rate_iops", why))?,
        };
        Ok(Some(Pacing::Planned { pace, job: self.job, timer }))
    }
}

impl Operation for Worker {
    type Error = Error;

    fn waiting(why: io::Error) -> Error {
        Error::host("waiting for the planned begin", why)
    }

    async fn once(&mut self, phase: MeasurementPhase) -> Result<CompletedOperation, Error> {
        let random = &mut self.random;
        match (&*self.work, phase) {
            (WorkerFiles::Data(jobs), _) => jobs[&self.job].step(random).await,
            (WorkerFiles::Metadata(names), MeasurementPhase::Counts(number)) => {
                names.step(self.share.files()?, number, random).await
            }
            (WorkerFiles::Metadata(names), _) => names.aside(self.share.files()?, self.number, random).await,
        }
    }
}
