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
    if !engine.volume().properties().clones {
        return Err(NfsStat::NotSupp.into());
    }
    let len = length(from, args.src_offset, args.count)?;
    if args.dst_offset.checked_add(len).is_none_or(|end| end > i64::MAX as u64) {
        return Err(NfsStat::FBig.into());
    }
    let owner = owner(run);
    // The host makes the file longer with the data: were it made longer before, what somebody else writes there meanwhile
    // would be lost when it is cut back.
    run.ask(to.export(), |engine, caller| {
        let (from, to) = (from.side(owner, args.src_offset), to.side(owner, args.dst_offset));
        engine.clone_range(caller, from, to, len, true)
    })
}
