//! READLINK (RFC 8881 18.24).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::names::ReadlinkResOk;
use volume::NodeKind;

use crate::compound::{OpResult, Run};

/// Reads the text of a symbolic link.
///
/// # Errors
/// NFS4ERR_WRONG_TYPE for any other object.
pub fn run(run: &mut Run) -> OpResult {
    let (_, item) = run.item(NfsStat::WrongType)?;
    if item.kind() != NodeKind::Link {
        return Err(NfsStat::WrongType.into());
    }
    let text = item.link_text()?;
    run.reply(OpNum::ReadLink, ReadlinkResOk { link: &text })
}
