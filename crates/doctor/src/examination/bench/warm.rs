//! The warm-up: it determines how much is to be under way, and does everything once. The first write of a
//! file allocates blocks of the storage, and later ones use these again. The first work of a host finds
//! its caches empty.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use super::{
    FILE_BYTES_AT_MOST, LARGE_BLOCK_BYTES, SLOW_WAY_BLOCK_BYTES, SMALL_BLOCK_BYTES, TIME_FOR_THE_END, close,
};
use crate::drive::{Order, RunFixture};
use crate::examination::{Examination, Sizes};
use crate::measurements::{RunKind, Stage, Stopped};
use crate::protocol;

/// The least and the most bytes under way in large runs, if the path allows.
const BYTES_UNDER_WAY: RangeInclusive<f64> = 4_194_304.0..=67_108_864.0;
/// The most large operations under way.
const LARGE_BLOCKS_AT_ONCE: u32 = 256;
/// The longest time in s for which the data under way may keep the path busy.
const WAY_BUSY_AT_MOST_S: f64 = 0.3;
/// The longest part of the warm-up in any course.
const WARM_UP_PART_AT_MOST: Duration = Duration::from_millis(250);
/// Bytes under way in the first part of the warm-up, if the path is not narrow.
const WARM_UP_BYTES_AT_FIRST: u32 = 512 << 10;
/// Bytes under way in its last part.
const WARM_UP_BYTES_AT_LAST: u32 = 16 << 20;
/// The additional time of a block over a smaller one that shows a narrow path.
const NARROW_WAY_DELAY: Duration = Duration::from_millis(150);

