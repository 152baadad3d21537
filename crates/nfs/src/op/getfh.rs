//! GETFH (RFC 8881 18.8).

use nfs_wire::op::OpNum;
use nfs_wire::op::filehandle::GetResOk;
use nfs_wire::types::FileHandle;

use crate::compound::{OpResult, Run};

/// Returns the current filehandle.
///
/// # Errors
/// NFS4ERR_NOFILEHANDLE.
pub fn run(run: &mut Run) -> OpResult {
    let handle = run.handle()?;
    run.reply(OpNum::GetFh, GetResOk { object: FileHandle(handle.bytes()) })
}
