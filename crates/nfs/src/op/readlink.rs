//! READLINK (RFC 8881 18.24).

use nfs_wire::NfsStat;
use nfs_wire::op::OpNum;
use nfs_wire::op::names::ReadlinkResOk;
use volume::NodeKind;

use crate::compound::{Done, Run};

/// Does it.
///
/// # Errors
/// NFS4ERR_WRONG_TYPE for anything else than a symbolic link.
pub fn run(run: &mut Run) -> Done {
    let (_, item) = run.item(NfsStat::WrongType)?;
    if item.kind() != NodeKind::Link {
        return Err(NfsStat::WrongType.into());
    }
    let text = item.link_text()?;
    run.answer(OpNum::ReadLink, ReadlinkResOk { link: &text })
}
