//! A mounted path: what the kernel's client says of itself, the way to its server, and what the path gives through it. The
//! runs are those of `trunkline load` on a directory of this host, past its cache where that is possible.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use load::{Plan, Scheme, Stop, Target};
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::args::{Args, Course};
use crate::drive::Moment;
use crate::examine::Patient;
use crate::facts::{
    Cause, Channel, Connections, Data, Facts, Metadata, NameWork, Protocol, Run, Stage, Stopped, Work,
};
use crate::mount::Mount;
use crate::run::{cut, written};
use crate::{Error, mount, sweep, tcp};

/// Bytes of the test file.
const FILE_SIZE: &str = "16m";

/// `trunkline load` as it is called here.
#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: load::Args,
}

/// Examines the path of `target`.
///
/// # Errors
/// When no share or export is mounted there.
pub(crate) async fn examine(
    target: &Target,
    args: &Args,
    course: &Course,
    told: impl Future<Output = ()>,
) -> Result<Facts, Error> {
    let path = PathBuf::from(&target.directory);
    let begun = Instant::now();
    let (found, answers) = mount::look(&path, course.stall).await;
    let Some(mut mount) = found else {
        if !answers {
            return Err(Error::host(format!("looking at {}", path.display()), "it does not answer"));
        }
        let text = format!(
            "{}: neither SMB nor NFS is mounted there; mount it first, or name the server as smb:// or nfs://",
            path.display()
        );
        return Err(Error::Usage(text));
    };
    if let (true, None, Some(Ok(address))) =
        (mount.is_smb(), mount.option("port"), mount.address.as_ref().map(|it| it.parse()))
    {
        mount.port = port_of(&tcp::ports(address).unwrap_or_default(), mount.port);
    }
    let server = Target {
        scheme: Scheme::Local,
        host: mount.address.clone().unwrap_or_default(),
        port: mount.port,
        ..target.clone()
    };
    let mut patient = Patient::new(&server, written(target), args, course, "");
    patient.facts.protocol = Some(Protocol::Mount(mount));
    let scratch = path.join(format!(".trunkline-doctor-{:08x}", u32::from_ne_bytes(auth::crypto::random())));
    let worker = Worker::new();
    let ended = tokio::select! {
        ended = layers(&mut patient, &worker, answers, &path, &scratch) => ended.err(),
        () = told => Some(cut(&Facts::default(), Cause::Interrupted, course.limit)),
        () = tokio::time::sleep_until((begun + course.limit).into()) => Some(cut(&Facts::default(), Cause::Other, course.limit)),
    };
    if let Some(stopped) = ended {
        let was_reached = patient.facts.transport.is_some() && stopped.stage == Stage::Name;
        let stage = if was_reached { Stage::Data } else { stopped.stage };
        patient.facts.stopped = Some(Stopped { stage, ..stopped });
    }
    if patient.scratch.is_some() && !worker.clear(&scratch, patient.farewell()).await {
        patient.facts.left_behind = Some(scratch.display().to_string());
    }
    Ok(patient.facts)
}

/// The port of a mount that does not show it, as Linux's SMB client does not: the usual one if there is a connection to it,
/// else the one that most connections go to.
fn port_of(connections: &[u16], usual: u16) -> u16 {
    let count = |port: u16| connections.iter().filter(|it| **it == port).count();
    let most = connections.iter().copied().max_by_key(|port| (*port == usual, count(*port), u16::MAX - port));
    most.unwrap_or(usual)
}

/// Does what may block for ever on a thread of its own, one thing after the other. Whoever waits may go; the thread then works
/// on, so that what it makes can be deleted only when it has ended.
#[derive(Debug)]
struct Worker {
    stop: Stop,
    /// Held by the thread while it works.
    turn: Arc<Semaphore>,
}

impl Worker {
    fn new() -> Worker {
        Worker { stop: Stop::default(), turn: Arc::new(Semaphore::new(1)) }
    }

    /// Its turn, when what it did before has ended.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.turn).acquire_owned().await.ok()
    }

    /// Does `work`, and waits for it so long.
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
                // Whoever waits may have gone.
                drop(done.send(answer));
            });
            is_done.await.ok()
        };
        tokio::time::timeout(patience, working).await.ok()?
    }

    /// Ends what is under way, and deletes `scratch` when it has ended; whether nothing is left.
    async fn clear(&self, scratch: &Path, patience: Duration) -> bool {
        self.stop.now();
        let (place, until) = (scratch.to_owned(), Instant::now() + patience);
        self.aside(patience, move || sweep::delete(&place, until)).await == Some(true)
    }
}

