//! The examination of a mounted path: the state of the kernel's client, the path to its server, and the
//! rates through the mount. The runs are those of `trunkline load` on a directory of this host, and
//! bypass its cache if that is possible.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use client::{Scheme, Url};
use load::cpu::Account;
use load::{Plan, Stop, noise};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::args::{Args, MeasurementBudget};
use crate::drive::Moment;
use crate::examination::{Examination, cut};
use crate::existing::{DEEP, LISTED, NOTHING};
use crate::measurements::{
    Cause, Channel, Connections, Data, Metadata, NameWork, Protocol, Run, RunKind, Stage, Stopped,
    TargetMeasurements, median,
};
use crate::mount::Mount;
use crate::tcp::TcpInfo;
use crate::{Error, mount, mount_cleanup, ping, tcp};

/// The most bytes of the test file.
const FILE_SIZE: u64 = 16 << 20;
/// The name that `trunkline load` gives the file.
const FILE: &str = "trunkline.0.0";
/// The directory of the names.
const NAMES: &str = "trunkline.names";
/// The most names that are created.
const MOST_NAMES: usize = 200;
/// Bytes of one large operation. The largest one is used of which a limit allows several a second.
const LARGE: [u32; 3] = [256 << 10, 64 << 10, SMALL];
/// Bytes of one small operation.
const SMALL: u32 = 4 << 10;

/// The command line of `trunkline load`.
#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: load::Args,
}

/// Examines the path of `target`.
///
/// # Errors
/// If no share or export is mounted there.
pub(crate) async fn examine(
    target: &Url,
    args: &Args,
    course: &MeasurementBudget,
    told: impl Future<Output = ()>,
) -> Result<TargetMeasurements, Error> {
    let path = PathBuf::from(&target.path);
    let begun = Instant::now();
    let (found, answers) = mount::look(&path, course.stall).await;
    let Some(mut mount) = found else {
        if !answers {
            return Err(Error::host(format!("looking at {}", path.display()), "it does not answer"));
        }
        let text = format!(
            "{}: neither SMB nor NFS is mounted there; mount it first, or name the server as smb:// or \
             nfs://",
            path.display()
        );
        return Err(Error::Usage(text));
    };
    if let (true, None, Some(Ok(address))) =
        (mount.is_smb(), mount.option("port"), mount.address.as_ref().map(|it| it.parse()))
    {
        mount.port = port_of(&tcp::ports(address).unwrap_or_default(), mount.port);
    }
    let server = Url {
        scheme: Scheme::Local,
        host: mount.address.clone().unwrap_or_default(),
        port: mount.port,
        ..target.clone()
    };
    let mut exam = Examination::new(&server, target.to_string(), args, course, "");
    exam.measurements.protocol = Some(Protocol::Mount(mount));
    let scratch = path.join(format!(".trunkline-doctor-{:08x}", u32::from_ne_bytes(auth::crypto::random())));
    let worker = BlockingWorker::new();
    let ended = tokio::select! {
        ended = layers(&mut exam, &worker, answers, &path, &scratch) => Ok(ended.err()),
        () = told => Err(Cause::Interrupted),
        () = tokio::time::sleep_until((begun + course.limit).into()) => Err(Cause::Other),
    };
    exam.measurements.stopped = match ended {
        Ok(stopped) => stopped,
        Err(cause) => Some(cut(&exam.measurements, cause, course.limit)),
    };
    if exam.scratch.is_some() && !worker.clear(&scratch, exam.cleanup_time()).await {
        exam.measurements.left_behind = Some(scratch.display().to_string());
    }
    Ok(exam.measurements)
}

/// The port of a mount that does not show it, as Linux's SMB client does not. It is the usual port if
/// there is a connection to it, or else the port with the most connections.
fn port_of(connections: &[u16], usual: u16) -> u16 {
    let count = |port: u16| connections.iter().filter(|it| **it == port).count();
    let most = connections.iter().copied().max_by_key(|port| (*port == usual, count(*port), u16::MAX - port));
    most.unwrap_or(usual)
}

