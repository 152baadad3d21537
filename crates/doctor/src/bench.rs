//! Layers 5 to 7: what is read, written and named on the server to see what connections and depth are worth. All test files
//! lie in one directory, whose name [`Patient::scratch`] holds before it is made, as [`Patient::made`] does theirs.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::Bytes;

use crate::drive::{self, Bench, Failure, Order};
use crate::examine::{Patient, accounts_of};
use crate::existing::Existing;
use crate::facts::{Cause, Channel, Connects, Data, Protocol, Run, Stage, Stopped, Work};
use crate::peer::{File, Gauge, Line, Place};
use crate::tcp::TcpInfo;
use crate::{existing, names, ping, protocol, sawtooth};

/// The name of the test file.
const FILE: &str = "data";
/// How far it is written at most.
const EXTENT: u64 = 64 << 20;
/// Bytes of one large operation, and of one on a slow path.
const LARGE: u32 = 256 << 10;
const SMALLER: u32 = 64 << 10;
const SMALL: u32 = 4 << 10;
/// Bytes of one small file.
const SMALL_FILE: u32 = 16 << 10;
/// Small files under way at once.
const SMALL_FILES: u32 = 16;
/// Bytes under way that large runs have at least and at most, where the path allows.
const UNDER_WAY: std::ops::RangeInclusive<f64> = 4_194_304.0..=67_108_864.0;
/// Large operations under way at most.
const MOST: u32 = 256;
/// The longest time for which what is under way may keep the path busy.
const QUEUED_S: f64 = 0.3;
/// Round trips that a connection needs to find its rate, and after which it is measured.
const TRIPS: u32 = 12;
/// A round trip from which on a way is long.
const LONG_MS: f64 = 5.0;
/// Small files that take so long, among some, are measured once by the quick course (ms).
const SLOW_FILE_MS: f64 = 150.0;
/// The least time in which it is seen whether a rate still grows.
const SLICE: Duration = Duration::from_millis(40);
/// Bytes that are under way at first while that is decided, and at most.
const FIRST: u32 = 512 << 10;
/// How much longer a block takes than a smaller one on a way that is narrow.
const FELT: Duration = Duration::from_millis(150);
const LAST: u32 = 16 << 20;
/// How often it is looked whether connections are busy.
const LOOK: Duration = Duration::from_millis(10);
/// What is left for the end of an examination.
const RESERVE: Duration = Duration::from_millis(600);

/// What the large runs have in common. The blocks are decided once, so that operations for a second can be compared; how many
/// are under way may grow ([`enough`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Block and depth of writes, and of reads.
    write: (u32, u32),
    read: (u32, u32),
    extent: u64,
}

/// Block and depth for a path: several times what it holds at once with all connections, but no more than it carries in
/// a while where that is known. `rate` is what one connection carried, in bytes for a second; `is_full` whether operations
/// waited then, so that it is all that a connection carries.
fn sizes(rate: f64, is_full: bool, rtt_ms: f64, most: u32, max_io: u32) -> (u32, u32) {
    let all = rate * f64::from(most);
    let wanted = (2.0 * all * rtt_ms / 1000.0).clamp(*UNDER_WAY.start(), *UNDER_WAY.end());
    let in_a_while = rate * QUEUED_S;
    if is_full && in_a_while < f64::from(SMALLER) * 4.0 {
        // A narrow way: a few blocks that pass in that time.
        let part = 1 << ((in_a_while / f64::from(most.max(4))) as u32).max(SMALL).ilog2();
        let block = SMALLER.min(part).min(max_io);
        return (block, ((in_a_while / f64::from(block)) as u32).clamp(most.max(4), MOST));
    }
    let bearable = in_a_while.max(f64::from(SMALLER) * 4.0);
    let under_way = if is_full { wanted.min(bearable) } else { wanted };
    let block = if under_way >= *UNDER_WAY.start() { LARGE } else { SMALLER }.min(max_io);
    let depth = (under_way / f64::from(block)) as u32;
    (block, depth.clamp(most.max(4), MOST))
}

/// Four times as much under way, in the same blocks; nothing where that is more than there may be.
fn more((block, depth): (u32, u32)) -> Option<(u32, u32)> {
    let under_way = 4.0 * f64::from(block) * f64::from(depth);
    (under_way <= *UNDER_WAY.end() && depth * 4 <= MOST).then_some((block, depth * 4))
}

