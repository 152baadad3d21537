//! What comes before anything counts: how much is to be under way, and all of it once. The first write of a file takes new
//! blocks of the store, and later ones use these again; the first work of a host finds its caches empty.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::{
    FILE_BYTES_AT_MOST, LARGE_BLOCK_BYTES, SLOW_WAY_BLOCK_BYTES, SMALL_BLOCK_BYTES, TIME_FOR_THE_END, close,
};
use crate::drive::{Bench, Order};
use crate::facts::{Stage, Stopped, Work};
use crate::patient::{Patient, Sizes};
use crate::protocol;

/// Bytes under way that large runs have at least and at most, where the way allows.
const BYTES_UNDER_WAY: RangeInclusive<f64> = 4_194_304.0..=67_108_864.0;
/// Large operations under way at most.
const LARGE_BLOCKS_AT_ONCE: u32 = 256;
/// The longest time for which what is under way may keep the way busy, in s.
const WAY_BUSY_AT_MOST_S: f64 = 0.3;
/// The longest part of the warm-up, whatever the course.
const WARM_UP_PART_AT_MOST: Duration = Duration::from_millis(250);
/// Bytes that are under way in the first part of the warm-up, where the way is not narrow.
const WARM_UP_BYTES_AT_FIRST: u32 = 512 << 10;
/// Bytes that are under way in its last part.
const WARM_UP_BYTES_AT_LAST: u32 = 16 << 20;
/// How much longer a block takes than a smaller one where the way is narrow.
const NARROW_WAY_DELAY: Duration = Duration::from_millis(150);

/// Block and depth for a path: several times what it holds at once with all connections, but no more than it carries in
/// a while where that is known. `rate` is what one connection carried, in bytes for a second; `is_full` whether operations
/// waited then, so that it is all that a connection carries.
fn sizes(rate: f64, is_full: bool, rtt_ms: f64, most: u32, max_io: u32) -> (u32, u32) {
    let all = rate * f64::from(most);
    let wanted = (2.0 * all * rtt_ms / 1000.0).clamp(*BYTES_UNDER_WAY.start(), *BYTES_UNDER_WAY.end());
    let in_a_while = rate * WAY_BUSY_AT_MOST_S;
    if is_full && in_a_while < f64::from(SLOW_WAY_BLOCK_BYTES) * 4.0 {
        // A narrow way: a few blocks that pass in that time.
        let part = 1 << ((in_a_while / f64::from(most.max(4))) as u32).max(SMALL_BLOCK_BYTES).ilog2();
        let block = SLOW_WAY_BLOCK_BYTES.min(part).min(max_io);
        return (block, ((in_a_while / f64::from(block)) as u32).clamp(most.max(4), LARGE_BLOCKS_AT_ONCE));
    }
    let bearable = in_a_while.max(f64::from(SLOW_WAY_BLOCK_BYTES) * 4.0);
    let under_way = if is_full { wanted.min(bearable) } else { wanted };
    let block = if under_way >= *BYTES_UNDER_WAY.start() { LARGE_BLOCK_BYTES } else { SLOW_WAY_BLOCK_BYTES }
        .min(max_io);
    let depth = (under_way / f64::from(block)) as u32;
    (block, depth.clamp(most.max(4), LARGE_BLOCKS_AT_ONCE))
}

/// Four times as much under way, in the same blocks; nothing where that is more than there may be.
fn more(block: u32, depth: u32) -> Option<(u32, u32)> {
    let under_way = 4.0 * f64::from(block) * f64::from(depth);
    (under_way <= *BYTES_UNDER_WAY.end() && depth * 4 <= LARGE_BLOCKS_AT_ONCE).then_some((block, depth * 4))
}

