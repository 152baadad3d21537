//! Layers 5 to 7: what is read, written and named on the server to see what connections and depth are worth. All test files
//! lie in one directory, whose name [`Patient::scratch`] holds before it is made, as [`Patient::made`] does theirs.
//!
//! [`warm`] finds out how much is to be under way, and does all once that does not count. [`turns`] measures numbers of
//! connections.

mod turns;
mod warm;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::remote::{Directory, OpenMode, RemoteFile, RemoteSession};
use load::noise;

use crate::drive::{self, Bench, Failure, Order};
use crate::existing::Existing;
use crate::facts::{Cause, Data, Protocol, Run, Stage, Stopped, Work};
use crate::patient::{Patient, accounts_of, ends};
use crate::protocol::MOUNT_OPTIONS;
use crate::tcp::TcpInfo;
use crate::{existing, names, protocol, sawtooth};

/// The name of the test file.
const FILE_NAME: &str = "data";
/// How far it is written at most.
const FILE_BYTES_AT_MOST: u64 = 64 << 20;
/// Bytes of one large operation.
const LARGE_BLOCK_BYTES: u32 = 256 << 10;
/// The same on a way that is slow.
const SLOW_WAY_BLOCK_BYTES: u32 = 64 << 10;
/// Bytes of one small operation.
const SMALL_BLOCK_BYTES: u32 = 4 << 10;
/// Round trips in which a connection finds its rate (slow start doubles it in each, RFC 5681 3.1).
const TRIPS_TO_FIND_THE_RATE: u32 = 12;
/// The round trip from which on a way is long, in ms.
const LONG_WAY_MS: f64 = 5.0;
/// Operations that a turn is to hold, where the course has the time: each of them is a part of it by which it may be off.
const OPERATIONS_OF_A_TURN: u32 = 12;
/// The least time in which it is seen whether a rate still grows.
const GROWTH_SLICE_AT_LEAST: Duration = Duration::from_millis(40);
/// What is kept of the time for the end of an examination.
const TIME_FOR_THE_END: Duration = Duration::from_millis(600);