/// Block and depth for a path: several times the data that it holds at once with all connections, but no
/// more than it carries in a limited time, if that is known. `rate` is the rate of one connection in
/// bytes a second. `is_full` says whether operations waited then, so that it is the highest rate of a
/// connection.
fn sizes(rate: f64, is_full: bool, rtt_ms: f64, most: u32, max_io: u32) -> (u32, u32) {
    let all = rate * f64::from(most);
    let wanted = (2.0 * all * rtt_ms / 1000.0).clamp(*BYTES_UNDER_WAY.start(), *BYTES_UNDER_WAY.end());
    let in_a_while = rate * WAY_BUSY_AT_MOST_S;
    if is_full && in_a_while < f64::from(SLOW_WAY_BLOCK_BYTES) * 4.0 {
        // A narrow path: a few blocks that pass in that time.
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

/// Four times as much under way, in the same blocks. `None` if that is more than the limit.
fn more(block: u32, depth: u32) -> Option<(u32, u32)> {
    let under_way = 4.0 * f64::from(block) * f64::from(depth);
    (under_way <= *BYTES_UNDER_WAY.end() && depth * 4 <= LARGE_BLOCKS_AT_ONCE).then_some((block, depth * 4))
}

/// Warms up without counting, and decides how much is to be under way.
pub(super) async fn decide(exam: &mut Examination<'_>) -> Result<Sizes, Stopped> {
    let most = exam.course.connections.last().copied().unwrap_or(1);
    let max_io = exam.sessions[0].max_io();
    let size = exam.existing.as_ref().map_or(FILE_BYTES_AT_MOST, |it| it.size);
    let mut bench = exam.bench(size.min(FILE_BYTES_AT_MOST)).await?;
    let warmed = warm_both(exam, &mut bench, max_io).await;
    close(bench).await;
    let [write, read] = warmed?;
    forget(exam);
    let of = |warm: Warm| sizes(warm.rate, warm.is_full, exam.trip_ms(), most, max_io);
    let (write_sizes, read_sizes) = (of(write), of(read));
    let block_s = |warm: Warm, (block, _): (u32, u32)| f64::from(block) / warm.rate.max(1.0);
    let slower =
        block_s(write, write_sizes).max(block_s(read, read_sizes)).min(exam.course.run.as_secs_f64());
    let decided = Sizes {
        write: write_sizes,
        read: read_sizes,
        extent: size.min(FILE_BYTES_AT_MOST),
        block_time: Duration::from_secs_f64(slower),
    };
    once(exam, decided, most).await
}

/// The rate of one connection after it has settled.
#[derive(Debug, Clone, Copy)]
struct Warm {
    /// The rate in bytes a second.
    rate: f64,
    /// Whether operations had to wait then, so that the connection cannot carry more.
    is_full: bool,
    /// Bytes of the file that were moved.
    bytes: u64,
}

/// Removes the runs so far: the warm-up is no measurement.
fn forget(exam: &mut Examination<'_>) {
    let data = exam.measurements.data.get_or_insert_default();
    data.runs.clear();
    data.sawtooth = None;
}

/// Writes and reads once over the largest number of connections, so that the file has its blocks and both
/// sides have seen this load. If operations returned at once, too few were under way, and there are more
/// from now on.
async fn once(exam: &mut Examination<'_>, mut sizes: Sizes, most: u32) -> Result<Sizes, Stopped> {
    let count = exam.open_connections(most).await?.min(most);
    let mut bench = exam.bench(sizes.extent).await?;
    let mut done = Ok(());
    for work in [RunKind::Write, RunKind::Read] {
        done = enough(exam, &mut bench, &mut sizes, work, count).await;
        if done.is_err() {
            break;
        }
    }
    close(bench).await;
    forget(exam);
    exam.close_extra_connections().await;
    done.map(|()| sizes)
}

/// Runs one kind of work until enough is under way.
async fn enough(
    exam: &mut Examination<'_>,
    bench: &mut RunFixture,
    sizes: &mut Sizes,
    work: RunKind,
    count: u32,
) -> Result<(), Stopped> {
    if work == RunKind::Write && exam.scratch.is_none() {
        return Ok(());
    }
    loop {
        let (block, depth) = if work == RunKind::Write { sizes.write } else { sizes.read };
        let run = exam.run(bench, exam.order(work, block, depth, count)).await?;
        if work == RunKind::Write {
            // Each operation under way has written a block, even if none was done in the counted time.
            let blocks = run.operations.max(depth.into());
            exam.written = exam.written.max(blocks * u64::from(block)).min(sizes.extent);
        }
        let had_too_little = crate::rules::had_too_little(&exam.measurements, &run);
        let has_time = exam.left() > exam.course.limit / 2 + TIME_FOR_THE_END;
        // Data that a narrow path carries for seconds would make the server look silent.
        let is_bearable = |depth: u32| sizes.block_time * depth < exam.course.stall / 3;
        let wants_more = had_too_little && has_time && exam.args.max_rate.is_none();
        let next = more(block, depth).filter(|(_, depth)| wants_more && is_bearable(*depth));
        let Some(next) = next else { break };
        *(if work == RunKind::Write { &mut sizes.write } else { &mut sizes.read }) = next;
    }
    if exam.scratch.is_some() {
        bench.extent = exam.written;
    }
    Ok(())
}

/// Warms up writes and reads, which may be held back differently.
async fn warm_both(
    exam: &mut Examination<'_>,
    bench: &mut RunFixture,
    max_io: u32,
) -> Result<[Warm; 2], Stopped> {
    if exam.scratch.is_none() {
        return Ok([warm_up(exam, bench, RunKind::Read, max_io, WARM_UP_BYTES_AT_LAST).await?; 2]);
    }
    let write = warm_up(exam, bench, RunKind::Write, max_io, WARM_UP_BYTES_AT_LAST).await?;
    bench.extent = write.bytes.min(bench.extent);
    // Reads that do not wait with little under way count as fast as writes.
    let read = warm_up(exam, bench, RunKind::Read, max_io, WARM_UP_BYTES_AT_FIRST).await?;
    Ok([write, if read.is_full { read } else { write }])
}

/// Warms up one kind of work. The data under way increases up to `last` bytes, until operations wait.
/// Otherwise the round trip would have been measured.
async fn warm_up(
    exam: &mut Examination<'_>,
    bench: &RunFixture,
    work: RunKind,
    max_io: u32,
    last: u32,
) -> Result<Warm, Stopped> {
    let time = exam.course.run.min(WARM_UP_PART_AT_MOST);
    let (mut under_way, mut bytes) = first(exam, bench, work, max_io).await?;
    let smallest = under_way;
    loop {
        let block = SLOW_WAY_BLOCK_BYTES.min(max_io).min(under_way);
        // A connection reaches its rate in the first part.
        let is_first = under_way == smallest;
        let ramp = match is_first {
            true if exam.trip_ms() < 1.0 => Duration::ZERO,
            true => exam.ramp(),
            false => exam.ramp() / 3,
        };
        let plain = exam.order(work, block, (under_way / block).max(1), 1);
        let order = Order { ramp, settling: Duration::ZERO, time, ..plain };
        let run = exam.run(bench, order).await?;
        // Each run starts at the beginning of the file.
        bytes = bytes.max(run.operations * u64::from(block));
        if run.operations == 0 {
            // The path is so narrow that nothing returned in this time: its rate is at most that of the
            // first blocks.
            let rate = f64::from(under_way) / WAY_BUSY_AT_MOST_S;
            return Ok(Warm { rate, is_full: true, bytes });
        }
        let (early, late) = halves(&run.parts);
        let is_growing = is_first && run.operations >= 16 && late > 1.25 * early;
        let is_full = crate::rules::waited(&exam.measurements, &run) && !is_growing;
        if is_full || under_way >= last || exam.trip_ms() < 1.0 || exam.args.max_rate.is_some() {
            return Ok(Warm { rate: late.max(run.per_s) * f64::from(block), is_full, bytes });
        }
        under_way *= 4;
    }
}

/// Bytes under way at first, and bytes of the file that were moved to determine that. Blocks grow as long
/// as larger ones take no longer. If they do, the path is narrow, and [`WARM_UP_BYTES_AT_FIRST`] would
/// keep it busy for seconds.
async fn first(
    exam: &Examination<'_>,
    bench: &RunFixture,
    work: RunKind,
    max_io: u32,
) -> Result<(u32, u64), Stopped> {
    let largest = SLOW_WAY_BLOCK_BYTES.min(max_io);
    let file = bench.places.first().and_then(|(_, file)| file.as_ref());
    let (Some(file), None) = (file, exam.args.max_rate) else {
        return Ok((WARM_UP_BYTES_AT_FIRST, largest.into()));
    };
    let mut before: Option<(u32, Duration)> = None;
    let mut size = SMALL_BLOCK_BYTES.min(largest);
    loop {
        let begun = Instant::now();
        let moving = async {
            match work {
                RunKind::Write => file.write(0, &bench.content.slice(..size as usize)).await,
                _ => file.read(0, size).await.map(|length| length as u32),
            }
        };
        let moved = tokio::time::timeout(exam.course.stall, moving).await;
        moved
            .map_err(|_| exam.silent(Stage::Data, "a first block"))?
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
        // As after a first sample at a busy moment: 200 Mbit/s over 23 ms, and 768 KiB for four
        // connections.
        let mut size = (SLOW_WAY_BLOCK_BYTES, 12);
        let mut seen = Vec::new();
        while let Some(next) = more(size.0, size.1) {
            size = next;
            seen.push(size);
        }
        // In the same blocks: runs are compared by operations a second.
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
        // One machine: a GiB a second.
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
        // 1 Mbit/s and 100 kbit/s: blocks that pass in the limited time too.
        assert_eq!(sizes(125e3, true, 23.0, 4, 8 << 20), (8 << 10, 4));
        assert_eq!(sizes(12.5e3, true, 23.0, 4, 8 << 20), (SMALL_BLOCK_BYTES, 4));
        // The operations returned at once, so more may be under way.
        assert_eq!(sizes(5e6, false, 100.0, 4, 8 << 20), (LARGE_BLOCK_BYTES, 16));
        assert_eq!(sizes(1e9, false, 0.1, 4, 16 << 10).0, 16 << 10);
    }
}
