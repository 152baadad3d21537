//! SAVEFH (RFC 8881 18.28).

use nfs_wire::op::OpNum;

use crate::compound::{Done, Run};

/// Saves the current filehandle.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE.
pub fn run(run: &mut Run) -> Done {
    run.saved = Some(run.current()?.clone());
    run.saved_stateid = run.stateid;
    run.plain(OpNum::SaveFh)
}
