//! LOCKU (RFC 8881 18.12).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::lock::{ResOk, UnlockArgs};
use share::{LockRule, Refusal};

use super::io::resolve_stateid;
use super::lock::range_of;
use crate::compound::{OpResult, Run};

/// Unlocks a range, even if it is locked only in part or not at all.
///
/// # Errors
/// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID, NFS4ERR_INVAL.
pub fn run(run: &mut Run, args: &UnlockArgs) -> OpResult {
    let handle = run.handle()?;
    let range = range_of(args.locktype, args.offset, args.length)?;
    let id = resolve_stateid(run, &args.lock_stateid)?;
    let client = run.session()?.client.id;
    let state = run.server.state(client, &id)?.share();
    let locks = state.locks().ok_or(NfsStat::BadStateId)?;
    if state.handle != handle {
        return Err(NfsStat::BadStateId.into());
    }
    let holding = state.holding();
    let released = state.export.engine.unlock(
        &holding.open,
        locks.number,
        LockRule::Merging,
        std::slice::from_ref(&range),
    );
    match released {
        Ok(()) | Err(Refusal::RangeNotHeld) => {}
        Err(why) => return Err(why.into()),
    }
    if state.export.engine.are_records_failing() {
        // If this fails too, the range is locked for too long after a restart, and nobody gets another lock.
        let _ = run.server.forget_client_ids();
    }
    run.server.grace.changed_range(run.session()?.client.key, &locks.open, (locks.number, range, false));
    let lock_stateid = state.next_id();
    run.stateid = Some(lock_stateid);
    run.reply(OpNum::LockU, ResOk { lock_stateid })
}
