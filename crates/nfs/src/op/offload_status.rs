//! OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 15.9 and 15.8). Every copy is complete when its reply is sent,
//! so no copy can be asked about.

use nfs_wire::NfsStat;
use nfs_wire::op::copy::OffloadArgs;

use crate::compound::{OpResult, Run};

/// Handles both operations.
///
/// # Errors
/// NFS4ERR_BAD_STATEID always.
pub fn run(run: &mut Run, _: &OffloadArgs) -> OpResult {
    run.current()?;
    Err(NfsStat::BadStateId.into())
}
