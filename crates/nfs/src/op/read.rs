//! READ (RFC 8881 18.22).

use std::sync::atomic::Ordering;

use nfs_wire::op::open::ShareAccess;
use nfs_wire::op::read::Args;
use share::limits::MeteredWork;
use wire::transfer::UNCOPIED;

use super::io::{Through, owner, through};
use crate::compound::{Done, Run, Stop};
use crate::limits::MAX_IO;

/// Does it.
///
/// # Errors
/// As [`through`]; NFS4ERR_LOCKED where a byte range of somebody is in the way that counts for all.
pub fn run(run: &mut Run, args: &Args) -> Done {
    run.current()?;
    let from = through(run, &args.stateid, ShareAccess::READ)?;
    let done = read(run, args, &from);
    from.end(run);
    done
}

fn read(run: &mut Run, args: &Args, from: &Through) -> Done {
    let len = (args.count.min(MAX_IO) as usize).min(room_left(run));
    if len == 0 || args.offset.checked_add(len as u64).is_none_or(|end| end > i64::MAX as u64) {
        return nothing(run, args, from, len);
    }
    let (engine, open) = (&from.export().engine, from.open());
    let work = MeteredWork::Read { file: open.file_number(), len: len as u64 };
    run.pace(engine, work)?;
    let is_kept = run.serving.is_some_and(|serving| serving.cache);
    if len >= UNCOPIED
        && run.is_last
        && !is_kept
        && from.holding().is_some()
        && let Some(range) = engine.read_range(open, owner(run), args.offset, len, &run.way.transfer)?
    {
        let end = args.offset + range.len as u64;
        let got = range.len;
        let eof = is_end(engine, from, len, got, end)?;
        if run.writer.attach_read(range, eof).is_ok() {
            run.pacing.used(got);
            run.course.data = got;
            return Ok(());
        }
    }
    let owner = owner(run);
    let patience = run.patience;
    let place = run.writer.begin_read();
    let got = engine.read(open, owner, args.offset, len, run.writer.tail(), patience)?;
    let eof = is_end(engine, from, len, got, args.offset + got as u64)?;
    run.writer.finish_read(place, eof);
    run.pacing.used(got);
    run.course.data = got;
    Ok(())
}

/// Whether what was read reaches the end of the file.
fn is_end(engine: &share::Share, from: &Through, asked: usize, got: usize, end: u64) -> Result<bool, Stop> {
    if got < asked {
        return Ok(true);
    }
    // Where the file was seen to go on it goes on, or a later read will be short.
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
fn nothing(run: &mut Run, args: &Args, from: &Through, len: usize) -> Done {
    // No file reaches as far as offsets do that cannot be counted.
    let is_end = len > 0 || args.offset >= from.export().engine.info(from.open())?.size;
    let place = run.writer.begin_read();
    run.writer.finish_read(place, is_end);
    Ok(())
}

/// What the session leaves for data.
pub fn room_left(run: &Run) -> usize {
    let most = run.session.as_ref().map_or(0, |session| session.fore.maxresponsesize as usize);
    most.saturating_sub(run.writer.len() + 20)
}
