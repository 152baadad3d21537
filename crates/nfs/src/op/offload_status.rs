//! OFFLOAD_STATUS and OFFLOAD_CANCEL (RFC 7862 15.9 and 15.8): every copy is over before it is answered, so that none
//! can be asked about.

use nfs_wire::NfsStat;
use nfs_wire::op::copy::OffloadArgs;

use crate::compound::{Done, Run};

/// Does either.
///
/// # Errors
/// NFS4ERR_BAD_STATEID always.
pub fn run(run: &mut Run, _: &OffloadArgs) -> Done {
    run.current()?;
    Err(NfsStat::BadStateId.into())
}