/// Runs work that may block for ever on its own thread, one piece after the other. The caller may stop
/// waiting. The thread then continues, so the files that it creates can be deleted only after it has
/// ended.
#[derive(Debug)]
struct BlockingWorker {
    stop: Stop,
    /// As `stop`, for work that runs here.
    is_over: Arc<AtomicBool>,
    /// Held by the thread while it works.
    turn: Arc<Semaphore>,
}

impl BlockingWorker {
    fn new() -> BlockingWorker {
        BlockingWorker { stop: Stop::default(), is_over: Arc::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Waits until the earlier work has ended.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turn).acquire_owned().await.ok()
    }

    /// Runs `work`, and waits for it for this long.
    async fn aside<T: Send + 'static>(
        &self,
        patience: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let working = async {
            let turn = self.turn().await?;
            let (done, is_done) = tokio::sync::oneshot::channel();
            std::thread::spawn(move || {
                let answer = work();
                drop(turn);
                // The receiver may be gone.
                drop(done.send(answer));
            });
            is_done.await.ok()
        };
        tokio::time::timeout(patience, working).await.ok()?
    }

    /// Ends the running work, and deletes `scratch` after it has ended. Returns whether nothing is left.
    async fn clear(&self, scratch: &Path, patience: Duration) -> bool {
        self.stop.now();
        self.is_over.store(true, Ordering::Relaxed);
        let (names_directory, until) = (scratch.to_owned(), Instant::now() + patience);
        self.aside(patience, move || mount_cleanup::delete(&names_directory, until)).await == Some(true)
    }
}

/// Waits, unless the work is to end.
fn pause(time: Duration, is_over: &AtomicBool) {
    let until = Instant::now() + time;
    while !is_over.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// The limits of work through the mount (`--max-rate`, `--max-iops`), in operations a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WorkLimits {
    /// Bytes of one large operation.
    block: u32,
    large: Option<u64>,
    small: Option<u64>,
    names: Option<u32>,
    /// Bytes of the test file.
    file: u64,
}

impl WorkLimits {
    /// The limits by the options. `None` if less than one block a second is allowed.
    fn by(args: &Args) -> Option<WorkLimits> {
        let by_rate = |block: u32| args.max_rate.map(|rate| rate / u64::from(block));
        let is_fitting = |block: &u32| by_rate(*block).is_none_or(|count| count >= 4);
        let block = LARGE.into_iter().find(is_fitting).unwrap_or(SMALL);
        let small = by_rate(SMALL).into_iter().chain(args.max_iops.map(u64::from)).min();
        // The test file is written with as many bytes as may be moved in a second.
        let blocks = args.max_rate.unwrap_or(FILE_SIZE).min(FILE_SIZE) / u64::from(block);
        let file = blocks * u64::from(block);
        let held = WorkLimits { block, large: by_rate(block), small, names: args.max_iops, file };
        (held.large != Some(0)).then_some(held)
    }

    /// Bytes of one operation, and the most operations a second.
    fn of(&self, work: RunKind) -> (u32, Option<u64>) {
        if work == RunKind::SmallRead { (SMALL, self.small) } else { (self.block, self.large) }
    }
}

/// The file or directory of the runs.
#[derive(Debug, Clone, PartialEq)]
enum Subject {
    /// A file of the doctor's own in this directory.
    Own(PathBuf),
    /// An existing file, which is only read.
    Existing(PathBuf),
}

/// Creates the directory of the test files. Returns the reason if that is not allowed.
async fn make(
    exam: &mut Examination<'_>,
    worker: &BlockingWorker,
    scratch: &Path,
) -> Result<Option<String>, Stopped> {
    let directory = scratch.to_owned();
    exam.scratch = Some(scratch.display().to_string());
    match worker.aside(exam.course.stall, move || std::fs::create_dir(&directory)).await {
        Some(Ok(())) => Ok(None),
        None => Err(exam.silent(Stage::Data, "making a directory")),
        Some(Err(why)) if is_full(&why) => {
            let why = format!("{}: {why}", scratch.display());
            Err(Stopped { stage: Stage::Data, why, stalled: false, cause: Cause::Full })
        }
        Some(Err(why)) => {
            exam.scratch = None;
            Ok(Some(format!("nothing can be made in it: {why}")))
        }
    }
}

fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The meaning of an error of this host's calls for the examination.
fn failed(stage: Stage, why: &io::Error) -> Stopped {
    let cause = if is_full(why) { Cause::Full } else { Cause::Other };
    Stopped { stage, why: why.to_string(), stalled: false, cause }
}

async fn layers(
    exam: &mut Examination<'_>,
    worker: &BlockingWorker,
    answers: bool,
    path: &Path,
    scratch: &Path,
) -> Result<(), Stopped> {
    exam.reach().await?;
    if !answers {
        return Err(exam.silent(Stage::Share, "looking at the mount"));
    }
    exam.measurements.connections = Some(kernels(exam));
    let bound_mib_s = exam.args.max_rate.map(|rate| rate as f64 / 1_048_576.0);
    exam.measurements.data = Some(Data { bound_mib_s, bound_iops: exam.args.max_iops, ..Data::default() });
    let Some(held) = WorkLimits::by(exam.args) else {
        exam.measurements
            .left_out
            .push("runs through the mount: --max-rate is less than a block of 4 KiB".to_owned());
        return Ok(());
    };
    let not_written = match exam.args.read_only {
        true => Some("--read-only".to_owned()),
        false => make(exam, worker, scratch).await?,
    };
    let subject = match not_written {
        None => Subject::Own(scratch.to_owned()),
        Some(why) => {
            exam.measurements.data.get_or_insert_default().not_written = Some(why);
            exam.measurements.left_out.push("names: nothing may be made here".to_owned());
            match existing(exam, worker, path, held.block).await {
                Some(file) => Subject::Existing(file),
                None => return Ok(()),
            }
        }
    };
    through(exam, worker, &subject, &held).await?;
    // The counters of the kernel's client include this work too.
    if let Some(Protocol::Mount(mount)) = &mut exam.measurements.protocol
        && let (Some(now), true) = mount::look(path, exam.course.stall).await
    {
        *mount = Mount { port: mount.port, ..now };
    }
    Ok(())
}

/// The largest file below `path`, if it has at least a block.
async fn existing(
    exam: &mut Examination<'_>,
    worker: &BlockingWorker,
    path: &Path,
    block: u32,
) -> Option<PathBuf> {
    let (root, until, is_over) =
        (path.to_owned(), Instant::now() + exam.course.stall * 3 / 4, Arc::clone(&worker.is_over));
    let looking = move || largest(&root, until, &is_over);
    let found = worker.aside(exam.course.stall, looking).await.flatten();
    let found = found.filter(|(_, size)| *size >= u64::from(block));
    if found.is_none() {
        exam.measurements.left_out.push(format!("runs through the mount: {NOTHING}"));
    }
    found.map(|(file, _)| file)
}

/// The largest regular file in a directory and below it on the same mount, and its size. Nearer
/// directories come first. The search ends when a file is large enough, when many directories were
/// listed, or when its time is over.
fn largest(root: &Path, until: Instant, is_over: &AtomicBool) -> Option<(PathBuf, u64)> {
    let device = std::fs::metadata(root).ok()?.dev();
    let mut best: Option<(PathBuf, u64)> = None;
    let mut next = VecDeque::from([(root.to_owned(), 0)]);
    for _ in 0..LISTED {
        let Some((directory, depth)) = next.pop_front() else { break };
        let Ok(entries) = std::fs::read_dir(&directory) else { continue };
        for entry in entries.flatten() {
            if Instant::now() >= until || is_over.load(Ordering::Relaxed) {
                return best;
            }
            let Ok(status) = entry.metadata() else { continue };
            if status.is_dir() && status.dev() == device && depth < DEEP && next.len() < LISTED {
                next.push_back((entry.path(), depth + 1));
            } else if status.is_file() && best.as_ref().is_none_or(|(_, size)| status.len() > *size) {
                best = Some((entry.path(), status.len()));
            }
        }
        if best.as_ref().is_some_and(|(_, size)| *size >= FILE_SIZE) {
            break;
        }
    }
    best
}

