//! Layers 5 to 7: reads, writes and work with names on the server, which show the gain of connections and
//! depth. All test files are in one directory. [`Examination::scratch`] has its name before it is
//! created, and [`Examination::made`] the names of the files.
//!
//! [`warm`] determines how much is to be under way, and does everything once without counting it.
//! [`turns`] measures numbers of connections.

mod turns;
mod warm;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::remote::{Directory, OpenMode, RemoteFile, RemoteSession};
use load::noise;

use crate::drive::{self, Failure, Order, RunFixture};
use crate::examination::{Examination, accounts_of, ends};
use crate::existing::Existing;
use crate::measurements::{Cause, Data, Protocol, Run, RunKind, Stage, Stopped};
use crate::protocol::MOUNT_OPTIONS;
use crate::tcp::TcpInfo;
use crate::{existing, names, protocol, sawtooth};

/// The name of the test file.
const FILE_NAME: &str = "data";
/// The most bytes that are written to it.
const FILE_BYTES_AT_MOST: u64 = 64 << 20;
/// Bytes of one large operation.
const LARGE_BLOCK_BYTES: u32 = 256 << 10;
/// Bytes of one large operation on a slow path.
const SLOW_WAY_BLOCK_BYTES: u32 = 64 << 10;
/// Bytes of one small operation.
const SMALL_BLOCK_BYTES: u32 = 4 << 10;
/// Round trips in which a connection reaches its rate (slow start doubles it in each, RFC 5681 3.1).
const TRIPS_TO_FIND_THE_RATE: u32 = 12;
/// The round trip from which a path counts as long, in ms.
const LONG_WAY_MS: f64 = 5.0;
/// The operations of a turn, if the course has the time: each of them is a part of the turn's error.
const OPERATIONS_OF_A_TURN: u32 = 12;
/// The least time that shows whether a rate still grows.
const GROWTH_SLICE_AT_LEAST: Duration = Duration::from_millis(40);
/// The time that is reserved for the end of an examination.
const TIME_FOR_THE_END: Duration = Duration::from_millis(600);

