//! FREE_STATEID (RFC 8881 18.38).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::stateid::FreeArgs;

use super::io::resolve_stateid;
use super::lock::holds_any;
use crate::compound::{OpResult, Run};
use crate::state::stateid::OwnerOnFile;

/// Frees a lock state without locks, or a revoked delegation.
///
/// # Errors
/// NFS4ERR_LOCKS_HELD for an open, and while ranges are locked; NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
pub fn run(run: &mut Run, args: &FreeArgs) -> OpResult {
    let client = Arc::clone(&run.session()?.client);
    let id = resolve_stateid(run, &args.stateid)?;
    if let Some(state) = run.server.admin_revoked(client.id, &id) {
        let is_first = run.server.forget_revoked(&client, &state);
        return if is_first { run.reply_status(OpNum::FreeStateId) } else { Err(NfsStat::BadStateId.into()) };
    }
    if let Some(state) = run.server.revoked(client.id, &id) {
        let server = Arc::clone(&run.server);
        let lock = server.lock_states(&client, &state.export, state.node);
        // Another request may have freed it meanwhile.
        server.revoked(client.id, &id).ok_or(NfsStat::BadStateId)?;
        server.end_delegation(&client, &state, run.now);
        drop(lock);
        return run.reply_status(OpNum::FreeStateId);
    }
    let state = run.server.state(client.id, &id)?.share();
    let locks = state.locks().ok_or(NfsStat::LocksHeld)?;
    let mut freed = locks.freed.lock();
    if *freed {
        return Err(NfsStat::BadStateId.into());
    }
    if holds_any(&state, locks) {
        return Err(NfsStat::LocksHeld.into());
    }
    *freed = true;
    client
        .remove_locks(OwnerOnFile { owner: &locks.owner, export: state.export.id, node: state.node }, &state);
    run.server.end_state(&state, run.now);
    run.reply_status(OpNum::FreeStateId)
}
