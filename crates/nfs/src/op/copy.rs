//! COPY within the server (RFC 7862 15.2).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::copy::{Args, Requirements, Res, ResOk, WriteResponse};
use nfs_wire::op::open::ShareAccess;
use nfs_wire::types::StableHow;
use share::CallResult;

use super::io::{IoOpen, io_open, io_open_saved, owner};
use crate::compound::{OpResult, Run, Stop};

/// The most bytes of one copy. A client that asks for more learns how many were copied, and continues.
const MOST: u64 = 256 << 20;

/// Copies a range of the saved filehandle, and replies when the copy is complete.
///
/// # Errors
/// As for [`io_open`]; NFS4ERR_INVAL after the end of the source and for overlapping ranges of one file,
/// NFS4ERR_NOTSUPP for a source on another server, NFS4ERR_XDEV between exports.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    run.current()?;
    if run.saved.is_none() {
        return Err(NfsStat::NoFileHandle.into());
    }
    if !args.source_server.is_empty() {
        return Err(NfsStat::NotSupp.into());
    }
    run.may_wait()?;
    let from = io_open_saved(run, &args.src_stateid, ShareAccess::READ)?;
    let copied = match io_open(run, &args.dst_stateid, ShareAccess::WRITE) {
        Ok(to) => {
            let writeverf = run.write_verifier(to.export());
            let copied = copy(run, args, &from, &to);
            to.end(run);
            copied.map(|count| (count, writeverf))
        }
        Err(stop) => Err(stop),
    };
    from.end(run);
    let (count, writeverf) = copied?;
    let response = WriteResponse { callback_id: None, count, committed: StableHow::Unstable, writeverf };
    let requirements = Requirements { consecutive: true, synchronous: true };
    run.writer.put(OpNum::Copy, &Res::Ok(ResOk { response, requirements }));
    Ok(())
}

fn copy(run: &Run, args: &Args<'_>, from: &IoOpen, to: &IoOpen) -> Result<u64, Stop> {
    run.check_writable(to.export())?;
    if !Arc::ptr_eq(&from.export().engine, &to.export().engine) {
        return Err(NfsStat::XDev.into());
    }
    let left = length(from, args.src_offset, args.count)?;
    if args.dst_offset.checked_add(left).is_none_or(|end| end > i64::MAX as u64) {
        return Err(NfsStat::FBig.into());
    }
    let is_same = from.open().node_id() == to.open().node_id();
    if is_same && args.src_offset.abs_diff(args.dst_offset) < left {
        return Err(NfsStat::Inval.into());
    }
    let owner = owner(run);
    run.ask(to.export(), |engine, caller| match left.min(MOST) {
        0 => CallResult::Done(0),
        len => engine.copy(caller, from.side(owner, args.src_offset), to.side(owner, args.dst_offset), len),
    })
}

/// The number of bytes to copy. A count of zero means up to the end.
///
/// # Errors
/// NFS4ERR_INVAL if the range goes beyond the end.
// RFC 7862 15.2.3, 15.13.3
pub fn length(from: &IoOpen, at: u64, count: u64) -> Result<u64, Stop> {
    let size = from.export().engine.info(from.open())?.size;
    let left = size.checked_sub(at).ok_or(NfsStat::Inval)?;
    match count {
        0 => Ok(left),
        count if count <= left => Ok(count),
        _ => Err(NfsStat::Inval.into()),
    }
}