impl Patient<'_> {
    /// The round trip, in ms.
    fn trip_ms(&self) -> f64 {
        self.facts.transport.as_ref().and_then(|it| it.connect.median()).unwrap_or(1.0)
    }

    /// How long a connection runs before it is measured.
    fn ramp(&self) -> Duration {
        let trips = Duration::from_secs_f64(self.trip_ms() / 1000.0) * TRIPS;
        trips.clamp(self.course.ramp, self.course.ramp * 3)
    }

    /// How much longer while its rate still grows, where there is time for that.
    fn settling(&self) -> Duration {
        let is_long = self.trip_ms() > LONG_MS;
        if is_long && self.left() > self.course.limit / 4 { self.ramp() } else { Duration::ZERO }
    }

    fn order(&self, work: Work, block: u32, depth: u32, connections: u32) -> Order {
        let large = matches!(work, Work::Write | Work::Read | Work::ReadAgain);
        let by_bytes = self.args.max_rate.map(|rate| rate as f64 / f64::from(block));
        let by_count = self.args.max_iops.filter(|_| !large).map(f64::from);
        Order {
            work,
            block,
            depth,
            connections,
            ramp: self.ramp(),
            settling: self.settling(),
            slice: Duration::from_secs_f64(self.trip_ms() * 2.0 / 1000.0).max(SLICE),
            time: self.course.run,
            stall: self.course.stall,
            most_per_s: by_bytes.into_iter().chain(by_count).min_by(f64::total_cmp),
        }
    }

    /// Whether there is time for something that takes so long.
    fn has_time(&mut self, needed: Duration, what: &str) -> bool {
        if self.left() > needed + RESERVE {
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
            let (place, name, write) = match (&self.scratch, &self.facts.data) {
                (Some(scratch), _) => {
                    self.made.note(FILE);
                    (self.directory(line, scratch).await?, FILE.to_owned(), true)
                }
                _ => {
                    let Existing { directory, name, .. } = self.existing.clone().unwrap_or_default();
                    (self.directory(line, &directory).await?, name, false)
                }
            };
            let opening = tokio::time::timeout(self.course.stall, place.open(&name, write)).await;
            let file = opening.map_err(|_| self.silent(Stage::Data, "opening a file"))?;
            let file = file.map_err(|why| protocol::stopped(Stage::Data, &why))?;
            places.push((place, Some(Arc::new(file))));
        }
        let content = noise(LARGE as usize);
        Ok(Bench { places, extent, content, made: self.made.clone() })
    }

    async fn root(&self, line: &Line) -> Result<Place, Stopped> {
        let looking = line.place(&self.target.directory);
        let found = tokio::time::timeout(self.course.stall, looking).await;
        let found = found.map_err(|_| self.silent(Stage::Share, "looking for the directory"))?;
        found.map_err(|why| protocol::stopped(Stage::Share, &why))
    }

    async fn directory(&self, line: &Line, scratch: &str) -> Result<Place, Stopped> {
        let root = self.root(line).await?;
        let found = tokio::time::timeout(self.course.stall, root.below(scratch)).await;
        let found = found.map_err(|_| self.silent(Stage::Data, "looking for a directory"))?;
        found.map_err(|why| protocol::stopped(Stage::Data, &why))
    }

    pub(crate) fn silent(&self, stage: Stage, doing: &str) -> Stopped {
        let why = format!("{doing}: no answer within {} s", self.course.stall.as_secs_f64());
        Stopped { stage, why, stalled: true, cause: Cause::Silent }
    }

    /// One run, noted.
    async fn run(&mut self, bench: &Bench, order: Order) -> Result<Run, Stopped> {
        let stage = if order.work == Work::SmallFiles { Stage::Metadata } else { Stage::Data };
        let ours: Vec<(SocketAddr, SocketAddr)> = self.lines.iter().flat_map(Line::connections).collect();
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
        data.runs.push(run.clone());
        Ok(run)
    }
}

