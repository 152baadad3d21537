//! BACKCHANNEL_CTL (RFC 8881 18.33).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::backchannel_ctl::Args;

use crate::compound::{Done, Run};
use crate::state::callback::Caller;

/// Does it.
///
/// # Errors
/// NFS4ERR_INVAL when no way to call is offered that is known here.
pub fn run(run: &mut Run, args: &Args<'_>) -> Done {
    let caller = Caller::first_of(&args.sec_parms).ok_or(NfsStat::Inval)?;
    run.session()?.call_as(args.cb_program, caller);
    run.plain(OpNum::BackchannelCtl)
}
