//! Runs a plan: makes the files, starts a thread for each connection, measures, adds up.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::cpu::Account;
use crate::error::Doing;
use crate::measure::{Course, Kind, Record, Turn};
use crate::peer::{Line, Share};
use crate::plan::Work;
use crate::report::{Channel, Processor, Security};
use crate::work::data::{self, Job, Shape};
use crate::work::metadata::Names;
use crate::work::{Random, make_directories};
use crate::{Error, Plan, Report};

/// What all connections share.
struct Shared {
    plan: Plan,
    course: Course,
    /// The positions of sequential jobs.
    positions: Vec<Arc<AtomicU64>>,
    /// Everybody is ready; go; what counts is done; the accounts have been read, and connections may end.
    ready: Barrier,
    go: Barrier,
    done: Barrier,
    read: Barrier,
}

/// Runs `plan` to its end.
///
/// # Errors
/// What went wrong first.
pub fn run(plan: Plan) -> Result<Report, Error> {
    runtime()?.block_on(prepare(&plan))?;
    let parties = plan.connections as usize + 1;
    let shared = Arc::new(Shared {
        course: Course::new(plan.ramp, plan.runtime, plan.operations),
        positions: (0..plan.jobs).map(|_| Arc::default()).collect(),
        ready: Barrier::new(parties),
        go: Barrier::new(parties),
        done: Barrier::new(parties),
        read: Barrier::new(parties),
        plan,
    });
    let threads: Vec<_> = (0..shared.plan.connections)
        .map(|connection| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || serve(&shared, connection))
        })
        .collect();
    shared.ready.wait();
    let processor = watch(&shared);
    let mut connections = Vec::new();
    let mut first_error = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(served)) => connections.push(served),
            Ok(Err(error)) => first_error = first_error.or(Some(error)),
            Err(_) => first_error = Some(Error::host("a thread of the generator", "it panicked")),
        }
    }
    if let Some(error) = first_error {
        return Err(error);
    }
    let mut security = None;
    let (mut records, mut channels) = (Vec::new(), Vec::new());
    for served in connections {
        security.get_or_insert(served.security);
        records.push(served.record);
        channels.extend(served.channels);
    }
    runtime()?.block_on(clear(&shared.plan))?;
    let security = security.expect("there is at least one connection");
    Ok(Report::new(&shared.plan, records, processor?, security, channels))
}

/// What one connection, or session of several, has done.
struct Served {
    record: Record,
    security: Security,
    channels: Vec<Channel>,
}

/// The accounts of both sides at one moment.
struct Accounts {
    server: Option<Account>,
    client: Option<Account>,
}

impl Accounts {
    fn read(plan: &Plan) -> Result<Accounts, Error> {
        let server = plan.server_pid.map(Account::of_tree).transpose();
        let server = server.map_err(|why| Error::host("--server-pid", why))?;
        Ok(Accounts { server, client: Account::own().ok() })
    }

    fn since(&self, before: &Accounts) -> Processor {
        let spent =
            |after: &Option<Account>, before: &Option<Account>| Some(after.as_ref()?.since(before.as_ref()?));
        Processor {
            server_ns: spent(&self.server, &before.server),
            client_ns: spent(&self.client, &before.client),
        }
    }
}

/// Lets everybody go, and reads the processor time at both ends of what is measured.
fn watch(shared: &Shared) -> Result<Processor, Error> {
    let at_start = Accounts::read(&shared.plan);
    if at_start.is_err() {
        shared.course.stop();
    }
    shared.course.begin(Instant::now());
    shared.go.wait();
    let before = if shared.plan.ramp.is_zero() {
        at_start
    } else {
        thread::sleep(shared.course.measured_from().saturating_duration_since(Instant::now()));
        Accounts::read(&shared.plan)
    };
    shared.done.wait();
    let after = Accounts::read(&shared.plan);
    shared.read.wait();
    Ok(after?.since(&before?))
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|why| Error::host("starting a runtime", why))
}

/// Makes what must exist before anything is measured.
async fn prepare(plan: &Plan) -> Result<(), Error> {
    let line = Line::open(&plan.unhindered()).await?;
    make_directories(&line.share, &place(plan)).await?;
    let share = enter(&line, plan).await?;
    match plan.work {
        Work::Data { pattern, files, file_size } => {
            data::lay_out(&share, plan, Shape { pattern, files, file_size }).await?;
        }
        Work::Metadata { kind, files, compound } => {
            Names::new(plan, kind, files, compound).lay_out(&share).await?;
        }
    }
    line.close().await
}

/// The directory in which the work is done.
fn place(plan: &Plan) -> String {
    match plan.work {
        Work::Data { .. } => plan.target.directory.clone(),
        Work::Metadata { .. } => Names::directory(plan),
    }
}

async fn enter(line: &Line, plan: &Plan) -> Result<Share, Error> {
    let place = place(plan);
    line.share.directory(&place).await.doing(|| format!("looking for directory {place}"))
}

