//! BACKCHANNEL_CTL (RFC 8881 18.33).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::backchannel_ctl::Args;

use crate::compound::{OpResult, Run};
use crate::state::callback::CallbackCredentials;

/// Changes the program number and the security parameters of the session's callbacks.
///
/// # Errors
/// NFS4ERR_INVAL if the server supports none of the offered security parameters.
pub fn run(run: &mut Run, args: &Args<'_>) -> OpResult {
    let credentials = CallbackCredentials::first_of(&args.sec_parms).ok_or(NfsStat::Inval)?;
    run.session()?.call_as(args.cb_program, credentials);
    run.reply_status(OpNum::BackchannelCtl)
}