/// Runs on `subject`, and work with names if files may be created.
async fn through(
    exam: &mut Examination<'_>,
    worker: &BlockingWorker,
    subject: &Subject,
    held: &WorkLimits,
) -> Result<(), Stopped> {
    if let Subject::Own(scratch) = subject {
        lay_out(exam, worker, &scratch.join(FILE), held).await?;
    }
    for (work, depth) in [
        (RunKind::Write, 8),
        (RunKind::Read, 8),
        (RunKind::SmallRead, 1),
        (RunKind::SmallRead, 8),
        (RunKind::SmallRead, 64),
    ] {
        if work != RunKind::Write || matches!(subject, Subject::Own(_)) {
            run(exam, worker, subject, held, work, depth).await?;
        }
    }
    match subject {
        Subject::Own(scratch) => names(exam, worker, scratch, held.names).await,
        Subject::Existing(_) => Ok(()),
    }
}

/// Writes the file that is read later, within the limits.
async fn lay_out(
    exam: &Examination<'_>,
    worker: &BlockingWorker,
    file: &Path,
    held: &WorkLimits,
) -> Result<(), Stopped> {
    let (file, held, is_over) = (file.to_owned(), *held, Arc::clone(&worker.is_over));
    let laying = move || laid_out(&file, &held, &is_over);
    match worker.aside(exam.left(), laying).await {
        Some(done) => done.map_err(|why| failed(Stage::Data, &why)),
        None => Err(exam.silent(Stage::Data, "writing a file")),
    }
}

fn laid_out(file: &Path, held: &WorkLimits, is_over: &AtomicBool) -> io::Result<()> {
    let content = noise(held.block as usize);
    let mut made = std::fs::File::create_new(file)?;
    let begun = Instant::now();
    for number in 0..held.file / u64::from(held.block) {
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Some(rate) = held.large {
            let due = Duration::from_secs_f64(number as f64 / rate as f64);
            pause(due.saturating_sub(begun.elapsed()), is_over);
        }
        made.write_all(&content)?;
        if held.large.is_some() {
            // Otherwise the kernel would send the cached data all at once.
            made.sync_data()?;
        }
    }
    made.sync_data()
}

/// The options of one run for `trunkline load`.
fn words(
    exam: &Examination<'_>,
    subject: &Subject,
    held: &WorkLimits,
    work: RunKind,
    depth: u32,
) -> Vec<String> {
    let (block, rate) = held.of(work);
    let is_random = work == RunKind::SmallRead;
    let (run, ramp) = (exam.course.run, exam.course.ramp);
    let mut words = vec!["load".to_owned()];
    match subject {
        Subject::Own(scratch) => {
            let pattern = match work {
                RunKind::Write => "write",
                _ if is_random => "randread",
                _ => "read",
            };
            words.push(scratch.display().to_string());
            words.extend(["--rw", pattern, "--direct"].map(str::to_owned));
            words.extend(["--bs".to_owned(), block.to_string(), "--iodepth".to_owned(), depth.to_string()]);
            words.extend(["--filesize".to_owned(), held.file.to_string()]);
            let time = |it: Duration| format!("{}ms", it.as_millis());
            words.extend(["--runtime".to_owned(), time(run), "--ramp_time".to_owned(), time(ramp)]);
        }
        // A single file is given in the form of diskspd, whose times are whole seconds.
        Subject::Existing(file) => {
            words.push(file.display().to_string());
            let seconds = run.as_secs_f64().round().max(1.0);
            let order = if is_random { "-r" } else { "-s" };
            let flags =
                [format!("-b{block}"), format!("-o{depth}"), format!("-d{seconds}"), "-W0".to_owned()];
            let flags = flags.into_iter().chain(["-w0", "-Su", order].map(str::to_owned));
            words.extend(flags.map(|flag| format!("--diskspd={flag}")));
        }
    }
    if let Some(rate) = rate {
        words.extend(["--rate_iops".to_owned(), rate.to_string()]);
    }
    words
}