impl Patient<'_> {
    /// The round trip, in ms.
    fn trip_ms(&self) -> f64 {
        self.facts.transport.as_ref().and_then(|it| it.connect.median()).unwrap_or(1.0)
    }

    /// How long a connection runs before it is measured.
    fn ramp(&self) -> Duration {
        let trips = Duration::from_secs_f64(self.trip_ms() / 1000.0) * TRIPS_TO_FIND_THE_RATE;
        trips.clamp(self.course.ramp, self.course.ramp * 3)
    }

    /// The same where it has been there before, and so once more for each of several turns. The quick course has not the time for
    /// all the trips.
    fn turn_ramp(&self) -> Duration {
        let trips =
            if self.course.name == "quick" { TRIPS_TO_FIND_THE_RATE * 2 / 3 } else { TRIPS_TO_FIND_THE_RATE };
        let needed = Duration::from_secs_f64(self.trip_ms() / 1000.0) * trips;
        needed.clamp(self.course.turn_ramp, self.course.ramp * 3)
    }

    /// What counts of a run in a turn: longer where a way is so slow that it would hold few operations.
    fn turn_time(&self) -> Duration {
        let needed = self.sizes.map_or(Duration::ZERO, |it| it.block_time * OPERATIONS_OF_A_TURN);
        needed.clamp(self.course.turn, self.course.run.max(self.course.turn))
    }

    /// How much longer while its rate still grows, where there is time for that.
    fn settling(&self) -> Duration {
        let is_long = self.trip_ms() > LONG_WAY_MS && self.course.name != "quick";
        if is_long && self.left() > self.course.limit / 4 { self.ramp() } else { Duration::ZERO }
    }

    fn order(&self, work: Work, block: u32, depth: u32, connections: u32) -> Order {
        let large = matches!(work, Work::Write | Work::Read | Work::ReadAgain);
        let is_turn = matches!(work, Work::Write | Work::Read);
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

    /// Whether there is time for something that takes so long.
    fn has_time(&mut self, needed: Duration, what: &str) -> bool {
        if self.left() > needed + TIME_FOR_THE_END {
            return true;
        }
        let text = format!("{what}: no time was left");
        if !self.facts.left_out.contains(&text) {
            self.facts.left_out.push(text);
        }
        false
    }

    /// What all sessions work with: the file opened in each.
    async fn bench(&self, extent: u64) -> Result<Bench, Stopped> {
        let mut places = Vec::new();
        for line in &self.lines {
            let (place, name, mode) = match (&self.scratch, &self.facts.data) {
                (Some(scratch), _) => {
                    self.made.note(FILE_NAME);
                    (self.directory(line, scratch).await?, FILE_NAME.to_owned(), OpenMode::Make)
                }
                _ => {
                    let Existing { directory, name, .. } = self.existing.clone().unwrap_or_default();
                    (self.directory(line, &directory).await?, name, OpenMode::Read)
                }
            };
            let opening = tokio::time::timeout(self.course.stall, place.open(&name, mode)).await;
            let file = opening.map_err(|_| self.silent(Stage::Data, "opening a file"))?;
            let file = file.map_err(|why| protocol::stopped(Stage::Data, &why))?;
            places.push((place, Some(Arc::new(file))));
        }
        let content = noise(LARGE_BLOCK_BYTES as usize);
        Ok(Bench { places, extent, content, made: self.made.clone() })
    }

    async fn root(&self, line: &RemoteSession) -> Result<Directory, Stopped> {
        let root = line.root(MOUNT_OPTIONS);
        let looking = root.directory(&self.target.path);
        let found = tokio::time::timeout(self.course.stall, looking).await;
        let found = found.map_err(|_| self.silent(Stage::Share, "looking for the directory"))?;
        found.map_err(|why| protocol::stopped(Stage::Share, &why))
    }

    async fn directory(&self, line: &RemoteSession, scratch: &str) -> Result<Directory, Stopped> {
        let root = self.root(line).await?;
        let found = tokio::time::timeout(self.course.stall, root.directory(scratch)).await;
        let found = found.map_err(|_| self.silent(Stage::Data, "looking for a directory"))?;
        found.map_err(|why| protocol::stopped(Stage::Data, &why))
    }

    pub(crate) fn silent(&self, stage: Stage, doing: &str) -> Stopped {
        let why = format!("{doing}: no answer within {} s", self.course.stall.as_secs_f64());
        Stopped { stage, why, stalled: true, cause: Cause::Silent }
    }

    /// One run, noted: as a turn of an earlier one of the same work where there is one.
    async fn run(&mut self, bench: &Bench, order: Order) -> Result<Run, Stopped> {
        let stage = if order.work == Work::SmallFiles { Stage::Metadata } else { Stage::Data };
        let ours: Vec<(SocketAddr, SocketAddr)> = self.lines.iter().flat_map(ends).collect();
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
        let data = self.facts.data.get_or_insert_default();
        // What we bound ourselves says nothing.
        if data.sawtooth.is_none() && data.bound_mib_s.is_none() {
            data.sawtooth = sawtooth::find(&run);
        }
        let is_turn = matches!(order.work, Work::Write | Work::Read);
        let noted = if is_turn { run.clone().in_turn() } else { run.clone() };
        match data.runs.iter_mut().find(|it| is_turn && it.is_same(&noted)) {
            Some(earlier) => earlier.add_turn(&noted),
            None => data.runs.push(noted),
        }
        Ok(run)
    }
}

/// Closes the file in every session.
async fn close(bench: Bench) {
    for (_, file) in bench.places {
        if let Some(file) = file.and_then(Arc::into_inner) {
            // What is not closed is closed with its session.
            let _ = tokio::time::timeout(Duration::from_secs(2), RemoteFile::close(file)).await;
        }
    }
}

/// Layer 5.
pub(crate) async fn data(patient: &mut Patient<'_>) -> Result<(), Stopped> {
    let bound = patient.args.max_rate.map(|rate| rate as f64 / 1_048_576.0);
    patient.facts.data =
        Some(Data { bound_mib_s: bound, bound_iops: patient.args.max_iops, ..Data::default() });
    prepare(patient).await?;
    if patient.scratch.is_none() && patient.existing.is_none() {
        return Ok(());
    }
    let decided = warm::decide(patient).await?;
    patient.sizes = Some(decided);
    turns::measure(patient).await?;
    depths(patient, decided.extent).await?;
    patient.have_one().await;
    Ok(())
}

/// Makes the directory of the test files, or finds a file that may be read.
async fn prepare(patient: &mut Patient<'_>) -> Result<(), Stopped> {
    let root = patient.root(&patient.lines[0]).await?;
    let mut not_written = Some("--read-only".to_owned());
    if !patient.args.read_only {
        let number: [u8; 6] = auth::crypto::random();
        let name: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!(".trunkline-doctor-{name}");
        patient.scratch = Some(name.clone());
        let made = tokio::time::timeout(patient.course.stall, root.make_directory(&name, false)).await;
        match made {
            Err(_) => return Err(patient.silent(Stage::Data, "making a directory")),
            Ok(Ok(())) => {
                patient.look_at_clock(&root, &name).await;
                return Ok(());
            }
            // It may have been made all the same.
            Ok(Err(why)) if why.is_loss() => return Err(protocol::stopped(Stage::Data, &why)),
            Ok(Err(why)) => {
                patient.scratch = None;
                let stopped = protocol::stopped(Stage::Data, &why);
                if stopped.cause == Cause::Full {
                    return Err(stopped);
                }
                not_written = Some(why.to_string());
            }
        }
    }
    match existing::readable(patient, &root, [SLOW_WAY_BLOCK_BYTES.into(), FILE_BYTES_AT_MOST]).await? {
        Ok(file) => patient.existing = Some(file),
        Err(reason) => patient.facts.left_out.push(format!("reads and writes: {reason}")),
    }
    patient.facts.data.get_or_insert_default().not_written = not_written;
    Ok(())
}

