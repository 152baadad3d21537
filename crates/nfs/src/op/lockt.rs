//! LOCKT (RFC 8881 18.11).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::lock::{Res, TestArgs};
use share::LockRule;

use super::io::check_data;
use super::lock::{denied, range_of};
use crate::compound::{OpResult, Run};

/// Tests whether a lock would be granted.
///
/// # Errors
/// NFS4ERR_DENIED with the lock in conflict; NFS4ERR_INVAL, NFS4ERR_ISDIR.
pub fn run(run: &mut Run, args: &TestArgs<'_>) -> OpResult {
    run.current()?;
    let range = range_of(args.locktype, args.offset, args.length)?;
    let (export, item) = run.item(NfsStat::IsDir)?;
    check_data(item.kind())?;
    let client = Arc::clone(&run.session()?.client);
    let owner = client.lock_owner(args.owner.owner.0);
    let stands = || export.engine.conflicting_range(item.id(), owner, LockRule::Merging, &range);
    while let Some((holder, _)) = stands()? {
        // The lease of the lock's holder may have expired.
        if !export.engine.end_expired(&[holder.client], run.now) {
            return denied(run, OpNum::LockT, &export, item.id(), owner, &range);
        }
    }
    run.writer.put(OpNum::LockT, &Res::Ok(()));
    Ok(())
}