/// One run. It also measures connects meanwhile, and the traffic of each connection during large reads.
async fn run(
    exam: &mut Examination<'_>,
    worker: &BlockingWorker,
    subject: &Subject,
    held: &WorkLimits,
    work: RunKind,
    depth: u32,
) -> Result<(), Stopped> {
    let words = words(exam, subject, held, work, depth);
    let (peer, time) = (exam.destination(), exam.course.ramp + exam.course.run);
    let mut pings = JoinSet::new();
    if work != RunKind::SmallRead {
        pings.spawn(async move {
            tokio::time::sleep(time / 4).await;
            ping::series(peer, 6, time / 16, time / 2).await
        });
    }
    let before = tcp::to(peer).unwrap_or_default();
    let (idle, own, begun) = (Moment::read(&Vec::new), Account::own().ok(), Instant::now());
    let report = loaded(exam, worker, &words).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let own = own.zip(Account::own().ok()).map_or(0, |(before, now)| now.since(&before));
    let connections = exam.measurements.connections.as_ref().map_or(1, |it| it.got);
    let run = run_of(work, held.of(work).0, depth, &report).map(|run| Run {
        connections,
        own_processors: own as f64 / 1e9 / seconds,
        idle: idle.idle_since(),
        ..run
    });
    exam.measurements.data.get_or_insert_default().runs.extend(run);
    let connects = match pings.join_next().await {
        Some(Ok(connects)) => Some(connects),
        _ => None,
    };
    if let (RunKind::Write, Some(transport)) = (work, &mut exam.measurements.transport) {
        transport.connect_under_writes = connects;
    } else if let (RunKind::Read, Some(transport)) = (work, &mut exam.measurements.transport) {
        transport.connect_under_load = connects;
        let channels = carried(peer, &before, &tcp::to(peer).unwrap_or_default(), seconds);
        if let Some(connections) = exam.measurements.connections.as_mut().filter(|_| !channels.is_empty()) {
            connections.channels = channels;
        }
    }
    Ok(())
}

/// The bytes that each earlier connection has received since.
fn carried(
    peer: SocketAddr,
    before: &[(SocketAddr, TcpInfo)],
    after: &[(SocketAddr, TcpInfo)],
    seconds: f64,
) -> Vec<Channel> {
    let channel = |(local, info): &(SocketAddr, TcpInfo)| {
        let (_, old) = before.iter().find(|(other, _)| other == local)?;
        let bytes = info.bytes_came.saturating_sub(old.bytes_came);
        let mib_s = Some(bytes as f64 / seconds.max(1e-6) / 1_048_576.0);
        Some(Channel { local: *local, peer, mib_s, busy: None, tcp: Some(info.clone()) })
    };
    after.iter().filter_map(channel).collect()
}

/// The kernel's connections to the server, from its table of sockets.
fn kernels(exam: &Examination<'_>) -> Connections {
    let Some(Protocol::Mount(mount)) = &exam.measurements.protocol else { return Connections::default() };
    let peer = exam.destination();
    let channel = |(local, info): (SocketAddr, TcpInfo)| Channel {
        local,
        peer,
        mib_s: None,
        busy: None,
        tcp: Some(info),
    };
    let channels: Vec<Channel> = tcp::to(peer).unwrap_or_default().into_iter().map(channel).collect();
    let wanted = mount.number(if mount.is_smb() { "max_channels" } else { "nconnect" }).unwrap_or(1);
    Connections {
        offered: true,
        asked: u32::try_from(wanted).unwrap_or(1),
        // If the kernel does not show the session's connections, those to the server count.
        got: if mount.connections.is_empty() { channels.len() } else { mount.connected() }.max(1) as u32,
        channels,
        ..Connections::default()
    }
}

