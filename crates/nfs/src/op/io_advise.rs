//! IO_ADVISE (RFC 7862 15.5). The host reads ahead by the accesses that it sees, so no hint is followed.

use nfs_wire::attr::Bitmap;
use nfs_wire::op::OpNum;
use nfs_wire::op::io_advise::{Args, ResOk};
use nfs_wire::op::open::ShareAccess;

use super::io::io_open;
use crate::compound::{OpResult, Run};

/// Checks the stateid and replies that no hint is followed.
///
/// # Errors
/// As for [`io_open`].
pub fn run(run: &mut Run, args: &Args) -> OpResult {
    run.current()?;
    let from = io_open(run, &args.stateid, ShareAccess::READ)?;
    from.end(run);
    run.reply(OpNum::IoAdvise, ResOk { hints: Bitmap::EMPTY })
}
