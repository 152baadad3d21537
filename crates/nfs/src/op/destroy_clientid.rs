//! DESTROY_CLIENTID (RFC 8881 18.50).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::destroy::ClientIdArgs;

use crate::compound::{OpResult, Run};

/// Ends a client.
///
/// # Errors
/// NFS4ERR_STALE_CLIENTID; NFS4ERR_CLIENTID_BUSY while the client has sessions or state.
pub fn run(run: &mut Run, args: &ClientIdArgs) -> OpResult {
    let client = run.server.clients.get(args.clientid).ok_or(NfsStat::StaleClientId)?;
    let is_own = run.serving.is_some()
        && run.session.as_ref().is_some_and(|session| Arc::ptr_eq(&session.client, &client));
    run.server.end_resumptions(std::slice::from_ref(&client));
    if is_own || !client.sessions().is_empty() || client.has_state() {
        return Err(NfsStat::ClientIdBusy.into());
    }
    // The end of the client is recorded on stable storage before the reply.
    if client.is_confirmed() && run.server.client_records.is_recording() {
        run.may_wait()?;
    }
    if run.server.clients.remove(&client) {
        run.server.end_client(&client, run.now);
    }
    run.reply_status(OpNum::DestroyClientId)
}