impl Patient<'_> {
    /// Over NFS the server's clock is seen by the time of a file, and delegations by whether one is given. What is not
    /// answered in time stays unknown.
    async fn look_at_clock(&mut self, root: &Directory, scratch: &str) {
        let Some(Protocol::Nfs(facts)) = &mut self.facts.protocol else { return };
        // The second is what is made where delegations are asked for.
        ["clock", "own"].iter().for_each(|name| self.made.note(name));
        let looking = async {
            let place = root.directory(scratch).await.ok()?;
            let begun = protocol::now_ms();
            names::create(&place, "clock").await.ok()?;
            let half = (protocol::now_ms() - begun) / 2;
            let modified = place.stat("clock").await.ok()?.modified;
            Some((modified / 1_000_000) as i64 - begun - half)
        };
        facts.clock_ahead_ms = tokio::time::timeout(self.course.stall, looking).await.ok().flatten();
        let delegating = protocol::is_given_delegations(&self.how, self.target, self.destination(), scratch);
        let given = tokio::time::timeout(self.course.stall / 2, delegating).await.ok().flatten();
        if let Some(Protocol::Nfs(facts)) = &mut self.facts.protocol {
            facts.delegation = given;
        }
    }
}

/// Small reads with more and more under way.
async fn depths(patient: &mut Patient<'_>, extent: u64) -> Result<(), Stopped> {
    let extent = if patient.scratch.is_some() { patient.written } else { extent };
    let bench = patient.bench(extent.max(u64::from(SMALL_BLOCK_BYTES))).await?;
    let count = patient.lines.iter().map(|line| line.channels().len()).sum::<usize>() as u32;
    let mut done = Ok(());
    for depth in patient.course.depths.clone() {
        let plain = patient.order(Work::SmallRead, SMALL_BLOCK_BYTES, depth, count);
        let order = Order { ramp: plain.ramp / 2, settling: Duration::ZERO, time: plain.time / 2, ..plain };
        if !patient.has_time(order.ramp + order.time, "queue depths") {
            break;
        }
        if let Err(stopped) = patient.run(&bench, order).await {
            done = Err(stopped);
            break;
        }
    }
    close(bench).await;
    done
}

/// Layer 6.
pub(crate) async fn names(patient: &mut Patient<'_>) -> Result<(), Stopped> {
    let Some(scratch) = patient.scratch.clone() else {
        patient.facts.left_out.push("names: nothing may be made here".to_owned());
        return Ok(());
    };
    if !patient.has_time(patient.course.names * 4, "names") {
        return Ok(());
    }
    let place = patient.directory(&patient.lines[0], &scratch).await?;
    let until = Instant::now() + patient.left().saturating_sub(TIME_FOR_THE_END * 2);
    let is_smb = matches!(patient.facts.protocol, Some(Protocol::Smb(_)));
    let several = patient.facts.connections.as_ref().is_some_and(|it| it.got > 1);
    let bounds = names::Bounds {
        delete_trips: if is_smb && several { 2 } else { 1 },
        time: patient.course.names,
        until,
        stall: patient.course.stall,
        most_per_s: patient.args.max_iops.map(f64::from),
    };
    // What is measured until it is cut stays.
    let metadata = patient.facts.metadata.get_or_insert_default();
    names::measure(&place, &bounds, &patient.made, metadata).await
}

/// Layer 7: the first large reads once more, now that the server has been worked for a while.
pub(crate) async fn again(patient: &mut Patient<'_>) -> Result<(), Stopped> {
    let Some(sizes) = patient.sizes else { return Ok(()) };
    let order = patient.order(Work::ReadAgain, sizes.read.0, sizes.read.1, 1);
    if !patient.has_time(order.ramp + order.time, "a second look") {
        return Ok(());
    }
    let extent = if patient.scratch.is_some() { patient.written } else { sizes.extent };
    let bench = patient.bench(extent).await?;
    let done = patient.run(&bench, order).await;
    close(bench).await;
    done.map(drop)
}
