//! PUTROOTFH and PUTPUBFH: the pseudo root, which contains every export (RFC 8881 18.21 and 18.20).

use nfs_wire::op::OpNum;

use crate::compound::current::Current;
use crate::compound::{OpResult, Run};

/// Makes the pseudo root the current filehandle.
///
/// # Errors
/// None in practice.
pub fn run(run: &mut Run, number: OpNum) -> OpResult {
    run.current = Some(Current::root(&run.server)?);
    run.stateid = None;
    run.reply_status(number)
}