impl Examination<'_> {
    /// The round trip in ms.
    fn trip_ms(&self) -> f64 {
        self.measurements.transport.as_ref().and_then(|it| it.connect.median()).unwrap_or(1.0)
    }

    /// The time for which a connection runs before it is measured.
    fn ramp(&self) -> Duration {
        let trips = Duration::from_secs_f64(self.trip_ms() / 1000.0) * TRIPS_TO_FIND_THE_RATE;
        trips.clamp(self.course.ramp, self.course.ramp * 3)
    }

    /// The time before the measurement on an existing connection, as for each of several turns. The quick
    /// course has no time for all the round trips.
    fn turn_ramp(&self) -> Duration {
        let trips =
            if self.course.name == "quick" { TRIPS_TO_FIND_THE_RATE * 2 / 3 } else { TRIPS_TO_FIND_THE_RATE };
        let needed = Duration::from_secs_f64(self.trip_ms() / 1000.0) * trips;
        needed.clamp(self.course.turn_ramp, self.course.ramp * 3)
    }

    /// The counted time of a run in a turn. It is longer on a path that is so slow that it would have few
    /// operations.
    fn turn_time(&self) -> Duration {
        let needed = self.sizes.map_or(Duration::ZERO, |it| it.block_time * OPERATIONS_OF_A_TURN);
        needed.clamp(self.course.turn, self.course.run.max(self.course.turn))
    }

    /// The longest extension while the rate still grows, if there is time for it.
    fn settling(&self) -> Duration {
        let is_long = self.trip_ms() > LONG_WAY_MS && self.course.name != "quick";
        if is_long && self.left() > self.course.limit / 4 { self.ramp() } else { Duration::ZERO }
    }

    fn order(&self, work: RunKind, block: u32, depth: u32, connections: u32) -> Order {
        let large = matches!(work, RunKind::Write | RunKind::Read | RunKind::ReadAgain);
        let is_turn = matches!(work, RunKind::Write | RunKind::Read);
        let by_bytes = self.args.max_rate.map(|rate| rate as f64 / f64::from(block));
        let by_count = self.args.max_iops.filter(|_| !large).map(f64::from);
        Order {
            work,
            block,
            depth,
            connections,
            ramp: if is_turn { self.turn_ramp() } else { self.ramp() },
            settling: self.settling(),
            slice: Duration::from_secs_f64(self.trip_ms() * 2.0 / 1000.0).max(GROWTH_SLICE_AT_LEAST),
            time: if is_turn { self.turn_time() } else { self.course.run },
            stall: self.course.stall,
            most_per_s: by_bytes.into_iter().chain(by_count).min_by(f64::total_cmp),
        }
    }

    /// Whether there is enough time for a step.
    fn has_time(&mut self, needed: Duration, what: &str) -> bool {
        if self.left() > needed + TIME_FOR_THE_END {
            return true;
        }
        let text = format!("{what}: no time was left");
        if !self.measurements.left_out.contains(&text) {
            self.measurements.left_out.push(text);
        }
        false
    }

    /// The objects that all sessions work with: the file is opened in each.
    async fn bench(&self, extent: u64) -> Result<RunFixture, Stopped> {
        let mut places = Vec::new();
        for session in &self.sessions {
            let (parent, name, mode) = match (&self.scratch, &self.measurements.data) {
                (Some(scratch), _) => {
                    self.made.note(FILE_NAME);
                    (self.directory(session, scratch).await?, FILE_NAME.to_owned(), OpenMode::Make)
                }
                _ => {
                    let Existing { directory, name, .. } = self.existing.clone().unwrap_or_default();
                    (self.directory(session, &directory).await?, name, OpenMode::Read)
                }
            };
            let opening = tokio::time::timeout(self.course.stall, parent.open(&name, mode)).await;
            let file = opening.map_err(|_| self.silent(Stage::Data, "opening a file"))?;
            let file = file.map_err(|why| protocol::stopped(Stage::Data, &why))?;
            places.push((parent, Some(Arc::new(file))));
        }
        let content = noise(LARGE_BLOCK_BYTES as usize);
        Ok(RunFixture { places, extent, content, made: self.made.clone() })
    }

    async fn root(&self, session: &RemoteSession) -> Result<Directory, Stopped> {
        let root = session.root(MOUNT_OPTIONS);
        let looking = root.directory(&self.target.path);
        let found = tokio::time::timeout(self.course.stall, looking).await;
        let found = found.map_err(|_| self.silent(Stage::Share, "looking for the directory"))?;
        found.map_err(|why| protocol::stopped(Stage::Share, &why))
    }

    async fn directory(&self, session: &RemoteSession, scratch: &str) -> Result<Directory, Stopped> {
        let root = self.root(session).await?;
        let found = tokio::time::timeout(self.course.stall, root.directory(scratch)).await;
        let found = found.map_err(|_| self.silent(Stage::Data, "looking for a directory"))?;
        found.map_err(|why| protocol::stopped(Stage::Data, &why))
    }

    pub(crate) fn silent(&self, stage: Stage, doing: &str) -> Stopped {
        let why = format!("{doing}: no answer within {} s", self.course.stall.as_secs_f64());
        Stopped { stage, why, stalled: true, cause: Cause::Silent }
    }

    /// Makes one run and records it, as a turn of an earlier run of the same work if there is one.
    async fn run(&mut self, bench: &RunFixture, order: Order) -> Result<Run, Stopped> {
        let stage = if order.work == RunKind::SmallFiles { Stage::Metadata } else { Stage::Data };
        let ours: Vec<(SocketAddr, SocketAddr)> = self.sessions.iter().flat_map(ends).collect();
        let account = || accounts_of(&ours).into_iter().map(|(_, _, info)| info).collect::<Vec<TcpInfo>>();
        let run = drive::run(bench, &order, &account).await.map_err(|why| match why {
            Failure::Server(why) => protocol::stopped(stage, &why),
            Failure::Stalled(after) => Stopped {
                stage,
                why: format!("{:?}: no answer within {} s", order.work, after.as_secs_f64()),
                stalled: true,
                cause: Cause::Silent,
            },
        })?;
        let data = self.measurements.data.get_or_insert_default();
        // Runs with a limit of the doctor say nothing.
        if data.sawtooth.is_none() && data.bound_mib_s.is_none() {
            data.sawtooth = sawtooth::find(&run);
        }
        let is_turn = matches!(order.work, RunKind::Write | RunKind::Read);
        let noted = if is_turn { run.clone().in_turn() } else { run.clone() };
        match data.runs.iter_mut().find(|it| is_turn && it.is_same(&noted)) {
            Some(earlier) => earlier.add_turn(&noted),
            None => data.runs.push(noted),
        }
        Ok(run)
    }
}

/// Closes the file in every session.
async fn close(bench: RunFixture) {
    for (_, file) in bench.places {
        if let Some(file) = file.and_then(Arc::into_inner) {
            // A file that is not closed is closed with its session.
            let _ = tokio::time::timeout(Duration::from_secs(2), RemoteFile::close(file)).await;
        }
    }
}

/// Layer 5.
pub(crate) async fn data(exam: &mut Examination<'_>) -> Result<(), Stopped> {
    let bound = exam.args.max_rate.map(|rate| rate as f64 / 1_048_576.0);
    exam.measurements.data =
        Some(Data { bound_mib_s: bound, bound_iops: exam.args.max_iops, ..Data::default() });
    prepare(exam).await?;
    if exam.scratch.is_none() && exam.existing.is_none() {
        return Ok(());
    }
    let decided = warm::decide(exam).await?;
    exam.sizes = Some(decided);
    turns::measure(exam).await?;
    depths(exam, decided.extent).await?;
    exam.close_extra_connections().await;
    Ok(())
}