/// Clears away what the operations have made, or left.
async fn clear(plan: &Plan) -> Result<(), Error> {
    if let Work::Metadata { kind, files, compound } = plan.work
        && !plan.keep
    {
        let line = Line::open(&plan.unhindered()).await?;
        let _left = Names::new(plan, kind, files, compound).sweep(&enter(&line, plan).await?).await?;
        line.close().await?;
    }
    Ok(())
}

/// One connection, from its login to its end. Meets the others at every barrier, whatever happens.
fn serve(shared: &Arc<Shared>, connection: u32) -> Result<Served, Error> {
    let runtime = runtime();
    let opened = runtime.and_then(|runtime| {
        let opened = runtime.block_on(Workers::open(shared, connection))?;
        Ok((runtime, opened))
    });
    if opened.is_err() {
        shared.course.stop();
    }
    shared.ready.wait();
    shared.go.wait();
    let measured = opened.and_then(|(runtime, workers)| {
        let record = runtime.block_on(workers.run(shared));
        Ok((runtime, workers, record?))
    });
    if measured.is_err() {
        shared.course.stop();
    }
    shared.done.wait();
    shared.read.wait();
    let (runtime, workers, record) = measured?;
    let (security, channels) = (workers.line.security(), workers.line.channels());
    runtime.block_on(workers.close())?;
    Ok(Served { record, security, channels })
}

/// The workers of one connection.
struct Workers {
    line: Line,
    /// The directory in which they work.
    share: Share,
    work: Arc<Opened>,
    /// The job of each worker, and its number among all.
    workers: Vec<(u32, u64)>,
}

/// What the workers of one connection work with.
enum Opened {
    /// The jobs that have workers here, by number.
    Data(Vec<Option<Job>>),
    Metadata(Names),
}

impl Workers {
    async fn open(shared: &Shared, connection: u32) -> Result<Workers, Error> {
        let plan = &shared.plan;
        let line = Line::open(plan).await?;
        let share = enter(&line, plan).await?;
        let workers: Vec<(u32, u64)> = (0..plan.jobs * plan.depth)
            .filter(|worker| worker % plan.connections == connection)
            .map(|worker| (worker / plan.depth, u64::from(worker)))
            .collect();
        let work = match plan.work {
            Work::Data { pattern, files, file_size } => {
                let shape = Shape { pattern, files, file_size };
                let mut jobs = Vec::new();
                for job in 0..plan.jobs {
                    let is_here = workers.iter().any(|(of, _)| *of == job);
                    let position = Arc::clone(&shared.positions[job as usize]);
                    jobs.push(match is_here {
                        true => Some(Job::open(&share, plan, shape, job.into(), position).await?),
                        false => None,
                    });
                }
                Opened::Data(jobs)
            }
            Work::Metadata { kind, files, compound } => {
                Opened::Metadata(Names::new(plan, kind, files, compound))
            }
        };
        Ok(Workers { line, share, work: Arc::new(work), workers })
    }

    /// Lets all workers work until nothing is left to do.
    async fn run(&self, shared: &Arc<Shared>) -> Result<Record, Error> {
        let record = Arc::new(Mutex::new(Record::default()));
        let mut tasks = tokio::task::JoinSet::new();
        for &(job, number) in &self.workers {
            let (shared, work, share) = (Arc::clone(shared), Arc::clone(&self.work), self.share.clone());
            let record = Arc::clone(&record);
            tasks.spawn(async move {
                let worked = work_on(&shared.course, &work, &share, job, number, &record).await;
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
        match first_error {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut *record.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    async fn close(self) -> Result<(), Error> {
        if let Some(Opened::Data(jobs)) = Arc::into_inner(self.work) {
            for job in jobs.into_iter().flatten() {
                job.close().await?;
            }
        }
        self.line.close().await
    }
}

/// One operation after the other.
async fn work_on(
    course: &Course,
    work: &Opened,
    share: &Share,
    job: u32,
    number: u64,
    record: &Mutex<Record>,
) -> Result<(), Error> {
    let mut random = Random::new(number);
    // The end of one operation is the begin of the next.
    let mut begin = Instant::now();
    loop {
        let turn = course.turn(begin);
        let (kind, bytes) = match (turn, work) {
            (Turn::Over, _) => return Ok(()),
            (_, Opened::Data(jobs)) => match &jobs[job as usize] {
                Some(job) => job.step(&mut random).await?,
                None => return Ok(()),
            },
            (Turn::Ramp, Opened::Metadata(names)) => {
                (Kind::Metadata, names.warm_up(share, number, &mut random).await?)
            }
            (Turn::Counts(at), Opened::Metadata(names)) => {
                (Kind::Metadata, names.step(share, at, &mut random).await?)
            }
        };
        let end = Instant::now();
        if let Turn::Counts(_) = turn {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            record.tally(kind).add(bytes, end - begin);
            record.lasted = end - course.measured_from();
        }
        begin = end;
    }
}
