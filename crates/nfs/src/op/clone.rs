//! CLONE (RFC 7862 15.13).

use std::sync::Arc;

use super::copy::length;
use super::io::{Through, owner, through, through_saved};
use crate::compound::{Done, Run, Stop};
use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::clone::Args;
use nfs_wire::op::open::ShareAccess;

/// Does it: the saved filehandle is the source. The destination grows where the range goes beyond its end.
///
/// # Errors
/// As [`through`]; NFS4ERR_NOTSUPP where files cannot share storage, NFS4ERR_XDEV between exports, NFS4ERR_INVAL for
/// ranges that are not whole blocks.
pub fn run(run: &mut Run, args: &Args) -> Done {
    run.current()?;
    if run.saved.is_none() {
        return Err(NfsStat::NoFileHandle.into());
    }
    run.may_wait()?;
    let from = through_saved(run, &args.src_stateid, ShareAccess::READ)?;
    let done = match through(run, &args.dst_stateid, ShareAccess::WRITE) {
        Ok(to) => {
            let done = share_storage(run, args, &from, &to);
            to.end(run);
            done
        }
        Err(stop) => Err(stop),
    };
    from.end(run);
    done?;
    run.plain(OpNum::Clone)
}

fn share_storage(run: &Run, args: &Args, from: &Through, to: &Through) -> Result<(), Stop> {
    run.check_writable(to.export())?;
    let engine = &to.export().engine;
    if !Arc::ptr_eq(&from.export().engine, engine) {
        return Err(NfsStat::XDev.into());
    }
    if !engine.volume().facts().clones {
        return Err(NfsStat::NotSupp.into());
    }
    let len = length(from, args.src_offset, args.count)?;
    let end = args.dst_offset.checked_add(len).filter(|end| *end <= i64::MAX as u64).ok_or(NfsStat::FBig)?;
    let before = engine.info(to.open())?.size;
    let resize = |size| run.ask(to.export(), |engine, caller| engine.set_size(caller, to.open(), size));
    if end > before {
        resize(end)?;
    }
    let owner = owner(run);
    let cloned = run.ask(to.export(), |engine, caller| {
        engine.clone_range(caller, from.side(owner, args.src_offset), to.side(owner, args.dst_offset), len)
    });
    // What was refused has changed nothing, unless somebody has made the file longer still meanwhile.
    if cloned.is_err() && end > before && engine.info(to.open()).is_ok_and(|info| info.size == end) {
        resize(before)?;
    }
    cloned
}
