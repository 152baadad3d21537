//! Runs a plan: makes the files, starts what drives each connection, measures, adds up.

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
use crate::engine::{self, Done, Operation};
use crate::error::Doing;
use crate::measure::{Course, Record, Stop, Turn};
use crate::pace::{Pace, Pacing, Timer};
use crate::peer::{Line, Share};
use crate::plan::{Protocol, Work};
use crate::progress::Progress;
use crate::random::Random;
use crate::report::{Measured, Processor};
use crate::work::data::{self, Job};
use crate::work::make_directories;
use crate::work::metadata::Names;
use crate::{Error, Plan, Report, threads};

/// How many connections log on at a time: a server may have few places for those of one address that have not.
const MOST_LOG_ONS: u32 = 32;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    /// Places for connections that log on.
    log_ons: Semaphore,
    pub(crate) course: Course,
    pace: Option<Pace>,
    /// The positions of sequential jobs.
    positions: Vec<Arc<AtomicU64>>,
    /// What writes take their data from.
    content: Bytes,
    /// What each connection has done for each job that has workers there.
    pub(crate) records: BTreeMap<(u32, u32), Mutex<Record>>,
    /// Everybody is ready; go; what counts is done; the accounts have been read, and connections may end.
    ready: Barrier,
    go: Barrier,
    done: Barrier,
    read: Barrier,
}