/// Warms up, which does not count, and decides how much is to be under way.
pub(super) async fn decide(patient: &mut Patient<'_>) -> Result<Sizes, Stopped> {
    let most = patient.course.connections.last().copied().unwrap_or(1);
    let max_io = patient.lines[0].max_io();
    let size = patient.existing.as_ref().map_or(FILE_BYTES_AT_MOST, |it| it.size);
    let mut bench = patient.bench(size.min(FILE_BYTES_AT_MOST)).await?;
    let warmed = warm_both(patient, &mut bench, max_io).await;
    close(bench).await;
    let [write, read] = warmed?;
    forget(patient);
    let of = |warm: Warm| sizes(warm.rate, warm.is_full, patient.trip_ms(), most, max_io);
    let (write_sizes, read_sizes) = (of(write), of(read));
    let block_s = |warm: Warm, (block, _): (u32, u32)| f64::from(block) / warm.rate.max(1.0);
    let slower =
        block_s(write, write_sizes).max(block_s(read, read_sizes)).min(patient.course.run.as_secs_f64());
    let decided = Sizes {
        write: write_sizes,
        read: read_sizes,
        extent: size.min(FILE_BYTES_AT_MOST),
        block_time: Duration::from_secs_f64(slower),
    };
    once(patient, decided, most).await
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

/// Strikes out the runs so far: the warm-up is no measurement.
fn forget(patient: &mut Patient<'_>) {
    let data = patient.facts.data.get_or_insert_default();
    data.runs.clear();
    data.sawtooth = None;
}

/// Writes and reads once over as many connections as are compared, so that the file has its blocks and each side has met this much.
/// Where operations came back at once there was too little under way, and there is more of it from now on.
async fn once(patient: &mut Patient<'_>, mut sizes: Sizes, most: u32) -> Result<Sizes, Stopped> {
    let count = patient.have(most).await?.min(most);
    let mut bench = patient.bench(sizes.extent).await?;
    let mut done = Ok(());
    for work in [Work::Write, Work::Read] {
        done = enough(patient, &mut bench, &mut sizes, work, count).await;
        if done.is_err() {
            break;
        }
    }
    close(bench).await;
    forget(patient);
    patient.have_one().await;
    done.map(|()| sizes)
}

/// One kind of it.
async fn enough(
    patient: &mut Patient<'_>,
    bench: &mut Bench,
    sizes: &mut Sizes,
    work: Work,
    count: u32,
) -> Result<(), Stopped> {
    if work == Work::Write && patient.scratch.is_none() {
        return Ok(());
    }
    loop {
        let (block, depth) = if work == Work::Write { sizes.write } else { sizes.read };
        let run = patient.run(bench, patient.order(work, block, depth, count)).await?;
        if work == Work::Write {
            // Each that was under way has written a block, also where none was done in the time that counts.
            let blocks = run.operations.max(depth.into());
            patient.written = patient.written.max(blocks * u64::from(block)).min(sizes.extent);
        }
        let had_too_little = crate::rules::had_too_little(&patient.facts, &run);
        let has_time = patient.left() > patient.course.limit / 2 + TIME_FOR_THE_END;
        // What a narrow way carries for seconds would be taken for a server that is silent.
        let is_bearable = |depth: u32| sizes.block_time * depth < patient.course.stall / 3;
        let wants_more = had_too_little && has_time && patient.args.max_rate.is_none();
        let next = more(block, depth).filter(|(_, depth)| wants_more && is_bearable(*depth));
        let Some(next) = next else { break };
        *(if work == Work::Write { &mut sizes.write } else { &mut sizes.read }) = next;
    }
    if patient.scratch.is_some() {
        bench.extent = patient.written;
    }
    Ok(())
}

/// Writes and reads, which may be held back differently.
async fn warm_both(patient: &mut Patient<'_>, bench: &mut Bench, max_io: u32) -> Result<[Warm; 2], Stopped> {
    if patient.scratch.is_none() {
        return Ok([warm_up(patient, bench, Work::Read, max_io, WARM_UP_BYTES_AT_LAST).await?; 2]);
    }
    let write = warm_up(patient, bench, Work::Write, max_io, WARM_UP_BYTES_AT_LAST).await?;
    bench.extent = write.bytes.min(bench.extent);
    // Reads that do not wait with a little under way are taken for as quick as writes.
    let read = warm_up(patient, bench, Work::Read, max_io, WARM_UP_BYTES_AT_FIRST).await?;
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
    let time = patient.course.run.min(WARM_UP_PART_AT_MOST);
    let (mut under_way, mut bytes) = first(patient, bench, work, max_io).await?;
    let smallest = under_way;
    loop {
        let block = SLOW_WAY_BLOCK_BYTES.min(max_io).min(under_way);
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
        if run.operations == 0 {
            // A way so narrow that nothing came back in this time: no more than the first blocks showed.
            let rate = f64::from(under_way) / WAY_BUSY_AT_MOST_S;
            return Ok(Warm { rate, is_full: true, bytes });
        }
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
    let largest = SLOW_WAY_BLOCK_BYTES.min(max_io);
    let file = bench.places.first().and_then(|(_, file)| file.as_ref());
    let (Some(file), None) = (file, patient.args.max_rate) else {
        return Ok((WARM_UP_BYTES_AT_FIRST, largest.into()));
    };
    let mut before: Option<(u32, Duration)> = None;
    let mut size = SMALL_BLOCK_BYTES.min(largest);
    loop {
        let begun = Instant::now();
        let moving = async {
            match work {
                Work::Write => file.write(0, &bench.content.slice(..size as usize)).await,
                _ => file.read(0, size).await.map(|length| length as u32),
            }
        };
        let moved = tokio::time::timeout(patient.course.stall, moving).await;
        moved
            .map_err(|_| patient.silent(Stage::Data, "a first block"))?
            .map_err(|why| protocol::stopped(Stage::Data, &why))?;
        let took = begun.elapsed();
        if let Some((smaller, quicker)) = before
            && took > quicker + NARROW_WAY_DELAY
        {
            let rate = f64::from(size - smaller) / (took - quicker).as_secs_f64();
            let under_way = (rate * WAY_BUSY_AT_MOST_S) as u32;
            return Ok((under_way.clamp(SMALL_BLOCK_BYTES, WARM_UP_BYTES_AT_FIRST), size.into()));
        }
        if size >= largest {
            return Ok((WARM_UP_BYTES_AT_FIRST, size.into()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_too_little_was_under_way_there_is_more_and_not_without_end() {
        // As it was after a first look at a busy moment: 200 Mbit/s over 23 ms, and 768 KiB for four connections.
        let mut size = (SLOW_WAY_BLOCK_BYTES, 12);
        let mut seen = Vec::new();
        while let Some(next) = more(size.0, size.1) {
            size = next;
            seen.push(size);
        }
        // In the same blocks: runs are compared by operations for a second.
        assert_eq!(seen, [(SLOW_WAY_BLOCK_BYTES, 48), (SLOW_WAY_BLOCK_BYTES, 192)]);
        assert_eq!(more(LARGE_BLOCK_BYTES, 65), None);
    }

    #[test]
    fn a_run_that_goes_quicker_at_its_end_shows_it() {
        assert_eq!(halves(&[1.0, 3.0, 8.0, 10.0]), (2.0, 9.0));
        assert_eq!(halves(&[]), (0.0, 0.0));
    }

    #[test]
    fn a_long_path_has_enough_under_way_and_a_slow_one_not_too_much() {
        // One machine: a GiB in a second.
        assert_eq!(sizes(1e9, false, 0.1, 4, 8 << 20), (LARGE_BLOCK_BYTES, 16));
        // 200 Mbit/s for each of four over 23 ms: the path holds 2.3 MB.
        let (block, depth) = sizes(25e6, true, 23.0, 4, 8 << 20);
        assert_eq!((block, depth), (LARGE_BLOCK_BYTES, 17));
        // 10 Gbit/s over 50 ms.
        let (block, depth) = sizes(1.2e9, true, 50.0, 4, 8 << 20);
        assert_eq!((block, depth), (LARGE_BLOCK_BYTES, 256));
        // 10 Mbit/s: a third of a second is under way.
        let (block, depth) = sizes(1.2e6, true, 23.0, 4, 8 << 20);
        assert_eq!((block, depth), (SLOW_WAY_BLOCK_BYTES, 5));
        // 1 Mbit/s and 100 kbit/s: blocks that pass in a while too.
        assert_eq!(sizes(125e3, true, 23.0, 4, 8 << 20), (8 << 10, 4));
        assert_eq!(sizes(12.5e3, true, 23.0, 4, 8 << 20), (SMALL_BLOCK_BYTES, 4));
        // What was under way came back at once: that says nothing against more.
        assert_eq!(sizes(5e6, false, 100.0, 4, 8 << 20), (LARGE_BLOCK_BYTES, 16));
        assert_eq!(sizes(1e9, false, 0.1, 4, 16 << 10).0, 16 << 10);
    }
}
