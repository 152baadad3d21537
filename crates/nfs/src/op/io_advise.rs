//! IO_ADVISE (RFC 7862 15.5): the host reads ahead by what it sees, so that no hint is followed.

use nfs_wire::attr::Bitmap;
use nfs_wire::op::OpNum;
use nfs_wire::op::io_advise::{Args, ResOk};
use nfs_wire::op::open::ShareAccess;

use super::io::through;
use crate::compound::{Done, Run};

/// Does it.
///
/// # Errors
/// As [`through`].
pub fn run(run: &mut Run, args: &Args) -> Done {
    run.current()?;
    let from = through(run, &args.stateid, ShareAccess::READ)?;
    from.end(run);
    run.answer(OpNum::IoAdvise, ResOk { hints: Bitmap::EMPTY })
}
