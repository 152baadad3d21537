//! FREE_STATEID (RFC 8881 18.38). Start with [`run`].

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::stateid::FreeArgs;
use nfs_wire::types::StateId;

use super::io::resolve_stateid;
use super::lock::holds_any;
use crate::compound::{OpResult, Run, Stop};
use crate::config::Export;
use crate::state::client::Client;
use crate::state::record::note_again;
use crate::state::stateid::OwnerOnFile;

/// Frees a lock state without locks, a revoked delegation, or any state that an administrator has revoked.
///
/// # Errors
/// NFS4ERR_LOCKS_HELD for an open, and while ranges are locked; NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID.
pub fn run(run: &mut Run, args: &FreeArgs) -> OpResult {
    let (server, client) = (Arc::clone(&run.server), Arc::clone(&run.session()?.client));
    let id = resolve_stateid(run, &args.stateid)?;
    if run.server.acknowledge_revoked(&client, &id) {
        return run.reply_status(OpNum::FreeStateId);
    }
    match free(run, &client, &id) {
        // The client must not find it again after a restart.
        Ok(export) => run.opens_to_record.add(&server, &export),
        // An administrator has revoked it meanwhile.
        Err(Stop::Fail(NfsStat::BadStateId | NfsStat::AdminRevoked)) => {
            let is_acknowledged = run.server.acknowledge_revoked(&client, &id);
            is_acknowledged.then_some(()).ok_or(NfsStat::BadStateId)?;
        }
        Err(stop) => return Err(stop),
    }
    run.reply_status(OpNum::FreeStateId)
}

/// Frees a state that no administrator has revoked, and returns its export. The lock on the client's states
/// keeps revocations out.
fn free(run: &Run, client: &Client, id: &StateId) -> Result<Arc<Export>, Stop> {
    let server = &run.server;
    if let Some(state) = server.revoked(client.id, id) {
        let _lock = server.lock_states(client, &state.export, state.node);
        // Another request may have freed it meanwhile.
        server.revoked(client.id, id).ok_or(NfsStat::BadStateId)?;
        server.end_delegation(client, &state, run.now);
        return Ok(Arc::clone(&state.export));
    }
    let (state, _lock) = server.locked_state(client.id, id)?;
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
    let open = Arc::clone(&locks.open);
    server.end_state(&state, run.now);
    // What a client has reclaimed so far is not all that it had.
    if let Some(opened) = open.opened().filter(|_| client.has_reclaimed()) {
        note_again(client, &open, *opened.changing.lock());
    }
    Ok(Arc::clone(&state.export))
}
