//! Numbers of connections, measured in turns: each of them writes and reads, and then all of them once
//! more. A change of conditions over time affects all of them, and the spread between turns shows how
//! certain a comparison is ([`load::comparison`]).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use client::remote::RemoteSession;
use load::host_activity::{self, ActivitySample, HostActivity};

use super::{LONG_WAY_MS, TIME_FOR_THE_END, close};
use crate::drive::{Order, RunFixture};
use crate::examination::Examination;
use crate::measurements::{Channel, Connects, Others, Run, RunKind, Stopped};
use crate::ping;
use crate::tcp::TcpInfo;

/// Bytes of one small file.
const SMALL_FILE_BYTES: u32 = 16 << 10;
/// Small files under way at once.
const SMALL_FILES_AT_ONCE: u32 = 16;
/// If a small file takes longer, in ms, the quick course measures small files only once.
const SLOW_FILE_MS: f64 = 150.0;
/// The interval at which the connections are sampled.
const BUSY_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Kinds of work with names. Each takes the time that the course has for it.
const KINDS_OF_NAMES: u32 = 8;
/// The least number of turns, whatever the time: one alone has no spread.
const FEWEST_TURNS: u32 = 2;

/// Runs all turns for which there is time.
pub(super) async fn measure(exam: &mut Examination<'_>) -> Result<(), Stopped> {
    let counts = counts(exam);
    let (mut activity, mut took) = (HostActivity::default(), Duration::ZERO);
    for turn in 0..exam.course.turns {
        let begun = Instant::now();
        if turn >= FEWEST_TURNS && exam.left() < took + behind(exam) {
            let text = format!("turns of connections: {turn} of {} were made", exam.course.turns);
            exam.measurements.left_out.push(text);
            break;
        }
        let mut had = 0;
        for count in &counts {
            let needed = (exam.turn_time() + exam.turn_ramp() + exam.settling()) * 2;
            if *count > 1 && !exam.has_time(needed, "several connections") {
                break;
            }
            let have = exam.open_connections(*count).await?.min(*count);
            if have <= had {
                break;
            }
            sample_activity(exam, &mut activity).await;
            step(exam, have, counts.last() == Some(count), turn == 0).await?;
            had = have;
        }
        exam.close_extra_connections().await;
        // The first turn has small files too, and does not count for this.
        took = begun.elapsed();
    }
    Ok(())
}

/// The numbers of connections. On a long path the quick course has time only for one and for as many as a
/// client uses.
fn counts(exam: &Examination<'_>) -> Vec<u32> {
    let all = &exam.course.connections;
    match (exam.course.name, all.as_slice()) {
        ("quick", [first, .., last]) if exam.trip_ms() > LONG_WAY_MS => vec![*first, *last],
        _ => all.clone(),
    }
}

/// The time after the turns: depths, names, and the reads at the end, for which the quick course reserves
/// no time.
fn behind(exam: &Examination<'_>) -> Duration {
    let run = exam.ramp() + exam.course.run;
    let depths = run / 2 * exam.course.depths.len() as u32;
    let names = if exam.scratch.is_some() { exam.course.names * KINDS_OF_NAMES } else { Duration::ZERO };
    let again = if exam.course.name == "quick" { Duration::ZERO } else { run };
    depths + names + again + TIME_FOR_THE_END
}

/// Samples the use of this host by other programs.
async fn sample_activity(exam: &mut Examination<'_>, activity: &mut HostActivity) {
    let sample = ActivitySample::begin();
    tokio::time::sleep(host_activity::SAMPLE_TIME).await;
    activity.add(&sample);
    let is_server_here = exam.measurements.route.as_ref().is_some_and(|it| it.is_here());
    let processors = std::thread::available_parallelism().map_or(1, |it| it.get() as u32);
    if let Some(part) = activity.others() {
        exam.measurements.data.get_or_insert_default().others =
            Some(Others { part, processors, is_server_here });
    }
}

/// Writes and reads with this number of connections.
async fn step(exam: &mut Examination<'_>, count: u32, is_last: bool, is_first: bool) -> Result<(), Stopped> {
    let extent = match (&exam.scratch, exam.sizes) {
        (Some(_), _) => exam.written,
        (None, sizes) => sizes.map_or(0, |it| it.extent),
    };
    let bench = exam.bench(extent).await?;
    let done = runs(exam, &bench, count, is_last, is_first).await;
    close(bench).await;
    done
}