/// Makes the directory of the test files; false where that is not allowed.
async fn make(
    patient: &mut Patient<'_>,
    worker: &Worker,
    path: &Path,
    scratch: &Path,
) -> Result<bool, Stopped> {
    let directory = scratch.to_owned();
    patient.scratch = Some(scratch.display().to_string());
    match worker.aside(patient.course.stall, move || std::fs::create_dir(&directory)).await {
        Some(Ok(())) => Ok(true),
        None => Err(patient.silent(Stage::Data, "making a directory")),
        Some(Err(why)) if why.kind() == std::io::ErrorKind::StorageFull => {
            let why = format!("{}: {why}", scratch.display());
            Err(Stopped { stage: Stage::Data, why, stalled: false, cause: Cause::Full })
        }
        Some(Err(why)) => {
            patient.scratch = None;
            let text = format!("runs through the mount: nothing can be made in {}: {why}", path.display());
            patient.facts.left_out.push(text);
            Ok(false)
        }
    }
}

async fn layers(
    patient: &mut Patient<'_>,
    worker: &Worker,
    answers: bool,
    path: &Path,
    scratch: &Path,
) -> Result<(), Stopped> {
    patient.reach().await?;
    if !answers {
        return Err(patient.silent(Stage::Share, "looking at the mount"));
    }
    patient.facts.connections = Some(kernels(patient));
    patient.facts.data = Some(Data::default());
    if patient.args.read_only {
        patient.facts.left_out.push("runs through the mount: they would write (--read-only)".to_owned());
        return Ok(());
    }
    if !make(patient, worker, path, scratch).await? {
        return Ok(());
    }
    through(patient, worker, scratch).await?;
    // Numbers of the kernel's client count this work too.
    if let Some(Protocol::Mount(mount)) = &mut patient.facts.protocol
        && let (Some(now), true) = mount::look(path, patient.course.stall).await
    {
        *mount = Mount { port: mount.port, ..now };
    }
    Ok(())
}

/// Runs in the directory `scratch`.
async fn through(patient: &mut Patient<'_>, worker: &Worker, scratch: &Path) -> Result<(), Stopped> {
    let seconds = |it: Duration| format!("{}ms", it.as_millis());
    let (time, ramp) = (seconds(patient.course.run), seconds(patient.course.ramp));
    let place = scratch.display().to_string();
    for (work, pattern, block, depth) in [
        (Work::Write, "write", "256k", 8),
        (Work::Read, "read", "256k", 8),
        (Work::SmallRead, "randread", "4k", 1),
        (Work::SmallRead, "randread", "4k", 8),
        (Work::SmallRead, "randread", "4k", 64),
    ] {
        let depth_text = depth.to_string();
        let mut words = vec!["load", &place, "--rw", pattern, "--bs", block, "--iodepth", &depth_text];
        words.extend(["--filesize", FILE_SIZE, "--runtime", &time, "--ramp_time", &ramp, "--direct"]);
        let rate = patient.args.max_rate.map(|rate| (rate / 4096 / u64::from(depth)).max(1).to_string());
        if let Some(rate) = &rate {
            words.extend(["--rate_iops", rate]);
        }
        let idle = Moment::read(&Vec::new);
        let report = loaded(patient, worker, &words).await?;
        let run = run_of(work, depth, &report, idle.idle_since());
        patient.facts.data.get_or_insert_default().runs.extend(run);
    }
    names(patient, worker, &place).await
}

/// Connections of the kernel to the server, as its table of sockets has them.
fn kernels(patient: &Patient<'_>) -> Connections {
    let Some(Protocol::Mount(mount)) = &patient.facts.protocol else { return Connections::default() };
    let peer = patient.destination();
    let channel = |(local, info): (std::net::SocketAddr, tcp::TcpInfo)| Channel {
        local,
        peer,
        mib_s: 0.0,
        busy: None,
        tcp: Some(info),
    };
    let channels: Vec<Channel> = tcp::to(peer).unwrap_or_default().into_iter().map(channel).collect();
    let wanted = mount.number(if mount.is_smb() { "max_channels" } else { "nconnect" }).unwrap_or(1);
    Connections {
        offered: true,
        asked: u32::try_from(wanted).unwrap_or(1),
        // Where the kernel does not tell of the session's, those to the server.
        got: if mount.connections.is_empty() { channels.len() } else { mount.connected() }.max(1) as u32,
        channels,
        ..Connections::default()
    }
}