/// Creates the directory of the test files, or finds a readable file.
async fn prepare(exam: &mut Examination<'_>) -> Result<(), Stopped> {
    let root = exam.root(&exam.sessions[0]).await?;
    let mut not_written = Some("--read-only".to_owned());
    if !exam.args.read_only {
        let number: [u8; 6] = auth::crypto::random();
        let name: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!(".trunkline-doctor-{name}");
        exam.scratch = Some(name.clone());
        let made = tokio::time::timeout(exam.course.stall, root.make_directory(&name, false)).await;
        match made {
            Err(_) => return Err(exam.silent(Stage::Data, "making a directory")),
            Ok(Ok(())) => {
                exam.look_at_clock(&root, &name).await;
                return Ok(());
            }
            // It may have been created nevertheless.
            Ok(Err(why)) if why.is_loss() => return Err(protocol::stopped(Stage::Data, &why)),
            Ok(Err(why)) => {
                exam.scratch = None;
                let stopped = protocol::stopped(Stage::Data, &why);
                if stopped.cause == Cause::Full {
                    return Err(stopped);
                }
                not_written = Some(why.to_string());
            }
        }
    }
    match existing::readable(exam, &root, [SLOW_WAY_BLOCK_BYTES.into(), FILE_BYTES_AT_MOST]).await? {
        Ok(file) => exam.existing = Some(file),
        Err(reason) => exam.measurements.left_out.push(format!("reads and writes: {reason}")),
    }
    exam.measurements.data.get_or_insert_default().not_written = not_written;
    Ok(())
}

impl Examination<'_> {
    /// Over NFS the time of a new file shows the server's clock, and an open shows whether delegations
    /// are given. Without a reply in time they stay unknown.
    async fn look_at_clock(&mut self, root: &Directory, scratch: &str) {
        let Some(Protocol::Nfs(properties)) = &mut self.measurements.protocol else { return };
        // The second file is created when a delegation is requested.
        ["clock", "own"].iter().for_each(|name| self.made.note(name));
        let looking = async {
            let parent = root.directory(scratch).await.ok()?;
            let begun = protocol::now_ms();
            names::create(&parent, "clock").await.ok()?;
            let half = (protocol::now_ms() - begun) / 2;
            let modified = parent.stat("clock").await.ok()?.modified;
            Some((modified / 1_000_000) as i64 - begun - half)
        };
        properties.clock_ahead_ms = tokio::time::timeout(self.course.stall, looking).await.ok().flatten();
        let delegating = protocol::is_given_delegations(&self.how, self.target, self.destination(), scratch);
        let given = tokio::time::timeout(self.course.stall / 2, delegating).await.ok().flatten();
        if let Some(Protocol::Nfs(properties)) = &mut self.measurements.protocol {
            properties.delegation = given;
        }
    }
}

/// Small reads with an increasing number under way.
async fn depths(exam: &mut Examination<'_>, extent: u64) -> Result<(), Stopped> {
    let extent = if exam.scratch.is_some() { exam.written } else { extent };
    let bench = exam.bench(extent.max(u64::from(SMALL_BLOCK_BYTES))).await?;
    let count = exam.sessions.iter().map(|session| session.channels().len()).sum::<usize>() as u32;
    let mut done = Ok(());
    for depth in exam.course.depths.clone() {
        let plain = exam.order(RunKind::SmallRead, SMALL_BLOCK_BYTES, depth, count);
        let order = Order { ramp: plain.ramp / 2, settling: Duration::ZERO, time: plain.time / 2, ..plain };
        if !exam.has_time(order.ramp + order.time, "queue depths") {
            break;
        }
        if let Err(stopped) = exam.run(&bench, order).await {
            done = Err(stopped);
            break;
        }
    }
    close(bench).await;
    done
}

/// Layer 6.
pub(crate) async fn names(exam: &mut Examination<'_>) -> Result<(), Stopped> {
    let Some(scratch) = exam.scratch.clone() else {
        exam.measurements.left_out.push("names: nothing may be made here".to_owned());
        return Ok(());
    };
    if !exam.has_time(exam.course.names * 4, "names") {
        return Ok(());
    }
    let parent = exam.directory(&exam.sessions[0], &scratch).await?;
    let until = Instant::now() + exam.left().saturating_sub(TIME_FOR_THE_END * 2);
    let is_smb = matches!(exam.measurements.protocol, Some(Protocol::Smb(_)));
    let several = exam.measurements.connections.as_ref().is_some_and(|it| it.got > 1);
    let bounds = names::Bounds {
        delete_trips: if is_smb && several { 2 } else { 1 },
        time: exam.course.names,
        until,
        stall: exam.course.stall,
        most_per_s: exam.args.max_iops.map(f64::from),
    };
    // Results stay even if the work is cut off.
    let metadata = exam.measurements.metadata.get_or_insert_default();
    names::measure(&parent, &bounds, &exam.made, metadata).await
}

/// Layer 7: the first large reads once more, now that the server has worked for a while.
pub(crate) async fn again(exam: &mut Examination<'_>) -> Result<(), Stopped> {
    let Some(sizes) = exam.sizes else { return Ok(()) };
    let order = exam.order(RunKind::ReadAgain, sizes.read.0, sizes.read.1, 1);
    if !exam.has_time(order.ramp + order.time, "a second look") {
        return Ok(());
    }
    let extent = if exam.scratch.is_some() { exam.written } else { sizes.extent };
    let bench = exam.bench(extent).await?;
    let done = exam.run(&bench, order).await;
    close(bench).await;
    done.map(drop)
}
