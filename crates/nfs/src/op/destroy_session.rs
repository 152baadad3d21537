//! DESTROY_SESSION (RFC 8881 18.37).

use std::sync::Arc;

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::destroy::SessionArgs;

use crate::compound::{OpResult, Run};

/// Ends a session.
///
/// # Errors
/// NFS4ERR_BADSESSION; NFS4ERR_CONN_NOT_BOUND_TO_SESSION on a connection that does not belong to the session;
/// NFS4ERR_NOT_ONLY_OP if the COMPOUND uses the session and has further operations.
pub fn run(run: &mut Run, args: &SessionArgs) -> OpResult {
    let session = Arc::clone(&*run.server.session(&args.sessionid).ok_or(NfsStat::BadSession)?);
    let is_own = run.serving.is_some() && run.session.as_ref().is_some_and(|own| Arc::ptr_eq(own, &session));
    if is_own && !run.is_last {
        return Err(NfsStat::NotOnlyOp.into());
    }
    // RFC 8881 18.37.3 (exception: its own client may also end it over a connection that is not bound to it.
    // Linux sends this without SEQUENCE over any of its connections, and any of them is bound by one
    // SEQUENCE)
    if run.credentials.principal() != session.client.principal && !session.is_bound(&run.connection) {
        return Err(NfsStat::ConnNotBoundToSession.into());
    }
    // Other requests of the session end first.
    let others = session.busy_slots() - usize::from(is_own);
    if others > 0 {
        return Err(NfsStat::Delay.into());
    }
    run.server.end_session(&session);
    run.reply_status(OpNum::DestroySession)
}