/// Creates names, opens them, and deletes them, one after the other.
async fn names(
    exam: &mut Examination<'_>,
    worker: &BlockingWorker,
    scratch: &Path,
    most_per_s: Option<u32>,
) -> Result<(), Stopped> {
    let names_directory = scratch.join(NAMES);
    let time = exam.course.names;
    let mut metadata = Metadata::default();
    for (what, trips) in [("create", 2), ("open", 2), ("delete", 1)] {
        let (names_directory, is_over, made) =
            (names_directory.clone(), Arc::clone(&worker.is_over), metadata.names as usize);
        let idle = Moment::read(&Vec::new);
        let doing = move || {
            let of = |number: usize| names_directory.join(format!("n{number}"));
            let (most, time) = match what {
                "create" => (MOST_NAMES, time),
                "open" => (usize::MAX, time),
                _ => (made, Duration::MAX),
            };
            if what == "create" {
                std::fs::create_dir(&names_directory)?;
            }
            series(most, time, most_per_s, &is_over, |number| match what {
                "create" => std::fs::File::create_new(of(number)).map(drop),
                "open" => std::fs::File::open(of(number % made)).map(drop),
                _ => std::fs::remove_file(of(number)),
            })
        };
        let done = worker.aside(exam.left(), doing).await;
        let times = done.ok_or_else(|| exam.silent(Stage::Metadata, "work with names"))?;
        let times = times.map_err(|why| failed(Stage::Metadata, &why))?;
        if what == "create" {
            metadata.names = times.len() as u32;
        }
        let Some(median_ms) = median(&times) else { break };
        let (parts, idle) = (Vec::new(), idle.idle_since());
        metadata.operations.push(NameWork { what, trips, median_ms, per_s: None, depth: 1, parts, idle });
    }
    exam.measurements.metadata = Some(metadata);
    Ok(())
}

/// Runs `work` with one number after the other, for at most this count and time, and at most this often a
/// second. Returns the time of each in ms.
fn series(
    most: usize,
    time: Duration,
    most_per_s: Option<u32>,
    is_over: &AtomicBool,
    work: impl Fn(usize) -> io::Result<()>,
) -> io::Result<Vec<f64>> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while times.len() < most && begun.elapsed() < time && !is_over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        work(times.len())?;
        times.push(begin.elapsed().as_secs_f64() * 1000.0);
        if let Some(most) = most_per_s {
            pause(Duration::from_secs(1) / most, is_over);
        }
    }
    Ok(times)
}

/// One load, as a job of fio's report.
async fn loaded(exam: &Examination<'_>, worker: &BlockingWorker, words: &[String]) -> Result<Value, Stopped> {
    let stopped = |why: String, stalled, cause| Stopped { stage: Stage::Data, why, stalled, cause };
    let command =
        Command::try_parse_from(words).map_err(|why| stopped(why.to_string(), false, Cause::Other))?;
    let plan =
        Plan::all(&command.args, "").map_err(|why| stopped(why.to_string(), false, Cause::Other))?.remove(0);
    let (patience, stop) = (exam.left(), worker.stop.clone());
    let work = move || load::run_until(plan, &stop).map(|report| report.json());
    match worker.aside(patience, work).await {
        Some(Ok(json)) => Ok(json["jobs"][0].clone()),
        Some(Err(why)) => {
            let text = why.to_string();
            let is_full = text.contains("No space left") || text.contains("quota");
            Err(stopped(text, false, if is_full { Cause::Full } else { Cause::Other }))
        }
        None => Err(stopped("the mount did not answer in time".to_owned(), true, Cause::Silent)),
    }
}

