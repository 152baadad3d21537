//! SEEK (RFC 7862 15.11).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::open::ShareAccess;
use nfs_wire::op::seek::{Args, ContentType, ResOk};

use super::io::{IoOpen, io_open};
use crate::compound::{OpResult, Run, Stop};

/// Finds the next data or hole at or after an offset. The end of the file counts as a hole.
///
/// # Errors
/// As for [`io_open`]; NFS4ERR_NXIO after the end, NFS4ERR_UNION_NOTSUPP for anything but data and holes.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    run.current()?;
    run.may_wait()?;
    let from = io_open(run, &args.stateid, ShareAccess::READ)?;
    let found = seek(args, &from);
    from.end(run);
    run.reply(OpNum::Seek, found?)
}

fn seek(args: &Args, from: &IoOpen) -> Result<ResOk, Stop> {
    let (engine, open) = (&from.export().engine, from.open());
    let size = engine.info(open)?.size;
    if args.offset >= size {
        return Err(NfsStat::NxIo.into());
    }
    let data = engine.next_data(open, args.offset)?.filter(|data| data.start < size);
    match args.what {
        ContentType::Data => Ok(match data {
            Some(data) => ResOk { eof: false, offset: data.start.max(args.offset) },
            None => ResOk { eof: true, offset: size },
        }),
        ContentType::Hole => {
            let hole = match data {
                Some(data) if data.start <= args.offset => end_of_data(from, data.end, size)?,
                _ => args.offset,
            };
            Ok(ResOk { eof: hole >= size, offset: hole.min(size) })
        }
        ContentType::Unknown(_) => Err(NfsStat::UnionNotSupp.into()),
    }
}

/// The end of the data that reaches `end`. The host may report one run of data in several pieces.
fn end_of_data(from: &IoOpen, mut end: u64, size: u64) -> Result<u64, Stop> {
    while end < size {
        match from.export().engine.next_data(from.open(), end)? {
            Some(more) if more.start <= end && more.end > end => end = more.end,
            _ => break,
        }
    }
    Ok(end)
}
