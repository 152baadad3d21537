//! RECLAIM_COMPLETE (RFC 8881 18.51).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::destroy::ReclaimCompleteArgs;

use crate::compound::{OpResult, Run};

/// Ends the reclaims of a client.
///
/// # Errors
/// NFS4ERR_COMPLETE_ALREADY, NFS4ERR_NOFILEHANDLE.
pub fn run(run: &mut Run, args: &ReclaimCompleteArgs) -> OpResult {
    if args.one_fs {
        // A client reclaims all file systems together.
        run.current()?;
        return run.reply_status(OpNum::ReclaimComplete);
    }
    let client = std::sync::Arc::clone(&run.session()?.client);
    if !client.complete_reclaim() {
        return Err(NfsStat::CompleteAlready.into());
    }
    run.server.complete_reclaim(&client, run.now);
    run.reply_status(OpNum::ReclaimComplete)
}
