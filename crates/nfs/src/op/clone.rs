//! CLONE (RFC 7862 15.13).

use std::sync::Arc;

use super::copy::length;
use super::io::{IoOpen, io_open, io_open_saved, owner};
use crate::compound::{OpResult, Run, Stop};
use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::clone::Args;
use nfs_wire::op::open::ShareAccess;

/// Makes the destination share the storage of the source, which is the saved filehandle. The destination
/// grows if the range ends after it.
///
/// # Errors
/// As for [`io_open`]; NFS4ERR_NOTSUPP if files cannot share storage, NFS4ERR_XDEV between exports,
/// NFS4ERR_INVAL for ranges that are not whole blocks.
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    run.current()?;
    if run.saved.is_none() {
        return Err(NfsStat::NoFileHandle.into());
    }
    run.may_wait()?;
    let from = io_open_saved(run, &args.src_stateid, ShareAccess::READ)?;
    let done = match io_open(run, &args.dst_stateid, ShareAccess::WRITE) {
        Ok(to) => {
            let done = share_storage(run, args, &from, &to);
            to.end(run);
            done
        }
        Err(stop) => Err(stop),
    };
    from.end(run);
    done?;
    run.reply_status(OpNum::Clone)
}

fn share_storage(run: &Run, args: &Args, from: &IoOpen, to: &IoOpen) -> Result<(), Stop> {
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
    // The host extends the file together with the data. If the file were extended first, a failure would have
    // to cut it again, and would lose the data that another client wrote there meanwhile.
    run.ask(to.export(), |engine, caller| {
        let (from, to) = (from.side(owner, args.src_offset), to.side(owner, args.dst_offset));
        engine.clone_range(caller, from, to, len, true)
    })
}