async fn names(patient: &mut Patient<'_>, worker: &Worker, place: &str) -> Result<(), Stopped> {
    let mut metadata = Metadata { names: 200, ..Metadata::default() };
    let time = format!("{}ms", patient.course.names.as_millis());
    for (what, kind, trips) in [("create", "create", 2), ("open", "open", 2), ("delete", "unlink", 1)] {
        let mut words = vec!["load", place, "--metadata", kind, "--files", "200", "--filesize", "1k"];
        if kind != "unlink" {
            words.extend(["--runtime", &time]);
        }
        let report = loaded(patient, worker, &words).await?;
        let median_ms =
            report["trunkline"]["metadata"]["clat_ns"]["percentile"]["50.000000"].as_f64().unwrap_or(0.0)
                / 1e6;
        metadata.operations.push(NameWork {
            what,
            trips,
            median_ms,
            per_s: None,
            depth: 1,
            parts: Vec::new(),
            idle: 1.0,
        });
    }
    patient.facts.metadata = Some(metadata);
    Ok(())
}

/// One load, as fio's job.
async fn loaded(patient: &Patient<'_>, worker: &Worker, words: &[&str]) -> Result<Value, Stopped> {
    let stopped = |why: String, stalled, cause| Stopped { stage: Stage::Data, why, stalled, cause };
    let command =
        Command::try_parse_from(words).map_err(|why| stopped(why.to_string(), false, Cause::Other))?;
    let plan =
        Plan::all(&command.args, "").map_err(|why| stopped(why.to_string(), false, Cause::Other))?.remove(0);
    let (patience, stop) = (patient.left(), worker.stop.clone());
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

fn run_of(work: Work, depth: u32, job: &Value, idle: f64) -> Option<Run> {
    let of = if work == Work::Write { &job["write"] } else { &job["read"] };
    let per_s = of["iops"].as_f64()?;
    let bytes = of["bw_bytes"].as_f64()?;
    let deviation = of["iops_stddev"].as_f64()? / of["iops_samples"].as_f64()?.max(1.0).sqrt() * 2.0;
    let at = |percent: &str| of["clat_ns"]["percentile"][percent].as_f64().unwrap_or(0.0) / 1e6;
    Some(Run {
        work,
        block: if work == Work::SmallRead { 4096 } else { 256 << 10 },
        depth,
        connections: 1,
        lasted_s: of["runtime"].as_f64()? / 1000.0,
        operations: of["total_ios"].as_u64()?,
        per_s,
        interval: [(per_s - deviation).max(0.0), per_s + deviation],
        mib_s: bytes / 1_048_576.0,
        median_ms: at("50.000000"),
        p99_ms: at("99.000000"),
        parts: Vec::new(),
        own_processors: 0.0,
        idle,
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
            "iops": 100.0, "bw_bytes": 26_214_400, "iops_stddev": 5.0, "iops_samples": 4, "runtime": 1000, "total_ios": 100,
            "clat_ns": { "percentile": { "50.000000": 2_000_000, "99.000000": 9_000_000 } },
        });
        let run = run_of(Work::Write, 8, &serde_json::json!({ "write": side }), 0.5).unwrap();
        assert_eq!((run.mib_s, run.median_ms, run.interval), (25.0, 2.0, [95.0, 105.0]));
        assert!(run_of(Work::Read, 8, &serde_json::json!({}), 0.5).is_none());
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

    /// Waits until something is in a directory.
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
            let mut patient = Patient::new(&args.targets[0], String::new(), &args, &course, "");
            let worker = Worker::new();
            std::fs::create_dir(&scratch).unwrap();
            let (place, made) = (scratch.display().to_string(), scratch.join("trunkline.names"));
            let work = async {
                match is_about_names {
                    true => names(&mut patient, &worker, &place).await,
                    false => through(&mut patient, &worker, &scratch).await,
                }
            };
            tokio::select! {
                done = work => panic!("it was to be cut: {done:?}"),
                () = filled(if is_about_names { &made } else { &scratch }) => {}
                () = tokio::time::sleep(long) => panic!("nothing was made"),
            }
            assert!(worker.clear(&scratch, long).await);
            // Nobody works any more who could make it again.
            assert!(worker.turn().await.is_some());
            assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0);
        }
    }
}