/// The run that a load reports.
fn run_of(work: RunKind, block: u32, depth: u32, job: &Value) -> Option<Run> {
    let of = if work == RunKind::Write { &job["write"] } else { &job["read"] };
    let per_s = of["iops"].as_f64()?;
    let bytes = of["bw_bytes"].as_f64()?;
    let deviation = of["iops_stddev"].as_f64()? / of["iops_samples"].as_f64()?.max(1.0).sqrt() * 2.0;
    let at = |percent: &str| of["clat_ns"]["percentile"][percent].as_f64().unwrap_or(0.0) / 1e6;
    Some(Run {
        work,
        block,
        depth,
        connections: 1,
        lasted_s: of["runtime"].as_f64()? / 1000.0,
        operations: of["total_ios"].as_u64()?,
        per_s,
        cut: 1.0 / of["total_ios"].as_f64()?.max(1.0),
        interval: [(per_s - deviation).max(0.0), per_s + deviation],
        turns: vec![per_s],
        mib_s: bytes / 1_048_576.0,
        median_ms: at("50.000000"),
        p99_ms: at("99.000000"),
        parts: Vec::new(),
        own_processors: 0.0,
        idle: 1.0,
        waited: None,
        tcp: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::asked;

    #[test]
    fn what_load_reports_becomes_a_run() {
        let side = serde_json::json!({
            "iops": 100.0, "bw_bytes": 26_214_400, "iops_stddev": 5.0, "iops_samples": 4,
            "runtime": 1000, "total_ios": 100,
            "clat_ns": { "percentile": { "50.000000": 2_000_000, "99.000000": 9_000_000 } },
        });
        let run = run_of(RunKind::Write, 256 << 10, 8, &serde_json::json!({ "write": side })).unwrap();
        assert_eq!((run.mib_s, run.median_ms, run.interval), (25.0, 2.0, [95.0, 105.0]));
        assert!(run_of(RunKind::Read, 256 << 10, 8, &serde_json::json!({})).is_none());
    }

    #[test]
    fn the_port_of_a_mount_that_does_not_show_it_is_that_of_its_connections() {
        assert_eq!(port_of(&[], 445), 445);
        assert_eq!(port_of(&[22, 4450, 4450], 445), 4450);
        assert_eq!(port_of(&[4450, 4450, 445], 445), 445);
    }

    #[tokio::test]
    async fn a_path_of_a_disk_is_refused_with_what_to_do() {
        let here = tempfile::tempdir().unwrap();
        let args: Args = asked(&format!("{} --quick", here.path().display()));
        let refused = examine(&args.targets[0], &args, &args.course(), std::future::pending()).await;
        assert!(refused.unwrap_err().to_string().contains("mount it first"));
    }

    /// Waits until a directory has an entry.
    async fn filled(directory: &Path) {
        let is_filled = || std::fs::read_dir(directory).is_ok_and(|mut it| it.next().is_some());
        while !is_filled() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_is_cut_in_the_middle_leaves_nothing_behind() {
        let long = Duration::from_secs(60);
        let here = tempfile::tempdir().unwrap();
        let args: Args = asked(&format!("{} --quick", here.path().display()));
        let course = args.course();
        let scratch = here.path().join("scratch");
        for is_about_names in [false, true] {
            let mut exam = Examination::new(&args.targets[0], String::new(), &args, &course, "");
            let worker = BlockingWorker::new();
            std::fs::create_dir(&scratch).unwrap();
            let (subject, held) = (Subject::Own(scratch.clone()), WorkLimits::by(&args).unwrap());
            let made = scratch.join(NAMES);
            let work = async {
                match is_about_names {
                    true => names(&mut exam, &worker, &scratch, None).await,
                    false => through(&mut exam, &worker, &subject, &held).await,
                }
            };
            tokio::select! {
                done = work => panic!("it was to be cut: {done:?}"),
                () = filled(if is_about_names { &made } else { &scratch }) => {}
                () = tokio::time::sleep(long) => panic!("nothing was made"),
            }
            assert!(worker.clear(&scratch, long).await);
            // No thread works any more that could create it again.
            assert!(worker.turn().await.is_some());
            assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
        }
    }

    fn allowed(line: &str) -> Option<WorkLimits> {
        WorkLimits::by(&asked(&format!("/mnt/x --quick {line}")))
    }

    #[test]
    fn a_bound_holds_each_kind_of_work_by_its_own_blocks() {
        let held = allowed("--max-rate 20m").unwrap();
        // 20 MiB a second are 80 blocks of 256 KiB, whatever is under way.
        assert_eq!(
            (held.of(RunKind::Read), held.of(RunKind::SmallRead)),
            ((256 << 10, Some(80)), (4096, Some(5120)))
        );
        assert_eq!((held.names, held.file), (None, 16 << 20));
        let few = allowed("--max-rate 100k --max-iops 7").unwrap();
        assert_eq!((few.of(RunKind::Write), few.of(RunKind::SmallRead)), ((4096, Some(25)), (4096, Some(7))));
        assert_eq!((few.names, few.file), (Some(7), 100 << 10));
        assert_eq!(allowed("").unwrap().of(RunKind::Read), (256 << 10, None));
        assert_eq!(allowed("--max-rate 1k"), None);
    }

    #[test]
    fn the_words_of_every_run_are_understood_and_hold_it_to_the_bound() {
        let args: Args = asked("/mnt/x --quick --max-rate 1m");
        let course = args.course();
        let exam = Examination::new(&args.targets[0], String::new(), &args, &course, "");
        let held = WorkLimits::by(&args).unwrap();
        for subject in [Subject::Own("/mnt/x/scratch".into()), Subject::Existing("/mnt/x/a file".into())] {
            for (work, rate) in [(RunKind::Read, 4), (RunKind::SmallRead, 256)] {
                let words = words(&exam, &subject, &held, work, 8);
                let command = Command::try_parse_from(&words).unwrap();
                let plans = Plan::all(&command.args, "").unwrap();
                assert_eq!((command.args.rate_iops, plans.len()), (Some(rate), 1), "{words:?}");
            }
        }
    }

    #[test]
    fn the_test_file_is_laid_out_no_quicker_than_is_allowed() {
        let here = tempfile::tempdir().unwrap();
        let file = here.path().join(FILE);
        let held = WorkLimits { block: 4096, large: Some(50), small: None, names: None, file: 6 * 4096 };
        let begun = Instant::now();
        laid_out(&file, &held, &AtomicBool::new(false)).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(100));
        assert_eq!(std::fs::metadata(&file).unwrap().len(), 6 * 4096);
    }

    #[test]
    fn names_are_asked_for_no_quicker_than_is_allowed() {
        let begun = Instant::now();
        let times =
            series(3, Duration::from_secs(60), Some(50), &AtomicBool::new(false), |_| Ok(())).unwrap();
        assert!(times.len() == 3 && begun.elapsed() >= Duration::from_millis(60));
    }

    #[test]
    fn without_writing_the_largest_file_near_is_read() {
        let here = tempfile::tempdir().unwrap();
        let below = here.path().join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::write(here.path().join("small"), "x").unwrap();
        std::fs::write(below.join("large"), vec![1; 300_000]).unwrap();
        let soon = Instant::now() + Duration::from_secs(60);
        let found = largest(here.path(), soon, &AtomicBool::new(false));
        assert_eq!(found, Some((below.join("large"), 300_000)));
        assert_eq!(largest(here.path(), soon, &AtomicBool::new(true)), None);
    }

    #[test]
    fn what_a_connection_carried_is_what_came_since() {
        let peer: SocketAddr = "10.0.0.1:445".parse().unwrap();
        let of = |port: u16, bytes_came| {
            (SocketAddr::from(([10, 0, 0, 2], port)), TcpInfo { bytes_came, ..TcpInfo::default() })
        };
        let channels = carried(peer, &[of(1, 0), of(2, 1 << 20)], &[of(2, 5 << 20), of(3, 9)], 2.0);
        assert_eq!(channels.len(), 1);
        assert_eq!((channels[0].local.port(), channels[0].mib_s), (2, Some(2.0)));
    }
}