impl Shared {
    fn new(plan: Plan, stop: &Stop) -> Shared {
        let parties = plan.connections as usize + 1;
        let pairs = (0..plan.workers()).map(|worker| (worker % plan.connections, worker / plan.depth));
        Shared {
            course: Course::new(plan.ramp, plan.runtime, plan.operations)
                .and_cool_down(plan.cool_down)
                .and_stopped_by(stop),
            pace: plan.rate.map(|rate| Pace::new(rate, plan.jobs)),
            positions: (0..plan.jobs).map(|_| Arc::default()).collect(),
            content: match &plan.work {
                Work::Data(shape) => data::content(&plan, shape),
                Work::Metadata { .. } => Bytes::new(),
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

    /// What each job has done so far.
    pub(crate) fn by_job(&self) -> Vec<Record> {
        let mut jobs = vec![Record::default(); self.plan.jobs as usize];
        for ((_, job), record) in &self.records {
            jobs[*job as usize].merge(&record.lock().unwrap_or_else(PoisonError::into_inner));
        }
        jobs
    }

    /// What each job has done when all is over, and how long that took. Behind a warm-up, what is under way when the measured
    /// time begins does not count, and what is under way at its end does: they even out, and the time is that which was
    /// asked for. Without one nothing is under way at the begin, and the last answer ends the time, as in a run that was
    /// stopped.
    fn in_the_end(&self) -> Vec<Record> {
        let mut jobs = self.by_job();
        let is_even = !self.plan.ramp.is_zero() && self.plan.operations.is_none();
        if let Some(runtime) = self.plan.runtime.filter(|_| is_even && !self.course.is_stopped()) {
            jobs.iter_mut().for_each(|job| job.lasted = runtime);
        }
        jobs
    }

    /// Operations and bytes of all jobs so far.
    pub(crate) fn so_far(&self) -> (u64, u64) {
        self.records.values().fold((0, 0), |sum, record| {
            let record = record.lock().unwrap_or_else(PoisonError::into_inner);
            (sum.0 + record.operations(), sum.1 + record.bytes())
        })
    }

    /// Operations that were to begin and did not, since earlier ones were not done.
    fn missed(&self) -> u64 {
        let Some((pace, runtime)) = self.pace.as_ref().zip(self.plan.runtime) else { return 0 };
        if self.plan.operations.is_some() {
            return 0;
        }
        let jobs = self.by_job();
        let lasted = jobs.iter().map(|job| job.lasted).max().unwrap_or_default();
        let time = if self.course.is_stopped() { lasted.min(runtime) } else { runtime };
        let planned = pace.planned_within(self.plan.ramp + time) - pace.planned_within(self.plan.ramp);
        planned.saturating_sub(jobs.iter().map(Record::operations).sum())
    }
}

/// Runs `plan` to its end.
///
/// # Errors
/// What went wrong first.
pub fn run(plan: Plan) -> Result<Report, Error> {
    run_until(plan, &Stop::default())
}

/// Runs `plan` to its end, or until `stop` says so; then what was done by then is reported.
///
/// # Errors
/// What went wrong first.
pub fn run_until(plan: Plan, stop: &Stop) -> Result<Report, Error> {
    let measured = measure(&plan, stop, || Ok(()))?;
    clear(&plan)?;
    Ok(Report::new(&plan, measured))
}

/// Runs `plan`: everything is made ready before `ready` is called, and work begins when that returns. What was made is
/// left for [`clear`].
///
/// # Errors
/// What went wrong first, in `ready` too.
pub(crate) fn measure(
    plan: &Plan,
    stop: &Stop,
    ready: impl FnOnce() -> Result<(), Error>,
) -> Result<Measured, Error> {
    if matches!(plan.protocol, Protocol::Local) {
        raise_limit();
    }
    threads::alone(plan)?.block_on(prepare(plan))?;
    let shared = Arc::new(Shared::new(plan.clone(), stop));
    let threads: Vec<_> = (0..shared.plan.connections)
        .map(|connection| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || serve(&shared, connection))
        })
        .collect();
    shared.ready.wait();
    let begun = if shared.course.is_stopped() { Ok(()) } else { ready() };
    if begun.is_err() {
        shared.course.stop();
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
    Ok(Measured { jobs: shared.in_the_end(), missed: shared.missed(), processor, usage, security, channels })
}

/// Lets the process have as many open files as it may: each thread has its own.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused, the open that is one too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// What one connection, or session of several, was.
struct Served {
    security: Security,
    channels: Vec<Channel>,
}

/// The accounts of both sides and of all processors at one moment.
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

/// Lets everybody go, and reads the processor time at both ends of what is measured.
fn watch(shared: &Arc<Shared>) -> Result<(Processor, Usage), Error> {
    let at_start = Accounts::read(&shared.plan);
    if at_start.is_err() {
        shared.course.stop();
    }
    shared.course.begin(Instant::now());
    shared.go.wait();
    let progress = Progress::start(shared);
    let before = if shared.plan.ramp.is_zero() {
        at_start
    } else {
        wait_until(shared, shared.course.measured_from());
        Accounts::read(&shared.plan)
    };
    let at_end = shared.course.measured_to().filter(|_| !shared.plan.cool_down.is_zero()).map(|end| {
        wait_until(shared, end);
        Accounts::read(&shared.plan)
    });
    shared.done.wait();
    let after = at_end.unwrap_or_else(|| Accounts::read(&shared.plan));
    drop(progress);
    shared.read.wait();
    Ok(after?.since(&before?))
}

/// Sleeps, but not on when something went wrong.
fn wait_until(shared: &Shared, then: Instant) {
    while !shared.course.is_stopped() {
        let left = then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Makes what must exist before anything is measured.
async fn prepare(plan: &Plan) -> Result<(), Error> {
    let line = Line::open(&plan.unhindered()).await?;
    if let Share::Remote(directory) = &line.share {
        make_directories(directory, &place(plan)).await?;
    }
    let share = enter(&line, plan).await?;
    if let Work::Data(shape) = &plan.work {
        data::lay_out(&share, plan, shape).await?;
    }
    if let Some(names) = Names::of(plan) {
        names.lay_out(share.files()?).await?;
    }
    line.close().await
}

/// The directory in which the work is done.
fn place(plan: &Plan) -> String {
    match plan.work {
        Work::Data(_) => plan.target.path.clone(),
        Work::Metadata { .. } => Names::directory(plan),
    }
}

async fn enter(line: &Line, plan: &Plan) -> Result<Share, Error> {
    let place = place(plan);
    line.share.directory(&place).await.doing(|| format!("looking for directory {place}"))
}

/// Clears away what the operations of a [`measure`]d plan have made, or left.
///
/// # Errors
/// What went wrong.
pub(crate) fn clear(plan: &Plan) -> Result<(), Error> {
    let Some(names) = Names::of(plan).filter(|_| !plan.keep) else { return Ok(()) };
    threads::alone(plan)?.block_on(async {
        let line = Line::open(&plan.unhindered()).await?;
        let _left = names.sweep(enter(&line, plan).await?.files()?).await?;
        line.close().await
    })
}

/// One connection, from its login to its end. Meets the others at every barrier, whatever happens.
fn serve(shared: &Arc<Shared>, connection: u32) -> Result<Served, Error> {
    let opened = threads::of_session(&shared.plan).and_then(|runtime| {
        let opened = runtime.block_on(Workers::open(shared, connection))?;
        Ok((runtime, opened))
    });
    if opened.is_err() {
        shared.course.stop();
    }
    shared.ready.wait();
    shared.go.wait();
    let measured = opened.and_then(|(runtime, workers)| {
        runtime.block_on(workers.run(shared))?;
        Ok((runtime, workers))
    });
    if measured.is_err() {
        shared.course.stop();
    }
    shared.done.wait();
    shared.read.wait();
    let (runtime, workers) = measured?;
    let (security, channels) = (workers.line.security(), workers.line.channels());
    runtime.block_on(workers.close())?;
    Ok(Served { security, channels })
}

/// The workers of one connection.
struct Workers {
    line: Line,
    /// The directory in which they work.
    share: Share,
    work: Arc<Opened>,
    /// The job of each worker, and its number among all.
    workers: Vec<(u32, u64)>,
    /// Which connection it is.
    number: u32,
}

/// What the workers of one connection work with.
enum Opened {
    /// The jobs that have workers here, by number.
    Data(BTreeMap<u32, Job>),
    Metadata(Names),
}

impl Workers {
    async fn open(shared: &Shared, connection: u32) -> Result<Workers, Error> {
        let plan = &shared.plan;
        let places = plan.channels.clamp(1, MOST_LOG_ONS);
        let log_on = shared.log_ons.acquire_many(places).await;
        let line = Line::open(plan).await?;
        drop(log_on);
        let share = enter(&line, plan).await?;
        let workers: Vec<(u32, u64)> = (0..plan.workers())
            .filter(|worker| worker % plan.connections == connection)
            .map(|worker| (worker / plan.depth, u64::from(worker)))
            .collect();
        let work = match (&plan.work, Names::of(plan)) {
            (_, Some(names)) => Opened::Metadata(names),
            (Work::Metadata { .. }, None) => return Err(Error::Usage("there are no names".to_owned())),
            (Work::Data(shape), None) => {
                let mut jobs = BTreeMap::new();
                for (job, _) in &workers {
                    if !jobs.contains_key(job) {
                        let position = Arc::clone(&shared.positions[data::position_of(shape, *job) as usize]);
                        let content = shared.content.clone();
                        jobs.insert(*job, Job::open(&share, plan, shape, *job, position, content).await?);
                    }
                }
                Opened::Data(jobs)
            }
        };
        Ok(Workers { line, share, work: Arc::new(work), workers, number: connection })
    }

    /// Lets all workers work until nothing is left to do.
    async fn run(&self, shared: &Arc<Shared>) -> Result<(), Error> {
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
                    shared.course.stop();
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
        if let Some(Opened::Data(jobs)) = Arc::into_inner(self.work) {
            for job in jobs.into_values() {
                job.close().await?;
            }
        }
        self.line.close().await
    }
}

/// Does one operation after the other.
struct Worker {
    shared: Arc<Shared>,
    work: Arc<Opened>,
    share: Share,
    connection: u32,
    job: u32,
    /// Its number among all.
    number: u64,
    random: Random,
}

impl Worker {
    async fn work(mut self) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let record = &shared.records[&(self.connection, self.job)];
        let pacing = self.pacing(&shared)?;
        engine::work(&mut self, &shared.course, pacing, record).await
    }

    fn pacing<'a>(&self, shared: &'a Shared) -> Result<Option<Pacing<'a>>, Error> {
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

    async fn once(&mut self, turn: Turn) -> Result<Done, Error> {
        let random = &mut self.random;
        match (&*self.work, turn) {
            (Opened::Data(jobs), _) => jobs[&self.job].step(random).await,
            (Opened::Metadata(names), Turn::Counts(number)) => {
                names.step(self.share.files()?, number, random).await
            }
            (Opened::Metadata(names), _) => names.aside(self.share.files()?, self.number, random).await,
        }
    }
}
