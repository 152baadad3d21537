//! FREE_STATEID (RFC 8881 18.38).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::stateid::FreeArgs;

use super::io::meant;
use super::lock::holds_any;
use crate::compound::{Done, Run};
use crate::state::stateid::Of;

/// Does it: the locks of an owner that holds none any more are forgotten.
///
/// # Errors
/// NFS4ERR_LOCKS_HELD for an open, and while ranges are held; NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
pub fn run(run: &mut Run, args: &FreeArgs) -> Done {
    let client = Arc::clone(&run.session()?.client);
    let id = meant(run, &args.stateid)?;
    if let Some(state) = run.server.admin_revoked(client.id, &id) {
        let is_first = run.server.forget_revoked(&client, &state);
        return if is_first { run.plain(OpNum::FreeStateId) } else { Err(NfsStat::BadStateId.into()) };
    }
    if let Some(state) = run.server.revoked(client.id, &id) {
        let server = Arc::clone(&run.server);
        let turn = server.turn(&client, &state.export, state.node);
        // Another request may have freed it first.
        server.revoked(client.id, &id).ok_or(NfsStat::BadStateId)?;
        server.end_delegation(&client, &state, run.now);
        drop(turn);
        return run.plain(OpNum::FreeStateId);
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
    client.remove_locks(Of { owner: &locks.owner, export: state.export.id, node: state.node }, &state);
    run.server.end_state(&state, run.now);
    run.plain(OpNum::FreeStateId)
}
