//! Numbers of connections, measured in turns: each of them writes and reads, and then all of them once more. What changes with
//! time changes for all of them, and the spread between turns shows how sure a comparison is ([`load::turns`]).

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use client::remote::RemoteSession;
use load::quiet::{self, Quiet};

use super::{LONG_WAY_MS, TIME_FOR_THE_END, close};
use crate::drive::{Bench, Order};
use crate::facts::{Channel, Connects, Others, Run, Stopped, Work};
use crate::patient::Patient;
use crate::ping;
use crate::tcp::TcpInfo;

/// Bytes of one small file.
const SMALL_FILE_BYTES: u32 = 16 << 10;
/// Small files under way at once.
const SMALL_FILES_AT_ONCE: u32 = 16;
/// Small files of which one takes longer, in ms, are measured once by the quick course.
const SLOW_FILE_MS: f64 = 150.0;
/// How often it is looked whether connections are busy.
const BUSY_LOOK_EVERY: Duration = Duration::from_millis(10);
/// Kinds of work with names, each of which has the time of its course.
const KINDS_OF_NAMES: u32 = 8;
/// Turns that are made whatever the time is: one alone has no spread.
const FEWEST_TURNS: u32 = 2;

/// All turns, as far as there is time for them.
pub(super) async fn measure(patient: &mut Patient<'_>) -> Result<(), Stopped> {
    let counts = counts(patient);
    let (mut quiet, mut took) = (Quiet::default(), Duration::ZERO);
    for turn in 0..patient.course.turns {
        let begun = Instant::now();
        if turn >= FEWEST_TURNS && patient.left() < took + behind(patient) {
            let text = format!("turns of connections: {turn} of {} were made", patient.course.turns);
            patient.facts.left_out.push(text);
            break;
        }
        let mut had = 0;
        for count in &counts {
            let needed = (patient.turn_time() + patient.turn_ramp() + patient.settling()) * 2;
            if *count > 1 && !patient.has_time(needed, "several connections") {
                break;
            }
            let have = patient.have(*count).await?.min(*count);
            if have <= had {
                break;
            }
            look_around(patient, &mut quiet).await;
            step(patient, have, counts.last() == Some(count), turn == 0).await?;
            had = have;
        }
        patient.have_one().await;
        // The first has small files as well, and is looked at no more.
        took = begun.elapsed();
    }
    Ok(())
}

/// The numbers of connections. On a long way the quick course has time for one and for as many as a client takes.
fn counts(patient: &Patient<'_>) -> Vec<u32> {
    let all = &patient.course.connections;
    match (patient.course.name, all.as_slice()) {
        ("quick", [first, .., last]) if patient.trip_ms() > LONG_WAY_MS => vec![*first, *last],
        _ => all.clone(),
    }
}

/// What comes behind the turns: depths, names, and the reads at the end, for which the quick course has no time set aside.
fn behind(patient: &Patient<'_>) -> Duration {
    let run = patient.ramp() + patient.course.run;
    let depths = run / 2 * patient.course.depths.len() as u32;
    let names =
        if patient.scratch.is_some() { patient.course.names * KINDS_OF_NAMES } else { Duration::ZERO };
    let again = if patient.course.name == "quick" { Duration::ZERO } else { run };
    depths + names + again + TIME_FOR_THE_END
}

/// Looks for a moment what other programs use of this host.
async fn look_around(patient: &mut Patient<'_>, quiet: &mut Quiet) {
    let look = quiet::Look::begin();
    tokio::time::sleep(quiet::LOOK).await;
    quiet.add(&look);
    let is_server_here = patient.facts.route.as_ref().is_some_and(|it| it.is_here());
    let processors = std::thread::available_parallelism().map_or(1, |it| it.get() as u32);
    if let Some(part) = quiet.others() {
        patient.facts.data.get_or_insert_default().others = Some(Others { part, processors, is_server_here });
    }
}

/// Writes and reads with so many connections.
async fn step(patient: &mut Patient<'_>, count: u32, is_last: bool, is_first: bool) -> Result<(), Stopped> {
    let extent = match (&patient.scratch, patient.sizes) {
        (Some(_), _) => patient.written,
        (None, sizes) => sizes.map_or(0, |it| it.extent),
    };
    let bench = patient.bench(extent).await?;
    let done = runs(patient, &bench, count, is_last, is_first).await;
    close(bench).await;
    done
}

async fn runs(
    patient: &mut Patient<'_>,
    bench: &Bench,
    count: u32,
    is_last: bool,
    is_first: bool,
) -> Result<(), Stopped> {
    let Some(sizes) = patient.sizes else { return Ok(()) };
    if patient.scratch.is_some() {
        let (block, depth) = sizes.write;
        large(patient, bench, patient.order(Work::Write, block, depth, count)).await?;
    }
    let (block, depth) = sizes.read;
    let order = patient.order(Work::Read, block, depth, count);
    read(patient, bench, order).await?;
    if is_first && (count == 1 || is_last) {
        small_files(patient, bench, count).await?;
    }
    Ok(())
}

/// A large run. With one connection it is looked at what connects take meanwhile.
async fn large(patient: &mut Patient<'_>, bench: &Bench, order: Order) -> Result<(), Stopped> {
    if order.connections > 1 {
        return patient.run(bench, order).await.map(drop);
    }
    let work = order.work;
    let (_, connects) = connecting(patient, bench, order).await?;
    if let (Some(connects), Some(transport)) = (connects, &mut patient.facts.transport) {
        let loaded = match work {
            Work::Write => &mut transport.connect_under_writes,
            _ => &mut transport.connect_under_load,
        };
        let loaded = loaded.get_or_insert_default();
        loaded.sent += connects.sent;
        loaded.lost += connects.lost;
        loaded.times_ms.extend(connects.times_ms);
    }
    Ok(())
}

/// Large reads, and what each connection carried of them.
async fn read(patient: &mut Patient<'_>, bench: &Bench, order: Order) -> Result<(), Stopped> {
    let before = patient.accounts();
    let looking = tokio::spawn(look(patient.lines.clone(), order.ramp + order.time));
    let begun = Instant::now();
    large(patient, bench, order).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let busy = looking.await.unwrap_or_default();
    let channels = carried(&before, &patient.accounts(), &busy, seconds);
    if let Some(connections) = &mut patient.facts.connections {
        connections.channels = channels;
    }
    Ok(())
}

/// Small files, where there is time for them.
async fn small_files(patient: &mut Patient<'_>, bench: &Bench, count: u32) -> Result<(), Stopped> {
    if patient.scratch.is_none() {
        return Ok(());
    }
    if let Some(why) = no_time_for_small_files(patient) {
        let text = format!("small files: the quick course has no time for them {why}");
        if !patient.facts.left_out.contains(&text) {
            patient.facts.left_out.push(text);
        }
        return Ok(());
    }
    let small = patient.order(Work::SmallFiles, SMALL_FILE_BYTES, SMALL_FILES_AT_ONCE, count);
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
    match (patient.trip_ms() > LONG_WAY_MS, were_slow) {
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
