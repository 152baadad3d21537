//! READ (RFC 8881 18.22).

use std::sync::atomic::Ordering;

use nfs_wire::op::open::ShareAccess;
use nfs_wire::op::read::Args;
use share::limits::MeteredWork;
use wire::transfer::UNCOPIED;

use super::io::{IoOpen, ToldReader, io_open};
use crate::compound::{OpResult, Run, Stop};
use crate::limits::MAX_IO;

/// Reads data.
///
/// # Errors
/// As for [`io_open`]; NFS4ERR_LOCKED if a mandatory byte-range lock conflicts.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    run.current()?;
    let from = io_open(run, &args.stateid, ShareAccess::READ)?;
    let done = read(run, args, &from);
    from.end(run);
    done
}

fn read(run: &mut Run, args: &Args, from: &IoOpen) -> OpResult {
    let len = (args.count.min(MAX_IO) as usize).min(room_left(run));
    if len == 0 || args.offset.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
        return nothing(run, args, from, len);
    }
    let (engine, open) = (&from.export().engine, from.open());
    let work = MeteredWork::Read { file: open.file_number(), len: len as u64 };
    run.throttle(engine, work)?;
    let told = ToldReader::of(run, from)?;
    let reader = told.reader(run);
    let is_kept = run.serving.is_some_and(|serving| serving.cache);
    if len >= UNCOPIED
        && run.is_last
        && !is_kept
        && from.holding().is_some()
        && let Some(range) = engine.read_range(open, reader, args.offset, len, &run.connection.transfer)?
    {
        let end = args.offset + range.len as u64;
        let got = range.len;
        let eof = is_end(engine, from, len, got, end)?;
        if run.writer.attach_read(range, eof).is_ok() {
            run.throttle.used(got);
            run.transactions.data = got;
            return Ok(());
        }
    }
    let patience = run.patience;
    let read_place = run.writer.begin_read();
    let got = engine.read(open, reader, args.offset, len, run.writer.tail(), patience)?;
    let eof = is_end(engine, from, len, got, args.offset + got as u64)?;
    run.writer.finish_read(read_place, eof);
    run.throttle.used(got);
    run.transactions.data = got;
    Ok(())
}

/// Whether the data that was read ends at the end of the file.
fn is_end(engine: &share::Share, from: &IoOpen, asked: usize, got: usize, end: u64) -> Result<bool, Stop> {
    if got < asked {
        return Ok(true);
    }
    // A file that was seen to be longer than this still is, or a later read will be short.
    let seen = from.holding().map(|holding| &holding.seen);
    if seen.is_some_and(|seen| end < seen.load(Ordering::Relaxed)) {
        return Ok(false);
    }
    let size = engine.info(from.open())?.size;
    if let Some(seen) = seen {
        seen.store(size, Ordering::Relaxed);
    }
    Ok(end >= size)
}

/// Reads no bytes.
fn nothing(run: &mut Run, args: &Args, from: &IoOpen, len: usize) -> OpResult {
    // No file is so long that its offsets cannot be represented.
    let is_end = len > 0 || args.offset >= from.export().engine.info(from.open())?.size;
    let read_place = run.writer.begin_read();
    run.writer.finish_read(read_place, is_end);
    Ok(())
}

/// The bytes that the session leaves for data.
pub fn room_left(run: &Run) -> usize {
    let most = run.session.as_ref().map_or(0, |session| session.fore.maxresponsesize as usize);
    most.saturating_sub(run.writer.len() + 20)
}
