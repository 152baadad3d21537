//! RESTOREFH (RFC 8881 18.27).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;

use crate::compound::{OpResult, Run};

/// Makes the saved filehandle the current one.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE if none was saved.
pub fn run(run: &mut Run) -> OpResult {
    run.current = Some(run.saved.clone().ok_or(NfsStat::NoFileHandle)?);
    run.stateid = run.saved_stateid;
    run.reply_status(OpNum::RestoreFh)
}