async fn runs(
    exam: &mut Examination<'_>,
    bench: &RunFixture,
    count: u32,
    is_last: bool,
    is_first: bool,
) -> Result<(), Stopped> {
    let Some(sizes) = exam.sizes else { return Ok(()) };
    if exam.scratch.is_some() {
        let (block, depth) = sizes.write;
        large(exam, bench, exam.order(RunKind::Write, block, depth, count)).await?;
    }
    let (block, depth) = sizes.read;
    let order = exam.order(RunKind::Read, block, depth, count);
    read(exam, bench, order).await?;
    if is_first && (count == 1 || is_last) {
        small_files(exam, bench, count).await?;
    }
    Ok(())
}

/// A large run. With one connection, connects are measured meanwhile.
async fn large(exam: &mut Examination<'_>, bench: &RunFixture, order: Order) -> Result<(), Stopped> {
    if order.connections > 1 {
        return exam.run(bench, order).await.map(drop);
    }
    let work = order.work;
    let (_, connects) = connecting(exam, bench, order).await?;
    if let (Some(connects), Some(transport)) = (connects, &mut exam.measurements.transport) {
        let loaded = match work {
            RunKind::Write => &mut transport.connect_under_writes,
            _ => &mut transport.connect_under_load,
        };
        let loaded = loaded.get_or_insert_default();
        loaded.sent += connects.sent;
        loaded.lost += connects.lost;
        loaded.times_ms.extend(connects.times_ms);
    }
    Ok(())
}

/// Large reads, and the traffic of each connection in them.
async fn read(exam: &mut Examination<'_>, bench: &RunFixture, order: Order) -> Result<(), Stopped> {
    let before = exam.accounts();
    let looking = tokio::spawn(look(exam.sessions.clone(), order.ramp + order.time));
    let begun = Instant::now();
    large(exam, bench, order).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let busy = looking.await.unwrap_or_default();
    let channels = carried(&before, &exam.accounts(), &busy, seconds);
    if let Some(connections) = &mut exam.measurements.connections {
        connections.channels = channels;
    }
    Ok(())
}

/// Small files, if there is time for them.
async fn small_files(exam: &mut Examination<'_>, bench: &RunFixture, count: u32) -> Result<(), Stopped> {
    if exam.scratch.is_none() {
        return Ok(());
    }
    if let Some(why) = no_time_for_small_files(exam) {
        let text = format!("small files: the quick course has no time for them {why}");
        if !exam.measurements.left_out.contains(&text) {
            exam.measurements.left_out.push(text);
        }
        return Ok(());
    }
    let small = exam.order(RunKind::SmallFiles, SMALL_FILE_BYTES, SMALL_FILES_AT_ONCE, count);
    if exam.has_time(small.ramp + small.time, "small files") {
        exam.run(bench, small).await?;
    }
    Ok(())
}

/// The reason why the quick course leaves small files out: the rest of its time is for names.
fn no_time_for_small_files(exam: &Examination<'_>) -> Option<&'static str> {
    if exam.course.name != "quick" {
        return None;
    }
    let runs = exam.measurements.data.iter().flat_map(|it| &it.runs);
    // A run without operations has no median.
    let is_slow = |it: &Run| it.median_ms > SLOW_FILE_MS || it.operations == 0;
    let were_slow = runs.filter(|it| it.work == RunKind::SmallFiles).any(is_slow);
    match (exam.trip_ms() > LONG_WAY_MS, were_slow) {
        (true, _) => Some("on a long way"),
        (_, true) => Some("over more connections, since they take so long"),
        _ => None,
    }
}

/// A run, with connects while the path is busy with it.
async fn connecting(
    exam: &mut Examination<'_>,
    bench: &RunFixture,
    order: Order,
) -> Result<(Run, Option<Connects>), Stopped> {
    let (to, time) = (exam.destination(), order.ramp + order.time);
    let pings = tokio::spawn(async move {
        tokio::time::sleep(time / 4).await;
        ping::series(to, 6, time / 16, time / 2).await
    });
    let run = exam.run(bench, order).await?;
    Ok((run, pings.await.ok()))
}

/// How often each connection was sampled, and was busy then.
type Looks = HashMap<SocketAddr, (u32, u32)>;

/// Samples which connections are busy.
async fn look(sessions: Vec<RemoteSession>, time: Duration) -> Looks {
    let mut looks = Looks::new();
    let until = Instant::now() + time;
    while Instant::now() < until {
        tokio::time::sleep(BUSY_LOOK_EVERY).await;
        for channel in sessions.iter().flat_map(RemoteSession::channels) {
            let (all, busy) = looks.entry(channel.local).or_default();
            (*all, *busy) = (*all + 1, *busy + u32::from(channel.is_busy));
        }
    }
    looks
}

type Accounts = [(SocketAddr, SocketAddr, TcpInfo)];

/// The traffic of each connection between two counts.
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