/// Closes the file in every session.
async fn close(bench: Bench) {
    for (_, file) in bench.places {
        if let Some(file) = file.and_then(Arc::into_inner) {
            // What is not closed is closed with its session.
            let _ = tokio::time::timeout(Duration::from_secs(2), File::close(file)).await;
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
    let decided = decide(patient).await?;
    patient.sizes = Some(decided);
    for round in 0..patient.course.rounds {
        let mut had = 0;
        for count in patient.course.connections.clone() {
            let needed = (patient.course.run + patient.ramp() + patient.settling()) * 2;
            if count > 1 && !patient.has_time(needed, "several connections") {
                break;
            }
            let have = patient.have(count).await?.min(count);
            if have <= had {
                break;
            }
            step(patient, decided.extent, have, round == 0).await?;
            had = have;
        }
        if round + 1 < patient.course.rounds {
            patient.have_one().await;
        }
    }
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
        let made = tokio::time::timeout(patient.course.stall, root.make_directory(&name)).await;
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
    match existing::readable(patient, &root, [SMALLER.into(), EXTENT]).await? {
        Ok(file) => patient.existing = Some(file),
        Err(reason) => patient.facts.left_out.push(format!("reads and writes: {reason}")),
    }
    patient.facts.data.get_or_insert_default().not_written = not_written;
    Ok(())
}

impl Patient<'_> {
    /// Over NFS the server's clock is seen by the time of a file, and delegations by whether one is given. What is not
    /// answered in time stays unknown.
    async fn look_at_clock(&mut self, root: &Place, scratch: &str) {
        let Some(Protocol::Nfs(facts)) = &mut self.facts.protocol else { return };
        // The second is what is made where delegations are asked for.
        ["clock", "own"].iter().for_each(|name| self.made.note(name));
        let looking = async {
            let place = root.below(scratch).await.ok()?;
            let begun = protocol::now_ms();
            place.create("clock").await.ok()?;
            let half = (protocol::now_ms() - begun) / 2;
            Some(place.modified_ms("clock").await.ok()? - begun - half)
        };
        facts.clock_ahead_ms = tokio::time::timeout(self.course.stall, looking).await.ok().flatten();
        let delegating = protocol::is_given_delegations(&self.how, self.target, self.destination(), scratch);
        let given = tokio::time::timeout(self.course.stall / 2, delegating).await.ok().flatten();
        if let Some(Protocol::Nfs(facts)) = &mut self.facts.protocol {
            facts.delegation = given;
        }
    }
}

/// Warms up, which does not count, and decides how much is to be under way.
async fn decide(patient: &mut Patient<'_>) -> Result<Sizes, Stopped> {
    let most = patient.course.connections.last().copied().unwrap_or(1);
    let max_io = patient.lines[0].max_io();
    let size = patient.existing.as_ref().map_or(EXTENT, |it| it.size);
    let mut bench = patient.bench(size.min(EXTENT)).await?;
    let warmed = warm_both(patient, &mut bench, max_io).await;
    close(bench).await;
    let [write, read] = warmed?;
    // The warm-up is no measurement.
    let data = patient.facts.data.get_or_insert_default();
    data.runs.clear();
    data.sawtooth = None;
    let of = |warm: Warm| sizes(warm.rate, warm.is_full, patient.trip_ms(), most, max_io);
    Ok(Sizes { write: of(write), read: of(read), extent: size.min(EXTENT) })
}

/// What one connection carried once it had found its rate.
#[derive(Debug, Clone, Copy)]
struct Warm {
    /// In bytes for a second.
    rate: f64,
    /// Whether operations had to wait then, so that it carries no more.
    is_full: bool,
    /// Bytes of the file that were moved.
    bytes: u64,
}

/// Writes and reads, which may be held back differently.
async fn warm_both(patient: &mut Patient<'_>, bench: &mut Bench, max_io: u32) -> Result<[Warm; 2], Stopped> {
    if patient.scratch.is_none() {
        return Ok([warm_up(patient, bench, Work::Read, max_io, LAST).await?; 2]);
    }
    let write = warm_up(patient, bench, Work::Write, max_io, LAST).await?;
    bench.extent = write.bytes.min(bench.extent);
    // Reads that do not wait with a little under way are taken for as quick as writes.
    let read = warm_up(patient, bench, Work::Read, max_io, FIRST).await?;
    Ok([write, if read.is_full { read } else { write }])
}

/// One of them. More and more is under way, up to `last` bytes, until operations wait: otherwise it is the round trip that was
/// measured.
async fn warm_up(
    patient: &mut Patient<'_>,
    bench: &Bench,
    work: Work,
    max_io: u32,
    last: u32,
) -> Result<Warm, Stopped> {
    let time = patient.course.run.min(Duration::from_millis(500));
    let (mut under_way, mut bytes) = first(patient, bench, work, max_io).await?;
    let smallest = under_way;
    loop {
        let block = SMALLER.min(max_io).min(under_way);
        // The first time is that in which a connection finds its rate.
        let is_first = under_way == smallest;
        let ramp = match is_first {
            true if patient.trip_ms() < 1.0 => Duration::ZERO,
            true => patient.ramp(),
            false => patient.ramp() / 3,
        };
        let plain = patient.order(work, block, (under_way / block).max(1), 1);
        let order = Order { ramp, settling: Duration::ZERO, time, ..plain };
        let run = patient.run(bench, order).await?;
        // Each run begins at the beginning of the file.
        bytes = bytes.max(run.operations * u64::from(block));
        let (early, late) = halves(&run.parts);
        let is_growing = is_first && run.operations >= 16 && late > 1.25 * early;
        let is_full = crate::rules::waited(&patient.facts, &run) && !is_growing;
        if is_full || under_way >= last || patient.trip_ms() < 1.0 || patient.args.max_rate.is_some() {
            return Ok(Warm { rate: late.max(run.per_s) * f64::from(block), is_full, bytes });
        }
        under_way *= 4;
    }
}

/// Bytes that are under way at first, and bytes of the file that were moved to find that out: blocks that grow as long as larger
/// ones take no longer. Where they do, the way is narrow, and [`FIRST`] would keep it busy for seconds.
async fn first(patient: &Patient<'_>, bench: &Bench, work: Work, max_io: u32) -> Result<(u32, u64), Stopped> {
    let largest = SMALLER.min(max_io);
    let file = bench.places.first().and_then(|(_, file)| file.as_ref());
    let (Some(file), None) = (file, patient.args.max_rate) else { return Ok((FIRST, largest.into())) };
    let mut before: Option<(u32, Duration)> = None;
    let mut size = SMALL.min(largest);
    loop {
        let begun = Instant::now();
        let moving = async {
            match work {
                Work::Write => file.write(0, &bench.content.slice(..size as usize)).await,
                _ => file.read(0, size).await,
            }
        };
        let moved = tokio::time::timeout(patient.course.stall, moving).await;
        moved
            .map_err(|_| patient.silent(Stage::Data, "a first block"))?
            .map_err(|why| protocol::stopped(Stage::Data, &why))?;
        let took = begun.elapsed();
        if let Some((smaller, quicker)) = before
            && took > quicker + FELT
        {
            let rate = f64::from(size - smaller) / (took - quicker).as_secs_f64();
            let under_way = (rate * QUEUED_S) as u32;
            return Ok((under_way.clamp(SMALL, FIRST), size.into()));
        }
        if size >= largest {
            return Ok((FIRST, size.into()));
        }
        before = Some((size, took));
        size = (size * 4).min(largest);
    }
}

/// The mean rates of the first and of the second half of a run.
fn halves(parts: &[f64]) -> (f64, f64) {
    let (early, late) = parts.split_at(parts.len() / 2);
    let mean = |half: &[f64]| half.iter().sum::<f64>() / half.len().max(1) as f64;
    (mean(early), mean(late))
}

/// Writes and reads with so many connections.
async fn step(patient: &mut Patient<'_>, extent: u64, count: u32, first: bool) -> Result<(), Stopped> {
    let mut bench = patient.bench(extent).await?;
    let mut done = Ok(());
    for work in [Work::Write, Work::Read] {
        done = enough(patient, &mut bench, work, count, first).await;
        if done.is_err() {
            break;
        }
    }
    if done.is_ok() {
        done = small_files(patient, &bench, count, first).await;
    }
    close(bench).await;
    done
}

/// Large runs of one kind, with more and more under way while there was too little: what is decided by a first look at a busy
/// moment may be.
async fn enough(
    patient: &mut Patient<'_>,
    bench: &mut Bench,
    work: Work,
    count: u32,
    first: bool,
) -> Result<(), Stopped> {
    if work == Work::Write && patient.scratch.is_none() {
        return Ok(());
    }
    loop {
        let Some(mut sizes) = patient.sizes else { return Ok(()) };
        match work {
            Work::Write => written(patient, bench, sizes, count, first).await?,
            _ => read(patient, bench, sizes, count, first).await?,
        }
        let runs = patient.facts.data.as_ref().and_then(|it| it.runs.last());
        let had_too_little = runs.is_some_and(|run| crate::rules::had_too_little(&patient.facts, run));
        if !had_too_little || patient.args.max_rate.is_some() {
            return Ok(());
        }
        let size = if work == Work::Write { &mut sizes.write } else { &mut sizes.read };
        let Some(more) = more(*size) else { return Ok(()) };
        *size = more;
        // What follows needs time too.
        let needed = (patient.course.run + patient.ramp() + patient.settling()) * 4;
        if patient.left() < needed + RESERVE {
            return Ok(());
        }
        patient.sizes = Some(sizes);
        patient.facts.data.get_or_insert_default().runs.pop();
    }
}

/// Large writes. What is read later is what they wrote.
async fn written(
    patient: &mut Patient<'_>,
    bench: &mut Bench,
    sizes: Sizes,
    count: u32,
    first: bool,
) -> Result<(), Stopped> {
    let (block, depth) = sizes.write;
    let order = patient.order(Work::Write, block, depth, count);
    let run = match count == 1 && first {
        true => {
            let (run, connects) = connecting(patient, bench, order).await?;
            if let Some(transport) = &mut patient.facts.transport {
                transport.connect_under_writes = connects;
            }
            run
        }
        false => patient.run(bench, order).await?,
    };
    let bytes = run.operations * u64::from(block);
    patient.written = patient.written.max(bytes).max(u64::from(block)).min(sizes.extent);
    bench.extent = patient.written;
    Ok(())
}

/// Large reads, and what each connection carried of them.
async fn read(
    patient: &mut Patient<'_>,
    bench: &Bench,
    sizes: Sizes,
    count: u32,
    first: bool,
) -> Result<(), Stopped> {
    let order = patient.order(Work::Read, sizes.read.0, sizes.read.1, count);
    let before = patient.accounts();
    let gauges: Vec<Gauge> = patient.lines.iter().map(Line::gauge).collect();
    let looking = tokio::spawn(look(gauges, order.ramp + order.time));
    let begun = Instant::now();
    if count == 1 && first {
        let (_, connects) = connecting(patient, bench, order).await?;
        if let Some(transport) = &mut patient.facts.transport {
            transport.connect_under_load = connects;
        }
    } else {
        patient.run(bench, order).await?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let busy = looking.await.unwrap_or_default();
    let channels = carried(&before, &patient.accounts(), &busy, seconds);
    if let Some(connections) = &mut patient.facts.connections {
        connections.channels = channels;
    }
    Ok(())
}

/// Small files, where there is time for them.
async fn small_files(
    patient: &mut Patient<'_>,
    bench: &Bench,
    count: u32,
    first: bool,
) -> Result<(), Stopped> {
    let last = patient.course.connections.last() == Some(&count);
    if patient.scratch.is_none() || !first || !(count == 1 || last) {
        return Ok(());
    }
    if let Some(why) = no_time_for_small_files(patient) {
        let text = format!("small files: the quick course has no time for them {why}");
        if !patient.facts.left_out.contains(&text) {
            patient.facts.left_out.push(text);
        }
        return Ok(());
    }
    let small = patient.order(Work::SmallFiles, SMALL_FILE, SMALL_FILES, count);
    if patient.has_time(small.ramp + small.time, "small files") {
        patient.run(bench, small).await?;
    }
    Ok(())
}

/// Why the quick course leaves small files out: what is left of its time is for names.
fn no_time_for_small_files(patient: &Patient<'_>) -> Option<&'static str> {
    if patient.course.name != "quick" {
        return None;
    }
    let runs = patient.facts.data.iter().flat_map(|it| &it.runs);
    // A run in which none was done has no median.
    let is_slow = |it: &Run| it.median_ms > SLOW_FILE_MS || it.operations == 0;
    let were_slow = runs.filter(|it| it.work == Work::SmallFiles).any(is_slow);
    match (patient.trip_ms() > LONG_MS, were_slow) {
        (true, _) => Some("on a long way"),
        (_, true) => Some("over more connections, since they take so long"),
        _ => None,
    }
}

/// A run, and what connects take while the path is busy with it.
async fn connecting(
    patient: &mut Patient<'_>,
    bench: &Bench,
    order: Order,
) -> Result<(Run, Option<Connects>), Stopped> {
    let (to, time) = (patient.destination(), order.ramp + order.time);
    let pings = tokio::spawn(async move {
        tokio::time::sleep(time / 4).await;
        ping::series(to, 6, time / 16, time / 2).await
    });
    let run = patient.run(bench, order).await?;
    Ok((run, pings.await.ok()))
}

/// How often each connection was looked at, and was busy then.
type Looks = HashMap<SocketAddr, (u32, u32)>;

/// Looks for so long which connections are busy.
async fn look(gauges: Vec<Gauge>, time: Duration) -> Looks {
    let mut looks = Looks::new();
    let until = Instant::now() + time;
    while Instant::now() < until {
        tokio::time::sleep(LOOK).await;
        for (local, is_busy) in gauges.iter().flat_map(Gauge::look) {
            let (all, busy) = looks.entry(local).or_default();
            (*all, *busy) = (*all + 1, *busy + u32::from(is_busy));
        }
    }
    looks
}

type Accounts = [(SocketAddr, SocketAddr, TcpInfo)];

/// What each connection carried between two accounts.
fn carried(before: &Accounts, after: &Accounts, looks: &Looks, seconds: f64) -> Vec<Channel> {
    let came = |all: &Accounts, local: SocketAddr| {
        all.iter().find(|(other, _, _)| *other == local).map_or(0, |(_, _, info)| info.bytes_came)
    };
    let channel = |(local, peer, info): &(SocketAddr, SocketAddr, TcpInfo)| Channel {
        local: *local,
        peer: *peer,
        mib_s: Some(info.bytes_came.saturating_sub(came(before, *local)) as f64 / seconds / 1_048_576.0),
        busy: looks.get(local).map(|(all, busy)| f64::from(*busy) / f64::from((*all).max(1))),
        tcp: Some(info.clone()),
    };
    after.iter().map(channel).collect()
}

/// Small reads with more and more under way.
async fn depths(patient: &mut Patient<'_>, extent: u64) -> Result<(), Stopped> {
    let extent = if patient.scratch.is_some() { patient.written } else { extent };
    let bench = patient.bench(extent.max(u64::from(SMALL))).await?;
    let count = patient.lines.iter().map(|line| line.connections().len()).sum::<usize>() as u32;
    let mut done = Ok(());
    for depth in patient.course.depths.clone() {
        let plain = patient.order(Work::SmallRead, SMALL, depth, count);
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
    let until = Instant::now() + patient.left().saturating_sub(RESERVE * 2);
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

/// Bytes that do not compress.
pub(crate) fn noise(length: usize) -> Bytes {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_too_little_was_under_way_there_is_more_and_not_without_end() {
        // As it was after a first look at a busy moment: 200 Mbit/s over 23 ms, and 768 KiB for four connections.
        let mut size = (SMALLER, 12);
        let mut seen = Vec::new();
        while let Some(next) = more(size) {
            size = next;
            seen.push(size);
        }
        // In the same blocks: runs are compared by operations for a second.
        assert_eq!(seen, [(SMALLER, 48), (SMALLER, 192)]);
        assert_eq!(more((LARGE, 65)), None);
    }

    #[test]
    fn a_run_that_goes_quicker_at_its_end_shows_it() {
        assert_eq!(halves(&[1.0, 3.0, 8.0, 10.0]), (2.0, 9.0));
        assert_eq!(halves(&[]), (0.0, 0.0));
    }

    #[test]
    fn a_long_path_has_enough_under_way_and_a_slow_one_not_too_much() {
        // One machine: a GiB in a second.
        assert_eq!(sizes(1e9, false, 0.1, 4, 8 << 20), (LARGE, 16));
        // 200 Mbit/s for each of four over 23 ms: the path holds 2.3 MB.
        let (block, depth) = sizes(25e6, true, 23.0, 4, 8 << 20);
        assert_eq!((block, depth), (LARGE, 17));
        // 10 Gbit/s over 50 ms.
        let (block, depth) = sizes(1.2e9, true, 50.0, 4, 8 << 20);
        assert_eq!((block, depth), (LARGE, 256));
        // 10 Mbit/s: a third of a second is under way.
        let (block, depth) = sizes(1.2e6, true, 23.0, 4, 8 << 20);
        assert_eq!((block, depth), (SMALLER, 5));
        // 1 Mbit/s and 100 kbit/s: blocks that pass in a while too.
        assert_eq!(sizes(125e3, true, 23.0, 4, 8 << 20), (8 << 10, 4));
        assert_eq!(sizes(12.5e3, true, 23.0, 4, 8 << 20), (SMALL, 4));
        // What was under way came back at once: that says nothing against more.
        assert_eq!(sizes(5e6, false, 100.0, 4, 8 << 20), (LARGE, 16));
        assert_eq!(sizes(1e9, false, 0.1, 4, 16 << 10).0, 16 << 10);
    }
}
