//! SAVEFH (RFC 8881 18.28).

use nfs_wire::op::OpNum;

use crate::compound::{OpResult, Run};

/// Saves the current filehandle.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE.
pub fn run(run: &mut Run) -> OpResult {
    run.saved = Some(run.current()?.clone());
    run.saved_stateid = run.stateid;
    run.reply_status(OpNum::SaveFh)
}
