//! DELEGRETURN (RFC 8881 18.6).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::delegation::ReturnArgs;

use super::io::resolve_stateid;
use crate::compound::{OpResult, Run};

/// Ends the delegation. Requests that wait for it continue.
///
/// # Errors
/// NFS4ERR_BAD_STATEID, NFS4ERR_OLD_STATEID; NFS4ERR_DELEG_REVOKED for a revoked one.
pub fn run(run: &mut Run, args: &ReturnArgs) -> OpResult {
    let handle = run.handle()?;
    let id = resolve_stateid(run, &args.deleg_stateid)?;
    let client = Arc::clone(&run.session()?.client);
    let server = Arc::clone(&run.server);
    let (state, lock) = server.locked_state(client.id, &id)?;
    state.delegation().ok_or(NfsStat::BadStateId)?;
    if state.handle != handle {
        return Err(NfsStat::BadStateId.into());
    }
    server.end_delegation(&client, &state, run.now);
    drop(lock);
    run.opens_to_record.add(&server, &state.export);
    run.reply_status(OpNum::DelegReturn)
}
